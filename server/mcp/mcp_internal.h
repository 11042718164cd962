/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mcp/mcp_internal.h - messages, sessions, tools, calls; for mcp/ only
 *
 * POST /mcp takes JSON-RPC messages (rpc.c), mcp.c answers them. A tool (tools.c) is
 * a row that names a route of the API: its call becomes a request on that route, with
 * the route's permission and its record in the audit log (call.c), and mostly with
 * its handler. Tools that take long are jobs (job.c): they report progress and can be
 * cancelled.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/vms/shared.h"
#include "mcp/mcp.h"

/* ---- messages: rpc.c ---- */

#define MCP_BATCH_MAX 32 /* messages in one body */
#define MCP_ID_MAX 256   /* bytes of an id or a progress token that is text */

enum mcp_code { /* of JSON-RPC errors */
	        MCP_PARSE_ERROR = -32700,
	        MCP_INVALID_REQUEST = -32600,
	        MCP_NO_METHOD = -32601,
	        MCP_INVALID_PARAMS = -32602,
	        MCP_INTERNAL = -32603,
	        MCP_BUSY = -32000,
	        MCP_NO_RESOURCE = -32002,
	        MCP_CANCELLED = -32800,
};

enum mcp_kind { MCP_REQUEST, MCP_NOTIFICATION, MCP_RESPONSE, MCP_INVALID };
struct mcp_msg { /* everything is borrowed from the batch's document */
	enum mcp_kind kind;
	json_t *id;         /* string or integer; NULL: none, or none that can be used */
	const char *method; /* for a request or notification */
	json_t *params;     /* object, or NULL */
	const char *fault;  /* for an invalid one: what is wrong */
};
struct mcp_batch {
	json_t *doc; /* owned */
	bool array;
	size_t n;
	struct mcp_msg msg[MCP_BATCH_MAX];
};
/* -EBADMSG: not JSON; -EINVAL: JSON, but neither a message nor messages. */
int mcp_parse(const void *text, size_t n, struct mcp_batch *ret, struct err *err);
void mcp_batch_done(struct mcp_batch *b);
/* "progressToken" of a request's params: string or integer, borrowed; or NULL. */
json_t *mcp_progress_token(const struct mcp_msg *m);
/* Replies. id NULL: null. */
json_t *mcp_result(json_t *id, json_t *result_consume);
json_t *mcp_error(json_t *id, enum mcp_code code, const char *fmt, ...)
        __attribute__((format(printf, 3, 4)));

enum mcp_version { MCP_2024_11_05, MCP_2025_03_26, MCP_2025_06_18, MCP_2025_11_25, MCP_VERSIONS };
const char *mcp_version_name(enum mcp_version v);
int mcp_version_parse(const char *s); /* or -EINVAL */

/* ---- sessions and running calls: session.c ---- */

#define MCP_SESSION_HEX 32
#define MCP_SESSION_SIZE (MCP_SESSION_HEX + 1 + ID_SIZE) /* hex digits, '-' and the node if any */

struct mcp;
int mcp_session_open(struct mcp *m, const struct auth_who *who, enum mcp_version v,
                     const char *node, char ret[MCP_SESSION_SIZE], struct err *err);
/* -ENOENT for one that ended, never existed, or belongs to another caller. */
int mcp_session_use(struct mcp *m, const struct auth_who *who, const char *id,
                    enum mcp_version *ret);
int mcp_session_end(struct mcp *m, const struct auth_who *who, const char *id);

struct mcp_running; /* a call, so that it can be counted and cancelled */
/* session "": none, so it cannot be cancelled. -EBUSY: the account has too many. */
int mcp_running_begin(struct mcp *m, const struct auth_who *who, const char *session,
                      const json_t *id, struct mcp_running **ret, struct err *err);
void mcp_running_end(struct mcp_running *c);     /* NULL is fine */
int mcp_running_fd(const struct mcp_running *c); /* readable once it is cancelled */
bool mcp_running_cancelled(struct mcp_running *c);
void mcp_cancel(struct mcp *m, const struct auth_who *who, const char *session, const json_t *id);

/* ---- tools: tools.c (the table), call.c ---- */

/*
 * A call that takes long: step() until -ENODATA, then result(). 1: something arrived, 0: nothing
 * now, wait for fd(). free() before the end cancels what runs in the guest.
 */
struct mcp_job_ops {
	int (*step)(void *x, struct err *err);
	int (*fd)(void *x);
	json_t *(*result)(void *x);
	const struct buf *(*latest)(void *x); /* the latest output, for progress; may be NULL */
	void (*free)(void *x);
};
struct mcp_work { /* filled in by a job's open() */
	const struct mcp_job_ops *ops;
	void *x; /* owned */
	uint64_t timeout_ms;
};

#define MCP_READS BIT(0)      /* changes nothing */
#define MCP_DESTROYS BIT(1)   /* what it removes cannot be restored */
#define MCP_IDEMPOTENT BIT(2) /* repeating it changes nothing */
#define MCP_WHOLE BIT(3)      /* the handler's JSON is the tool's result, content and all */
#define MCP_OPEN_WORLD BIT(4) /* it reaches outside the server */
#define MCP_AS_JSON BIT(5)    /* the route could also stream */
#define MCP_BACKGROUND BIT(6) /* goes on without its client after MCP_AFTER_S */
#define MCP_AFTER_S "20"      /* official clients wait for a minute */

struct mcp_tool {
	const char *name, *title, *text;
	enum method method; /* the route it calls: */
	const char *pattern;
	unsigned flags;
	const char *input, *output; /* JSON schemas; output NULL: none */
	handler_fn handler;         /* NULL: the route's own */
	int (*open)(struct request *req, struct mcp_work *ret, struct err *err); /* a job instead */
	/* Turns the tool's arguments into the route's body and query; NULL: unchanged, no query. */
	void (*prepare)(struct request *req, json_t *args); /* before the path is built */
	int (*translate)(struct request *req, json_t *args, struct err *err);
	const char *add; /* JSON: members added to the body; or NULL */
	/* Members of the reply's objects that are worth showing to a model, separated by spaces;
	 * NULL: all. Applies to the array `list` if there is one. */
	const char *list, *keep;
};
extern const struct mcp_tool mcp_vm_tools[], mcp_net_tools[], mcp_git_tools[], mcp_deploy_tools[],
        mcp_cron_tools[];
extern const size_t mcp_n_vm_tools, mcp_n_net_tools, mcp_n_git_tools, mcp_n_deploy_tools,
        mcp_n_cron_tools;
const struct mcp_tool *mcp_tool_find(const char *name); /* or NULL */
json_t *mcp_tools_list(void);                           /* the result of tools/list */
/* Rejects unknown or missing arguments. */
int mcp_check_args(const struct mcp_tool *t, const json_t *args, struct err *err);
const struct route *
mcp_tool_route(const struct mcp_tool *t); /* NULL: this server does not have it */

/* Is the argument a part of the path? {vm_id} is vmId. */
bool mcp_in_path(const char *pattern, const char *name);
/* As translate(): every argument that is not in the path is the query's member of that name. */
int mcp_translate_query(struct request *req, json_t *args, struct err *err);
/* Adds a value to the inner request's query. */
int mcp_add_query(struct request *req, const char *name, const char *value, struct err *err);
/*
 * Runs a call up to its result, or opens the job that will produce it (then *ret_work has ops).
 * Errors are results too; NULL: out of memory.
 */
json_t *mcp_call(struct request *outer, const struct mcp_tool *t, json_t *args,
                 struct mcp_work *ret_work, struct auth_lease *ret_lease);
/* A result that describes the error. */
json_t *mcp_failed(const struct err *err);

/* ---- results: content.c ---- */
json_t *mcp_text(const void *p,
                 size_t n); /* a block of text; bytes that are not UTF-8 are replaced */
/* Adds a block of text unless it is empty; label: a prefix. */
void mcp_add_text(json_t *content, const char *label, const json_t *text);
json_t *mcp_image(const char *base64, const char *mime);
/* {content, structuredContent, isError}; structured may be NULL. All consumed. */
json_t *mcp_tool_result(json_t *content, json_t *structured, bool failed);

/* Output kept up to a limit: its beginning, its end, and a line between them. */
struct mcp_clip {
	struct buf head, tail;
	size_t max;     /* bytes */
	uint64_t total; /* bytes received */
};
void mcp_clip_put(struct mcp_clip *c, const void *p, size_t n);
bool mcp_clip_cut(const struct mcp_clip *c);
json_t *mcp_clip_text(struct mcp_clip *c); /* a JSON string */
void mcp_clip_done(struct mcp_clip *c);
#define MCP_OUTPUT_DEFAULT (64u << 10) /* bytes of a stream */
#define MCP_OUTPUT_MAX (4u << 20)
#define MCP_TIMEOUT_DEFAULT 300000
#define MCP_TIMEOUT_MAX 3600000

/* ---- resources and prompts: resource.c, prompt.c ---- */
/* The replies to a request of theirs; NULL: the method is another. */
json_t *mcp_resources(struct request *req, const struct mcp_msg *m);
json_t *mcp_prompts(const struct mcp_msg *m);

/* ---- jobs: job.c ---- */
struct mcp_job;
/* Takes work, running and lease. token: for progress reports, or NULL. */
int mcp_job_new(struct request *req, json_t *id, json_t *token, struct mcp_work *work_consume,
                struct mcp_running *running_consume, const struct auth_lease *lease,
                struct mcp_job **ret, struct err *err);
/* Runs it to its end on this thread and returns the reply. */
json_t *mcp_job_run(struct request *req, struct mcp_job *j_consume);
/* As server-sent events. */
int mcp_job_reply(struct request *req, struct reply *res, struct mcp_job *j_consume,
                  struct err *err);

/* ---- the tools' own handlers ---- */
int mcp_exec_open(struct request *req, struct mcp_work *ret, struct err *err);
int mcp_code_open(struct request *req, struct mcp_work *ret, struct err *err);
int mcp_file_read(struct request *req, struct reply *res, struct err *err);
int mcp_file_write(struct request *req, struct reply *res, struct err *err);
int mcp_file_list(struct request *req, struct reply *res, struct err *err);
