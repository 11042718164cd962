/* SPDX-License-Identifier: Apache-2.0 */
/*
 * builder.c - VMs and snapshots from built points
 *
 * If the last layer was just built, the VM is the one it was built in; else it is a thaw of the
 * cached point, like one created from a snapshot. If the guest could not be set up, its state is
 * frozen too and kept as a snapshot, so that it can be started and inspected.
 */
#include "build/build.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "build/chain.h"

int builder_new(const struct builder_conf *c, struct store *store, struct vmm *vmm,
                struct builder **ret, struct err *err)
{
	struct builder *b = calloc(1, sizeof(*b));
	int r;

	if (!b)
		return err_set(err, -ENOMEM, "builder: out of memory");
	b->conf = *c;
	b->store = store;
	b->vmm = vmm;
	mutex_init(&b->lock, "builder");
	cond_init(&b->changed);
	r = store_build_fail_unfinished(store, "the server stopped while it was being built", err);
	if (r < 0) {
		builder_free(b);
		return r;
	}
	*ret = b;
	return 0;
}

const struct spec_limits *builder_limits(struct builder *b)
{
	return &b->conf.limits;
}

void builder_stop(struct builder *b)
{
	if (!b)
		return;
	LOCK_SCOPE(&b->lock);
	b->stopping = true;
	cond_broadcast(&b->changed);
}

struct builder *builder_free(struct builder *b)
{
	if (!b)
		return NULL;
	cond_destroy(&b->changed);
	mutex_destroy(&b->lock);
	free(b);
	return NULL;
}

static struct run run_new(struct builder *b, const struct spec *s, const struct build_opts *o)
{
	return (struct run){
		.b = b, .spec = s, .o = o, .deadline_ms = deadline_in(b->conf.timeout_s * 1000u)
	};
}

static void snapshot_row(const struct build_opts *o, const char *name,
                         const struct vm_persistence *p, struct store_snapshot *ret)
{
	*ret = (struct store_snapshot){ .info = { .created_ms = clock_wall_ms(),
		                                  .persistent = p && p->type == PERSIST_PERSISTENT,
		                                  .priority = p ? p->priority : 5,
		                                  .state = SNAPSHOT_BUILDING } };
	id_make("sc-", ret->info.id);
	snprintf(ret->info.account, sizeof(ret->info.account), "%s", o->account);
	snprintf(ret->info.name, sizeof(ret->info.name), "%s", name ? name : "");
}

/* The state in which it failed, as a snapshot that can be started. */
static int keep_failed(struct run *run, const char *why, struct err *err)
{
	struct store_snapshot own, *s = run->snapshot;
	char point[ID_SIZE], name[VM_NAME_MAX];
	struct vm_info v;
	int r = vmm_stage_freeze(run->stage, point, err);

	if (r < 0)
		return r;
	if (!s) {
		snprintf(name, sizeof(name), "failed %s", run->row.id);
		snapshot_row(run->o, name, NULL, s = &own);
	}
	vmm_stage_info(run->stage, &v);
	s->info.state = SNAPSHOT_FAILED;
	snprintf(s->point, sizeof(s->point), "%s", point);
	snprintf(s->info.build_id, sizeof(s->info.build_id), "%s", run->row.id);
	snprintf(s->info.failure, sizeof(s->info.failure), "%s", why);
	snprintf(s->info.template_hash, sizeof(s->info.template_hash), "%s",
	         run->row.template_hash);
	s->info.vcpus = v.vcpus;
	s->info.mem_mb = v.mem_mb;
	s->info.disk_mb = v.disk_mb;
	r = run->snapshot ? store_snapshot_settle(run->b->store, s, err)
	                  : vmm_snapshot_add(run->b->vmm, s, err);
	vmm_point_release(run->b->vmm, point);
	if (r < 0)
		return r;
	json_object_set_new(run->o->extra, "snapshotId", json_string(s->info.id));
	snprintf(run->phase.snapshot_id, sizeof(run->phase.snapshot_id), "%s", s->info.id);
	return store_phase_update(run->b->store, &run->phase, err);
}

void run_failed(struct run *run, struct err *err)
{
	struct err keep = { 0 };
	json_t *diag;

	if (*run->row.id) {
		json_object_set_new(run->o->extra, "buildId", json_string(run->row.id));
		log_obj(LOG_LV_INFO, "build", run->row.id, "failed in %s: %s", run->phase.name,
		        err->msg);
	}
	if (!run->setup_failed &&
	    (!run->stage || (err->code != -ECONNRESET && err->code != -ENOTCONN)))
		return; /* a failure of the server: the guest has nothing to explain it */
	if (!run->setup_failed)
		err_set(err, -EIO, "the VM ended by itself in %s", run->phase.name);
	run->setup_failed = true;
	err->tag = run->vm ? ERR_VM_SETUP_FAILED : ERR_SNAPSHOT_SETUP_FAILED;
	json_object_set_new(run->o->extra, "failedReason", json_text(err->msg, strlen(err->msg)));
	if (run->guest && guest_alive(run->guest) && (diag = diagnose(run)))
		json_object_set_new(run->o->extra, "diagnostics", diag);
	if (run->stage && !run->o->fresh && keep_failed(run, err->msg, &keep) < 0)
		log_obj(LOG_LV_WARN, "build", run->row.id, "its failed state was not kept: %s",
		        keep.msg);
}

/* Drops a cached point that turns out to be damaged, and builds it again. */
static bool built_anew(struct run *run, int r, const struct err *err)
{
	if (r >= 0 || err->tag != ERR_POINT_DAMAGED || !*run->point_key)
		return false;
	run->row.planned[0] = '\0'; /* more has to be built than planned */
	log_obj(LOG_LV_WARN, "point", run->point, "is damaged and will be built again: %s",
	        err->msg);
	return store_spec_drop(run->b->store, run->point_key, run->point, NULL) == 0;
}

static int make_vm(struct run *run, struct vm_create_opts *c, struct vm_info *ret, struct err *err)
{
	int r = run_chain(run, err);

	if (r < 0)
		return r;
	if (run->o->fresh)
		run_drop_stage(run);
	if (run->stage) {
		guest_unref(run->guest);
		run->guest = NULL;
		return vmm_stage_finish(TAKE_PTR(run->stage), run->spec->snapshot_id, run->build_id,
		                        run->workdir, ret, err);
	}
	c->point = run->point;
	c->build_id = run->build_id;
	c->workdir = run->workdir;
	return vmm_create(run->b->vmm, c, ret, err);
}

int build_vm(struct builder *b, const struct spec *s, const struct build_opts *o,
             const struct vm_create_opts *c, struct vm_info *ret, struct err *err)
{
	struct vm_create_opts full = *c;
	struct run run;
	int r;

	full.snapshot_id = *s->snapshot_id ? s->snapshot_id : NULL;
	full.account = o->account;
	full.vcpus = s->vcpus;
	full.mem_mb = s->mem_mb;
	if (!s->n) /* nothing to build */
		return vmm_create(b->vmm, &full, ret, err);
	run = run_new(b, s, o);
	run.vm = &full;
	r = make_vm(&run, &full, ret, err);
	if (built_anew(&run, r, err))
		r = make_vm(&run, &full, ret, err);
	record_end(&run, r == 0, r == 0 ? "" : err->msg);
	run_done(&run);
	return r;
}

/* Its state could not be kept: only the failure is recorded. */
static void settle_failed(struct run *run, const struct err *why)
{
	struct store_snapshot *s = run->snapshot;

	s->info.state = SNAPSHOT_FAILED;
	snprintf(s->info.failure, sizeof(s->info.failure), "%s", why->msg);
	snprintf(s->info.build_id, sizeof(s->info.build_id), "%s", run->row.id);
	if (store_snapshot_settle(run->b->store, s, NULL) == 0)
		json_object_set_new(run->o->extra, "snapshotId", json_string(s->info.id));
}

static int settle_ready(struct run *run, struct store_snapshot *row, struct err *err)
{
	struct stage_size size;
	int r = vmm_point_size(run->b->vmm, run->point, &size, err);

	if (r < 0)
		return r;
	row->info.state = SNAPSHOT_READY;
	row->info.vcpus = size.vcpus;
	row->info.mem_mb = size.mem_mb;
	row->info.disk_mb = size.disk_mb;
	snprintf(row->point, sizeof(row->point), "%s", run->point);
	snprintf(row->info.workdir, sizeof(row->info.workdir), "%s", run->workdir);
	snprintf(row->info.build_id, sizeof(row->info.build_id), "%s", run->build_id);
	if (run->spec->n)
		snprintf(row->info.template_hash, sizeof(row->info.template_hash), "%s",
		         run->keys[run->spec->n - 1]);
	return store_snapshot_settle(run->b->store, row, err);
}

int build_snapshot(struct builder *b, const struct spec *s, const struct build_opts *o,
                   const char *name, const struct vm_persistence *persistence,
                   struct snapshot_info *ret, struct err *err)
{
	struct run run = run_new(b, s, o);
	struct store_snapshot row;
	int r;

	snapshot_row(o, name, persistence, &row);
	run.snapshot = &row;
	r = vmm_snapshot_add(b->vmm, &row, err);
	if (r < 0)
		return r;
	r = run_chain(&run, err);
	if (built_anew(&run, r, err))
		r = run_chain(&run, err);
	if (r == 0)
		r = settle_ready(&run, &row, err);
	if (r < 0 && row.info.state == SNAPSHOT_BUILDING)
		settle_failed(&run, err);
	record_end(&run, r == 0, r == 0 ? "" : err->msg);
	run_done(&run);
	if (r == 0)
		*ret = row.info;
	return r;
}

int build_get(struct builder *b, const char *account, const char *id, struct store_build *ret,
              struct err *err)
{
	int r = store_build_get(b->store, id, ret, err);

	if (r == 0 && strcmp(ret->account, account) != 0)
		r = err_tag(err, -ENOENT, ERR_BUILD_NOT_FOUND, "no build '%.40s'", id);
	return r;
}

int build_list(struct builder *b, const char *account, int state, uint32_t limit,
               struct store_build **ret, size_t *ret_n, struct err *err)
{
	return store_build_list(b->store, account, state, limit, ret, ret_n, err);
}

int build_phases(struct builder *b, const char *account, const char *id, struct store_phase **ret,
                 size_t *ret_n, struct err *err)
{
	struct store_build row;
	int r = build_get(b, account, id, &row, err);

	return r < 0 ? r : store_phase_list(b->store, id, ret, ret_n, err);
}
