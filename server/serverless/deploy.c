/* SPDX-License-Identifier: Apache-2.0 */
/*
 * deploy.c - making deployments, and deleting them
 *
 * A deployment is a spec (build/): the programs of guest/ with the source, a oneshot service that
 * installs and builds, the server, and another oneshot service that ends when the server answers.
 * So the builder's log is the log of the deployment's build, and the frozen layer has the server in
 * it, listening. Names are mapped only then: those that led elsewhere go on until that moment.
 *
 * The build runs on a thread of its own, because a client waits for an answer for only so long.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/utf8.h"
#include "build/build.h"
#include "serverless/deploy_build.h"
#include "serverless/deploy_guest.h"
#include "store/store_git.h"
#include "vm/vm.h"
#include "vm/vmm.h"

#define OWN_DIR "/opt/pando-deploy"
#define SOURCE_DIR "/opt/deployment"
#define BUILD_S 1800
#define START_MS 120000  /* for the server to answer */
#define CLIENT_MS 270000 /* clients wait 300 s for the head of an answer */
#define LOOK_MS 1000     /* is the client still there? */
#define BUILDS_MAX 8     /* at a time, of all accounts */
#define REASON_MAX 300   /* bytes of the log in a message */

struct deployer {
	struct mutex lock;
	struct cond changed;
	unsigned n GUARDED_BY(lock); /* builds under way */
	bool stopping GUARDED_BY(lock);
};

/* A build; freed by whoever is last: its thread, or the request that waits for it. */
struct work {
	struct serverless *s;
	struct store_deploy row;
	json_t *spec, *domains, *extra; /* owned */
	char request_id[ID_SIZE];
	int (*map)(void *ctx, const char *account, const char *domain, const char *deployment,
	           struct err *err);
	void *ctx;
	/* under the deployer's lock */
	bool over, left;
	int r;
	struct err err;
};

static void work_free(struct work *w)
{
	store_deploy_done(&w->row);
	json_decref(w->spec);
	json_decref(w->domains);
	json_decref(w->extra);
	free(w);
}

/* ---- the spec ---- */

/* A repository of this server, whatever host its URL names: the last part is its id. */
static const char *own_repo(struct serverless *s, const char *account, const char *url)
{
	const char *last = strrchr(url, '/');
	struct store_repo repo;

	last = last ? last + 1 : url;
	return store_repo_get(s->conf.store, last, &repo, NULL) == 0 &&
	                       !strcmp(repo.account, account)
	               ? last
	               : NULL;
}

static json_t *file_of(const char *text)
{
	return json_pack("{s:s}", "content", text);
}

/* The programs and their configuration; id: so that no two deployments are the same layer. */
static json_t *guest_files(const struct deploy_plan *p, const char *id)
{
	autojson json_t *conf = json_deep_copy(p->conf);
	autofree char *text = NULL, *files = NULL;
	json_t *o = json_object();

	json_object_set_new(conf, "deploymentId", json_string(id));
	json_object_set_new(conf, "port", json_integer(p->port));
	json_object_set_new(conf, "address", json_string(VM_GUEST_ADDR));
	json_object_set_new(conf, "unit", json_string(DEPLOY_SERVICE));
	json_object_set_new(conf, "startMs", json_integer(START_MS));
	text = json_dumps(conf, JSON_COMPACT);
	files = p->files ? json_dumps(p->files, JSON_COMPACT) : NULL;
	if (!o || !text || (p->files && !files)) {
		json_decref(o);
		return NULL;
	}
	json_object_set_new(o, OWN_DIR "/conf.json", file_of(text));
	json_object_set_new(o, OWN_DIR "/build.mjs", file_of(deploy_build_mjs));
	json_object_set_new(o, OWN_DIR "/check.mjs", file_of(deploy_check_mjs));
	json_object_set_new(o, OWN_DIR "/hook.mjs", file_of(deploy_hook_mjs));
	json_object_set_new(o, OWN_DIR "/random.mjs", file_of(deploy_random_mjs));
	json_object_set_new(o, OWN_DIR "/run.mjs", file_of(deploy_run_mjs));
	if (files)
		json_object_set_new(o, OWN_DIR "/files.json", file_of(files));
	explicit_bzero(text, strlen(text));
	return o;
}

#define NODE "/usr/bin/env PATH=/usr/local/bin:/usr/bin:/bin node " OWN_DIR

static json_t *make_spec(struct serverless *s, const char *account, const struct deploy_plan *p,
                         const char *id)
{
	const char *repo = p->git ? own_repo(s, account, p->url) : NULL;
	json_t *files = guest_files(p, id);
	json_t *spec =
	        files ? json_pack("{s:{s:o, s:b, s:{s:[{s:s, s:s, s:[s], s:b, s:i}, {s:s, s:s, "
	                          "s:[s], "
	                          "s:[s], s:[s], s:{s:s}}, {s:s, s:s, s:[s], s:[s], s:b, s:i}]}}}",
	                          "spec", "additionalFiles", files, "skipCache", 1, "systemd",
	                          "services", "name", DEPLOY_SERVICE "-build", "mode", "oneshot",
	                          "exec", NODE "/build.mjs", "deleteAfterSuccess", 1, "timeoutSec",
	                          BUILD_S, "name", DEPLOY_SERVICE, "mode", "service", "exec",
	                          NODE "/run.mjs", "after", DEPLOY_SERVICE "-build", "requires",
	                          DEPLOY_SERVICE "-build", "restartPolicy", "policy", "no", "name",
	                          DEPLOY_SERVICE "-check", "mode", "oneshot", "exec",
	                          NODE "/check.mjs", "after", DEPLOY_SERVICE, "deleteAfterSuccess",
	                          1, "timeoutSec", START_MS / 1000 + 60)
	              : NULL;

	if (spec && p->git)
		json_object_set_new(json_object_get(spec, "spec"), "git",
		                    json_pack("{s:[{s:s, s:s, s:s*}]}", "repos", "repo",
		                              repo ? repo : p->url, "path", SOURCE_DIR, "rev",
		                              p->branch));
	return spec;
}

/* ---- the build ---- */

static void say(char dst[DEPLOY_WHY_SIZE], const char *text)
{
	autobuf struct buf b = { 0 };

	utf8_put_clean(
	        &b, (const uint8_t *)text,
	        strnlen(text, MIN(sizeof(((struct err *)0)->msg), (size_t)DEPLOY_WHY_SIZE - 4)));
	snprintf(dst, DEPLOY_WHY_SIZE, "%.*s", (int)b.len, (const char *)b.p);
}

/* Lines of systemd about the services say nothing that users know. */
static char *own_lines(const char *text)
{
	autobuf struct buf b = { 0 };

	for (const char *p = text; *p;) {
		size_t n = strcspn(p, "\n");

		if (!memmem(p, n, DEPLOY_SERVICE, strlen(DEPLOY_SERVICE)))
			buf_printf(&b, "%.*s\n", (int)n, p);
		p += n + (p[n] == '\n');
	}
	return buf_take_str(&b);
}

/* Where the reason begins: what check.mjs found, or the first line with an error; else the end. */
static const char *reason_in(const char *text)
{
	const char *at = strstr(text, "nothing answers on port");
	size_t n = strlen(text);

	if (!at)
		at = strstr(text, "Error");
	while (at && at > text && at[-1] != '\n')
		at--;
	if (at)
		return at;
	at = n > REASON_MAX ? text + n - REASON_MAX : text;
	while ((*at & 0xc0) == 0x80)
		at++;
	return at;
}

/* What the service that failed has printed, as the reason; all of it is in the error's body. */
static void explain(struct work *w)
{
	const json_t *logs =
	        json_object_get(json_object_get(w->extra, "diagnostics"), "failedServiceLogs");
	autofree char *own = NULL;
	const char *text = NULL;
	json_t *l;
	size_t i;

	json_array_foreach((json_t *)(uintptr_t)logs, i, l)
	{
		const char *unit = json_string_value(json_object_get(l, "unitName"));

		/* The one that checks knows why the server does not answer. */
		if (!text || (unit && strstr(unit, "-check")))
			text = json_string_value(json_object_get(l, "log"));
	}
	own = text ? own_lines(text) : NULL;
	if (!own || !*own)
		return;
	json_object_set_new(w->extra, "log", json_text(own, strlen(own)));
	err_set(&w->err, w->err.code, "the deployment failed: %s", reason_in(own));
}

/* Under the lock: from deployer_end() on nobody is called who may be gone by then. */
static int map_names(struct work *w, struct err *err)
{
	struct deployer *d = w->s->deployer;
	json_t *v;
	size_t i;
	int r = 0;

	LOCK_SCOPE(&d->lock);
	if (d->stopping && json_array_size(w->domains))
		return err_set(err, -ECANCELED, "the server stopped before its names were mapped");
	json_array_foreach(w->domains, i, v)
	{
		r = w->map(w->ctx, w->row.account, json_string_value(v), w->row.id, err);
		if (r < 0)
			break;
	}
	return r;
}

static int build(struct work *w, struct err *err)
{
	struct serverless *s = w->s;
	struct spec_ctx c = { .limits = builder_limits(s->conf.builder),
		              .tag = ERR_INVALID_DEPLOYMENT_REQUEST,
		              .extra = w->extra };
	struct build_opts o = { .account = w->row.account,
		                .request_id = *w->request_id ? w->request_id : NULL,
		                .fresh = true,
		                .extra = w->extra };
	struct vm_persistence persistence = { .type = PERSIST_PERSISTENT };
	autospec struct spec spec = { 0 };
	struct snapshot_info snap = { 0 };
	char name[64];
	int r;

	snprintf(name, sizeof(name), "deployment %s", w->row.id);
	if ((r = vmm_wait_template(s->conf.vmm, err)) < 0 ||
	    (r = spec_parse(w->spec, &c, &spec, err)) < 0)
		return r;
	r = build_snapshot(s->conf.builder, &spec, &o, name, &persistence, &snap, err);
	snprintf(w->row.build, sizeof(w->row.build), "%s",
	         r == 0 ? snap.build_id
	                : json_string_value(json_object_get(w->extra, "buildId")) ?: "");
	if (r < 0) {
		const char *failed = json_string_value(json_object_get(w->extra, "snapshotId"));

		if (failed) /* it is of no use: the build's log says what happened */
			vmm_snapshot_delete(s->conf.vmm, w->row.account, failed, NULL);
		json_object_del(w->extra, "snapshotId");
		return r;
	}
	snprintf(w->row.snapshot, sizeof(w->row.snapshot), "%s", snap.id);
	w->row.state = DEPLOY_DEPLOYED;
	w->row.deployed_ms = clock_wall_ms();
	r = store_deploy_put(s->conf.store, &w->row, err);
	if (r == -ENOENT) /* deleted meanwhile */
		vmm_snapshot_delete(s->conf.vmm, w->row.account, snap.id, NULL);
	return r;
}

static void work_over(struct work *w)
{
	struct deployer *d = w->s->deployer;
	bool left;

	mutex_lock(&d->lock);
	d->n--;
	w->over = true;
	left = w->left;
	cond_broadcast(&d->changed);
	mutex_unlock(&d->lock);
	if (left)
		work_free(w);
}

static void *work_main(void *arg)
{
	struct work *w = arg;
	struct err late = { 0 };

	w->r = build(w, &w->err);
	if (w->r == 0)
		w->r = map_names(w, &w->err);
	else if (w->err.tag == ERR_SNAPSHOT_SETUP_FAILED || w->err.tag == ERR_VM_SETUP_FAILED)
		explain(w);
	if (w->r < 0) {
		if (w->err.tag == ERR_SNAPSHOT_SETUP_FAILED || w->err.tag == ERR_VM_SETUP_FAILED ||
		    w->err.tag == ERR_NONE)
			w->err.tag = ERR_DEPLOYMENT_FAILED;
		log_info("deployment %s failed: %s", w->row.id, w->err.msg);
	}
	/* One whose names could not be mapped is there all the same: it can be mapped later. */
	if (w->r < 0 && w->row.state != DEPLOY_DEPLOYED) {
		w->row.state = DEPLOY_FAILED;
		say(w->row.why, w->err.msg);
		if (store_deploy_put(w->s->conf.store, &w->row, &late) < 0 && late.code != -ENOENT)
			log_warn("deployment %s: its failure is not kept: %s", w->row.id, late.msg);
	}
	work_over(w);
	return NULL;
}

static int work_start(struct work *w, struct err *err)
{
	struct deployer *d = w->s->deployer;
	pthread_attr_t attr;
	pthread_t id;
	int r;

	LOCK_SCOPE(&d->lock);
	if (d->stopping || d->n >= BUILDS_MAX)
		return err_tag(err, -EAGAIN, ERR_UNAVAILABLE,
		               "this server builds %u deployments now, which is as many as it may: "
		               "try again later",
		               d->n);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	r = pthread_create(&id, &attr, work_main, w);
	pthread_attr_destroy(&attr);
	if (r)
		return err_set(err, -EAGAIN, "cannot start a thread");
	d->n++;
	return 0;
}

/* Waits as long as a client does. */
static int work_wait(struct work *w, const struct deploy_req *q, bool wait, struct deploy_new *ret,
                     struct err *err)
{
	struct deployer *d = w->s->deployer;
	uint64_t deadline = deadline_in(wait ? CLIENT_MS : 0);
	int r = 0;

	mutex_lock(&d->lock);
	while (!w->over && !d->stopping && clock_ms() < deadline) {
		uint64_t look = MIN(deadline, deadline_in(LOOK_MS));

		if (!cond_wait_until(&d->changed, &d->lock, look) && q->gone &&
		    q->gone(q->gone_ctx))
			break; /* it is built all the same: the client has its id or finds it in the
			          list */
	}
	ret->over = w->over;
	if (w->over && (r = w->r) < 0) {
		*err = w->err;
		ret->extra = json_incref(w->extra);
	}
	w->left = true;
	mutex_unlock(&d->lock);
	if (ret->over)
		work_free(w);
	return r;
}

static void plan_to_row(const struct deploy_plan *p, const char *account, struct store_deploy *row)
{
	autojson json_t *config = json_deep_copy(p->conf);

	*row = (struct store_deploy){ .state = DEPLOY_PROVISIONING,
		                      .port = p->port,
		                      .idle_ms = p->idle_ms,
		                      .instances = p->instances,
		                      .requests = p->requests,
		                      .created_ms = clock_wall_ms() };
	id_make("dpl-", row->id);
	snprintf(row->account, sizeof(row->account), "%s", account);
	snprintf(row->name, sizeof(row->name), "%s", p->name ? p->name : "");
	if (p->egress)
		json_object_set(config, "egress", p->egress);
	row->config = json_dumps(config, JSON_COMPACT);
}

static int check_names(const struct deploy_req *q, const json_t *domains, struct err *err)
{
	json_t *v;
	size_t i;
	int r;

	json_array_foreach((json_t *)(uintptr_t)domains, i, v)
	{
		if ((r = q->may_map(q->ctx, q->account, json_string_value(v), err)) < 0)
			return r;
	}
	return 0;
}

int deploy_create(struct serverless *s, const struct deploy_req *q, struct deploy_new *ret,
                  struct err *err)
{
	AUTO(deploy_plan_done) struct deploy_plan p = { 0 };
	struct work *w;
	int r;

	*ret = (struct deploy_new){ 0 };
	if ((r = deploy_plan_read(q->source, q->config, &s->conf.deploy, &p, err)) < 0 ||
	    (r = check_names(q, p.domains, err)) < 0)
		return r;
	w = calloc(1, sizeof(*w));
	if (!w)
		return err_set(err, -ENOMEM, "out of memory");
	w->s = s;
	w->map = q->map;
	w->ctx = q->ctx;
	w->domains = json_incref(p.domains);
	w->extra = json_object();
	snprintf(w->request_id, sizeof(w->request_id), "%s", q->request_id ? q->request_id : "");
	plan_to_row(&p, q->account, &w->row);
	w->spec = make_spec(s, q->account, &p, w->row.id);
	memcpy(ret->id, w->row.id, sizeof(ret->id));
	if (!w->spec || !w->extra || !w->row.config)
		r = err_set(err, -ENOMEM, "out of memory");
	else
		r = store_deploy_add(s->conf.store, &w->row, s->conf.deploy.deployments, err);
	if (r == 0) {
		json_object_set_new(w->extra, "deploymentId", json_string(w->row.id));
		r = work_start(w, err);
		if (r < 0)
			store_deploy_delete(s->conf.store, q->account, w->row.id, NULL);
	}
	if (r < 0) {
		work_free(w);
		return r;
	}
	return work_wait(w, q, p.wait, ret, err);
}

int deploy_delete(struct serverless *s, const char *account, const char *id, struct err *err)
{
	AUTO(store_deploy_done) struct store_deploy row = { 0 };
	struct err none = { 0 };
	int r;

	if ((r = store_deploy_get(s->conf.store, account, id, &row, err)) < 0 ||
	    (r = store_deploy_delete(s->conf.store, account, id, err)) < 0)
		return r;
	scaler_drop(s, id);
	if (*row.snapshot &&
	    (r = vmm_snapshot_delete(s->conf.vmm, account, row.snapshot, &none)) < 0 &&
	    r != -ENOENT)
		log_warn("deployment %s: its snapshot %s cannot be deleted: %s", id, row.snapshot,
		         none.msg);
	return 0;
}

/* ---- life ---- */

int deployer_new(struct serverless *s, struct err *err)
{
	struct deployer *d = calloc(1, sizeof(*d));

	if (!d)
		return err_set(err, -ENOMEM, "deployments: out of memory");
	mutex_init(&d->lock, "deployer");
	cond_init(&d->changed);
	s->deployer = d;
	return 0;
}

void deployer_end(struct serverless *s)
{
	struct deployer *d = s->deployer;

	if (!d)
		return;
	LOCK_SCOPE(&d->lock);
	d->stopping = true;
	cond_broadcast(&d->changed);
}

void deployer_free(struct serverless *s)
{
	struct deployer *d = s->deployer;

	if (!d)
		return;
	deployer_end(s);
	mutex_lock(&d->lock);
	while (d->n)
		cond_wait(&d->changed, &d->lock);
	mutex_unlock(&d->lock);
	cond_destroy(&d->changed);
	mutex_destroy(&d->lock);
	free(d);
	s->deployer = NULL;
}
