/* SPDX-License-Identifier: Apache-2.0 */
/* call.c - accessors for handlers: ids, users and accounts of a call; its guest */
#include "api/call.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/id.h"
#include "guest/guest.h"

#define VM_ID_MAX 20

const char *request_target(const struct request *req)
{
	unsigned git = SCOPE_GIT_READ | SCOPE_GIT_WRITE | SCOPE_GIT_HTTP;

	return *caller_of(req)->repo_id && (req->match.route->scope & git)
	               ? caller_of(req)->repo_id
	               : request_arg(req, "{vm_id}");
}

int request_account(struct request *req, char ret[ACCOUNT_SIZE], struct err *err)
{
	autofree char *id = NULL;
	struct store_account a;
	int r = request_query(req, "accountId", &id, err);

	if (r < 0)
		return r;
	snprintf(ret, ACCOUNT_SIZE, "%s", who_of(req)->account);
	if (!id || strcmp(id, ret) == 0)
		return 0;
	if (!(who_of(req)->scopes & SCOPE_ADMIN))
		return err_tag(err, -EACCES, ERR_FORBIDDEN,
		               "'accountId' requires a key of the operator's account");
	if ((r = store_account_get(deps_of(req)->store, id, &a, err)) < 0)
		return r;
	snprintf(ret, ACCOUNT_SIZE, "%s", a.id);
	return 0;
}

/* Older ids are shorter, but none has other characters. */
int request_vm_id(struct request *req, size_t i, const char **ret, struct err *err)
{
	const char *id = req->match.arg[i];
	size_t n = strspn(id, "abcdefghijklmnopqrstuvwxyz0123456789");

	if (n == 0 || n > VM_ID_MAX || id[n] != '\0')
		return err_tag(err, -EINVAL, ERR_INVALID_VM_ID,
		               "a VM id is up to %d lower-case letters and digits", VM_ID_MAX);
	*ret = id;
	return 0;
}

int request_snapshot_id(struct request *req, size_t i, const char **ret, struct err *err)
{
	const char *id = req->match.arg[i];

	if (!id_valid("sc-", id))
		return err_tag(err, -ENOENT, ERR_SNAPSHOT_NOT_FOUND,
		               "no such snapshot: an id is 'sc-' and 20 letters and digits");
	*ret = id;
	return 0;
}

int request_user(struct request *req, enum err_code tag, const char **ret, struct err *err)
{
	const char *u = caller_of(req)->by_ticket ? caller_of(req)->ticket_user
	                                          : request_header(req, USER_HEADER);

	*ret = NULL;
	if (!u || !*u)
		return 0;
	if (!linux_user_valid(u))
		return err_tag(err, -EINVAL, tag,
		               "X-Freestyle-Vm-Linux-User-Id must be a Linux user name");
	*ret = u;
	return 0;
}

const char *request_base(struct request *req, char *buf, size_t size)
{
	static const char allowed[] =
	        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-:[]";
	const char *h = request_header(req, "Host");
	size_t n = h ? strspn(h, allowed) : 0;

	if (n == 0 || n >= 256 || h[n])
		h = strstr(http_url(req->http), "://") + 3;
	snprintf(buf, size, "%s://%s", request_secure(req) ? "https" : "http", h);
	return buf;
}

int guest_call_error(int r, struct err *err)
{
	if ((r == -ECONNRESET || r == -ENOTCONN) && !err->tag) /* a tag: it says why */
		err_tag(err, r, ERR_VM_NOT_RUNNING,
		        "the VM was suspended, stopped or rebooted during the call; its log says "
		        "which");
	return r;
}

/* ---- a flow from the guest, sent unchanged ---- */

static int flow_fd(void *ctx)
{
	return guest_flow_fd(ctx);
}

static void flow_free(void *ctx)
{
	guest_flow_close(ctx);
}

static ssize_t flow_next(void *ctx, char *p, size_t max, struct err *err)
{
	ssize_t k = guest_flow_read(ctx, NULL, (uint8_t *)p, max, err);
	int r;

	if (k != -ENODATA)
		return k;
	r = guest_flow_result(ctx, err);
	return r < 0 ? r : -ENODATA;
}

const struct outflow_ops guest_flow_ops = { .next = flow_next, .fd = flow_fd, .free = flow_free };
