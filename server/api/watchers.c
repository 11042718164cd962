/* SPDX-License-Identifier: Apache-2.0 */
/*
 * watchers.c - who may read /metrics, and the address of its own that it may have
 *
 * At the API's address /metrics wants PANDO_METRICS_KEY, or a key of the operator. At
 * PANDO_METRICS_LISTEN, if there is one, nobody is asked for a key: whoever can connect to it may
 * read it. That server has three routes and nothing else, so it can be let through a firewall on
 * which the API is not.
 */
#include <errno.h>
#include <openssl/crypto.h>
#include <string.h>
#include <strings.h>

#include "api/call.h"
#include "base/auto.h"
#include "base/sock.h"
#include "conf.h"

#define BEARER "Bearer "

bool watcher_admitted(struct request *req)
{
	const char *key = deps_of(req)->conf->metrics_key;
	const char *given = request_header(req, "Authorization");
	size_t n = strlen(BEARER);

	return req->match.route->handler == api_metrics && *key && given &&
	       strncasecmp(given, BEARER, n) == 0 && strlen(given + n) == strlen(key) &&
	       CRYPTO_memcmp(given + n, key, strlen(key)) == 0;
}

static int admit(struct request *req, struct err *err)
{
	return 0;
}

static bool allowed(struct request *req)
{
	return true;
}

static void describe(struct request *req, enum err_code code, json_t *body)
{
}

static void replied(struct request *req, const struct reply *res, unsigned status, const char *code)
{
}

static const struct route routes[] = {
	{ METHOD_GET, "/metrics", SCOPE_PUBLIC, BODY_IGNORED, api_metrics, "", NULL, ROUTE_PUBLIC },
	{ METHOD_GET, "/healthz", SCOPE_PUBLIC, BODY_IGNORED, api_healthz, "", NULL, ROUTE_PUBLIC },
	{ METHOD_GET, "/readyz", SCOPE_PUBLIC, BODY_IGNORED, api_readyz, "", NULL, ROUTE_PUBLIC },
};

int watchers_start(struct api *a, struct err *err)
{
	const struct conf *c = a->deps.conf;
	struct http_conf conf = { .spool_dir = c->data_dir, .cors_origins = "none" };
	struct http_app app = { .ctx = a,
		                .routes = routes,
		                .n_routes = ARRAY_SIZE(routes),
		                .request_bytes = sizeof(struct caller),
		                .admit = admit,
		                .turned_away = admit,
		                .allowed = allowed,
		                .run = api_handle,
		                .describe = describe,
		                .replied = replied,
		                .mask = auth_mask };

	if (!*c->metrics_listen || strcmp(c->metrics_listen, "none") == 0)
		return 0;
	conf.listen_fd = sock_tcp_listen(c->metrics_listen, err);
	if (conf.listen_fd < 0)
		return err_wrap(err, conf.listen_fd, "PANDO_METRICS_LISTEN");
	return http_start(&conf, &app, &a->watchers, err);
}
