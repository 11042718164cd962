/* SPDX-License-Identifier: Apache-2.0 */
/* test_once.c - every call fails once: the verbs, one row each (once.h) */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/json_field.h"
#include "build/build.h"
#include "engine/engine.h"
#include "tests/fault/fault.h"
#include "tests/unit/check.h"
#include "tests/vm/once.h"
#include "vm/tree.h"
#include "vm/vm_internal.h"

#define M(o) ((o)->r->vmm)

/* ---- subjects ---- */

static void make_vm(struct once *o)
{
	OK(rig_create(o->r, NULL, &o->vm, &err));
}

static void make_vm_with_snapshot(struct once *o)
{
	make_vm(o);
	OK(vmm_snapshot(M(o), RIG_ACCOUNT, o->vm.id, "kept", NULL, &o->sc, &err));
	memcpy(o->snapshot, o->sc.id, sizeof(o->snapshot));
}

static void be_running(struct once *o)
{
	OK(rig_exec(o->r, o->vm.id, "true", NULL, 0, &err));
}

static void be_suspended(struct once *o)
{
	struct vm_info i;

	be_running(o);
	OK(vmm_suspend(M(o), RIG_ACCOUNT, o->vm.id, &i, &err));
}

static void be_stopped(struct once *o)
{
	struct vm_info i;

	be_running(o);
	OK(vmm_stop(M(o), RIG_ACCOUNT, o->vm.id, &i, &err));
}

static void want_vms(struct once *o, size_t n)
{
	size_t have;

	mutex_lock(&M(o)->lock);
	have = M(o)->vms.n;
	mutex_unlock(&M(o)->lock);
	if (have != n)
		fail_msg("%zu VMs are there, %zu were to be", have, n);
}

static void drop(struct once *o, const char *id)
{
	OK(vmm_delete(M(o), RIG_ACCOUNT, id, NULL, &err));
}

/* ---- create ---- */

static int create(struct once *o, struct err *e)
{
	return rig_create(o->r, *o->snapshot ? o->snapshot : NULL, &o->made, e);
}

/* A size that nobody has used yet, each time: its template is made, then thawed. */
static void forget_size(struct once *o)
{
	struct vmm_status st;

	rig_forget_templates();
	vmm_status(M(o), &st);
	for (size_t i = 0; i < st.n_sizes; i++)
		size_forget(M(o), st.sizes[i].point, "the test wants it anew");
	rig_settle(o->r);
}

static void created(struct once *o, bool failed)
{
	want_vms(o, o->n_vms + !failed);
	if (failed)
		return;
	once_find_out(o, o->made.id);
	rig_exec(o->r, o->made.id, "true", NULL, 0, NULL); /* it may have been hung up on */
	OK(rig_usable(o->r, o->made.id, &err));
	drop(o, o->made.id);
}

/* ---- fork, snapshot, rewind ---- */

static int fork_vm(struct once *o, struct err *e)
{
	return vmm_fork(M(o), RIG_ACCOUNT, o->vm.id, o->n, &(struct vm_fork_opts){ 0 }, &o->kids,
	                e);
}

static void forked(struct once *o, bool failed)
{
	want_vms(o, o->n_vms + (failed ? 0 : o->n));
	for (unsigned i = 0; !failed && i < o->n; i++) {
		once_find_out(o, o->kids[i].id);
		OK(rig_exec(o->r, o->kids[i].id, "true", NULL, 0, &err));
		drop(o, o->kids[i].id);
	}
	free(TAKE_PTR(o->kids));
}

static int snapshot(struct once *o, struct err *e)
{
	return vmm_snapshot(M(o), RIG_ACCOUNT, o->vm.id, "one", NULL, &o->sc, e);
}

static void drop_snapshots(struct once *o, size_t want)
{
	autofree struct snapshot_info *v = NULL;
	size_t n = 0, found = 0;

	OK(vmm_snapshot_list(M(o), RIG_ACCOUNT, /* include_deleted= */ false, &v, &n, &err));
	for (size_t i = 0; i < n; i++) {
		if (!strcmp(v[i].id, o->snapshot))
			continue;
		found++;
		OK(vmm_snapshot_delete(M(o), RIG_ACCOUNT, v[i].id, &err));
	}
	if (found != want)
		fail_msg("%zu snapshots are there, %zu were to be", found, want);
}

static void snapshotted(struct once *o, bool failed)
{
	if (!failed) {
		OK(rig_create(o->r, o->sc.id, &o->made, &err));
		OK(rig_exec(o->r, o->made.id, "true", NULL, 0, &err));
		drop(o, o->made.id);
	}
	drop_snapshots(o, !failed);
}

static int rewind_vm(struct once *o, struct err *e)
{
	struct vm_rewind ret;

	return vmm_rewind(M(o), RIG_ACCOUNT, o->vm.id, o->snapshot, /* keep= */ true, &ret, e);
}

static void rewound(struct once *o, bool failed)
{
	drop_snapshots(o, !failed);
}

/* ---- rest and back ---- */

static int suspend(struct once *o, struct err *e)
{
	return vmm_suspend(M(o), RIG_ACCOUNT, o->vm.id, &o->made, e);
}

/* The note is made up: the guest's kernel is this host's. */
static void have_freed(struct once *o)
{
	struct vm *vm;

	be_running(o);
	OK(vmm_lock(M(o), RIG_ACCOUNT, o->vm.id, &vm, &err));
	mutex_lock(&M(o)->lock);
	snprintf(M(o)->notes.n[0].boot_id, sizeof(M(o)->notes.n[0].boot_id), "%s",
	         vm->freed.boot_id);
	M(o)->notes.n[0].addr = 0x1000;
	mutex_unlock(&M(o)->lock);
	vm_unlock(vm);
}

static int sweep(struct once *o, struct err *e)
{
	struct vm *vm;
	int r = vmm_lock(M(o), RIG_ACCOUNT, o->vm.id, &vm, e);

	if (r < 0)
		return r;
	r = vm_sweep(vm, e);
	vm_unlock(vm);
	return r;
}

static int start(struct once *o, struct err *e)
{
	return vmm_start(M(o), RIG_ACCOUNT, o->vm.id,
	                 &(struct vm_start_opts){ VM_LEAVE, VM_LEAVE, .count_exec = -1 }, &o->made,
	                 e);
}

static int stop(struct once *o, struct err *e)
{
	return vmm_stop(M(o), RIG_ACCOUNT, o->vm.id, &o->made, e);
}

static int kill_vm(struct once *o, struct err *e)
{
	return vmm_kill(M(o), RIG_ACCOUNT, o->vm.id, &o->made, e);
}

static int resize(struct once *o, struct err *e)
{
	struct vm_size_fault f;
	struct vm_info i;

	if (vmm_get(M(o), RIG_ACCOUNT, o->vm.id, &i, e) < 0)
		return -1;
	o->made = i;
	return vmm_resize(M(o), RIG_ACCOUNT, o->vm.id,
	                  &(struct vm_size){ .vcpus = i.vcpus == 1 ? 2 : 1,
	                                     .disk_gb = (i.disk_mb + 1) / 1024.0 },
	                  &f, e);
}

/* The VM goes on. */
static int resize_disk(struct once *o, struct err *e)
{
	struct vm_size_fault f;
	struct vm_info i;

	if (vmm_get(M(o), RIG_ACCOUNT, o->vm.id, &i, e) < 0)
		return -1;
	o->made = i;
	return vmm_resize(M(o), RIG_ACCOUNT, o->vm.id,
	                  &(struct vm_size){ .disk_gb = (i.disk_mb + 1) / 1024.0 }, &f, e);
}

static void disk_resized(struct once *o, bool failed)
{
	struct vm_info i;

	OK(vmm_get(M(o), RIG_ACCOUNT, o->vm.id, &i, &err));
	if ((i.disk_mb == o->made.disk_mb) != failed)
		fail_msg("%u MB, before %u", i.disk_mb, o->made.disk_mb);
}

static void resized(struct once *o, bool failed)
{
	struct vm_info i;

	OK(vmm_get(M(o), RIG_ACCOUNT, o->vm.id, &i, &err));
	if ((i.disk_mb == o->made.disk_mb) != failed || (i.vcpus == o->made.vcpus) != failed)
		fail_msg("%u MB and %u vCPUs, before %u and %u", i.disk_mb, i.vcpus,
		         o->made.disk_mb, o->made.vcpus);
}

/* ---- delete, recreate ---- */

static void make_victim(struct once *o)
{
	OK(rig_create(o->r, NULL, &o->made, &err));
}

static int delete (struct once *o, struct err *e)
{
	return vmm_delete(M(o), RIG_ACCOUNT, o->made.id, NULL, e);
}

static void deleted(struct once *o, bool failed)
{
	want_vms(o, o->n_vms - !failed);
	if (!failed)
		return;
	once_find_out(o, o->made.id);
	OK(rig_usable(o->r, o->made.id, &err));
	drop(o, o->made.id);
}

static void make_recreatable(struct once *o)
{
	struct vm_create_opts c = { .account = RIG_ACCOUNT,
		                    .idle_timeout_s = -1,
		                    .recreate = true };

	OK(vmm_create(M(o), &c, &o->vm, &err));
}

static int empty(struct once *o, struct err *e)
{
	return vmm_delete(M(o), RIG_ACCOUNT, o->vm.id, NULL, e);
}

static void be_empty(struct once *o)
{
	be_running(o);
	OK(vmm_delete(M(o), RIG_ACCOUNT, o->vm.id, NULL, &err));
}

/* ---- build ---- */

/* Two layers of files, built each time; a builder of its own, which takes over what is left. */
static int build(struct once *o, struct err *e)
{
	static const char text[] =
	        "{\"spec\":{\"additionalFiles\":{\"/srv/two\":{\"content\":\"2\"}},"
	        "\"skipCache\":true,\"snapshot\":{\"skipCache\":true,"
	        "\"additionalFiles\":{\"/srv/one\":{\"content\":\"1\"}}}}}";
	struct builder_conf conf = { .timeout_s = 3,
		                     .cache_max = 4,
		                     .limits = { 1, 512, 1, 4, 4096, 4096, 256 } };
	struct build_opts bo = { .account = RIG_ACCOUNT };
	struct vm_create_opts c = { .account = RIG_ACCOUNT, .idle_timeout_s = -1 };
	struct spec_ctx ctx = { .limits = &conf.limits, .tag = ERR_BAD_REQUEST };
	autojson json_t *j = NULL, *extra = json_object();
	struct builder *b = NULL;
	autospec struct spec s = { 0 };
	int r;

	bo.extra = ctx.extra = extra;
	if ((r = json_text_parse(text, sizeof(text) - 1, &j, e)) < 0 ||
	    (r = spec_parse(j, &ctx, &s, e)) < 0 ||
	    (r = builder_new(&conf, o->r->store, M(o), &b, e)) < 0)
		return r;
	r = build_vm(b, &s, &bo, &c, &o->made, e);
	builder_free(b);
	return r;
}

/* A layer that could not be applied is kept as a snapshot. */
static void built(struct once *o, bool failed)
{
	autofree struct snapshot_info *v = NULL;
	char out[8];
	size_t n = 0;

	OK(vmm_snapshot_list(M(o), RIG_ACCOUNT, /* include_deleted= */ false, &v, &n, &err));
	if (n > failed)
		fail_msg("%zu snapshots are left", n);
	for (size_t i = 0; i < n; i++)
		OK(vmm_snapshot_delete(M(o), RIG_ACCOUNT, v[i].id, &err));
	if (!failed) {
		once_find_out(o, o->made.id);
		OK(rig_exec(o->r, o->made.id, "cat /srv/one /srv/two", out, sizeof(out), &err));
		if (!o->lossy) /* lost data is not noticed; no socket loses any */
			assert_string_equal(out, "12");
	}
	created(o, failed);
}

/* ---- chains ---- */

static void make_chain(struct once *o)
{
	for (int i = 0; i < 4; i++) {
		OK(vmm_snapshot(M(o), RIG_ACCOUNT, o->vm.id, "link", NULL, &o->sc, &err));
		OK(rig_exec(o->r, o->vm.id, "true", NULL, 0, &err));
	}
}

static void be_long(struct once *o)
{
	be_running(o);
	make_chain(o);
}

static int optimize(struct once *o, struct err *e)
{
	char text[512];

	return vmm_optimize(M(o), RIG_ACCOUNT, o->vm.id, text, sizeof(text), e);
}

static void optimized(struct once *o, bool failed)
{
	(void)failed;
	drop_snapshots(o, 4);
}

/* Layers of the longest chain that a point has. */
static unsigned longest(struct once *o)
{
	autofree struct store_point *p = NULL;
	unsigned most = 0;
	size_t n = 0;

	OK(store_point_list(o->r->store, &p, &n, &err));
	for (size_t i = 0; i < n; i++) {
		const char *tops[] = { p[i].mem_layer, p[i].disk_layer };
		struct store_layer l;

		for (size_t k = 0; k < ARRAY_SIZE(tops); k++)
			if (*tops[k]) {
				OK(store_layer_get(o->r->store, tops[k], &l, &err));
				most = MAX(most, l.depth + 1);
			}
	}
	return most;
}

/* With the next snapshot there is something to flatten for the keeper. */
static void be_nearly_too_long(struct once *o)
{
	be_running(o);
	rig_settle(o->r);
	while (longest(o) < ENGINE_FLATTEN_AT - 1) {
		OK(vmm_snapshot(M(o), RIG_ACCOUNT, o->vm.id, "link", NULL, &o->sc, &err));
		OK(rig_exec(o->r, o->vm.id, "true", NULL, 0, &err));
		rig_settle(o->r);
	}
}

static int become_too_long(struct once *o, struct err *e)
{
	int r = vmm_snapshot(M(o), RIG_ACCOUNT, o->vm.id, "last", NULL, &o->sc, e);

	rig_settle(o->r);
	return r;
}

/* Whatever failed, the keeper's next round does it. */
static void flattened(struct once *o, bool failed)
{
	autofree struct snapshot_info *v = NULL;
	size_t n = 0;

	(void)failed;
	rig_settle(o->r);
	if (longest(o) >= ENGINE_FLATTEN_AT)
		fail_msg("a chain of %u layers is not flattened", longest(o));
	OK(vmm_snapshot_list(M(o), RIG_ACCOUNT, /* include_deleted= */ false, &v, &n, &err));
	for (size_t i = 0; i < n; i++)
		OK(vmm_snapshot_delete(M(o), RIG_ACCOUNT, v[i].id, &err));
}

/* ---- recover ---- */

static void crash(struct once *o)
{
	be_running(o);
}

static int recover(struct once *o, struct err *e)
{
	int r;

	fault_disarm();
	rig_crash(o->r);
	fault_arm();
	r = rig_start(o->r, e);
	fault_disarm();
	if (r < 0)
		OK(rig_start(o->r, &err)); /* the next start finds all there is */
	return r;
}

#define RUNS VM_RUNNING
static const struct once_verb verbs[] = {
	{ "create", .run = create, .finish = created, .from = -1 },
	{ "create-pool", { .pool = 1 }, .run = create, .finish = created, .from = -1 },
	{ "create-forked",
	  { .seeds = 1 },
	  .begin = once_make_forked,
	  .prepare = once_be_seeded,
	  .run = create,
	  .finish = created,
	  .from = RUNS,
	  .to = RUNS,
	  .also = -1 },
	{ "create-pool-forked",
	  { .seeds = 1, .pool = 1 },
	  .coarse = 2,
	  .prepare = once_be_seeded,
	  .run = create,
	  .finish = created,
	  .from = -1 },
	{ "create-reseed",
	  { .seeds = 1 },
	  .coarse = 6,
	  .prepare = once_be_seeded,
	  .run = once_create_reseed,
	  .finish = created,
	  .from = -1 },
	{ "recover-forked",
	  { .seeds = 1 },
	  .coarse = 2,
	  .begin = once_make_forked,
	  .prepare = crash,
	  .run = recover,
	  .from = RUNS,
	  .to = RUNS,
	  .also = VM_STOPPED },
	{ "create-size-forked",
	  { .seeds = 2 },
	  .coarse = 6,
	  .prepare = once_seed_size,
	  .run = once_create_sized,
	  .finish = created,
	  .from = -1 },
	{ "create-size", .coarse = 6, .prepare = forget_size, .run = once_create_sized,
	  .finish = created, .from = -1 },
	{ "create-snapshot", .begin = make_vm_with_snapshot, .run = create, .finish = created,
	  .from = RUNS, .to = RUNS, .also = -1 },
	{ "fork-1", .n = 1, .begin = make_vm, .prepare = be_running, .run = fork_vm,
	  .finish = forked, .from = RUNS, .to = RUNS, .also = -1 },
	{ "fork-8", .n = 8, .coarse = 6, .begin = make_vm, .prepare = be_running, .run = fork_vm,
	  .finish = forked, .from = RUNS, .to = RUNS, .also = -1 },
	{ "snapshot", .begin = make_vm, .prepare = be_running, .run = snapshot,
	  .finish = snapshotted, .from = RUNS, .to = RUNS, .also = -1 },
	{ "suspend", .begin = make_vm, .prepare = be_running, .run = suspend, .from = RUNS,
	  .to = VM_SUSPENDED, .also = VM_STOPPED },
	{ "sweep", .begin = make_vm, .prepare = have_freed, .run = sweep, .from = RUNS, .to = RUNS,
	  .also = VM_STOPPED },
	{ "resume", .begin = make_vm, .prepare = be_suspended, .run = start, .from = VM_SUSPENDED,
	  .to = RUNS, .also = -1 },
	{ "stop", .begin = make_vm, .prepare = be_running, .run = stop, .from = RUNS,
	  .to = VM_STOPPED, .also = -1 },
	{ "boot", .begin = make_vm, .prepare = be_stopped, .run = start, .from = VM_STOPPED,
	  .to = RUNS, .also = -1 },
	{ "kill", .begin = make_vm, .prepare = be_running, .run = kill_vm, .from = RUNS,
	  .to = VM_STOPPED, .also = -1 },
	{ "resize", .coarse = 3, .begin = make_vm, .prepare = be_running, .run = resize,
	  .finish = resized, .from = RUNS, .to = RUNS, .also = VM_SUSPENDED },
	{ "resize-disk", .coarse = 2, .begin = make_vm, .prepare = be_running, .run = resize_disk,
	  .finish = disk_resized, .from = RUNS, .to = RUNS, .also = VM_SUSPENDED },
	{ "resize-suspended", .coarse = 2, .begin = make_vm, .prepare = be_suspended, .run = resize,
	  .finish = resized, .from = VM_SUSPENDED, .to = VM_STOPPED, .also = -1 },
	{ "rewind", .coarse = 2, .begin = make_vm_with_snapshot, .prepare = be_running,
	  .run = rewind_vm, .finish = rewound, .from = RUNS, .to = RUNS, .also = -1 },
	{ "rewind-suspended", .begin = make_vm_with_snapshot, .prepare = be_suspended,
	  .run = rewind_vm, .finish = rewound, .from = VM_SUSPENDED, .to = VM_SUSPENDED,
	  .also = -1 },
	{ "delete", .prepare = make_victim, .run = delete, .finish = deleted, .from = -1 },
	{ "empty", .begin = make_recreatable, .prepare = be_running, .run = empty, .from = RUNS,
	  .to = VM_STOPPED, .also = -1 },
	{ "recreate", .begin = make_recreatable, .prepare = be_empty, .run = start,
	  .from = VM_STOPPED, .to = RUNS, .also = -1 },
	{ "build", .run = build, .finish = built, .from = -1 },
	{ "optimize", .begin = make_vm, .prepare = be_long, .run = optimize, .finish = optimized,
	  .from = RUNS, .to = RUNS, .also = -1 },
	{ "flatten", .begin = make_vm, .prepare = be_nearly_too_long, .run = become_too_long,
	  .finish = flattened, .from = RUNS, .to = RUNS, .also = -1 },
	{ "recover", .coarse = 2, .begin = make_vm, .prepare = crash, .run = recover, .from = RUNS,
	  .to = RUNS, .also = VM_STOPPED },
};

int main(int argc, char **argv)
{
	struct CMUnitTest tests[ARRAY_SIZE(verbs)];
	size_t n = 0;
	int r = rig_main_begin();

	if (r != 0)
		return r;
	once_args(argc, argv);
	for (size_t i = 0; i < ARRAY_SIZE(verbs); i++)
		if (once_wanted(verbs[i].name))
			tests[n++] = (struct CMUnitTest){ .name = verbs[i].name,
				                          .test_func = once_run,
				                          .initial_state = (void *)&verbs[i] };
	fault_store_install(/* memory= */ false);
	r = _cmocka_run_group_tests("every call fails once", tests, n, NULL, NULL);
	rig_main_end();
	return r;
}
