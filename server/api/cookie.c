/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cookie.c - requests of browsers that are signed in: the session's cookie, and who may use it
 *
 * A browser sends the cookie with every request to this server, whichever page caused it, so the
 * cookie alone proves nothing. What is asked in addition:
 *
 *  - The page is one of this server: the Origin header, where there is one, names the host that the
 *    request went to, and Sec-Fetch-Site, where there is one, says "same-origin" or that no page
 *    was involved. "same-site" is not enough: web pages of VMs are on names below the same domain.
 *  - What is not a GET repeats the session's token in x-pando-csrf, which only a page that could
 *    read GET /v1/session knows.
 *  - A WebSocket has no token; browsers always send Origin with one, so there it must be present.
 *
 * The cookie is SameSite=Strict, HttpOnly and for this host only. Over HTTPS its name begins with
 * __Host-, so that a page on a name below the same domain cannot plant one of its own. Where plain
 * HTTP leaves that possible and two cookies arrive, none counts. A request with a key or a token in
 * a header is not a browser's: its cookie is ignored.
 */
#include "api/call.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include <openssl/crypto.h>

#include "base/auto.h"

#define COOKIE_PLAIN "pando_session"
#define COOKIE_SECURE "__Host-pando_session"

bool request_secure(struct request *req)
{
	const char *proto = request_header(req, "X-Forwarded-Proto");

	return proto && strcasecmp(proto, "https") == 0;
}

/* 1 and the value, 0: there is none, -EINVAL: there are several, or it is too long. */
static int find(const char *cookies, const char *name, char *ret, size_t size)
{
	size_t k = strlen(name);
	int found = 0;

	for (const char *p = cookies; p && *p; p += strspn(p, "; \t")) {
		size_t n = strcspn(p, ";");

		if (n > k && strncmp(p, name, k) == 0 && p[k] == '=') {
			if (found++ || n - k - 1 >= size)
				return -EINVAL;
			snprintf(ret, size, "%.*s", (int)(n - k - 1), p + k + 1);
		}
		p += n;
	}
	return found;
}

int cookie_find(struct request *req, const char *name, char *ret, size_t size)
{
	return find(request_header(req, "Cookie"), name, ret, size);
}

int cookie_read(struct request *req, char ret[AUTH_SECRET_SIZE])
{
	return find(request_header(req, "Cookie"),
	            request_secure(req) ? COOKIE_SECURE : COOKIE_PLAIN, ret, AUTH_SECRET_SIZE);
}

void cookie_set(struct request *req, struct reply *res, const char *secret)
{
	bool secure = request_secure(req);
	char text[256];

	snprintf(text, sizeof(text), "%s=%s; Path=/; HttpOnly; SameSite=Strict%s%s",
	         secure ? COOKIE_SECURE : COOKIE_PLAIN, secret ? secret : "",
	         secure ? "; Secure" : "", secret ? "" : "; Max-Age=0");
	reply_header(res, "Set-Cookie", text);
	OPENSSL_cleanse(text, sizeof(text));
}

static bool is_own_origin(struct request *req, const char *origin)
{
	const char *host = request_header(req, "Host");
	const char *scheme = request_secure(req) ? "https://" : "http://";
	size_t n = strlen(scheme);

	return host && strncasecmp(origin, scheme, n) == 0 && strcasecmp(origin + n, host) == 0;
}

int same_origin_check(struct request *req, struct err *err)
{
	const char *origin = request_header(req, "Origin");
	const char *site = request_header(req, "Sec-Fetch-Site");
	bool upgrade = request_header(req, "Upgrade") != NULL;

	if ((origin ? is_own_origin(req, origin) : !upgrade) &&
	    (!site || strcasecmp(site, "same-origin") == 0 || strcasecmp(site, "none") == 0))
		return 0;
	return err_tag(err, -EACCES, ERR_CROSS_SITE_REQUEST,
	               "a page of another site may not use this session (Origin '%.80s'): send an "
	               "API key in the Authorization header instead",
	               origin ? origin : "");
}

static int csrf_check(struct request *req, const char *secret, struct err *err)
{
	const char *given = request_header(req, "x-pando-csrf");
	char want[AUTH_CSRF_SIZE];
	int r = auth_session_csrf(secret, want, err);

	if (r < 0)
		return r;
	if (given && strlen(given) == sizeof(want) - 1 &&
	    CRYPTO_memcmp(given, want, sizeof(want) - 1) == 0)
		return 0;
	return err_tag(err, -EACCES, ERR_CSRF_TOKEN_INVALID,
	               "with a session, whatever changes something must send the header "
	               "x-pando-csrf with the 'csrf' of GET /v1/session");
}

int cookie_check(struct request *req, struct err *err)
{
	char secret[AUTH_SECRET_SIZE];
	int r;

	if (request_header(req, "Authorization") ||
	    request_header(req, "X-Freestyle-Identity-Access-Token"))
		return 0;
	r = cookie_read(req, secret);
	if (r == -EINVAL)
		return err_tag(err, -EACCES, ERR_UNAUTHORIZED,
		               "there are several session cookies, or a malformed one: delete the "
		               "cookies of this site and sign in again");
	if (r == 0)
		return 0;
	if ((r = auth_session_check(deps_of(req)->auth, secret, who_of(req), err)) == 0 &&
	    (r = same_origin_check(req, err)) == 0 && req->match.route &&
	    req->match.route->method != METHOD_GET)
		r = csrf_check(req, secret, err);
	OPENSSL_cleanse(secret, sizeof(secret));
	return r < 0 ? r : 1;
}
