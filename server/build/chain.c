/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chain.c - from a spec to a point: cached layers are used, the rest is built on top
 *
 * The cache is searched from the outermost layer inwards, so a spec that was built before costs one
 * lookup. A layer with skipCache and all layers on top of it are rebuilt and replace their entries;
 * those below may come from the cache. The VM in which one layer was built continues to the next:
 * it is thawed once, and frozen live after every layer.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "build/chain.h"
#include "build/claim.h"
#include "git/git.h"

void run_drop_stage(struct run *run)
{
	guest_unref(run->guest);
	run->guest = NULL;
	vmm_stage_abort(TAKE_PTR(run->stage));
}

/* Takes over a point that is already held; it is released later. */
static void move_to(struct run *run, const char *point, const char *key)
{
	if (*run->point)
		vmm_point_release(run->b->vmm, run->point);
	snprintf(run->point, sizeof(run->point), "%s", point);
	snprintf(run->point_key, sizeof(run->point_key), "%s", key);
}

/* 1: the build now starts from the cached layer i. */
static int take_cached(struct run *run, size_t i)
{
	struct store_spec l;

	if (store_spec_get(run->b->store, run->keys[i], &l, NULL) < 0 ||
	    vmm_point_hold(run->b->vmm, l.point, NULL) < 0)
		return 0;
	run_drop_stage(run); /* it does not match the cached layer */
	move_to(run, l.point, l.key);
	snprintf(run->build_id, sizeof(run->build_id), "%s", l.build_id);
	return 1;
}

static int start_stage(struct run *run, const struct spec_layer *l, struct err *err)
{
	struct vm_stage_opts o = { .vcpus = l->vcpus, .mem_mb = l->mem_mb, .disk_mb = l->disk_mb };
	int r = 0;

	if (!run->stage) {
		if (run->vm && !run->o->fresh)
			o.vm = *run->vm;
		else
			o.vm.account = "";
		o.vm.point = run->point;
		o.vm.build_id = run->row.id;
		o.payer = run->o->account;
		o.snapshot = run->snapshot ? run->snapshot->info.id : NULL;
		r = vmm_stage_begin(run->b->vmm, &o, &run->stage, err);
		if (r == 0 && vmm_stage_cancelled(run->stage))
			r = err_set(err, -ECANCELED, "deleted before it was started");
	}
	if (r == 0 && !run->guest)
		r = vmm_stage_guest(run->stage, &run->guest, err);
	return r;
}

/* Links the snapshot that is being built to its build. -ECANCELED: it was deleted. */
static int name_build(struct run *run, struct err *err)
{
	struct store_snapshot *s = run->snapshot;
	int r;

	if (!s || !strcmp(s->info.build_id, run->row.id))
		return 0;
	snprintf(s->info.build_id, sizeof(s->info.build_id), "%s", run->row.id);
	r = store_snapshot_settle(run->b->store, s, err);
	return r == -ENOENT ? err_set(err, -ECANCELED, "deleted before it was built") : r;
}

/* A size is a layer that is applied by booting its VM with that size. */
static int build_layer(struct run *run, size_t i, struct err *err)
{
	const struct spec_layer *l = &run->spec->layers[i];
	struct store_spec entry = { .created_ms = clock_wall_ms() };
	bool size = l->vcpus || l->mem_mb || l->disk_mb;
	int r;

	if ((r = record_begin(run, i, err)) < 0 || (r = name_build(run, err)) < 0 ||
	    (size && (r = record_phase(run, i, "size", err)) < 0) ||
	    (r = start_stage(run, l, err)) < 0 || (r = layer_apply(run, i, err)) < 0 ||
	    (r = record_phase(run, i, "freeze", err)) < 0)
		return r;
	r = vmm_stage_freeze(run->stage, entry.point, err);
	if (r < 0) {
		if (r != -ENOSPC && r != -EDQUOT) /* those have their own codes */
			err->tag = ERR_SNAPSHOT_LAYER_CREATION_FAILED;
		return r;
	}
	snprintf(entry.key, sizeof(entry.key), "%s", run->keys[i]);
	snprintf(entry.build_id, sizeof(entry.build_id), "%s", run->row.id);
	entry.used_ms = entry.created_ms;
	r = store_spec_put(run->b->store, &entry, run->b->conf.cache_max, err);
	if (r < 0) {
		vmm_point_release(run->b->vmm, entry.point);
		return r;
	}
	move_to(run, entry.point, entry.key);
	snprintf(run->build_id, sizeof(run->build_id), "%s", run->row.id);
	vmm_collect_soon(run->b->vmm); /* what it replaced or evicted */
	return 0;
}

static int one_layer(struct run *run, size_t i, bool use_cache, struct err *err)
{
	struct claim *c = NULL;
	bool cancelled;
	int r;

	for (;;) {
		r = claim_begin(run, run->keys[i], &c, err);
		if (r < 0)
			return r;
		if (r == 1)
			break;
		if (take_cached(run, i))
			return 0; /* else it was evicted at once, and we build it */
	}
	if (use_cache && take_cached(run, i)) { /* built between our lookup and our claim */
		claim_end(run, c, 0, NULL, false);
		return 0;
	}
	r = build_layer(run, i, err);
	cancelled = r == -ECANCELED || (r < 0 && run->stage && vmm_stage_cancelled(run->stage));
	if (r < 0 && !cancelled)
		run_failed(run, err);
	claim_end(run, c, r, err, cancelled);
	if (cancelled && run->snapshot)
		json_object_set_new(run->o->extra, "snapshotId",
		                    json_string(run->snapshot->info.id));
	if (cancelled)
		return err_tag(err, -ECANCELED,
		               run->snapshot ? ERR_SOURCE_SNAPSHOT_CANCELLED : ERR_VM_DELETED,
		               "it was deleted, or the server stopped, while it was being built");
	return r;
}

/*
 * A repository of this server may change: the commit to be cloned becomes
 * part of the layer's cache key.
 */
static int pin_repos(struct run *run, const struct spec_layer *l, struct err *err)
{
	json_t *p;
	size_t i;

	json_array_foreach(l->repos, i, p)
	{
		const char *id = json_string_value(json_object_get(p, "repo"));
		const char *rev = json_string_value(json_object_get(p, "rev"));
		char sha[REPO_SHA_SIZE];
		struct store_repo repo;
		int r;

		if (!id || !repo_id_valid(id))
			continue;
		if (!run->b->conf.repos)
			return err_tag(err, -EINVAL, ERR_INVALID_GIT_REPO_SPEC_ERROR,
			               "this server has no repositories");
		if ((r = repo_find(run->b->conf.repos, run->o->account, id, REPO_READ, &repo,
		                   err)) < 0 ||
		    (r = repo_tip(run->b->conf.repos, &repo, rev, sha, err)) < 0)
			return r;
		json_object_set_new(p, "commit", json_string(sha));
	}
	return 0;
}

static int start_point(struct run *run, struct err *err)
{
	const struct spec *s = run->spec;
	char point[ID_SIZE], template[ID_SIZE], template_key[32], key[SPEC_KEY_SIZE];
	int r = vmm_size_hold(run->b->vmm, run->o->account, s->vcpus, s->mem_mb, template,
	                      template_key, err);

	if (r < 0)
		return r;
	if (*s->snapshot_id) {
		r = vmm_snapshot_hold(run->b->vmm, run->o->account, s->snapshot_id, point,
		                      run->workdir, err);
		vmm_point_release(run->b->vmm, template);
		if (r < 0)
			json_object_set_new(run->o->extra, "snapshotId",
			                    json_string(s->snapshot_id));
	} else {
		snprintf(point, sizeof(point), "%s", template);
	}
	if (r < 0)
		return r;
	move_to(run, point, "");
	r = base_key(run->o->account, template_key, s->snapshot_id, key, err);
	for (size_t i = 0; r == 0 && i < s->n; i++)
		r = pin_repos(run, &s->layers[i], err);
	for (size_t i = 0; r == 0 && i < s->n; i++) {
		r = layer_key(i ? run->keys[i - 1] : key, &s->layers[i], run->keys[i], err);
		if (s->layers[i].workdir[0])
			snprintf(run->workdir, sizeof(run->workdir), "%s", s->layers[i].workdir);
	}
	return r;
}

static int check_size(struct run *run, struct err *err)
{
	const struct spec_layer *l = &run->spec->layers[0];
	struct stage_size have;
	int r;

	if (!run->spec->n || !l->disk_mb)
		return 0;
	if ((r = vmm_point_size(run->b->vmm, run->point, &have, err)) < 0)
		return r;
	if (l->disk_mb >= have.disk_mb)
		return 0;
	json_object_set_new(run->o->extra, "got", json_integer(l->disk_mb >> 10));
	json_object_set_new(run->o->extra, "min", json_integer(have.disk_mb >> 10));
	json_object_set_new(run->o->extra, "max",
	                    json_integer(run->b->conf.limits.disk_mb_max >> 10));
	return err_tag(err, -EINVAL, ERR_CREATE_VM_ROOTFS_OUT_OF_RANGE,
	               "the disk it starts from has %u GB: it can be enlarged, but not reduced",
	               have.disk_mb >> 10);
}

int run_chain(struct run *run, struct err *err)
{
	const struct spec *s = run->spec;
	size_t fresh = 0, i;
	int r;

	if ((r = start_point(run, err)) < 0 || (r = check_size(run, err)) < 0)
		return r;
	while (fresh < s->n && !s->layers[fresh].skip_cache)
		fresh++;
	for (i = fresh; i > 0 && !take_cached(run, i - 1);)
		i--;
	for (; r == 0 && i < s->n; i++)
		r = one_layer(run, i, /* use_cache= */ i < fresh, err);
	return r;
}

void run_done(struct run *run)
{
	run_drop_stage(run);
	if (*run->point)
		vmm_point_release(run->b->vmm, run->point);
	run->point[0] = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(run->partial); i++)
		buf_done(&run->partial[i]);
	free(run->lines);
	run->lines = NULL;
}
