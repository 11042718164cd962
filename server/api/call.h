/* SPDX-License-Identifier: Apache-2.0 */
/*
 * api/call.h - requests, replies, routes; for api/ only
 *
 * A handler gets a request that is authenticated, within its body limit and
 * whole, and either fills the reply with JSON or returns an error. It only
 * translates: JSON to a call, the result to JSON. http.c does everything before and
 * reply.c everything after.
 */
#pragma once

#include <jansson.h>
#include <limits.h>
#include <microhttpd.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "api/api.h"
#include "auth/auth.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json_field.h"
#include "base/lock.h"
#include "build/build.h"
#include "vm/vm.h"

#define KIB(n) ((uint64_t)(n) << 10)
#define MIB(n) ((uint64_t)(n) << 20)

#define API_CONNECTIONS_MAX 512 /* threads; more wait in the listen queue */
/* Request line and headers; a path is up to 16 KiB encoded. The library clears it for each request.
 */
#define API_CONN_MEMORY KIB(32)
#define API_BODY_IGNORED KIB(4)           /* routes without a body: what clients send anyway */
#define API_BODY_MEM_MAX MIB(1)           /* larger bodies are kept in a file, not in memory */
#define API_SPOOL_MAX (UINT64_C(4) << 30) /* all bodies kept in files at one time */
#define API_DISCARD_MAX MIB(16) /* of a refused body read, so that the client sees the reply */

/* ---- routes: route.c (matching), routes.c (THE table) ---- */

enum method { METHOD_GET, METHOD_POST, METHOD_PUT, METHOD_PATCH, METHOD_DELETE, METHOD_MAX };
const char *method_name(enum method m);
/* -EINVAL when it is none of ours. HEAD is GET: the HTTP library leaves out the body. */
int method_parse(const char *name);

struct request;
struct reply;
typedef int (*handler_fn)(struct request *req, struct reply *res, struct err *err);

/*
 * A body that is passed on while it arrives, instead of being kept: open() when the headers are
 * there and the key is good, data() for each piece (it may block: the client then waits), the
 * route's handler at the end. drop() frees what open() left in req->intake, in any case.
 */
struct intake {
	int (*open)(struct request *req, struct err *err);
	int (*data)(struct request *req, const void *p, size_t n, struct err *err);
	void (*drop)(void *ctx);
};
#define API_BODY_STREAMED UINT64_MAX /* body_max of such a route */

struct route {
	enum method method;
	const char *pattern; /* "/v1/vms/{vm_id}"; literals win over {parameters} */
	enum auth_scope scope;
	uint64_t body_max;
	handler_fn handler;
	const char *help;
	const struct intake *intake; /* NULL: the body is kept until it is whole */
	unsigned flags;              /* ROUTE_... */
};
#define ROUTE_BACKGROUND 1u /* may go on when the client stops waiting: background.c */
#define ROUTE_NO_TRAIL 2u   /* what it calls leaves records of its own: mcp_call.c */
#define ROUTE_READS 4u      /* changes nothing, though it is no GET: not for the audit log */
extern const struct route api_routes[];
extern const size_t api_n_routes;

#define ROUTE_PATH_MAX (16u << 10) /* bytes of a raw path: a 4 KiB file path, percent-encoded */
#define ROUTE_ARGS_MAX 3

struct route_match {
	const struct route *route;
	unsigned allow; /* bit per method that the path knows; set with -EOPNOTSUPP too */
	const char *arg[ROUTE_ARGS_MAX]; /* decoded, in text[] */
	size_t n_args;
	char text[ROUTE_PATH_MAX];
};
/*
 * Matches the raw path, then decodes each parameter. -ENOENT: no such path, -EOPNOTSUPP: not
 * with this method, -EINVAL: bad percent-encoding or an encoded NUL, -ENAMETOOLONG.
 */
int route_find(const struct route *routes, size_t n, enum method m, const char *raw_path,
               struct route_match *ret);
/* In place; '+' is a space when plus is set. -EINVAL for bad encoding or NUL. */
int percent_decode(char *s, bool plus);

/* ---- bodies: body.c ---- */

struct body {
	struct buf mem; /* up to API_BODY_MEM_MAX */
	int fd;         /* owned; a file without a name, once it is larger; else -1 */
	uint64_t len;
	void *map; /* of fd */
};
#define BODY_EMPTY ((struct body){ .fd = -1 })
int body_add(struct api *a, struct body *b, const void *p, size_t n, struct err *err);
/* The whole body as one piece; valid until body_done(). */
int body_view(struct body *b, const char **ret, size_t *ret_n, struct err *err);
void body_done(struct api *a, struct body *b);

/* ---- connections that must not take for ever: watch.c ---- */

struct watch;
struct watched; /* one connection */
int watch_new(struct watch **ret, struct err *err);
struct watch *watch_free(struct watch *w);
struct watched *watch_add(struct watch *w, int fd);
void watch_remove(struct watch *w, struct watched *c);
/* The connection is shut down when it has not moved on by then; 0: never. */
void watch_deadline(struct watch *w, struct watched *c, uint64_t deadline_ms);

#define API_MOVE_MS 60000 /* for a body or a reply of any size, */
#define API_MOVE_RATE \
	KIB(32)             /* and more for large ones: slower (bytes/s) is not a client of ours */
#define API_STALL_MS 300000 /* a stream: for the client to take, or send, the next piece */
/* The deadline for moving that many bytes from now on. */
uint64_t watch_move(uint64_t bytes);

/* ---- requests ---- */

struct request_value { /* a header or a query value of a request that left its connection */
	enum MHD_ValueKind kind;
	char *name, *value; /* owned */
};

struct request {
	struct api *api;
	struct MHD_Connection *conn;  /* NULL: it runs without one, see request_detach() */
	struct sockaddr_storage peer; /* of request_remote(), when the edge stands between */
	struct request_value *values; /* owned; then these are its headers and query */
	size_t n_values;
	struct watched *watched;
	const char *method_text;
	struct auth_who who;
	struct body body;
	json_t *json; /* owned; the parsed body, once asked for */
	char trace[33];
	char path[256]; /* raw, cut: for the log */
	uint64_t start_ms;
	bool counted;   /* among the running ones */
	bool shared;    /* among those of its account */
	bool preflight; /* an OPTIONS request */
	bool denied;    /* refused for who asked: goes into the audit log */
	bool quiet;     /* one of too many failures: goes into no log */
	int refused;    /* -errno found before the body was there: it is read and dropped */
	unsigned refused_status;
	uint64_t dropped; /* bytes of a refused body */
	struct err refusal;
	void *intake;            /* owned: what the route's intake opened */
	struct auth_lease lease; /* of such a request: still allowed? */
	struct upgrade *upgrade; /* owned; what becomes of the connection once 101 is out */
	enum auth_scope scope; /* what was asked for, when it is not the route's: Git's protocol */
	char repo_id[GRANT_TARGET_SIZE]; /* of the repository it is about, or "" */
	bool challenge;                  /* refused for want of a password: Git asks for one then */
	bool by_ticket;                  /* let in by a ticket, which also names the Linux user: */
	char ticket_user[64];
	struct route_match match; /* last: its text is large and not cleared, see request_new() */
};
/* All zero but for match.text; NULL: out of memory. */
struct request *request_new(void);

struct reply {
	unsigned status;             /* 0: 200, or what the error says */
	json_t *json;                /* owned */
	struct MHD_Response *stream; /* owned; instead of json */
	uint64_t stream_len;
	json_t *extra;            /* owned; more members for an error body */
	unsigned allow;           /* methods for the Allow header, or 0 */
	char background[ID_SIZE]; /* id of the request that goes on, for its header; or "" */
	char content_range[72];
	bool close;
};

struct api {
	struct api_deps deps;
	struct MHD_Daemon *daemon;
	struct watch *watch;
	struct jobs *jobs;
	int listen_fd; /* owned once MHD let go of it */
	char url[96];
	struct mutex lock; /* spooled, idle */
	struct cond idle;  /* running became 0 while draining */
	_Atomic unsigned running;
	_Atomic bool draining;
	uint64_t spooled;
	int drain_fd;        /* owned; readable once draining: streams end */
	struct hub *hub;     /* owned; terminal sessions */
	struct mcp *mcp;     /* owned; sessions of MCP clients */
	struct share *share; /* owned; who has how many requests open */
};

/* The decoded argument for "{vm_id}" in the route's pattern, or NULL. */
const char *request_arg(const struct request *req, const char *param);
/* The VM or repository a call is about, or NULL. */
const char *request_target(const struct request *req);
/* For what outlives the check of its key or token. */
void request_lease(struct request *req, struct auth_lease *ret);
/* The account a call is about: ?accountId for the operator, else one's own. */
int request_account(struct request *req, char ret[ACCOUNT_SIZE], struct err *err);
/* limit and offset of a list of n things: the first one and the one after the last. */
int request_page(struct request *req, size_t n, size_t *ret_first, size_t *ret_end,
                 uint32_t *ret_offset, struct err *err);

/* share.c: a request of the account begins, if it may have another; ends */
struct share;
int share_new(struct share **ret, struct err *err);
void share_free(struct share *s);
int share_in(struct share *s, const char *account, struct err *err);
void share_out(struct share *s, const char *account);
/* Counts a request that runs; false when the server is about to end. */
bool api_count_in(struct api *a);
void api_count_out(struct api *a);      /* by a thread that the HTTP library joins before a goes */
void api_count_out_last(struct api *a); /* by any thread; it must not touch a afterwards */
/*
 * A request that needs no connection: headers and query are copied, body and JSON are moved from
 * req. It counts as running until request_free().
 */
int request_detach(struct request *req, struct request **ret, struct err *err);
struct request *request_free(struct request *req);

const char *request_header(struct request *req, const char *name);
/* Decoded query value; NULL when absent. Caller frees *ret. -EINVAL for bad encoding. */
int request_query(struct request *req, const char *name, char **ret, struct err *err);
int request_query_u32(struct request *req, const char *name, uint32_t max, uint32_t *ret,
                      struct err *err);
int request_query_bool(struct request *req, const char *name, bool *ret, struct err *err);
/* The body as an object, into dst by table. tag: the code of a refusal. */
int request_fields(struct request *req, enum err_code tag, const struct json_field *fields,
                   size_t n, void *dst, struct err *err);
/* The parsed body (borrowed). */
int request_json(struct request *req, enum err_code tag, json_t **ret, struct err *err);
/* Argument i is a VM id; checks the form. */
int request_vm_id(struct request *req, size_t i, const char **ret, struct err *err);
int request_snapshot_id(struct request *req, size_t i, const char **ret, struct err *err);
/* The Linux user named in the header, or NULL; -EINVAL with that tag for a bad name. */
int request_user(struct request *req, enum err_code tag, const char **ret, struct err *err);

/* ---- replies: reply.c, codes.c ---- */

/* Takes the JSON; NULL (out of memory) becomes an error. */
int reply_json(struct reply *res, json_t *json_consume, struct err *err);
/* Adds a member to the body of the error that the handler is about to return. */
void reply_extra(struct reply *res, const char *name, json_t *value_consume);
/* The status and JSON of what the handler made of it; logs failures. NULL: out of memory. */
json_t *reply_render(struct request *req, struct reply *res, int r, const struct err *err,
                     unsigned *ret_status);
/* Sends what the handler made of it; logs failures. The one place that does either. */
enum MHD_Result reply_send(struct request *req, struct reply *res, int r, const struct err *err);
void reply_done(struct reply *res);
/* The code that is sent for an error; err_code_status() has its HTTP status. */
enum err_code code_of(const struct err *err);
/* Of a call to a guest that failed with r: says it better if the guest went away. Returns r. */
int guest_call_error(int r, struct err *err);

/* ---- replies that are made while they are sent: outflow.c ---- */

struct outflow_ops {
	/* Bytes made; 0: none now; -ENODATA: the good end; any other error breaks the connection.
	 */
	ssize_t (*next)(void *ctx, char *p, size_t max, struct err *err);
	int (*fd)(void *ctx); /* POLLIN: next() may have something */
	void (*free)(void *ctx);
	const char *beat; /* sent when nothing happened for a while; NULL: nothing */
	bool endless;     /* a server that shuts down does not wait for its end, */
	bool ends_well;   /* and this is a good end */
};
extern const struct outflow_ops guest_flow_ops; /* ctx: a guest's flow, sent as it is */
#define OUTFLOW_UNKNOWN UINT64_MAX
/* Takes ctx in any case. len: what will be sent, or OUTFLOW_UNKNOWN. */
int reply_flow(struct request *req, struct reply *res, const struct outflow_ops *ops,
               void *ctx_consume, uint64_t len, const char *type, struct err *err);

/* ---- connections that become WebSockets: upgrade.c ---- */

struct upgrade {
	/* On the connection's thread, until it is over. early: bytes that came behind the request.
	 */
	void (*run)(struct upgrade *u, int fd, const void *early, size_t n_early);
	void (*free)(struct upgrade *u);
};
/* Is it the beginning of a WebSocket? Else -EINVAL. */
int upgrade_check(struct request *req, struct err *err);
/* Takes u in any case. */
int reply_upgrade(struct request *req, struct reply *res, struct upgrade *u_consume,
                  struct err *err);

/* ---- terminals: api_pty.c, api_pty_ws.c ---- */
/* A ticket in the URL instead of a header. 1: it is good, *req knows who; 0: there is none. */
int ticket_check(struct request *req, struct err *err);
int request_session(struct request *req, struct reply *res, const char **ret, struct err *err);
/*
 * The guest that may have the session; caller guest_unref()s. -ENOENT when the VM is stopped, or
 * just being stopped: it has no sessions, and is not booted to find out.
 */
int pty_guest(struct request *req, const char *vm_id, const char *session, struct guest **ret,
              struct err *err);

/* ---- server-sent events: sse.c ---- */

/* Text that is being made, and how far it was sent. */
struct sse {
	struct buf out;
	size_t sent;
};
/* Copies what waits: count, 0 when there is nothing. -ENOMEM when it could not be made. */
ssize_t sse_drain(struct sse *s, char *p, size_t max);
void sse_event(struct sse *s, const char *event, json_t *data_consume);
/* Output of one stream: cut at characters' borders, what is not UTF-8 as base64. */
struct sse_text {
	uint8_t carry[4]; /* of a character that is not whole yet */
	size_t n;
};
#define SSE_PIECE (16u << 10) /* bytes of one event at most */
/* off: of the first byte, or -1. last: nothing follows. */
void sse_output(struct sse *s, struct sse_text *t, const char *event, const uint8_t *p, size_t n,
                int64_t off, bool last);
json_t *shape_base64(const void *p, size_t n);
json_t *shape_signal(int sig); /* "SIGTERM"; null for 0 */
void sse_failed(struct sse *s, const struct err *err);

/* ---- files: api_files.c ---- */
#define FILES_TAG ERR_FILES_BAD_REQUEST
/* The path of argument 1, from the VM's working directory when it is relative. */
int request_path(struct request *req, char ret[PATH_MAX], struct err *err);
/* What the guest said, in the contract's words. */
int file_error(int r, const char *path, struct err *err);

/* ---- uploads that are passed on: api_raw.c; also an archive's, api_tar.c ---- */
struct guest;
struct guest_flow;
typedef int (*upload_begin_fn)(struct request *req, struct guest *g, const char *user,
                               const char *path, struct guest_flow **ret, struct err *err);
typedef int (*upload_error_fn)(int r, const char *path, struct err *err);
int upload_open(struct request *req, upload_begin_fn begin, upload_error_fn explain,
                struct err *err);
int upload_data(struct request *req, const void *p, size_t n, struct err *err);
void upload_drop(void *ctx);
int upload_finish(struct request *req, struct reply *res, unsigned limit_ms, struct err *err);

/* ---- processes: api_process.c ---- */
/* The guest of argument 0 and the number in argument 1 ("proc-12"; ret_proc NULL: none). */
int process_find(struct request *req, struct guest **ret, uint32_t *ret_proc, struct err *err);
int process_error(int r, struct err *err);
/* A reply that follows a detached process as events; takes the flow. started: the event to begin
 * with. */
int reply_follow(struct request *req, struct reply *res, struct guest_flow *flow_consume,
                 json_t *started_consume, struct err *err);

/* ---- browsers: cors.c ---- */
void cors_headers(struct request *req, struct MHD_Response *m);
/* Is it named in PANDO_CORS_ORIGINS? "*" names nobody. */
bool cors_listed(const struct conf *conf, const char *origin);

/* ---- the audit log: trail.c ---- */
const struct sockaddr *request_remote(struct request *req); /* or NULL */
/* Leaves a record if this request is one that does. code: of the error, or NULL. */
void trail_leave(struct request *req, const struct reply *res, unsigned status, const char *code);

/* ---- what the HTTP library answers by itself: refuse.c ---- */
/* Finds the library's own functions; before the daemon starts. */
int refuse_init(struct err *err);
/* MHD_queue_response() for replies of ours. */
enum MHD_Result queue_reply(struct MHD_Connection *conn, unsigned status, struct MHD_Response *m);
/* Headers that say in two ways where the body ends, or in a way that we do not know. */
int framing_check(struct request *req, const char *version, struct err *err);

/* ---- requests that outlive their connection: background.c ---- */
#define API_JOBS_MAX 256 /* running at a time; with more, a client waits */
struct jobs;
int jobs_new(struct api *a, struct jobs **ret, struct err *err);
struct jobs *jobs_free(struct jobs *j);
/* Does the client ask for it? */
bool background_wanted(struct request *req);
/* In place of the handler. */
int background_run(struct request *req, struct reply *res, struct err *err);

/* ---- shapes: shape.c ---- */
json_t *shape_time(int64_t wall_ms); /* RFC 3339; null for 0 */
json_t *shape_text(const char *s);   /* null for "" */
json_t *shape_persistence(const struct vm_persistence *p);
json_t *shape_vm_item(const struct vm_info *v);
json_t *shape_vm_info(const struct vm_info *v);
json_t *shape_vm_gone(const struct vm_tombstone *t); /* an item of the list */
json_t *shape_snapshot(const struct snapshot_info *n);
/* Text that may not be UTF-8. */
json_t *shape_output(const void *p, size_t n);

/* "persistence" of a body; tag: the code of a refusal. JSON null and NULL leave *ret as it is. */
int parse_persistence(const json_t *j, enum err_code tag, struct vm_persistence *ret,
                      struct err *err);

/* ---- specs: api_build.c ---- */
/* The body's spec; what a refusal has to say goes into the reply. Caller spec_done()s. */
int request_spec(struct request *req, struct reply *res, enum err_code tag, struct spec *ret,
                 struct err *err);
/* Members that a failed build adds to the error's body. */
void reply_extras(struct reply *res, json_t *extra);
/* A build or 404; for builds of this account only. */
int request_build_id(struct request *req, size_t i, const char **ret, struct err *err);

/* ---- file content in a JSON body: content.c ---- */
struct content {
	const char *p, *end; /* the JSON string's inside, still escaped */
	bool base64;
};
int content_find(const char *text, size_t n, struct content *ret, struct err *err);
/* Pulls decoded bytes: count, 0 at the end, -EINVAL with err. */
struct content_reader;
int content_open(const struct content *c, struct content_reader **ret, struct err *err);
ssize_t content_read(struct content_reader *r, uint8_t *p, size_t n, struct err *err);
struct content_reader *content_close(struct content_reader *r);

/* ---- systemd services: api_systemd.c, systemd_logs.c; what a unit is: build/service.h ---- */
struct guest_exec_req;
struct guest_exec_result;
/* As the user of the request, in the VM of the request. */
int service_run(struct request *req, struct guest_exec_req *x, struct guest_exec_result *ret,
                struct err *err);
/* The error of a command that did not succeed: what it said first, or that it may not. */
int service_failed(const struct guest_exec_result *x, const char *what, struct err *err);
/* Appends the text as one word for a shell. */
void shell_put_word(struct buf *b, const char *s);

/* [a-zA-Z0-9._-]{1,64} */
bool terminal_name_valid(const char *s);

/* ---- handlers ---- */
int api_health(struct request *req, struct reply *res, struct err *err);
int api_background_get(struct request *req, struct reply *res, struct err *err);
int api_logs(struct request *req, struct reply *res, struct err *err);
int api_whoami(struct request *req, struct reply *res, struct err *err);
int api_vm_create(struct request *req, struct reply *res, struct err *err);
int api_vm_list(struct request *req, struct reply *res, struct err *err);
int api_vm_get(struct request *req, struct reply *res, struct err *err);
int api_vm_delete(struct request *req, struct reply *res, struct err *err);
int api_vm_start(struct request *req, struct reply *res, struct err *err);
int api_vm_stop(struct request *req, struct reply *res, struct err *err);
int api_vm_kill(struct request *req, struct reply *res, struct err *err);
int api_vm_suspend(struct request *req, struct reply *res, struct err *err);
int api_vm_fork(struct request *req, struct reply *res, struct err *err);
int api_vm_snapshot(struct request *req, struct reply *res, struct err *err);
int api_vm_await(struct request *req, struct reply *res, struct err *err);
int api_vm_resize(struct request *req, struct reply *res, struct err *err);
int api_vm_optimize(struct request *req, struct reply *res, struct err *err);
int api_vm_stats(struct request *req, struct reply *res, struct err *err);
int api_vm_exec(struct request *req, struct reply *res, struct err *err);
int api_file_get(struct request *req, struct reply *res, struct err *err);
int api_file_put(struct request *req, struct reply *res, struct err *err);
int api_vm_exec_stream(struct request *req, struct reply *res, struct err *err);
int api_process_list(struct request *req, struct reply *res, struct err *err);
int api_process_get(struct request *req, struct reply *res, struct err *err);
int api_process_output(struct request *req, struct reply *res, struct err *err);
int api_process_signal(struct request *req, struct reply *res, struct err *err);
int api_process_stdin(struct request *req, struct reply *res, struct err *err);
int api_process_delete(struct request *req, struct reply *res, struct err *err);
int api_raw_get(struct request *req, struct reply *res, struct err *err);
int api_raw_put(struct request *req, struct reply *res, struct err *err);
int api_raw_delete(struct request *req, struct reply *res, struct err *err);
int api_tar_get(struct request *req, struct reply *res, struct err *err);
int api_tar_put(struct request *req, struct reply *res, struct err *err);
int api_watch_files(struct request *req, struct reply *res, struct err *err);
extern const struct intake api_raw_intake, api_tar_intake, api_stdin_intake;
int api_vm_code(struct request *req, struct reply *res, struct err *err);
int api_code(struct request *req, struct reply *res, struct err *err);
int api_context_create(struct request *req, struct reply *res, struct err *err);
int api_context_list(struct request *req, struct reply *res, struct err *err);
int api_context_delete(struct request *req, struct reply *res, struct err *err);
int api_context_restart(struct request *req, struct reply *res, struct err *err);
int api_context_interrupt(struct request *req, struct reply *res, struct err *err);
int api_snapshot_list(struct request *req, struct reply *res, struct err *err);
int api_snapshot_create(struct request *req, struct reply *res, struct err *err);
int api_snapshot_get(struct request *req, struct reply *res, struct err *err);
int api_snapshot_rename(struct request *req, struct reply *res, struct err *err);
int api_snapshot_delete(struct request *req, struct reply *res, struct err *err);
int api_vm_build(struct request *req, struct reply *res, struct err *err);
int api_build_get(struct request *req, struct reply *res, struct err *err);
int api_build_phases(struct request *req, struct reply *res, struct err *err);

/* accounts, keys, audit log */
int api_account_create(struct request *req, struct reply *res, struct err *err);
int api_account_list(struct request *req, struct reply *res, struct err *err);
int api_account_get(struct request *req, struct reply *res, struct err *err);
int api_account_update(struct request *req, struct reply *res, struct err *err);
int api_account_delete(struct request *req, struct reply *res, struct err *err);
int api_key_create(struct request *req, struct reply *res, struct err *err);
int api_key_list(struct request *req, struct reply *res, struct err *err);
int api_key_revoke(struct request *req, struct reply *res, struct err *err);
int api_audit(struct request *req, struct reply *res, struct err *err);

/* identities, tokens, permissions */
int api_identity_list(struct request *req, struct reply *res, struct err *err);
int api_identity_create(struct request *req, struct reply *res, struct err *err);
int api_identity_delete(struct request *req, struct reply *res, struct err *err);
int api_token_list(struct request *req, struct reply *res, struct err *err);
int api_token_create(struct request *req, struct reply *res, struct err *err);
int api_token_revoke(struct request *req, struct reply *res, struct err *err);
int api_vm_perm_list(struct request *req, struct reply *res, struct err *err);
int api_vm_perm_get(struct request *req, struct reply *res, struct err *err);
int api_vm_perm_grant(struct request *req, struct reply *res, struct err *err);
int api_vm_perm_update(struct request *req, struct reply *res, struct err *err);
int api_vm_perm_revoke(struct request *req, struct reply *res, struct err *err);
int api_git_perm_list(struct request *req, struct reply *res, struct err *err);
int api_git_perm_get(struct request *req, struct reply *res, struct err *err);
int api_git_perm_grant(struct request *req, struct reply *res, struct err *err);
int api_git_perm_update(struct request *req, struct reply *res, struct err *err);
int api_git_perm_revoke(struct request *req, struct reply *res, struct err *err);

/* tree, services, terminals */
int api_tree(struct request *req, struct reply *res, struct err *err);
int api_vm_tree(struct request *req, struct reply *res, struct err *err);
int api_vm_rewind(struct request *req, struct reply *res, struct err *err);
int api_vm_diff(struct request *req, struct reply *res, struct err *err);
int api_service_list(struct request *req, struct reply *res, struct err *err);
int api_service_create(struct request *req, struct reply *res, struct err *err);
int api_service_delete(struct request *req, struct reply *res, struct err *err);
int api_service_status(struct request *req, struct reply *res, struct err *err);
int api_service_logs(struct request *req, struct reply *res, struct err *err);
int api_service_start(struct request *req, struct reply *res, struct err *err);
int api_service_stop(struct request *req, struct reply *res, struct err *err);
int api_service_restart(struct request *req, struct reply *res, struct err *err);
int api_terminal_list(struct request *req, struct reply *res, struct err *err);
int api_terminal_logs(struct request *req, struct reply *res, struct err *err);
int api_terminal_xterm(struct request *req, struct reply *res, struct err *err);

/* terminal sessions */
int api_pty_open(struct request *req, struct reply *res, struct err *err);
int api_pty_attach(struct request *req, struct reply *res, struct err *err);
int api_pty_list(struct request *req, struct reply *res, struct err *err);
int api_pty_close(struct request *req, struct reply *res, struct err *err);
int api_pty_ticket(struct request *req, struct reply *res, struct err *err);
