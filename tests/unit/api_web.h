/* SPDX-License-Identifier: Apache-2.0 */
/* api_web.h - requests of a browser that is signed in; for tests only, after cmocka.h */
#pragma once

#include "tests/unit/api_as.h"

struct browser {
	char cookie[160];        /* "Cookie: ...\r\n" */
	char csrf[96];           /* its value */
	struct acting look, act; /* headers of a GET; and with the token, of anything else */
};

/* With the credential in a header such as "Authorization: Bearer ...\r\n". more: header lines */
static inline void web_sign_in_with(struct fx *f, const struct acting *who, const char *more,
                                    struct browser *ret)
{
	char body[128], key[80], *end;
	autoreply struct http_reply r = { 0 };
	const char *set;

	assert_int_equal(sscanf(who->header, "%*s Bearer %79s", key), 1);
	snprintf(body, sizeof(body), "{\"credential\":\"%s\"}", key);
	assert_int_equal(http_call(f->port, "POST", "/v1/session", more, body, strlen(body), &r),
	                 0);
	if (r.status != 200)
		fail_msg("sign in: %d %s", r.status, r.body);
	set = http_header(&r, "set-cookie");
	assert_non_null(set);
	assert_non_null(strstr(set, "; Path=/; HttpOnly; SameSite=Strict"));
	snprintf(ret->cookie, sizeof(ret->cookie), "Cookie: %s", set);
	end = strchr(ret->cookie, ';');
	assert_non_null(end);
	snprintf(end, 3, "\r\n");
	snprintf(ret->csrf, sizeof(ret->csrf), "%s", fx_str(r.json, "csrf"));
	assert_null(strstr(r.body, key));
	snprintf(ret->look.header, sizeof(ret->look.header), "%s", ret->cookie);
	snprintf(ret->act.header, sizeof(ret->act.header), "%sx-pando-csrf: %s\r\n", ret->cookie,
	         ret->csrf);
}

static inline void web_sign_in(struct fx *f, const struct acting *who, struct browser *ret)
{
	web_sign_in_with(f, who, NULL, ret);
}

static inline void web_operator(struct fx *f, struct acting *ret)
{
	snprintf(ret->header, sizeof(ret->header), "%s", f->auth_header);
}
