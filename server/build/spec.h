/* SPDX-License-Identifier: Apache-2.0 */
/*
 * build/spec.h - the requested contents of a VM, checked and in canonical form; for build/ and api/
 *
 * `spec` (nested `snapshot` members), the older `template` and members at the top level of a
 * request all become one list of layers, innermost first. A layer has only members that were
 * given, of the right type and within their limits, so that nothing needs to be checked
 * again when it is applied; its canonical text is the cache key.
 */
#pragma once

#include "base/err.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/id.h"
#include "base/json_field.h"
#include "vm/vm.h"

struct err;

#define SPEC_LAYERS_MAX 16 /* nested `snapshot` members; JSON nests to 32 */

#define SPEC_RUNTIMES_MAX 4 /* each is a layer of its own */
#define SPEC_LIST_MAX \
	(SPEC_LAYERS_MAX + SPEC_RUNTIMES_MAX + 2) /* plus a size, plus the top level */

struct spec_layer {
	/* owned; NULL: none. groups, users, apt: arrays; files: object by path; */
	json_t *groups, *users, *files,
	        *apt; /* git_config: object; repos, services, patched: arrays */
	json_t *git_config, *repos, *services, *patched;
	json_t *runtimes;           /* array of names */
	char workdir[WORKDIR_SIZE]; /* "": none */
	char *discriminator;        /* owned; NULL: none */
	bool skip_cache;
	uint32_t vcpus, mem_mb, disk_mb; /* 0: not given; a layer of its own, the first */
};

struct spec {
	struct spec_layer layers[SPEC_LIST_MAX];
	size_t n;
	char snapshot_id[ID_SIZE];    /* to start from; "": the template */
	uint32_t vcpus, mem_mb;       /* of the template to start from; 0: the default */
	enum json_presence idle_seen; /* idleTimeoutSeconds of the outermost layer */
	int64_t idle_timeout_s;
	bool wait;              /* waitForReadySignal of the outermost layer */
	int64_t wait_s;         /* readySignalTimeoutSeconds */
	char name[VM_NAME_MAX]; /* `spec.name`, or "" */
	json_t *ports;          /* owned: of the outermost layer that has some; NULL: none */
};

/* Allowed sizes; the default size needs no layer. */
struct spec_limits {
	uint32_t vcpus, mem_mb, disk_mb; /* default */
	uint32_t vcpus_max, mem_mb_max, disk_mb_max;
	uint32_t mem_mb_min;
	const char *image_dir; /* weak; with <runtime>.tar.zst; NULL: there are none */
};

struct spec_ctx {
	const struct spec_limits *limits;
	enum err_code tag; /* code of errors without a more specific one */
	json_t *extra;     /* owned by the caller; more members for the error's body */
};

/* Caller spec_done()s whatever the result. */
int spec_parse(const json_t *body, struct spec_ctx *c, struct spec *ret, struct err *err);
void spec_done(struct spec *s);
/* Names of its services that are not oneshots, without ".service"; NULL-terminated, weak. */
#define SPEC_RUNNING_MAX 64
void spec_running(const struct spec *s, const char *ret[SPEC_RUNNING_MAX + 1]);
#define autospec __attribute__((cleanup(spec_done)))
