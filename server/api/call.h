/* SPDX-License-Identifier: Apache-2.0 */
/*
 * api/call.h - a call as handlers see it: caller, dependencies, ids in the path
 *
 * A handler only translates: JSON to a call of the module that does the work, the result to
 * JSON. http/ does everything before and after.
 */
#pragma once

#include "api/api.h"
#include "api/handlers.h"
#include "api/shape.h"
#include "auth/auth.h"
#include "http/http.h"
#include "vm/vm.h"

struct guest;
struct guest_flow;

struct api {
	struct api_deps deps;
	struct http *http;       /* owned */
	struct jobs *jobs;       /* owned; requests that outlive their connection */
	struct hub *hub;         /* owned; terminal sessions */
	struct repeats *repeats; /* owned; creates that may be sent again */
	struct self_door *door;  /* owned; requests of VMs about themselves */
	struct tally *tally;     /* owned; requests by route */
	struct http *watchers;   /* owned; PANDO_METRICS_LISTEN; NULL: none */
	struct feed *feed;       /* owned; who follows what happens */
	/* owned; requests by key, and by address without one. NULL: not limited */
	struct rate *key_rate, *address_rate;
};

/* The caller: api/'s part of a request. */
struct caller {
	struct auth_who who;
	struct auth_lease lease; /* checked while a body or a stream is transferred */
	enum auth_scope scope;   /* the scope needed, if it is not the route's: Git's protocol */
	char repo_id[GRANT_TARGET_SIZE]; /* of the repository it is about, or "" */
	bool denied;    /* rejected for lack of permission: goes into the audit log */
	bool forwarded; /* another node answers it, and writes it down */
	bool by_ticket; /* authenticated by a ticket, which also names the Linux user: */
	char ticket_user[64];
};

static inline struct api *api_of(const struct request *req)
{
	return req->app;
}
static inline const struct api_deps *deps_of(const struct request *req)
{
	return &api_of(req)->deps;
}
static inline struct caller *caller_of(const struct request *req)
{
	return req->own;
}
static inline struct auth_who *who_of(const struct request *req)
{
	return &caller_of(req)->who;
}

/* ---- call.c ---- */

#define USER_HEADER "X-Freestyle-Vm-Linux-User-Id"

/* The VM or repository a call is about, or NULL. */
const char *request_target(const struct request *req);
/* Sets the caller's repo_id, when the route has {repo}; without the ".git" at its end. */
int repo_id_check(struct request *req, struct err *err);
/* The account a call is about: ?accountId for the operator, else the caller's own. */
int request_account(struct request *req, char ret[ACCOUNT_SIZE], struct err *err);
/* Argument i is a VM id; checks the form. */
int request_vm_id(struct request *req, size_t i, const char **ret, struct err *err);
int request_snapshot_id(struct request *req, size_t i, const char **ret, struct err *err);
/* The Linux user named in the header, or NULL; -EINVAL with that tag for a bad name. */
int request_user(struct request *req, enum err_code tag, const char **ret, struct err *err);
/* After a call to a guest failed with r: improves the message if the guest went away. Returns r. */
int guest_call_error(int r, struct err *err);
extern const struct outflow_ops guest_flow_ops; /* ctx: a guest's flow, sent as it is */

/* "https://host": as the client knows this server. */
const char *request_base(struct request *req, char *buf, size_t size);

/* ---- handle.c ---- */

/* The route's handler; members of the body that it does not know are named in a warning. */
int api_handle(struct request *req, struct reply *res, struct err *err);

/* ---- browsers that are signed in: cookie.c ---- */

/* Did it come by HTTPS, through a proxy that says so? */
bool request_secure(struct request *req);
/* The cookie's secret: 1; 0: there is none, -EINVAL: there are several, or it is malformed. */
int cookie_read(struct request *req, char ret[AUTH_SECRET_SIZE]);
/* Any cookie, likewise. */
int cookie_find(struct request *req, const char *name, char *ret, size_t size);
/* secret NULL: the browser is to forget it. */
void cookie_set(struct request *req, struct reply *res, const char *secret);
/* -EACCES with CROSS_SITE_REQUEST for a request that a page of another site has caused. */
int same_origin_check(struct request *req, struct err *err);
/* Identifies the caller by the cookie: 1. 0: there is none, or it does not count. */
int cookie_check(struct request *req, struct err *err);

/* ---- callbacks of http/ ---- */

/* admit.c: checks key, token, ticket or password, and their permission. */
int api_admit(struct request *req, struct err *err);
/* A credential was refused with r: counts it by address, as all of them. Returns r. */
int admit_failed(struct request *req, int r, struct err *err);
/* The same for what no route takes, and preflights: only how many there are. */
int api_turn_away(struct request *req, struct err *err);
/* trail.c: writes an audit record if this request needs one. code: of the error, or NULL. */
/* trail.c: where it came from, as the audit log has it: "vm:<id>" for a VM of this server. */
void request_remote_text(struct request *req, char *dst, size_t size);
void trail_leave(struct request *req, const struct reply *res, unsigned status, const char *code);

/* watchers.c: may it read /metrics, though it has no key of the API? */
bool watcher_admitted(struct request *req);
/* The server at PANDO_METRICS_LISTEN, if one is wanted. */
int watchers_start(struct api *a, struct err *err);

/* background.c: requests that outlive their connection */
#define API_JOBS_DEFAULT 256 /* places for all accounts; without one, a client waits */
struct jobs;
int jobs_new(struct api *a, struct jobs **ret, struct err *err);
struct jobs *jobs_free(struct jobs *j);
/* Has the client requested it? */
bool background_wanted(struct request *req);
/* repeat.c: creates without a key for that, which clients send again after 300 s */
struct repeats;
int repeats_new(struct repeats **ret, struct err *err);
struct repeats *repeats_free(struct repeats *t);
void repeats_stop(struct repeats *t); /* nobody waits for a repeat any more */
/* Instead of the handler. */
int repeat_run(struct request *req, struct reply *res, struct err *err);

/*
 * cross.c: requests that another node of the cluster has to answer. 1: it is not one of them, or
 * the owner is this node; else the result, as of a handler.
 */
int cross_run(struct request *req, struct reply *res, struct err *err);
/* The node is known already. more: further header fields, or ""; skip: one that is left out, or
 * NULL. */
int cross_to(struct request *req, struct reply *res, const char *node, const char *more,
             const char *skip, struct err *err);
/* Tells that node the same, and ignores what it answers. */
int cross_tell(struct request *req, const char *node, const char *more, const char *skip,
               struct err *err);
/* cross_start.c: what the client has shown of itself, as fields of a head; then, with them, a VM is
 * started by that node. For several threads. */
void cross_credentials(struct request *req, struct buf *out);
int cross_start(struct request *req, const char *credentials, const char *node, const char *vm,
                struct err *err);
/* Who takes the body, of a route with an intake. */
void cross_intake(struct request *req, const struct intake **intake);
/* It has a ticket, which only the VM's node can check. */
bool cross_ticket(struct request *req);

/* Instead of the handler. */
int background_run(struct request *req, struct reply *res, struct err *err);
