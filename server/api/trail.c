/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trail.c - decides which requests leave a record in the audit log, and writes it
 *
 * Everything that changes something (any method but GET, and a terminal that was opened) and
 * everything that was denied for lack of permission. The record has the route's pattern and the
 * ids in the path; never the path itself, a query, a body or a credential.
 */
#include "api/call.h"

#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/auto.h"
#include "base/clock.h"

void request_remote_text(struct request *req, char *dst, size_t size)
{
	const struct sockaddr *sa = request_remote(req);
	const char *caller = request_caller(req);
	char vm[ID_SIZE];
	socklen_t len = sa && sa->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
	                                                : sizeof(struct sockaddr_in);

	const char *told = *req->node && req->conn ? request_header(req, NODE_VM) : NULL;

	if (*who_of(req)->vm)
		snprintf(dst, size, "vm:%s", who_of(req)->vm);
	else if (told && id_valid("", told))
		snprintf(dst, size, "vm:%s", told);
	else if (caller && vmm_caller(deps_of(req)->vmm, caller, vm) == 0)
		snprintf(dst, size, "vm:%s", vm);
	else if (!sa || getnameinfo(sa, len, dst, (socklen_t)size, NULL, 0, NI_NUMERICHOST) != 0)
		snprintf(dst, size, "unknown");
}

/* Only ids and names that the server assigned; anything else in a path does not belong in the log.
 */
static bool is_id(const char *s)
{
	size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-");

	return n > 0 && n <= ACCOUNT_SIZE && s[n] == '\0';
}

static void add_target(struct audit_record *a, const char *id)
{
	size_t n = strlen(a->target);

	snprintf(a->target + n, sizeof(a->target) - n, "%s%s", n ? "/" : "", is_id(id) ? id : "?");
}

/* The ids in the path, "identity/vm" if there are two; for something new, its id. */
static void write_target(struct request *req, const struct reply *res, struct audit_record *a)
{
	static const char *const made[] = { "id", "snapshotId", "vmId", "requestId", "repoId" };
	const char *param = req->match.route->pattern;

	/* File names do not belong in the log: they reveal the contents of a VM. */
	for (size_t i = 0; i < req->match.n_args && (param = strchr(param, '{')); i++, param++)
		if (strncmp(param, "{path}", 6) != 0)
			add_target(a, req->match.arg[i]);
	for (size_t i = 0; !*a->target && i < ARRAY_SIZE(made); i++) {
		const char *id = json_string_value(json_object_get(res->json, made[i]));

		if (id && is_id(id))
			add_target(a, id);
	}
	auth_mask(a->target);
}

void trail_leave(struct request *req, const struct reply *res, unsigned status, const char *code)
{
	struct audit_record a = { .at_ms = clock_wall_ms(), .status = status };
	const struct route *route = req->match.route;

	if (!route || req->quiet || caller_of(req)->forwarded ||
	    (!caller_of(req)->denied &&
	     ((route->flags & ROUTE_NO_TRAIL) ||
	      ((route->method == METHOD_GET || (route->flags & ROUTE_READS)) && status != 101) ||
	      !*who_of(req)->account)))
		return;
	memcpy(a.account, who_of(req)->account, sizeof(a.account));
	memcpy(a.key, who_of(req)->key, sizeof(a.key));
	memcpy(a.identity, who_of(req)->identity, sizeof(a.identity));
	memcpy(a.operator_account, who_of(req)->operator_account, sizeof(a.operator_account));
	snprintf(a.method, sizeof(a.method), "%s", method_name(route->method));
	snprintf(a.route, sizeof(a.route), "%s", route->pattern);
	snprintf(a.code, sizeof(a.code), "%s", code ? code : "");
	memcpy(a.trace, req->trace, sizeof(a.trace));
	write_target(req, res, &a);
	request_remote_text(req, a.remote, sizeof(a.remote));
	auth_audit(deps_of(req)->auth, &a);
}
