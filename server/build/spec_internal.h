/* SPDX-License-Identifier: Apache-2.0 */
/* build/spec_internal.h - the parts of a layer; for spec*.c, unit.c and apply*.c */
#pragma once

#include <stdint.h>

#include "build/spec.h"

#define SPEC_ITEMS_MAX 256  /* users, groups, packages, repositories, services of one layer */
#define SPEC_FILES_MAX 1024 /* files of one layer */
#define SPEC_NAME_MAX 32    /* bytes of a user's or group's name: useradd's own limit */
#define UNIT_CHARS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789:_.@\\-"
#define SPEC_TEXT_MAX 4096     /* bytes of a path, URL, value */
#define SPEC_EXEC_MAX 8192     /* bytes of one command line of a unit */
#define SPEC_TIMEOUT_MAX 86400 /* seconds */

/* A member of a layer, checked and copied into *ret (owned) as far as it is known to us; *ret stays
 * NULL if it is empty. where: "spec.snapshot." */
int spec_groups(const json_t *j, const char *where, struct spec_ctx *c, json_t **ret,
                struct err *err);
int spec_users(const json_t *j, const char *where, struct spec_ctx *c, json_t **ret,
               struct err *err);
int spec_files(const json_t *j, const char *where, struct spec_ctx *c, json_t **ret,
               struct err *err);
int spec_runtimes(const json_t *j, const char *where, struct spec_ctx *c, json_t **ret,
                  struct err *err);
int spec_apt(const json_t *j, const char *where, struct spec_ctx *c, json_t **ret, struct err *err);
/* git and gitRepos */
int spec_git(const json_t *git, const json_t *repos, const char *where, struct spec_ctx *c,
             json_t **ret_config, json_t **ret_repos, struct err *err);
int spec_systemd(const json_t *j, const char *where, struct spec_ctx *c, json_t **ret_services,
                 json_t **ret_patched, struct err *err);
int spec_workdir(const char *s, const char *where, struct spec_ctx *c, char ret[WORKDIR_SIZE],
                 struct err *err);

/* spec_size.c: {vcpuCount, memSizeGb, rootfsSizeGb} of a layer or a request, into the members of l
 */
int spec_size(const json_t *layer, const char *where, struct spec_ctx *c, struct spec_layer *l,
              struct err *err);
/* The name of the first size member that is given, or NULL. */
const char *spec_has_size(const json_t *layer);

/* A service as it is written into a unit file. Strings and arrays are borrowed. */
struct service {
	const char *name; /* without ".service" */
	bool oneshot;
	bool mode_given;
	json_t *exec, *after, *requires, *on_failure, *wanted_by; /* arrays of checked strings */
	json_t *env;
	const char *user, *group, *workdir;
	bool enable, enable_given;
	bool delete_after_success, remain, remain_given, ready_signal;
	int64_t timeout_s; /* -1: not given; 0: none */
	int64_t watchdog_s;
	const char *restart;                  /* or NULL */
	int64_t restart_s, burst, interval_s; /* -1: not given */
};
/* Of the checked form: cannot fail. */
/* One service, checked: as service_read() takes it. */
int spec_service(const json_t *j, const char *at, bool patch, struct spec_ctx *c, json_t **ret,
                 struct err *err);
void service_read(const json_t *j, struct service *ret);

/* Helpers of the checkers: spec_util.c. */
int spec_array(const json_t *j, const char *where, const char *name, struct spec_ctx *c,
               struct err *err);
int spec_fields(const json_t *j, const char *where, const struct json_field *fields, size_t n,
                void *dst, struct spec_ctx *c, struct err *err);
int spec_strings(const json_t *j, const char *where, const char *name, size_t max,
                 enum err_code empty_tag, struct spec_ctx *c, struct err *err);
/* Only absolute, without ".", ".." or control characters. */
bool spec_path_ok(const char *s);
bool spec_text_ok(const char *s); /* no control characters */
int spec_bad(struct spec_ctx *c, enum err_code tag, struct err *err, const char *fmt, ...)
        __attribute__((format(printf, 4, 5)));
void spec_extra(struct spec_ctx *c, const char *name, json_t *value_consume);
