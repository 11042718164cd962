/* SPDX-License-Identifier: Apache-2.0 */
/* http/route.h - routes, and matching a raw path to one of them */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct reply;
struct request;

#define KIB(n) ((uint64_t)(n) << 10)
#define MIB(n) ((uint64_t)(n) << 20)

enum method { METHOD_GET, METHOD_POST, METHOD_PUT, METHOD_PATCH, METHOD_DELETE, METHOD_MAX };
const char *method_name(enum method m);
/* -EINVAL for an unknown method. HEAD is GET: the HTTP library leaves out the body. */
int method_parse(const char *name);

/*
 * A handler gets a complete request that was admitted and is within its body limit, and either
 * fills in the reply or returns an error. It may block: the connection has a thread of its own.
 */
typedef int (*handler_fn)(struct request *req, struct reply *res, struct err *err);

/*
 * A body that is passed on while it arrives, instead of being kept: open() once the headers are
 * complete and the request was admitted, data() for each piece (it may block: the client then
 * waits), the route's handler at the end. drop() frees what open() left in req->intake, in any
 * case.
 */
struct intake {
	int (*open)(struct request *req, struct err *err);
	int (*data)(struct request *req, const void *p, size_t n, struct err *err);
	void (*drop)(void *ctx);
};
#define BODY_STREAMED UINT64_MAX /* body_max of such a route */
#define BODY_IGNORED KIB(4)      /* body_max of routes without a body: clients send one anyway */

struct route {
	enum method method;
	const char *pattern; /* "/v1/vms/{vm_id}"; literals win over {parameters} */
	unsigned scope;      /* what it requires of the caller; checked by the application */
	uint64_t body_max;
	handler_fn handler;
	const char *help;
	const struct intake *intake; /* NULL: the body is kept until it is complete */
	unsigned flags;              /* ROUTE_... */
};
#define ROUTE_PUBLIC 1u     /* anyone may call it, so CORS headers add nothing */
#define ROUTE_BACKGROUND 2u /* may continue when the client stops waiting: api/background.c */
#define ROUTE_NO_TRAIL 4u   /* what it calls leaves audit records of its own: mcp/call.c */
#define ROUTE_READS 8u      /* changes nothing, though it isn't a GET: not for the audit log */
#define ROUTE_MANY 16u      /* its JSON may have VALUES_MANY values, not JSON_VALUES_MAX */
#define ROUTE_ALIAS 32u     /* another spelling of a route: openapi.json leaves it out */

/* Values of a body with lists of files: a commit has 10,000 changes with seven values each. At 256
 * bytes each these are 32 MiB. */
#define VALUES_MANY 131072u

#define ROUTE_PATH_MAX (16u << 10) /* bytes of a raw path: a 4 KiB file path, percent-encoded */
#define ROUTE_ARGS_MAX 3

struct route_match {
	const struct route *route;
	unsigned allow;                  /* bit per method of the path; set with -EOPNOTSUPP too */
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
