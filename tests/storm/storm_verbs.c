/* SPDX-License-Identifier: Apache-2.0 */
/*
 * storm_verbs.c - the verbs of a thread, and their results
 *
 * VMs and snapshots are picked by their place in the model, never by their random names: the same
 * seed picks the same ones. A call that may end something makes it "maybe" first; then "gone" when
 * it was acknowledged. Anything that was acknowledged must be true later, even after a crash.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "tests/fault/fault.h"
#include "tests/storm/storm.h"
#include "vm/stage.h"
#include "vm/tree.h"

/* ---- the model ---- */

static void model_add(struct known *list, size_t *n, const char *id, enum known_state state)
{
	LOCK_SCOPE(&storm.lock);

	if (*n == KNOWN_MAX)
		abort();
	list[*n] = (struct known){ .state = state };
	snprintf(list[(*n)++].id, ID_SIZE, "%s", id);
}

static void model_mark(struct known *list, const size_t *n, const char *id, enum known_state state)
{
	LOCK_SCOPE(&storm.lock);

	for (size_t i = 0; i < *n; i++)
		if (!strcmp(list[i].id, id) && list[i].state < state)
			list[i].state = state;
}

/* One that is not gone; false: there is none. */
static bool model_pick(const struct known *list, const size_t *n, struct rng *r, char ret[ID_SIZE])
{
	unsigned left = 0, k;
	LOCK_SCOPE(&storm.lock);

	for (size_t i = 0; i < *n; i++)
		left += list[i].state != KNOWN_GONE;
	if (!left)
		return false;
	k = rng_below(r, left);
	for (size_t i = 0; i < *n; i++)
		if (list[i].state != KNOWN_GONE && k-- == 0) {
			snprintf(ret, ID_SIZE, "%s", list[i].id);
			return true;
		}
	return false;
}

static unsigned model_count(const struct known *list, const size_t *n)
{
	unsigned left = 0;
	LOCK_SCOPE(&storm.lock);

	for (size_t i = 0; i < *n; i++)
		left += list[i].state != KNOWN_GONE;
	return left;
}

#define VMS storm.vms, &storm.n_vms
#define SNAPS storm.snaps, &storm.n_snaps

/* ---- verbs: 0 or -errno; vm is one of the model, or "" when there is none ---- */

struct step {
	struct vmm *m;
	struct rng *rng;
	char vm[ID_SIZE], snap[ID_SIZE];
	struct err *err;
};

static int v_create(struct step *s)
{
	bool ephemeral = rng_one_in(s->rng, 8), from_snap = *s->snap && rng_one_in(s->rng, 3);
	struct vm_create_opts o = { .account = RIG_ACCOUNT,
		                    .snapshot_id = from_snap ? s->snap : NULL,
		                    .idle_timeout_s = rng_one_in(s->rng, 6) ? 1 : -1,
		                    .recreate = rng_one_in(s->rng, 8),
		                    .persistence = { .type = PERSIST_STICKY, .priority = 5 } };
	struct vm_info i;
	int r;

	if (ephemeral)
		o.persistence = (struct vm_persistence){ .type = PERSIST_EPHEMERAL,
			                                 .delete_event = rng_below(s->rng, 2) };
	r = vmm_create(s->m, &o, &i, s->err);
	if (r == 0)
		model_add(VMS, i.id, ephemeral ? KNOWN_MAYBE : KNOWN_THERE);
	return r;
}

static int v_fork(struct step *s)
{
	autofree struct vm_info *kids = NULL;
	struct vm_persistence stay = { .type = PERSIST_STICKY, .priority = 5 };
	struct vm_fork_opts o = { .persistence = &stay };
	unsigned n = 1 + rng_below(s->rng, 3);
	int r = vmm_fork(s->m, RIG_ACCOUNT, s->vm, n, &o, &kids, s->err);

	for (unsigned i = 0; r == 0 && i < n; i++)
		model_add(VMS, kids[i].id, KNOWN_THERE);
	return r;
}

static int v_snapshot(struct step *s)
{
	struct snapshot_info i;
	int r = vmm_snapshot(s->m, RIG_ACCOUNT, s->vm, "one", NULL, &i, s->err);

	if (r == 0)
		model_add(SNAPS, i.id, KNOWN_THERE);
	return r;
}

static int v_suspend(struct step *s)
{
	struct vm_info i;

	return vmm_suspend(s->m, RIG_ACCOUNT, s->vm, &i, s->err);
}

static int v_start(struct step *s)
{
	struct vm_start_opts o = { VM_LEAVE, VM_LEAVE, -1 };
	struct vm_info i;

	return vmm_start(s->m, RIG_ACCOUNT, s->vm, &o, &i, s->err);
}

static int v_stop(struct step *s)
{
	struct vm_info i;

	return vmm_stop(s->m, RIG_ACCOUNT, s->vm, &i, s->err);
}

static int v_kill(struct step *s)
{
	struct vm_info i;

	return vmm_kill(s->m, RIG_ACCOUNT, s->vm, &i, s->err);
}

static int v_exec(struct step *s)
{
	char out[64] = "";
	int r = rig_exec(storm.rig, s->vm, "echo storm", out, sizeof(out), s->err);

	/* A channel that loses a message may lose the output; a real one does not. */
	if (r == 0 && strcmp(out, "storm\n") != 0 && !storm.d.faults) {
		fprintf(stderr, "storm: exec in %s said '%s'\n", s->vm, out);
		abort();
	}
	return r;
}

static int v_resize(struct step *s)
{
	struct vm_size want = { .vcpus = 1 << rng_below(s->rng, 2) };
	struct vm_size_fault f;

	if (rng_one_in(s->rng, 2))
		want.mem_gb = rng_one_in(s->rng, 2) ? 0.5 : 1;
	return vmm_resize(s->m, RIG_ACCOUNT, s->vm, &want, &f, s->err);
}

static int v_rewind(struct step *s)
{
	bool keep = rng_one_in(s->rng, 2);
	struct vm_rewind w;
	int r = vmm_rewind(s->m, RIG_ACCOUNT, s->vm, s->snap, keep, &w, s->err);

	if (r == 0 && *w.previous)
		model_add(SNAPS, w.previous, KNOWN_THERE);
	return r;
}

static int v_delete(struct step *s)
{
	bool kept = false;
	int r;

	model_mark(VMS, s->vm, KNOWN_MAYBE);
	r = vmm_delete(s->m, RIG_ACCOUNT, s->vm, &kept, s->err);
	if (r == 0 && !kept)
		model_mark(VMS, s->vm, KNOWN_GONE);
	return r;
}

static int v_optimize(struct step *s)
{
	char text[256];

	return vmm_optimize(s->m, RIG_ACCOUNT, s->vm, text, sizeof(text), s->err);
}

static int v_look(struct step *s)
{
	autofree struct vm_info *all = NULL;
	struct vm_tree tree = { 0 };
	struct vm_sample sample;
	struct vm_info i;
	size_t n;
	int r = vmm_list(s->m, RIG_ACCOUNT, &all, &n, s->err);

	if (r == 0 && *s->vm && (r = vmm_get_used(s->m, RIG_ACCOUNT, s->vm, &i, s->err)) == 0)
		r = vmm_sample(s->m, RIG_ACCOUNT, s->vm, &sample, s->err);
	if (r == 0 && (r = vmm_tree(s->m, RIG_ACCOUNT, NULL, &tree, s->err)) == 0)
		vm_tree_done(&tree);
	return r;
}

static int v_snapshot_delete(struct step *s)
{
	int r;

	model_mark(SNAPS, s->snap, KNOWN_MAYBE);
	r = vmm_snapshot_delete(s->m, RIG_ACCOUNT, s->snap, s->err);
	if (r == 0)
		model_mark(SNAPS, s->snap, KNOWN_GONE);
	return r;
}

static int v_diff(struct step *s)
{
	struct vm_diff_opts o = { .with = s->snap, .root = "/etc", .limit = 10 };
	struct vm_diff d = { 0 };
	int r = vmm_diff(s->m, RIG_ACCOUNT, s->vm, &o, &d, s->err);

	vm_diff_done(&d);
	return r;
}

static int v_collect(struct step *s)
{
	vmm_collect_soon(s->m);
	return 0;
}

static int v_machine_dies(struct step *s)
{
	struct vm_info i;
	int r = vmm_get(s->m, RIG_ACCOUNT, s->vm, &i, s->err);

	if (r == 0 && *i.instance) {
		FAULT_QUIET;

		fake_die(storm.rig->fake, i.instance);
		storm.deaths++;
	}
	return r;
}

enum need { NOTHING, A_VM, A_SNAPSHOT, BOTH };
static const struct verb {
	const char *name;
	int (*run)(struct step *s);
	unsigned weight;
	enum need need;
	bool makes, deadly; /* a VM more; only where machines may die */
} verbs[] = {
	{ "create", v_create, 14, NOTHING, true, false },
	{ "fork", v_fork, 9, A_VM, true, false },
	{ "snapshot", v_snapshot, 9, A_VM, false, false },
	{ "suspend", v_suspend, 12, A_VM, false, false },
	{ "start", v_start, 9, A_VM, false, false },
	{ "stop", v_stop, 4, A_VM, false, false },
	{ "kill", v_kill, 5, A_VM, false, false },
	{ "exec", v_exec, 14, A_VM, false, false },
	{ "resize", v_resize, 4, A_VM, false, false },
	{ "rewind", v_rewind, 5, BOTH, false, false },
	{ "delete", v_delete, 6, A_VM, false, false },
	{ "optimize", v_optimize, 3, A_VM, false, false },
	{ "look", v_look, 5, NOTHING, false, false },
	{ "delete snapshot", v_snapshot_delete, 4, A_SNAPSHOT, false, false },
	{ "diff", v_diff, 2, BOTH, false, false },
	{ "collect", v_collect, 2, NOTHING, false, false },
	{ "machine dies", v_machine_dies, 5, A_VM, false, true },
};

static const struct verb *choose(struct rng *r)
{
	unsigned sum = 0, k;

	for (size_t i = 0; i < ARRAY_SIZE(verbs); i++)
		sum += verbs[i].weight;
	k = rng_below(r, sum);
	for (size_t i = 0; i < ARRAY_SIZE(verbs); i++) {
		if (k < verbs[i].weight)
			return &verbs[i];
		k -= verbs[i].weight;
	}
	return &verbs[0];
}

static const struct verb *verb_named(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(verbs); i++)
		if (!strcmp(verbs[i].name, name))
			return &verbs[i];
	abort();
}

static bool in_calm(void)
{
	return !storm.d.faults && !storm.d.deaths && !storm.dead;
}

/* Without any disturbance there are failures that are nobody's fault, and all others are a defect.
 */
static bool is_fair(const struct verb *v, int r, const struct err *err)
{
	static const enum err_code fair[] = {
		ERR_VM_NOT_FOUND,
		ERR_VM_DELETED,
		ERR_VM_NOT_RUNNING,
		ERR_CONFLICT,
		ERR_STILL_CREATING,
		ERR_VM_IS_SUSPENDING,
		ERR_SNAPSHOT_NOT_FOUND,
		ERR_SERVICE_UNAVAILABLE,
		ERR_SNAPSHOT_ALREADY_DELETED,
		ERR_SOURCE_SNAPSHOT_DELETED,
	};

	for (size_t i = 0; i < ARRAY_SIZE(fair); i++)
		if (err->tag == fair[i])
			return true;
	if (v->run == v_rewind && err->tag == ERR_INVALID_SNAPSHOT_ID)
		return true; /* it is another VM's */
	/* Somebody else suspended, stopped or deleted it meanwhile. */
	return (v->run == v_exec || v->run == v_diff) &&
	       (r == -ECONNRESET || r == -ENOTCONN || r == -EPIPE);
}

static void judge(const struct verb *v, const struct step *s, int r)
{
	const char *why = NULL;

	if (r == 0)
		return;
	storm.failed++;
	if (!s->err->msg[0])
		why = "without a sentence";
	else if (s->err->code != r)
		why = "with another code than its error's";
	else if (in_calm() && !is_fair(v, r, s->err))
		why = "though nothing disturbed it";
	if (!why)
		return;
	fprintf(stderr, "storm: %s %s failed %s: %d (%s) %s: %s\n", v->name, s->vm, why, r,
	        err_name(r), s->err->tag ? err_code_name(s->err->tag) : "-", s->err->msg);
	abort();
}

void storm_step(unsigned thread)
{
	struct err err = { 0 };
	struct step s = { .m = storm.rig->vmm, .rng = sched_rng(), .err = &err };
	const struct verb *v = choose(s.rng);
	bool vm = model_pick(VMS, s.rng, s.vm), snap = model_pick(SNAPS, s.rng, s.snap);
	int r;

	if ((v->deadly && !storm.d.deaths) || ((v->need & A_VM) && !vm) ||
	    ((v->need & A_SNAPSHOT) && !snap))
		v = verb_named(vm ? "exec" : "create");
	if (v->makes && model_count(VMS) > VMS_MAX)
		v = verb_named("delete");
	snprintf(storm.at[thread].object, ID_SIZE, "%s", v->need & A_VM ? s.vm : s.snap);
	storm.at[thread].since_ms = clock_ms();
	storm.at[thread].verb = v->name;
	storm_note("  [%u] %s %s %s", thread, v->name, v->need & A_VM ? s.vm : "",
	           v->need & A_SNAPSHOT ? s.snap : "");
	r = v->run(&s);
	storm_note("  [%u] %s %s: %d %s %s", thread, v->name, v->need & A_VM ? s.vm : "", r,
	           err.tag ? err_code_name(err.tag) : "", err.msg);
	storm.at[thread].verb = NULL;
	storm.verbs++;
	judge(v, &s, r);
}

/* ---- afterwards ---- */

bool storm_recalls(char *why, size_t size)
{
	struct err err = { 0 };

	for (size_t i = 0; i < storm.n_vms; i++) {
		struct known *k = &storm.vms[i];
		struct vm_info info;
		int r = vmm_get(storm.rig->vmm, RIG_ACCOUNT, k->id, &info, &err);

		if ((r < 0 && k->state == KNOWN_THERE) || (r == 0 && k->state == KNOWN_GONE)) {
			snprintf(why, size, "VM %s was acknowledged as %s and is %s", k->id,
			         k->state == KNOWN_THERE ? "made" : "deleted",
			         r == 0 ? "there" : "gone");
			return false;
		}
		if (r < 0)
			k->state = KNOWN_GONE;
		else if (info.state == VM_LOST) {
			snprintf(why, size, "VM %s is lost", k->id);
			return false;
		}
	}
	for (size_t i = 0; i < storm.n_snaps; i++) {
		struct known *k = &storm.snaps[i];
		struct snapshot_info info;
		int r = vmm_snapshot_get(storm.rig->vmm, RIG_ACCOUNT, k->id, &info, &err);
		bool there = r == 0 && !info.deleted;

		if (there ? k->state == KNOWN_GONE : k->state == KNOWN_THERE) {
			snprintf(why, size, "snapshot %s was acknowledged as %s and is %s", k->id,
			         k->state == KNOWN_THERE ? "made" : "deleted",
			         there ? "there" : "gone");
			return false;
		}
		if (!there)
			k->state = KNOWN_GONE;
		else if (info.state != SNAPSHOT_READY) {
			snprintf(why, size, "snapshot %s is not ready: %s", k->id, info.failure);
			return false;
		}
	}
	return true;
}
