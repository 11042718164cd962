/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_api_walk.c - every route of the table, with another account's key and with a token
 *
 * Nothing is listed here by hand: a route that is added is walked too. A stranger (a key of
 * another account) must get the same answer for what exists as for what does not; a token without
 * a grant must get nothing but what its scope gives to everyone. And nonsense in place of each
 * parameter, which must be refused in JSON whatever it is.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "api/call.h"
#include "api/doc/openapi.h"
#include "http/http_internal.h"
#include "tests/unit/api_as.h"

/* Enough for every handler to get as far as looking for the thing. */
static const char body[] =
        "{\"command\":\"echo x\",\"content\":\"\",\"encoding\":\"utf8\",\"name\":\"n\",\"count\":1,"
        "\"permission\":\"read\",\"vcpuCount\":2,\"services\":[{\"id\":\"x\"}]}";

struct ids {
	char vm[32], snapshot[32], identity[32], token[32], key[32], account[48], repo[48];
};

/* The path of a route with these ids in it, and with `odd` as parameter number nth (-1: as none).
 */
static void fill(const char *pattern, const struct ids *ids, int nth, const char *odd, char *dst,
                 size_t size)
{
	static const struct {
		const char *param;
		size_t off;
	} names[] = {
		{ "{vm_id}", offsetof(struct ids, vm) },
		{ "{snapshot_id}", offsetof(struct ids, snapshot) },
		{ "{identity}", offsetof(struct ids, identity) },
		{ "{token_id}", offsetof(struct ids, token) },
		{ "{key_id}", offsetof(struct ids, key) },
		{ "{account_id}", offsetof(struct ids, account) },
		{ "{repo}", offsetof(struct ids, repo) },
		{ "{repo_id}", offsetof(struct ids, repo) },
	};
	size_t n = 0;
	int at = 0;

	for (const char *p = pattern; *p && n + 1 < size;) {
		const char *value = "x";

		if (*p != '{') {
			dst[n++] = *p++;
			continue;
		}
		for (size_t i = 0; i < ARRAY_SIZE(names); i++)
			if (strncmp(p, names[i].param, strlen(names[i].param)) == 0)
				value = (const char *)ids + names[i].off;
		if (at++ == nth)
			value = odd;
		n += (size_t)snprintf(dst + n, size - n, "%s", value);
		p = strchr(p, '}') + 1;
	}
	dst[n] = '\0';
}

static void make_ids(struct fx *f, struct ids *ret)
{
	autoreply struct http_reply who = { 0 }, snap = { 0 }, i = { 0 }, t = { 0 }, keys = { 0 },
	                            perm = { 0 }, repo = { 0 };
	char path[160];

	fx_vm(f, ret->vm);
	fx_call(f, "GET", "/auth/v1/whoami", NULL, 200, &who);
	snprintf(ret->account, sizeof(ret->account), "%s", fx_str(who.json, "accountId"));
	snprintf(path, sizeof(path), "/v1/vms/%s/snapshot", ret->vm);
	fx_call(f, "POST", path, "{}", 200, &snap);
	snprintf(ret->snapshot, sizeof(ret->snapshot), "%s", fx_str(snap.json, "snapshotId"));
	fx_call(f, "POST", "/identity/v1/identities", NULL, 200, &i);
	snprintf(ret->identity, sizeof(ret->identity), "%s", fx_str(i.json, "id"));
	snprintf(path, sizeof(path), "/identity/v1/identities/%s/tokens", ret->identity);
	fx_call(f, "POST", path, NULL, 200, &t);
	snprintf(ret->token, sizeof(ret->token), "%s", fx_str(t.json, "id"));
	snprintf(path, sizeof(path), "/identity/v1/identities/%s/permissions/vm/%s", ret->identity,
	         ret->vm);
	fx_call(f, "POST", path, "{}", 200, &perm);
	fx_call(f, "POST", "/git/v1/repo", "{}", 200, &repo);
	snprintf(ret->repo, sizeof(ret->repo), "%s", fx_str(repo.json, "repoId"));
	fx_call(f, "GET", "/v1/keys", NULL, 200, &keys);
	snprintf(ret->key, sizeof(ret->key), "%s",
	         fx_str(json_array_get(json_object_get(keys.json, "keys"), 0), "id"));
}

static void made_up(struct ids *ret)
{
	*ret = (struct ids){ .vm = "zzzzzzzzzzzzzzzzzzzz",
		             .snapshot = "sc-zzzzzzzzzzzzzzzzzzzz",
		             .identity = "idn-zzzzzzzzzzzzzzzzzzzz",
		             .token = "tok-zzzzzzzzzzzzzzzzzzzz",
		             .key = "ak-zzzzzzzzzzzzzzzzzzzz",
		             .account = "00000000-0000-4000-8000-000000000000",
		             .repo = "00000000-0000-4000-8000-000000000000" };
}

static const char *body_of(const struct route *r)
{
	return r->method == METHOD_GET || r->method == METHOD_DELETE || r->body_max < KIB(64)
	               ? NULL
	               : body;
}

static void call(struct fx *f, const struct acting *who, const struct route *r,
                 const struct ids *ids, struct http_reply *ret)
{
	const char *b = body_of(r);
	char path[256];

	fill(r->pattern, ids, -1, NULL, path, sizeof(path));
	if (strcmp(r->pattern, "/v1/events") == 0) /* which would not end */
		snprintf(path, sizeof(path), "%s?follow=false", r->pattern);
	if (http_call(f->port, method_name(r->method), path, who->header, b, b ? strlen(b) : 0,
	              ret) < 0)
		fail_msg("%s %s: no reply", method_name(r->method), path);
}

static void assert_tells_nothing(const struct route *r, const struct http_reply *reply,
                                 const struct ids *ids)
{
	const char *all[] = { ids->vm,  ids->snapshot, ids->identity, ids->token,
		              ids->key, ids->account,  ids->repo };

	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		if (strstr(reply->body, all[i]))
			fail_msg("%s %s tells a stranger about %s: %s", method_name(r->method),
			         r->pattern, all[i], reply->body);
}

static void strangers_cannot_tell_what_exists(void **state)
{
	struct fx *f = *state;
	autoreply struct http_reply vm = { 0 };
	struct acting stranger;
	struct ids real, none;
	char path[64];

	make_ids(f, &real);
	made_up(&none);
	acting_account(f, &stranger);
	/* Lists first: what the stranger names later stands in its own audit log. */
	for (size_t i = 0; i < f->api->http->n_routes; i++) {
		autoreply struct http_reply a = { 0 };

		if (strchr(f->api->http->routes[i].pattern, '{'))
			continue;
		call(f, &stranger, &f->api->http->routes[i], &real, &a);
		assert_tells_nothing(&f->api->http->routes[i], &a, &real);
	}
	for (size_t i = 0; i < f->api->http->n_routes; i++) {
		const struct route *r = &f->api->http->routes[i];
		autoreply struct http_reply a = { 0 }, b = { 0 };

		if (!strchr(r->pattern, '{'))
			continue;
		call(f, &stranger, r, &real, &a);
		call(f, &stranger, r, &none, &b);
		if (a.status != b.status || a.status < 400 || a.status >= 500 ||
		    strcmp(fx_str(a.json, "code"), fx_str(b.json, "code")) != 0)
			fail_msg("%s %s: what is there %d %s, what is not %d %s",
			         method_name(r->method), r->pattern, a.status,
			         fx_str(a.json, "code"), b.status, fx_str(b.json, "code"));
	}
	/* And all of it is as it was. */
	snprintf(path, sizeof(path), "/v1/vms/%s", real.vm);
	fx_call(f, "GET", path, NULL, 200, &vm);
	assert_string_equal(fx_str(vm.json, "state"), "running");
	for (size_t i = 0; i < f->api->http->n_routes; i++) {
		const struct route *r = &f->api->http->routes[i];
		autoreply struct http_reply a = { 0 };
		struct acting me;

		if (r->method != METHOD_GET || !strchr(r->pattern, '{') ||
		    (strncmp(r->pattern, "/identity/", 10) != 0 &&
		     strncmp(r->pattern, "/v1/vms/snapshots/", 18) != 0) ||
		    strstr(r->pattern, "/git/"))
			continue;
		snprintf(me.header, sizeof(me.header), "%s", f->auth_header);
		call(f, &me, r, &real, &a);
		if (a.status != 200)
			fail_msg("%s: %d %s", r->pattern, a.status, a.body);
	}
}

/* Its handler looks whose it is: test_api_session.c. */
static const char own_session[] = "/v1/sessions/{session_id}";

static void a_token_gets_what_its_scope_says(void **state)
{
	struct fx *f = *state;
	autoreply struct http_reply i = { 0 }, t = { 0 };
	struct acting token;
	struct ids real;
	char path[128];

	make_ids(f, &real);
	fx_suspend(f, real.vm);
	fx_call(f, "POST", "/identity/v1/identities", NULL, 200, &i); /* one without grants */
	snprintf(path, sizeof(path), "/identity/v1/identities/%s/tokens", fx_str(i.json, "id"));
	fx_call(f, "POST", path, NULL, 200, &t);
	snprintf(token.header, sizeof(token.header), "Authorization: Bearer %s\r\n",
	         fx_str(t.json, "token"));
	for (size_t k = 0; k < f->api->http->n_routes; k++) {
		const struct route *r = &f->api->http->routes[k];
		bool everyone = r->scope == SCOPE_PUBLIC || r->scope == SCOPE_SELF;
		bool git = r->scope & (SCOPE_GIT_READ | SCOPE_GIT_WRITE | SCOPE_GIT_HTTP);
		autoreply struct http_reply a = { 0 };
		const char *code;

		call(f, &token, r, &real, &a);
		if (everyone && (a.status == 200 || a.status == 201))
			continue;
		/* The secret is in the request, and there is none. */
		if (r->scope == SCOPE_PUBLIC && (a.status == 401 || a.status == 410))
			continue;
		/* Let in, and told what is wrong with a body that is not a message. */
		if (everyone && (a.status == 400 || a.status == 415))
			continue;
		/* Pages and their files, which this server does not have. */
		if (!doc_section(r) && a.status == 404)
			continue;
		/* The address is the secret, and this is not a valid one. */
		if (strcmp(r->pattern, "/git/v1/sync-hook/{hook}") == 0 && a.status == 404)
			continue;
		/* Everyone has sessions of their own, and this is nobody's. */
		if (strcmp(r->pattern, own_session) == 0 && a.status == 404)
			continue;
		code = git                             ? "REPOSITORY_NOT_FOUND"
		       : r->scope == SCOPE_FROM_VM     ? "FORBIDDEN"
		       : strstr(r->pattern, "{vm_id}") ? "VM_ACCESS_DENIED"
		                                       : "FORBIDDEN";
		if (everyone || a.status != (git ? 404 : 403) ||
		    strcmp(fx_str(a.json, "code"), code) != 0)
			fail_msg("%s %s with a token: %d %s", method_name(r->method), r->pattern,
			         a.status, a.body);
	}
	fx_state(f, real.vm, "suspended"); /* nobody was woken */
}

static int params_of(const char *pattern)
{
	int n = 0;

	for (; *pattern; pattern++)
		n += *pattern == '{';
	return n;
}

/* The reply to r with `odd` as its nth parameter is JSON, an error, and no more than that. */
static void refuse_odd(struct fx *f, const struct route *r, const struct ids *ids, int nth,
                       const char *odd, bool malformed)
{
	autoreply struct http_reply a = { 0 };
	const char *b = body_of(r);
	char path[512];

	fill(r->pattern, ids, nth, odd, path, sizeof(path));
	if (http_call(f->port, method_name(r->method), path, f->auth_header, b, b ? strlen(b) : 0,
	              &a) < 0)
		fail_msg("%s %s: no reply", method_name(r->method), path);
	if (!a.json || a.status < 400 || a.status >= 500 || http_header(&a, "X-Odd") ||
	    !*fx_str(a.json, "message") ||
	    strcmp(fx_str(a.json, "code"), fx_str(a.json, "error")) != 0)
		fail_msg("%s %s: %d %s", method_name(r->method), path, a.status, a.body);
	if (malformed &&
	    (a.status != 400 || strcmp(fx_str(a.json, "code"), "INVALID_REQUEST") != 0))
		fail_msg("%s %s: %d %s", method_name(r->method), path, a.status, a.body);
}

static void nonsense_is_refused_in_every_parameter(void **state)
{
	static const char *const malformed[] = { "%", "%zz", "a%2", "%00", "x%2Fy%0" };
	static const char *const odd[] = { "%ff%fe",
		                           "%c0%af",
		                           "..%2F..%2Fetc%2Fpasswd",
		                           "%2e%2e",
		                           "%0d%0aX-Odd:%201%0d%0a",
		                           "%27%22%3B--%20",
		                           "%f0%9f%90%9a" };
	struct fx *f = *state;
	autoreply struct http_reply audit = { 0 };
	struct ids real;

	make_ids(f, &real);
	for (size_t i = 0; i < f->api->http->n_routes; i++) {
		const struct route *r = &f->api->http->routes[i];

		for (int n = 0; n < params_of(r->pattern); n++) {
			for (size_t k = 0; k < ARRAY_SIZE(malformed); k++)
				refuse_odd(f, r, &real, n, malformed[k], true);
			/* A file may have any name. */
			for (size_t k = 0; k < ARRAY_SIZE(odd) && !strstr(r->pattern, "{path}");
			     k++)
				refuse_odd(f, r, &real, n, odd[k], false);
		}
	}
	fx_call(f, "GET", "/v1/audit?limit=1000", NULL, 200, &audit);
	assert_true(json_array_size(json_object_get(audit.json, "records")) > 100);
}

/* What a token can reach at all is about one VM, the first thing in the path. */
static void scopes_fit_their_routes(void **state)
{
	for (size_t i = 0; i < api_n_routes; i++) {
		const struct route *r = &api_routes[i];
		bool one_vm = strncmp(r->pattern, "/v1/vms/{vm_id}", 15) == 0;

		if ((r->scope & (SCOPE_VM_LOOK | SCOPE_VM_EXEC | SCOPE_VM_ROOT)) && !one_vm)
			fail_msg("%s: its scope is for routes of one VM", r->pattern);
		if ((r->scope & (SCOPE_GIT_READ | SCOPE_GIT_WRITE | SCOPE_GIT_HTTP)) &&
		    !strstr(r->pattern, "{repo}"))
			fail_msg("%s: its scope is for routes of one repository", r->pattern);
		if (r->scope == SCOPE_SELF && strchr(r->pattern, '{') &&
		    strcmp(r->pattern, own_session) != 0)
			fail_msg("%s: everyone may, whatever the id?", r->pattern);
		if (strncmp(r->pattern, "/v1/accounts", 12) == 0 && r->scope != SCOPE_ADMIN)
			fail_msg("%s is the operator's", r->pattern);
		if (strncmp(r->pattern, "/identity/", 10) == 0 && r->scope != SCOPE_ACCOUNT)
			fail_msg("%s takes a key", r->pattern);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(scopes_fit_their_routes),
#define T(name) cmocka_unit_test_setup_teardown(name, fx_setup, fx_teardown)
		T(strangers_cannot_tell_what_exists),
		T(a_token_gets_what_its_scope_says),
		T(nonsense_is_refused_in_every_parameter),
	};

	return FX_RUN(tests);
}
