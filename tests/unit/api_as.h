/* SPDX-License-Identifier: Apache-2.0 */
/* api_as.h - requests by callers other than the operator; for tests only, after cmocka.h */
#pragma once

#include "base/auto.h"
#include "tests/unit/api_fx.h"

#define autoreply AUTO(http_reply_done)

struct acting {
	char header[256]; /* "Authorization: ...\r\n" */
};

static inline void as_call(struct fx *f, const struct acting *who, const char *method,
                           const char *path, const char *body, int want, struct http_reply *ret)
{
	if (http_call(f->port, method, path, who->header, body, body ? strlen(body) : 0, ret) < 0)
		fail_msg("%s %s: no reply", method, path);
	if (ret->status != want)
		fail_msg("%s %s: %d, not %d: %s", method, path, ret->status, want, ret->body);
}

static inline void as_refused(struct fx *f, const struct acting *who, const char *method,
                              const char *path, const char *body, int status, const char *code)
{
	struct http_reply r;

	as_call(f, who, method, path, body, status, &r);
	assert_string_equal(fx_str(r.json, "code"), code);
	assert_true(fx_str(r.json, "message")[0] != '\0');
	http_reply_done(&r);
}

/* A new key of that account, made by the operator. */
static inline void acting_key(struct fx *f, const char *account, struct acting *ret)
{
	struct http_reply r;
	char path[96];

	snprintf(path, sizeof(path), "/v1/keys?accountId=%s", account);
	fx_call(f, "POST", path, "{}", 200, &r);
	snprintf(ret->header, sizeof(ret->header), "Authorization: Bearer %s\r\n",
	         fx_str(r.json, "key"));
	http_reply_done(&r);
}

/* A new account and a key of it. */
static inline void acting_account(struct fx *f, struct acting *ret)
{
	struct http_reply r;

	fx_call(f, "POST", "/v1/accounts", "{\"name\":\"other\"}", 200, &r);
	acting_key(f, fx_str(r.json, "id"), ret);
	http_reply_done(&r);
}

static inline json_int_t number_at(const json_t *j, const char *object, const char *name)
{
	return json_integer_value(json_object_get(json_object_get(j, object), name));
}
