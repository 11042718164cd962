/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cors.c - which web pages may use the API from a browser
 *
 * By default any page: what it can do depends on a key or token that it sends in a header itself,
 * never on a cookie or an address that the browser would add. PANDO_CORS_ORIGINS restricts this; a
 * page that is not listed gets its reply without the header that it needs to read it.
 */
#include "http/http_internal.h"

#include <string.h>

#include "base/auto.h"

#define ORIGIN_MAX 256 /* bytes */

/* Headers that the SDK sends, and those browsers ask about in addition (such as User-Agent). */
static const char allow_methods[] = "GET, POST, PUT, PATCH, DELETE, OPTIONS";
static const char allow_headers[] =
        "Authorization, Content-Type, User-Agent, Range, If-Range, If-None-Match, "
        "X-Freestyle-Identity-Access-Token, X-Freestyle-SDK, X-Freestyle-SDK-Version, "
        "X-Freestyle-Vm-Linux-User-Id, X-Freestyle-Background-After-Secs, "
        "Idempotency-Key, Mcp-Session-Id, MCP-Protocol-Version, Last-Event-ID";
static const char expose_headers[] =
        "x-freestyle-trace-id, x-freestyle-background-request-id, x-pando-offset, content-range, "
        "accept-ranges, etag, retry-after, mcp-session-id, x-pando-warning";

static bool listed(const char *list, const char *origin)
{
	size_t n = strlen(origin);

	for (const char *p = list + strspn(list, " "); *p; p += strspn(p, " ")) {
		size_t k = strcspn(p, " ");

		if (k == n && strncasecmp(p, origin, n) == 0)
			return true;
		p += k;
	}
	return false;
}

bool cors_listed(const struct http *h, const char *origin)
{
	return listed(h->conf.cors_origins, origin);
}

void cors_headers(struct request *req, struct MHD_Response *m)
{
	const char *policy = req->http->conf.cors_origins;
	const char *origin = request_header(req, "Origin");
	bool any = !*policy || strcmp(policy, "*") == 0;

	if (req->match.route && (req->match.route->flags & ROUTE_PUBLIC))
		return;
	if (!any)
		MHD_add_response_header(m, MHD_HTTP_HEADER_VARY, "Origin");
	if (!any && (!origin || strlen(origin) > ORIGIN_MAX || !listed(policy, origin)))
		return;
	MHD_add_response_header(m, "Access-Control-Allow-Origin", any ? "*" : origin);
	MHD_add_response_header(m, "Access-Control-Expose-Headers", expose_headers);
	if (!req->preflight)
		return;
	MHD_add_response_header(m, "Access-Control-Allow-Methods", allow_methods);
	MHD_add_response_header(m, "Access-Control-Allow-Headers", allow_headers);
	MHD_add_response_header(m, "Access-Control-Max-Age", "86400");
	MHD_add_response_header(m, MHD_HTTP_HEADER_VARY,
	                        "Access-Control-Request-Method, Access-Control-Request-Headers");
}
