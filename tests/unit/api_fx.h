/* SPDX-License-Identifier: Apache-2.0 */
/*
 * api_fx.h - a real API on a real port over the real manager; for tests only, after cmocka.h
 *
 * The manager's machines are those of tests/vm/rig.h: processes with the real agent in them, whose
 * commands run on this host. main() ends with `return FX_RUN(tests);`.
 */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/api.h"
#include "auth/auth.h"
#include "base/lock.h"
#include "base/log.h"
#include "build/build.h"
#include "cert/cert.h"
#include "conf.h"
#include "domains/domains.h"
#include "events/events.h"
#include "events/logs.h"
#include "git/git.h"
#include "git/sync.h"
#include "git/trigger.h"
#include "hook/webhooks.h"
#include "mcp/mcp.h"
#include "node/node.h"
#include "peer/peer.h"
#include "ports/ports.h"
#include "serverless/serverless.h"
#include "store/store.h"
#include "tests/unit/check.h"
#include "tests/unit/http_client.h"
#include "tests/unit/tmpdir.h"
#include "tests/vm/rig.h"
#ifdef FX_WEB
#include "web/web.h"
#endif

#define FX_DRAIN_MS 10000 /* for requests to end */

/* Of deployments: 5 of an account, 3 instances of each and 4 of an account, 2 requests. */
#define FX_DEPLOY ((struct deploy_limits){ 5, 3, 4, 2, 60, 20000 })

struct fx {
	struct tmpdir dir; /* the data directory */
	int released;      /* of fx_release(): the gate that stays open; 0: none */
	struct conf conf;
	struct rig *rig;
	struct store *store;
	struct auth *auth;
	struct events *events;
	struct logs *logs;
	struct vmm *vmm;
	struct builder *builder;
	struct serverless *serverless;
	struct repos *repos;
	struct triggers *triggers;
	struct webhooks *webhooks;
	struct syncs *syncs;
	struct domains *domains;
	struct ports *ports;
	struct mutex seen_lock;
	struct ports *
	        seen GUARDED_BY(seen_lock); /* look now and then what other nodes have mapped */
	struct certs *certs;
	struct mcp *mcp;
	struct peers *peers; /* of a node (rig.c); else NULL */
	struct api *api;
	_Atomic bool helper_gone; /* pando-priv does not say which slots are taken */
	struct {
		struct mutex lock;
		struct cond changed;
		bool closed;
		int error; /* what whoever waited fails with, or 0 */
	} gate;            /* machines that are loaded wait here: fx_hold() */
	unsigned port;
	char key[AUTH_KEY_SIZE];
	char auth_header[128]; /* "Authorization: ...\r\n" */
};

/* From now on no machine starts, until fx_release(). */
static inline void fx_hold(struct fx *f)
{
	LOCK_SCOPE(&f->gate.lock);
	f->gate.closed = true;
}

/* A command that prints "partial" and waits for fx_release(); the JSON string without quotes. */
static inline const char *fx_block(struct fx *f, char *buf, size_t size)
{
	char path[256];

	tmpdir_file(&f->dir, "gate", path, sizeof(path));
	if (f->released > 0) { /* the gate of those that were released before */
		unlink(path);
		close(f->released);
		f->released = 0;
	}
	if (mkfifo(path, 0600) < 0 && errno != EEXIST)
		fail_msg("mkfifo '%s'", path);
	snprintf(buf, size, "printf partial; echo >>%s/blocked; read x <%s; printf released >&2",
	         f->dir.path, path);
	return buf;
}

/* How many of them have begun. */
static inline unsigned fx_blocked(struct fx *f)
{
	struct stat st = { 0 };
	char path[256];

	stat(tmpdir_file(&f->dir, "blocked", path, sizeof(path)), &st);
	return (unsigned)st.st_size;
}

static inline void fx_release(struct fx *f)
{
	char path[256], lines[512];
	int fd = f->released > 0 ? -1
	                         : open(tmpdir_file(&f->dir, "gate", path, sizeof(path)),
	                                O_RDWR | O_CLOEXEC);

	if (fd >= 0) { /* a line for each; it stays open for those that come to it only now */
		memset(lines, '\n', sizeof(lines));
		assert_int_equal(write(fd, lines, sizeof(lines)), sizeof(lines));
		f->released = fd;
	}
	LOCK_SCOPE(&f->gate.lock);
	f->gate.closed = false;
	cond_broadcast(&f->gate.changed);
}

/* A create waits in fx_on_call() until fx_release(). */
static inline int fx_on_call(void *ctx, enum fake_face face, const char *what, const char *object)
{
	struct fx *f = ctx;

	if (face == FAKE_HELPER && atomic_load(&f->helper_gone) && strcmp(what, "slot.list") == 0)
		return -EPIPE;
	if (face != FAKE_ENGINE || strcmp(what, "load") != 0)
		return 0;
	LOCK_SCOPE(&f->gate.lock);
	while (f->gate.closed)
		cond_wait(&f->gate.changed, &f->gate.lock);
	return f->gate.error;
}

static inline uint32_t fx_number(const char *name, uint32_t usual)
{
	const char *text = getenv(name);

	return text ? (uint32_t)strtoul(text, NULL, 10) : usual;
}

static inline void fx_manager(struct fx *f)
{
	const char *keep = getenv("FX_DATA"); /* started again on what is there */
	static struct vm_times times;

	times = vm_times_usual;
	times.history = fx_number("FX_HISTORY_MS", times.history);

	f->rig = rig_new(&(struct rig_opts){ .times = &times,
	                                     .no_account = true,
	                                     .no_template = keep,
	                                     .data_dir = keep,
	                                     .vcpus = 2,
	                                     .mem_mb = 2048,
	                                     .disk_mb = 20480,
	                                     .events = f->events });
	snprintf(f->dir.path, sizeof(f->dir.path), "%s", f->rig->data_dir);
	f->rig->ctx = f;
	f->rig->on_call = fx_on_call;
	f->store = f->rig->store;
	f->vmm = f->rig->vmm;
}

static inline void fx_load(void *ctx, struct node_load *ret)
{
	struct fx *f = ctx;

	*ret = (struct node_load){ .free_mb = vmm_room_mb(f->vmm) };
}

static inline void fx_drain(void *ctx, bool on)
{
	vmm_drain(((struct fx *)ctx)->vmm, on);
}

static inline void fx_changed(void *ctx)
{
	struct fx *f = ctx;
	struct err e = { 0 };

	auth_refresh(f->auth, &e);
	LOCK_SCOPE(&f->seen_lock);
	if (f->seen)
		ports_refresh(f->seen);
}

static inline void fx_see(struct fx *f, struct ports *p)
{
	LOCK_SCOPE(&f->seen_lock);
	f->seen = p;
}

/* With RIG_NODE: the other nodes are watched, and answered. */
static inline int fx_peers(struct fx *f, struct err *e)
{
	struct node_hooks h = { f, fx_load, fx_drain, fx_changed };
	struct peers_conf c = { .node = f->rig->node, .store = f->store, .vmm = f->vmm };
	int r;

	if (!f->rig->node)
		return 0;
	c.address = strchr(getenv("RIG_NODE"), ' ') + 1;
	r = node_begin(f->rig->node, &h, e);
	return r < 0 ? r : peers_open(&c, &f->peers, e);
}

/* tune: changes settings before the API starts; NULL: nothing. */
static inline int fx_setup_tuned(void **state, unsigned header_ms, void (*tune)(struct conf *))
{
	struct fx *f = calloc(1, sizeof(*f));
	char path[256], url[96];
	struct api_deps deps;
	FILE *file;

	log_init("test", LOG_LV_ERROR);
	mutex_init(&f->gate.lock, "test: gate");
	cond_init(&f->gate.changed);
	if (!f || !(f->events = events_new()))
		return -1;
	fx_manager(f);
	*state = f;
	snprintf(f->conf.data_dir, sizeof(f->conf.data_dir), "%s", f->dir.path);
	snprintf(f->conf.listen, sizeof(f->conf.listen), "127.0.0.1:0");
	snprintf(f->conf.metrics_key, sizeof(f->conf.metrics_key), "%s",
	         getenv("FX_METRICS_KEY") ? getenv("FX_METRICS_KEY") : "");
	snprintf(f->conf.metrics_listen, sizeof(f->conf.metrics_listen), "%s",
	         getenv("FX_METRICS_LISTEN") ? getenv("FX_METRICS_LISTEN") : "none");
	if (tune)
		tune(&f->conf);
	if (auth_open(f->store, f->dir.path, &f->auth, NULL, &err) < 0 ||
	    logs_new(f->store, f->events, &f->logs, &err) < 0)
		return -1;
	if (builder_new(
	            &(struct builder_conf){ .timeout_s = 60,
	                                    .cache_max = 8,
	                                    .limits = { 2, 2048, 20480, 32, 65536, 204800, 256 } },
	            f->store, f->vmm, &f->builder, &err) < 0)
		return -1;
	if (serverless_new(&(struct serverless_conf){ .store = f->store,
	                                              .vmm = f->vmm,
	                                              .builder = f->builder,
	                                              .logs = f->logs,
	                                              .deploy = FX_DEPLOY },
	                   &f->serverless, &err) < 0) {
		fprintf(stderr, "serverless: %s\n", err.msg);
		return -1;
	}
	struct repos_conf rc = { .allow_private = true,
		                 .events = f->events,
		                 .search_s = fx_number("FX_SEARCH_S", 5),
		                 .slow_s = fx_number("FX_SLOW_S", 0),
		                 .unjailed = getenv("FX_UNJAILED"),
		                 .search_mb = getenv("FX_NO_TEXTS") ? 0 : 256,
		                 .objects = f->rig->objects };
	snprintf(rc.data_dir, sizeof(rc.data_dir), "%s", f->dir.path);
	if (repos_open(&rc, f->store, &f->repos, &err) < 0) {
		fprintf(stderr, "repos: %s\n", err.msg);
		return -1;
	}
	struct triggers_conf tc = { .allow_private = !getenv("FX_NO_PRIVATE"),
		                    .retry_s = 1,
		                    .issuer = "https://git.test" };
	if (triggers_open(&tc, f->repos, f->store, &f->triggers, &err) < 0) {
		fprintf(stderr, "triggers: %s\n", err.msg);
		return -1;
	}
	struct webhooks_conf wc = { .signer = triggers_signer(f->triggers),
		                    .allow_private = tc.allow_private,
		                    .retry_s = 1,
		                    .issuer = "https://git.test" };
	if (webhooks_open(&wc, f->store, &f->webhooks, &err) < 0)
		return -1;
	struct syncs_conf sc = { .poll_s = getenv("FX_POLL") ? 1 : 3600,
		                 .hook_burst = getenv("FX_HOOK_BURST") ? 60 : 0 };
	snprintf(sc.base_url, sizeof(sc.base_url), "%s",
	         getenv("FX_GITHUB") ? getenv("FX_GITHUB") : "http://127.0.0.1:1");
	if (syncs_open(&sc, f->repos, f->store, &f->syncs, &err) < 0)
		return -1;
	repos_tell_unheard(f->repos);
	snprintf(f->conf.domain, sizeof(f->conf.domain), "pando.localhost");
	if (domains_new(&(struct domains_conf){ .base = f->conf.domain, .resolver = "127.0.0.1" },
	                f->store, f->vmm, &f->domains, &err) < 0 ||
	    certs_open(tmpdir_file(&f->dir, "certs", path, sizeof(path)),
	               (const char *const[]){ "pando.localhost" }, 1, &f->certs, &err) < 0) {
		fprintf(stderr, "domains: %s\n", err.msg);
		return -1;
	}
	if (getenv("FX_TLS_CERT") &&
	    certs_give(f->certs, getenv("FX_TLS_CERT"), getenv("FX_TLS_KEY"), &err) < 0) {
		fprintf(stderr, "certificate: %s\n", err.msg);
		return -1;
	}
	mutex_init(&f->seen_lock, "test: seen");
	if (fx_peers(f, &err) < 0) {
		fprintf(stderr, "peers: %s\n", err.msg);
		return -1;
	}
	if (ports_open(
	            &(struct ports_conf){ .range = getenv("FX_PORTS") ? getenv("FX_PORTS") : "none",
	                                  .listen = getenv("FX_PORTS_AT") ? getenv("FX_PORTS_AT")
	                                                                  : "127.0.0.1",
	                                  .peers = f->peers,
	                                  .wait_ms = 10000,
	                                  .idle_ms = 60000 },
	            f->store, f->vmm, &f->ports, &err) < 0)
		return -1;
	fx_see(f, f->ports);
	deps = (struct api_deps){ .conf = &f->conf,
		                  .node = f->rig->node,
		                  .peers = f->peers,
		                  .store = f->store,
		                  .vmm = f->vmm,
		                  .builder = f->builder,
		                  .auth = f->auth,
		                  .events = f->events,
		                  .logs = f->logs,
		                  .repos = f->repos,
		                  .triggers = f->triggers,
		                  .webhooks = f->webhooks,
		                  .ports = f->ports,
		                  .syncs = f->syncs,
		                  .serverless = f->serverless,
		                  .domains = f->domains,
		                  .certs = f->certs,
		                  .edge_secret = getenv("FX_EDGE"),
		                  .header_ms = header_ms };
#ifdef FX_WEB
	deps.web = &web_site;
#endif
	if (mcp_new(&f->mcp, &err) < 0)
		return -1;
	mcp_deps(f->mcp, &deps);
	if (api_start(&deps, &f->api, &err) < 0) {
		fprintf(stderr, "api: %s\n", err.msg);
		return -1;
	}
	if (f->peers &&
	    peers_begin(f->peers, &(struct peers_hooks){ f->api, api_take_node }, &err) < 0)
		return -1;
	if (sscanf(api_url(f->api, url, sizeof(url)), "http://127.0.0.1:%u", &f->port) != 1)
		return -1;
	file = fopen(tmpdir_file(&f->dir, "api-key", path, sizeof(path)), "r");
	if (!file && f->rig->node) { /* the first node has it */
		snprintf(f->key, sizeof(f->key), "-");
		return 0;
	}
	if (!file || !fgets(f->key, sizeof(f->key), file))
		return -1;
	fclose(file);
	snprintf(f->auth_header, sizeof(f->auth_header), "Authorization: Bearer %s\r\n", f->key);
	return 0;
}

static inline int fx_setup_with(void **state, unsigned header_ms)
{
	return fx_setup_tuned(state, header_ms, NULL);
}

static inline int fx_setup(void **state)
{
	return fx_setup_with(state, 0);
}

/*
 * As pandod ends: requests that still run wait for guests, so the VMs are suspended. If even that
 * does not end them nothing can be freed that they use.
 */
static inline void fx_stop(struct fx *f)
{
	if (!f->api || api_stop(f->api, FX_DRAIN_MS, &err) == 0)
		return;
	builder_stop(f->builder);
	serverless_end(f->serverless);
	triggers_end(f->triggers);
	webhooks_end(f->webhooks);
	syncs_end(f->syncs);
	peers_end(f->peers);
	vmm_suspend_all(f->vmm);
	if (api_stop(f->api, FX_DRAIN_MS, &err) == 0)
		return;
	fprintf(stderr, "the server cannot be ended: %s\n", err.msg);
	_exit(1);
}

static inline int fx_teardown(void **state)
{
	struct fx *f = *state;

	fx_release(f);
	fx_stop(f);
	if (f->released > 0)
		close(f->released);
	f->released = 0;
	mcp_free(f->mcp);
	syncs_close(f->syncs);
	webhooks_close(f->webhooks);
	triggers_close(f->triggers);
	peers_end(f->peers);
	fx_see(f, NULL);
	ports_close(f->ports);
	certs_free(f->certs);
	domains_free(f->domains);
	repos_close(f->repos);
	serverless_free(f->serverless);
	builder_free(f->builder);
	peers_free(f->peers);
	f->rig->node = node_close(f->rig->node);
	f->rig->vmm = vmm_free(f->rig->vmm);
	logs_free(f->logs);
	auth_close(f->auth);
	rig_free(f->rig);
	events_free(f->events);
	mutex_destroy(&f->seen_lock);
	free(f);
	return 0;
}

#define FX_RUN(tests)                                                     \
	({                                                                \
		int r_ = rig_main_begin();                                \
		if (r_ == 0) {                                            \
			r_ = cmocka_run_group_tests((tests), NULL, NULL); \
			rig_main_end();                                   \
		}                                                         \
		r_;                                                       \
	})

/* The reply to a request with the key; checks the status. Caller http_reply_done()s. */
static inline void fx_call(struct fx *f, const char *method, const char *path, const char *body,
                           int want, struct http_reply *ret)
{
	if (http_call(f->port, method, path, f->auth_header, body, body ? strlen(body) : 0, ret) <
	    0)
		fail_msg("%s %s: no reply", method, path);
	if (ret->status != want)
		fail_msg("%s %s: %d, not %d: %s", method, path, ret->status, want, ret->body);
	if (!http_header(ret, "x-freestyle-trace-id"))
		fail_msg("%s %s: no trace id", method, path);
	if (!ret->json)
		fail_msg("%s %s: not JSON: %.200s", method, path, ret->body);
}

static inline const char *fx_str(const json_t *j, const char *name)
{
	const char *s = json_string_value(json_object_get(j, name));

	return s ? s : "(no such string)";
}

static inline void fx_refused(struct fx *f, const char *method, const char *path, const char *body,
                              int status, const char *code, const char *says)
{
	struct http_reply r;

	fx_call(f, method, path, body, status, &r);
	assert_string_equal(fx_str(r.json, "code"), code);
	assert_string_equal(fx_str(r.json, "error"), code);
	if (!fx_str(r.json, "message")[0] || !strstr(fx_str(r.json, "message"), says))
		fail_msg("%s %s says '%s', not '%s'", method, path, fx_str(r.json, "message"),
		         says);
	assert_string_equal(fx_str(r.json, "description"), fx_str(r.json, "message"));
	http_reply_done(&r);
}

/* A new VM's id. */
static inline void fx_vm(struct fx *f, char ret_id[32])
{
	struct http_reply r;

	fx_call(f, "POST", "/v1/vms", "{}", 200, &r);
	snprintf(ret_id, 32, "%s", fx_str(r.json, "id"));
	http_reply_done(&r);
}

static inline void fx_state(struct fx *f, const char *id, const char *want)
{
	struct http_reply r;
	char path[64];

	snprintf(path, sizeof(path), "/v1/vms/%s", id);
	fx_call(f, "GET", path, NULL, 200, &r);
	assert_string_equal(fx_str(r.json, "state"), want);
	http_reply_done(&r);
}

/* So that fx_state() can tell whether something woke it. */
static inline void fx_suspend(struct fx *f, const char *id)
{
	struct http_reply r;
	char path[64];

	snprintf(path, sizeof(path), "/v1/vms/%s/suspend", id);
	fx_call(f, "POST", path, NULL, 200, &r);
	http_reply_done(&r);
}
