/* SPDX-License-Identifier: Apache-2.0 */
/* admit.c - who asks, and may they: before a byte of the body is read */
#include "api/call.h"

#include <errno.h>
#include <stdio.h>

#include "api/git/shared.h"
#include "api/vms/shared.h"

#define FAILED_RETRY_S 60 /* told to an address with too many failures */

_Static_assert(REQUEST_ACCOUNT_SIZE >= ACCOUNT_SIZE, "a request has room for its account");

static enum auth_scope scope_of(struct request *req)
{
	return caller_of(req)->scope ? caller_of(req)->scope
	                             : (enum auth_scope)req->match.route->scope;
}

/* Failures are counted by address; too many of them are answered 429 and not logged. */
static int failed(struct request *req, int r, struct err *err)
{
	caller_of(req)->denied = r == -EACCES;
	/* Git always asks without a password first. */
	if (req->challenge && !request_header(req, "Authorization"))
		caller_of(req)->denied = false;
	/* Only after the check: a good key works, whoever else fails from the same address. */
	req->quiet =
	        caller_of(req)->denied && !auth_failure(deps_of(req)->auth, request_remote(req));
	if (req->quiet) {
		err_tag(err, r, err->tag,
		        "too many requests without a valid key or token from this address: try "
		        "again later");
		err_fact(err, ERR_FACT_RETRY, FAILED_RETRY_S);
	}
	return r;
}

static int identify(struct request *req, bool *ret_permitted, struct err *err)
{
	int r = repo_id_check(req, err);

	*ret_permitted = false;
	if (r < 0)
		return r;
	r = ticket_check(req, err);
	if (r == 0 && req->match.route->scope == SCOPE_GIT_HTTP)
		r = git_check(req, err);
	else if (r == 0)
		r = auth_check(deps_of(req)->auth, request_header(req, "Authorization"),
		               request_header(req, "X-Freestyle-Identity-Access-Token"),
		               who_of(req), err);
	*ret_permitted = r > 0;
	return r < 0 ? failed(req, r, err) : 0;
}

int api_admit(struct request *req, struct err *err)
{
	struct caller *c = caller_of(req);
	const char *user = request_header(req, USER_HEADER);
	bool permitted = req->match.route->scope == SCOPE_PUBLIC;
	int r = permitted ? 0 : identify(req, &permitted, err);

	if (r < 0)
		return r;
	if (!permitted) {
		r = auth_permit(deps_of(req)->auth, &c->who, scope_of(req), request_target(req),
		                user, err);
		c->denied = r < 0;
		if (r < 0)
			return r;
	}
	snprintf(req->account, sizeof(req->account), "%s", c->who.account);
	auth_lease_take(deps_of(req)->auth, &c->who, scope_of(req), request_target(req), user,
	                &c->lease);
	return 0;
}
