/* SPDX-License-Identifier: Apache-2.0 */
/* api/vms/shared.h - shared by the handlers of VMs; for api/vms/ and mcp/ */
#pragma once

#include <limits.h>

#include "api/call.h"
#include "build/build.h"

struct egress;
struct guest_exec_req;
struct guest_exec_result;

/* ---- terminals: pty.c, pty_ws.c ---- */
/* A ticket in the URL instead of a header. 1: it is valid, *req has the caller; 0: there is none.
 */
int ticket_check(struct request *req, struct err *err);
int request_session(struct request *req, struct reply *res, const char **ret, struct err *err);
/*
 * The guest that may have the session; caller guest_unref()s. -ENOENT if the VM is stopped or
 * being stopped: it has no sessions, and is not booted.
 */
int pty_guest(struct request *req, const char *vm_id, const char *session, struct guest **ret,
              struct err *err);

/* ---- files: files.c ---- */
#define FILES_TAG ERR_FILES_BAD_REQUEST
/* The path of argument 1, from the VM's working directory when it is relative. */
int request_path(struct request *req, char ret[PATH_MAX], struct err *err);
/* Translates the guest's error to the protocol's code. */
int file_error(int r, const char *path, struct err *err);
typedef int (*file_get_fn)(struct request *req, struct reply *res, struct guest *g,
                           const char *user, const char *path, struct err *err);
typedef int (*file_failed_fn)(struct reply *res, int r, const char *path, struct err *err);
/* Has get() make the reply of the path's file; a second time if the VM was suspended meanwhile. */
int file_get(struct request *req, struct reply *res, file_get_fn get, file_failed_fn failed,
             struct err *err);

/* ---- uploads that are passed on: raw_files.c; also an archive's, tar.c ---- */
typedef int (*upload_begin_fn)(struct request *req, struct guest *g, const char *user,
                               const char *path, struct guest_flow **ret, struct err *err);
typedef int (*upload_error_fn)(int r, const char *path, struct err *err);
int upload_open(struct request *req, upload_begin_fn begin, upload_error_fn explain,
                struct err *err);
int upload_data(struct request *req, const void *p, size_t n, struct err *err);
void upload_drop(void *ctx);
int upload_finish(struct request *req, struct reply *res, unsigned limit_ms, struct err *err);

/* ---- processes: processes.c ---- */
/* The guest of argument 0 and the number in argument 1 ("proc-12"; ret_proc NULL: none). */
int process_find(struct request *req, struct guest **ret, uint32_t *ret_proc, struct err *err);
int process_error(int r, struct err *err);
/* A reply that follows a detached process as events; takes the flow. started: the event to begin
 * with. */
int reply_follow(struct request *req, struct reply *res, struct guest_flow *flow_consume,
                 json_t *started_consume, struct err *err);

/* ---- rewind: tree.c; to the snapshot of the body ---- */
int rewind_vm(struct request *req, struct reply *res, const char *id, struct err *err);

/* ---- VMs that were made: vms.c ---- */
#define IDLE_MAX (INT64_C(365) * 24 * 3600) /* seconds */
/* A number of seconds of a body; null is -1. */
int64_t idle_of(enum json_presence seen, int64_t seconds, int64_t absent);
/* {id, domains, consoleUrl} and the reply's other members */
json_t *shape_made(struct request *req, const struct vm_info *v);

/* ---- snapshots to be made: snapshots.c ---- */
struct snapshot_wish {
	char name[VM_NAME_MAX]; /* or "" */
	struct vm_persistence persistence;
};
/* "name" and "persistence" of the body; tag: the code of a refusal. */
int request_snapshot(struct request *req, enum err_code tag, struct snapshot_wish *ret,
                     struct err *err);

/* ---- specs: builds.c ---- */
/* The body's spec; details of an error go into the reply. Caller spec_done()s. */
int request_spec(struct request *req, struct reply *res, enum err_code tag, struct spec *ret,
                 struct err *err);
/* A build or 404; for builds of this account only. */
int request_build_id(struct request *req, size_t i, const char **ret, struct err *err);

/* ---- file content in a JSON body: file_content.c ---- */
struct content {
	const char *p, *end; /* contents of the JSON string, still escaped */
	bool base64;
};
int content_find(const char *text, size_t n, struct content *ret, struct err *err);
/* Pulls decoded bytes: count, 0 at the end, -EINVAL with err. */
struct content_reader;
int content_open(const struct content *c, struct content_reader **ret, struct err *err);
ssize_t content_read(struct content_reader *r, uint8_t *p, size_t n, struct err *err);
struct content_reader *content_close(struct content_reader *r);

/* ---- systemd services: systemd.c, systemd_logs.c; what a unit is: build/service.h ---- */
/* As the user of the request, in the VM of the request. */
int service_run(struct request *req, struct guest_exec_req *x, struct guest_exec_result *ret,
                struct err *err);
/* The error of a failed command: its first line of output, or that it is not allowed. */
int service_failed(const struct guest_exec_result *x, const char *what, struct err *err);
/* Appends the text as one word for a shell. */
void shell_put_word(struct buf *b, const char *s);

/* [a-zA-Z0-9._-]{1,64} */
bool terminal_name_valid(const char *s);

/* ---- what a VM may reach: egress.c ---- */
/* "egress" of POST /v1/vms; *ret stays NULL if there is none. The caller egress_unref()s. */
int api_create_egress(const json_t *j, enum err_code tag, struct egress **ret, struct err *err);
