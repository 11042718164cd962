/* SPDX-License-Identifier: Apache-2.0 */
/* api.c - the API on top of the HTTP server: starts it and provides its callbacks */
#include "api/api.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/call.h"
#include "api/self_door.h"
#include "api/tally.h"
#include "base/auto.h"
#include "base/rate.h"
#include "base/sock.h"
#include "conf.h"
#include "events/feed.h"
#include "pty/pty.h"

#define RATE_BURST_S 10        /* seconds of the rate that may be used at once */
#define RATE_NAMES 16384       /* keys, or addresses, remembered at one time */
#define WATCHERS_DRAIN_MS 2000 /* for a page that is being made */

static bool allowed(struct request *req)
{
	if (*who_of(req)->vm)
		return self_allowed(req);
	return auth_lease_holds(deps_of(req)->auth, &caller_of(req)->lease);
}

static int run(struct request *req, struct reply *res, struct err *err)
{
	const struct route *route = req->match.route;
	int r = cross_run(req, res, err);

	if (r != 1)
		return r;
	if (!(route->flags & ROUTE_BACKGROUND))
		return api_handle(req, res, err);
	return background_wanted(req) ? background_run(req, res, err) : repeat_run(req, res, err);
}

/* Adds the ids in the path to the error. */
static void describe(struct request *req, enum err_code code, json_t *body)
{
	static const struct {
		const char *param, *member;
	} names[] = { { "{vm_id}", "vmId" },
		      { "{snapshot_id}", "snapshotId" },
		      { "{build_id}", "buildId" },
		      { "{request_id}", "requestId" },
		      { "{repo}", "repoId" } };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		const char *arg = request_arg(req, names[i].param);

		if (arg && !json_object_get(body, names[i].member))
			json_object_set_new(body, names[i].member, shape_output(arg, strlen(arg)));
	}
	if (code == ERR_UNAUTHORIZED_ERROR)
		json_object_set_new(body, "route", shape_output(req->path, strlen(req->path)));
}

static void replied(struct request *req, const struct reply *res, unsigned status, const char *code)
{
	tally_count(api_of(req)->tally, req, status);
	trail_leave(req, res, status, code);
}

/* Settings of the API's limits; 0: the default, as in tests. */
static int read_limits(const struct conf *c, struct http_limits *ret, struct err *err)
{
	struct http_strangers s = HTTP_STRANGERS_DEFAULT;

	if (*c->strangers && sscanf(c->strangers, "%u:%u:%u", &s.start, &s.rate, &s.full) != 3)
		return err_set(err, -EINVAL, "PANDO_API_STRANGERS must be start:rate:full");
	if (c->strangers_each)
		s.each = c->strangers_each;
	*ret = (struct http_limits){ .parse_bytes = MIB(c->parse_mb),
		                     .output_bytes = MIB(c->output_mb),
		                     .strangers = s };
	if (http_nets_parse(c->proxies, ret->proxies, HTTP_PROXIES_MAX, &ret->n_proxies) < 0)
		return err_set(err, -EINVAL, "PANDO_PROXIES must be at most %d addresses",
		               HTTP_PROXIES_MAX);
	return 0;
}

/* 0: there is none. */
static int new_rate(uint32_t per_s, struct rate **ret, struct err *err)
{
	return per_s ? rate_new(&(struct rate_conf){ .per_s = per_s,
	                                             .burst = (double)per_s * RATE_BURST_S,
	                                             .slots = RATE_NAMES },
	                        ret, err)
	             : 0;
}

static void api_free(struct api *a)
{
	if (!a)
		return;
	http_stop(a->watchers, WATCHERS_DRAIN_MS, NULL);
	self_door_free(a->door);
	feed_free(a->feed);
	jobs_free(a->jobs);
	hub_free(a->hub);
	repeats_free(a->repeats);
	rate_free(a->key_rate);
	rate_free(a->address_rate);
	tally_free(a->tally);
	free(a);
}

static void api_freep(struct api **a)
{
	api_free(*a);
}

int api_listen(const struct conf *conf, struct err *err)
{
	int fd = sock_tcp_listen(conf->listen, err);

	return fd < 0 ? err_wrap(err, fd, "PANDO_LISTEN") : fd;
}

int api_start(const struct api_deps *deps, struct api **ret, struct err *err)
{
	AUTO(api_freep) struct api *a = calloc(1, sizeof(*a));
	autofd int fd = deps->listen_fd > 0 ? deps->listen_fd : api_listen(deps->conf, err);
	struct http_conf conf = { .spool_dir = deps->conf->data_dir,
		                  .cors_origins = deps->conf->cors_origins,
		                  .edge_secret = deps->edge_secret,
		                  .header_ms = deps->header_ms };
	struct http_app app = { .ctx = a,
		                .routes = api_routes,
		                .n_routes = api_n_routes,
		                .more_routes = deps->more_routes,
		                .n_more_routes = deps->n_more_routes,
		                .request_bytes = sizeof(struct caller),
		                .admit = api_admit,
		                .turned_away = api_turn_away,
		                .allowed = allowed,
		                .intake = deps->peers ? cross_intake : NULL,
		                .run = run,
		                .describe = describe,
		                .replied = replied,
		                .mask = auth_mask };
	int r;

	if (fd < 0)
		return fd;
	if (!a)
		return err_set(err, -ENOMEM, "out of memory");
	a->deps = *deps;
	if ((r = read_limits(deps->conf, &conf.limits, err)) < 0)
		return r;
	if ((r = new_rate(deps->conf->rate_key, &a->key_rate, err)) < 0 ||
	    (r = new_rate(deps->conf->rate_address, &a->address_rate, err)) < 0)
		return r;
	if ((r = tally_new(api_routes, api_n_routes, deps->more_routes, deps->n_more_routes,
	                   &a->tally, err)) < 0)
		return r;
	if ((r = jobs_new(a, &a->jobs, err)) < 0 || (r = hub_new(&a->hub, err)) < 0 ||
	    (r = repeats_new(&a->repeats, err)) < 0 || (r = self_door_new(a, &a->door, err)) < 0 ||
	    (r = feed_new(deps->store, &a->feed, err)) < 0)
		return r;
	if ((r = watchers_start(a, err)) < 0)
		return r;
	conf.listen_fd = TAKE_FD(fd);
	if ((r = http_start(&conf, &app, &a->http, err)) < 0)
		return r;
	self_door_open(a->door);
	*ret = TAKE_PTR(a);
	return 0;
}

int api_stop(struct api *a, unsigned drain_ms, struct err *err)
{
	int r;

	if (!a)
		return 0;
	hub_stop(a->hub);
	repeats_stop(a->repeats);
	self_door_close(a->door);
	if (a->watchers && (r = http_stop(a->watchers, drain_ms, err)) < 0)
		return r;
	a->watchers = NULL;
	if ((r = http_stop(a->http, drain_ms, err)) < 0)
		return r;
	api_free(a);
	return 0;
}

int api_take_node(void *api, int fd_consume, const char *node, struct err *err)
{
	return http_adopt_node(((struct api *)api)->http, fd_consume, node, err);
}

const char *api_url(const struct api *a, char *buf, size_t size)
{
	snprintf(buf, size, "%s", http_url(a->http));
	return buf;
}
