/* SPDX-License-Identifier: Apache-2.0 */
/* admit.c - identifies the caller and checks permission, before a byte of the body is read */
#include "api/call.h"

#include <errno.h>
#include <stdio.h>

#include "api/git/shared.h"
#include "api/self_door.h"
#include "api/vms/shared.h"
#include "base/rate.h"
#include "base/sock.h"
#include "conf.h"

#define FAILED_RETRY_S 60 /* told to an address with too many failures */

_Static_assert(REQUEST_ACCOUNT_SIZE >= ACCOUNT_SIZE, "a request has room for its account");

static enum auth_scope scope_of(struct request *req)
{
	return caller_of(req)->scope ? caller_of(req)->scope
	                             : (enum auth_scope)req->match.route->scope;
}

/* A page that asks whether it is signed in has done nothing wrong. */
static bool only_asks(struct request *req)
{
	char secret[AUTH_SECRET_SIZE];

	return req->match.route->handler == api_session_get &&
	       !request_header(req, "Authorization") &&
	       !request_header(req, "X-Freestyle-Identity-Access-Token") &&
	       cookie_read(req, secret) == 0;
}

/* Failures are counted by address; too many of them are answered 429 and not logged. */
int admit_failed(struct request *req, int r, struct err *err)
{
	caller_of(req)->denied = r == -EACCES;
	/* Git always tries without a password first. */
	if (req->challenge && !request_header(req, "Authorization"))
		caller_of(req)->denied = false;
	if (only_asks(req))
		caller_of(req)->denied = false;
	/* Only after the check: a valid key works even if others fail from the same address. */
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

/* 1: by something that carries its permission with it. */
static int show(struct request *req, struct err *err)
{
	int r = ticket_check(req, err);

	if (r == 0 && req->match.route->scope != SCOPE_GIT_HTTP && (r = cookie_check(req, err)) > 0)
		return 0;
	if (r == 0 && req->match.route->scope == SCOPE_GIT_HTTP)
		r = git_check(req, err);
	else if (r == 0)
		r = auth_check(deps_of(req)->auth, request_header(req, "Authorization"),
		               request_header(req, "X-Freestyle-Identity-Access-Token"),
		               who_of(req), err);
	return r;
}

/* Nobody has looked at it yet. */
static bool has_ticket_only(struct request *req)
{
	return !request_header(req, "Authorization") && !request_header(req, "Cookie") &&
	       !request_header(req, "X-Freestyle-Identity-Access-Token");
}

static int identify(struct request *req, bool *ret_permitted, struct err *err)
{
	int r;

	*ret_permitted = request_origin(req) != NULL;
	if (*ret_permitted)
		return self_admit(req, err);
	if (watcher_admitted(req)) {
		*ret_permitted = true;
		return 0;
	}
	if ((r = repo_id_check(req, err)) < 0)
		return r;
	if (cross_ticket(req)) {
		*ret_permitted = true;
		return 0;
	}
	r = show(req, err);
	/* The node that passed it on knows the key; it may be that new. */
	if (r == -EACCES && *req->node && !has_ticket_only(req) &&
	    auth_refresh(deps_of(req)->auth, err) == 0) {
		*err = (struct err){ 0 };
		r = show(req, err);
	}
	*ret_permitted = r > 0;
	return r < 0 ? admit_failed(req, r, err) : 0;
}

/* Requests of one key, or without one of an address, that come too fast: 429, and not logged. */
static int check_rate(struct request *req, struct err *err)
{
	const struct auth_who *who = who_of(req);
	bool known = *who->account;
	struct rate *rate = known ? api_of(req)->key_rate : api_of(req)->address_rate;
	struct rate_answer a = { 0 };
	char net[SOCK_NET_SIZE];

	/* Those that another node has passed on were counted there. */
	if (!rate || *req->node ||
	    rate_take(rate,
	              !known      ? sock_net_text(request_remote(req), net)
	              : *who->key ? who->key
	                          : who->account,
	              &a))
		return 0;
	req->quiet = true;
	err_tag(err, -EAGAIN, ERR_LIMIT_EXCEEDED,
	        "too many requests %s in a short time: wait %u s, then send at most %u a second "
	        "(%s)",
	        known ? "with this key" : "without a key from this address", a.wait_s,
	        known ? deps_of(req)->conf->rate_key : deps_of(req)->conf->rate_address,
	        known ? "PANDO_RATE_KEY" : "PANDO_RATE_ADDRESS");
	err_fact(err, ERR_FACT_RETRY, a.wait_s);
	return -EAGAIN;
}

int api_turn_away(struct request *req, struct err *err)
{
	struct err unknown = { 0 };

	/* Whoever shows a valid key is counted by it, as everywhere. */
	if (cookie_check(req, &unknown) > 0)
		return check_rate(req, err);
	if (auth_check(deps_of(req)->auth, request_header(req, "Authorization"),
	               request_header(req, "X-Freestyle-Identity-Access-Token"), who_of(req),
	               &unknown) < 0)
		*who_of(req) = (struct auth_who){ 0 };
	return check_rate(req, err);
}

int api_admit(struct request *req, struct err *err)
{
	struct caller *c = caller_of(req);
	const char *user = request_header(req, USER_HEADER);
	bool permitted = req->match.route->scope == SCOPE_PUBLIC;
	int r = permitted ? 0 : identify(req, &permitted, err);
	int fast = req->quiet ? 0 : check_rate(req, err);

	snprintf(req->account, sizeof(req->account), "%s", c->who.account);
	if (fast < 0)
		c->denied = false;
	if (r < 0 || fast < 0)
		return fast < 0 ? fast : r;
	if (!permitted) {
		r = auth_permit(deps_of(req)->auth, &c->who, scope_of(req), request_target(req),
		                user, err);
		c->denied = r < 0;
		if (r < 0)
			return r;
	}
	auth_lease_take(deps_of(req)->auth, &c->who, scope_of(req), request_target(req), user,
	                &c->lease);
	return 0;
}
