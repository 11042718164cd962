/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_claim.c - VMs that go from one node to another: two managers, one PostgreSQL, one object
 * store
 *
 * with_pg.py runs it. Each call into the database of a claim fails once, and each commit's answer
 * is lost once: __wrap_query_run() and the like stand between store_*.c and the connection.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/clock.h"
#include "store/store_claim.h"
#include "store/store_internal.h"
#include "tests/unit/check.h"
#include "tests/unit/db_fx.h"
#include "tests/vm/two.h"
#include "vm/elsewhere.h"
#include "vm/stored.h"
#include "vm/template.h"
#include "vm/tree.h"

/* ---- calls into the database that fail ---- */

static struct {
	pthread_t who;
	bool armed, fired;
	unsigned nth, n;
	bool lose_answer; /* of a commit: it is done, and the caller hears of an error */
} plan;

int __real_query_step(struct query *q, struct err *e);
int __real_query_run(struct query *q, struct err *e);
int __real_tx_commit(struct tx *t, struct err *e);
int __wrap_query_step(struct query *q, struct err *e);
int __wrap_query_run(struct query *q, struct err *e);
int __wrap_tx_commit(struct tx *t, struct err *e);

/* Only of the thread that armed it: the others have work of their own. */
static bool hit(void)
{
	if (!plan.armed || !pthread_equal(plan.who, pthread_self()) || ++plan.n != plan.nth)
		return false;
	return plan.fired = true;
}

int __wrap_query_step(struct query *q, struct err *e)
{
	return !plan.lose_answer && hit() ? err_set(e, -EIO, "injected") : __real_query_step(q, e);
}

int __wrap_query_run(struct query *q, struct err *e)
{
	return !plan.lose_answer && hit() ? err_set(e, -EIO, "injected") : __real_query_run(q, e);
}

int __wrap_tx_commit(struct tx *t, struct err *e)
{
	if (!hit())
		return __real_tx_commit(t, e);
	if (plan.lose_answer)
		assert_int_equal(__real_tx_commit(t, e), 0);
	return err_set(e, -EIO, "injected");
}

static void arm(unsigned nth, bool lose_answer)
{
	plan.who = pthread_self();
	plan.n = 0;
	plan.nth = nth;
	plan.fired = false;
	plan.lose_answer = lose_answer;
	plan.armed = true;
}

/* ---- with what is usual ---- */

static struct store_vm row_of(struct rig *r, const char *vm)
{
	struct store_vm row;

	OK(store_vm_get(r->store, vm, &row, &err));
	return row;
}

static int use(struct rig *r, const char *vm)
{
	char out[64];

	err = (struct err){ 0 };
	return rig_exec(r, vm, "echo hello", out, sizeof(out), &err);
}

static void suspended(struct rig *r, struct vm_info *vm)
{
	OK(rig_create(r, NULL, vm, &err));
	OK(vmm_suspend(r->vmm, RIG_ACCOUNT, vm->id, vm, &err));
}

/* Both run, and the first one's template is stored before the second one looks for one. */
static struct two *both(void)
{
	struct two *t = two_new();

	two_stored(t->a);
	two_join(t);
	return t;
}

/* ---- the tests ---- */

static void a_suspended_vm_resumes_elsewhere(void **state)
{
	struct two *t = both();
	char a[ID_SIZE], b[ID_SIZE];
	struct store_vm row;
	struct vm_info vm, i;

	/* the template is the same */
	OK(template_wait(t->a->vmm, a, &err));
	OK(template_wait(t->b->vmm, b, &err));
	assert_string_equal(a, b);
	suspended(t->a, &vm);
	two_stored(t->a);
	assert_int_equal(use(t->b, vm.id), -EHOSTUNREACH); /* its node lives */
	assert_int_equal(err.tag, ERR_NODE_UNAVAILABLE);
	rig_stop(t->a);
	OK(vmm_get(t->b->vmm, RIG_ACCOUNT, vm.id, &i, &err));
	assert_int_equal(i.state, VM_SUSPENDED);
	OK(rig_usable(t->b, vm.id, &err));
	row = row_of(t->b, vm.id);
	assert_string_equal(row.node, t->n[1].id);
	assert_string_equal(row.home, t->n[1].id);
	assert_int_equal(row.epoch, 2);
	/* its old home is back: it has nothing but a copy of the files, and collects what it made
	 */
	OK(rig_start(t->a, &err));
	assert_false(vmm_has(t->a->vmm, vm.id));
	assert_true(use(t->a, vm.id) < 0);
	rig_settle(t->a);
	rig_settle(t->b);
	cache_drop(t->b->vmm, UINT64_MAX);
	OK(rig_usable(t->b, vm.id, &err));
	/* and back again */
	OK(vmm_suspend(t->b->vmm, RIG_ACCOUNT, vm.id, &i, &err));
	two_stored(t->b);
	rig_stop(t->b);
	OK(rig_usable(t->a, vm.id, &err));
	assert_int_equal(row_of(t->a, vm.id).epoch, 3);
	rig_check(t->a);
	two_free(t);
}

static void what_is_not_stored_waits_for_its_node(void **state)
{
	struct two *t = both();
	struct vm_info vm, other;

	atomic_store(&t->s3.down, true);
	suspended(t->a, &vm);
	suspended(t->a, &other);
	rig_stop(t->a);
	assert_int_equal(use(t->b, vm.id), -EHOSTUNREACH);
	assert_int_equal(err.tag, ERR_NODE_UNAVAILABLE);
	assert_non_null(strstr(err.msg, "not in the object store"));
	assert_non_null(strstr(err.msg, "'one'"));
	/* it can be deleted */
	OK(vmm_delete(t->b->vmm, RIG_ACCOUNT, other.id, NULL, &err));
	atomic_store(&t->s3.down, false);
	OK(rig_start(t->a, &err));
	assert_false(vmm_has(t->a->vmm, other.id));
	OK(rig_usable(t->a, vm.id, &err));
	assert_int_equal(row_of(t->a, vm.id).epoch, 1);
	rig_check(t->a);
	two_free(t);
}

static void a_drained_node_gives_its_vms_up(void **state)
{
	struct two *t = both();
	struct vm_info asleep, stopped, running, i;
	char to[ID_SIZE];
	struct store_vm row;

	suspended(t->a, &asleep);
	OK(rig_create(t->a, NULL, &stopped, &err));
	OK(vmm_stop(t->a->vmm, RIG_ACCOUNT, stopped.id, &i, &err));
	OK(rig_create(t->a, NULL, &running, &err));
	OK(store_node_drain(t->b->store, t->n[0].id, true, &err));
	vmm_drain(t->a->vmm, true); /* returns when there is none left */
	assert_int_equal(store_node_vms(t->a->store, t->n[0].id, &err), 0);
	row = row_of(t->b, running.id);
	assert_string_equal(row.node, "");
	assert_string_equal(row.home, t->n[0].id);
	assert_int_equal(row.info.state, VM_SUSPENDED);
	/* the drained one leaves them to the other */
	assert_int_equal(use(t->a, running.id), -EHOSTUNREACH);
	assert_non_null(strstr(err.msg, "'two' can"));
	assert_int_equal(vmm_claimant(t->a->vmm, RIG_ACCOUNT, running.id, to, &err), 1);
	assert_string_equal(to, t->n[1].id);
	OK(rig_usable(t->b, running.id, &err));
	OK(rig_usable(t->b, asleep.id, &err));
	OK(rig_usable(t->b, stopped.id, &err));
	assert_int_equal(vmm_claimant(t->b->vmm, RIG_ACCOUNT, running.id, to, &err), 0);
	/* a new node may join while there are such VMs */
	OK(vmm_suspend(t->b->vmm, RIG_ACCOUNT, asleep.id, &i, &err));
	two_stored(t->b);
	row = row_of(t->b, asleep.id);
	rig_stop(t->a);
	OK(store_vm_give_up(t->b->store, &row, &err));
	FAILS(-ESTALE, store_vm_give_up(t->b->store, &row, &err));
	OK(store_node_drain(t->b->store, t->n[0].id, false, &err));
	OK(rig_start(t->a, &err));
	OK(rig_usable(t->a, asleep.id, &err));
	rig_check(t->a);
	two_free(t);
}

static void a_lost_vm_goes_back_to_what_was_stored(void **state)
{
	struct two *t = both();
	struct vm_info vm, young, gone, i;
	struct vm_rewind w;
	struct store_vm row;
	char point[ID_SIZE];

	suspended(t->a, &vm);
	snprintf(point, sizeof(point), "%s", vm.point);
	two_stored(t->a);
	assert_int_equal(use(t->a, vm.id), 0);
	OK(rig_create(t->a, NULL, &young, &err));
	OK(rig_create(t->a, NULL, &gone, &err));
	rig_crash(t->a);
	two_reap(t);
	assert_int_equal(use(t->b, vm.id), -EIO);
	assert_int_equal(err.tag, ERR_NODE_UNAVAILABLE);
	assert_non_null(strstr(err.msg, "rewind"));
	row = row_of(t->b, vm.id);
	assert_string_equal(row.node, t->n[0].id); /* nobody asked for it to be taken */
	OK(vmm_rewind(t->b->vmm, RIG_ACCOUNT, vm.id, NULL, true, &w, &err));
	assert_int_equal(w.vm.state, VM_SUSPENDED);
	assert_string_equal(w.vm.point, point);
	assert_string_equal(w.previous, "");
	OK(rig_usable(t->b, vm.id, &err));
	/* one that was never frozen */
	assert_int_equal(vmm_rewind(t->b->vmm, RIG_ACCOUNT, young.id, NULL, true, &w, &err),
	                 -ENOENT);
	assert_non_null(strstr(err.msg, "nothing to go back to"));
	OK(vmm_delete(t->b->vmm, RIG_ACCOUNT, young.id, NULL, &err));
	/* the node is back: the one that nobody took has its disk */
	OK(rig_start(t->a, &err));
	assert_false(vmm_has(t->a->vmm, vm.id));
	OK(vmm_get(t->a->vmm, RIG_ACCOUNT, gone.id, &i, &err));
	assert_int_equal(i.state, VM_STOPPED);
	OK(rig_usable(t->a, gone.id, &err));
	OK(rig_usable(t->b, vm.id, &err));
	rig_check(t->a);
	two_free(t);
}

/* As the keeper does it when its time has come. */
static void make_checkpoint(struct rig *r, const char *id, char ret[ID_SIZE])
{
	struct vm *vm;

	OK(vmm_lock(r->vmm, RIG_ACCOUNT, id, &vm, &err));
	vm->checkpoint_ms = clock_ms() - UINT64_C(3600) * 1000; /* wraps if we are young */
	vm_look_at_checkpoint(vm);
	snprintf(ret, ID_SIZE, "%s", vm->row.checkpoint);
	vm_unlock(vm);
	rig_settle(r);
}

static void checkpoints_bound_what_is_lost(void **state)
{
	struct two *t = both();
	char first[ID_SIZE], second[ID_SIZE], third[ID_SIZE];
	struct store_point p;
	struct store_vm row;
	struct vm_rewind w;
	struct vm_info vm;

	OK(rig_create(t->a, NULL, &vm, &err));
	OK(two_checkpoints(t->a, vm.id, 3600, &err));
	make_checkpoint(t->a, vm.id, first);
	assert_true(*first);
	two_stored(t->a);
	make_checkpoint(t->a, vm.id, second);
	assert_string_not_equal(first, second);
	/* the second is not stored when the third is made: the first stays */
	row = row_of(t->a, vm.id);
	assert_string_equal(row.checkpoint_before, first);
	two_stored(t->a);
	atomic_store(&t->s3.down, true);
	make_checkpoint(t->a, vm.id, third);
	row = row_of(t->a, vm.id);
	assert_string_equal(row.checkpoint_before, second);
	FAILS(-ENOENT, store_point_get(t->a->store, first, &p, &err));
	OK(store_point_get(t->a->store, second, &p, &err));
	rig_crash(t->a);
	atomic_store(&t->s3.down, false);
	two_reap(t);
	OK(vmm_rewind(t->b->vmm, RIG_ACCOUNT, vm.id, NULL, true, &w, &err));
	assert_string_equal(w.vm.point, second);
	OK(rig_usable(t->b, vm.id, &err));
	/* switched off: none are left */
	OK(two_checkpoints(t->b, vm.id, 0, &err));
	row = row_of(t->b, vm.id);
	assert_string_equal(row.checkpoint, "");
	assert_string_equal(row.checkpoint_before, "");
	rig_check(t->b);
	two_free(t);
}

static void a_snapshot_of_a_dead_node(void **state)
{
	struct two *t = both();
	struct snapshot_info snap, late;
	struct vm_info vm, child;

	OK(rig_create(t->a, NULL, &vm, &err));
	OK(vmm_snapshot(t->a->vmm, RIG_ACCOUNT, vm.id, "s", NULL, &snap, &err));
	two_stored(t->a);
	atomic_store(&t->s3.down, true);
	OK(vmm_snapshot(t->a->vmm, RIG_ACCOUNT, vm.id, "t", NULL, &late, &err));
	rig_crash(t->a);
	atomic_store(&t->s3.down, false);
	two_reap(t);
	OK(rig_create(t->b, snap.id, &child, &err));
	OK(rig_usable(t->b, child.id, &err));
	assert_int_equal(rig_create(t->b, late.id, &child, &err), -EHOSTUNREACH);
	assert_int_equal(err.tag, ERR_NODE_UNAVAILABLE);
	OK(vmm_snapshot_get(t->b->vmm, RIG_ACCOUNT, late.id, &late, &err));
	assert_int_equal(late.state, SNAPSHOT_READY); /* not lost: its node may come back */
	/* deleted there, collected by its node; the VM that stands on it notices nothing */
	OK(vmm_snapshot_delete(t->b->vmm, RIG_ACCOUNT, snap.id, &err));
	OK(rig_start(t->a, &err));
	rig_settle(t->a);
	rig_settle(t->b);
	rig_check(t->a);
	two_free(t);
}

static void an_outage_and_a_bit_flip(void **state)
{
	struct two *t = both();
	char prefix[64];
	struct store_point p;
	struct vm_info vm, i;

	suspended(t->a, &vm);
	two_stored(t->a);
	OK(store_point_get(t->a->store, vm.point, &p, &err));
	rig_stop(t->a);
	atomic_store(&t->s3.down, true);
	assert_int_equal(use(t->b, vm.id), -EAGAIN);
	assert_int_equal(err.tag, ERR_SERVICE_UNAVAILABLE);
	OK(vmm_get(t->b->vmm, RIG_ACCOUNT, vm.id, &i, &err));
	assert_int_equal(i.state, VM_SUSPENDED);
	atomic_store(&t->s3.down, false);
	snprintf(prefix, sizeof(prefix), "layers/%s/", p.mem_layer);
	s3_mem_flip(&t->s3, prefix);
	assert_true(use(t->b, vm.id) < 0);
	assert_int_equal(err.tag, ERR_OBJECT_DAMAGED);
	OK(vmm_get(t->b->vmm, RIG_ACCOUNT, vm.id, &i, &err));
	assert_int_equal(i.state, VM_SUSPENDED);
	s3_mem_flip(&t->s3, prefix);
	OK(rig_usable(t->b, vm.id, &err));
	rig_check(t->b);
	two_free(t);
}

/* Frozen by another QEMU: it stays where it is, with a sentence that names both. */
static void another_kind_of_machine(void **state)
{
	struct two *t = both();
	char to[ID_SIZE];
	struct vm_info vm;

	suspended(t->a, &vm);
	two_stored(t->a);
	db_poke(t->db,
	        "UPDATE points SET qemu_version = '0.1' WHERE id IN (SELECT point FROM vms)");
	rig_stop(t->a);
	assert_int_equal(use(t->b, vm.id), -EHOSTUNREACH);
	assert_non_null(strstr(err.msg, "QEMU version '0.1'"));
	assert_non_null(strstr(err.msg, "no other node can"));
	assert_int_equal(vmm_claimant(t->b->vmm, RIG_ACCOUNT, vm.id, to, &err), 1);
	assert_string_equal(to, t->n[1].id);
	assert_int_equal(row_of(t->b, vm.id).epoch, 1);
	two_free(t);
}

/* Everything that is stored outlives a node that is removed. */
static void a_node_is_removed(void **state)
{
	struct two *t = both();
	struct vm_info vm, late, child;
	struct snapshot_info snap;
	struct store_point p;

	suspended(t->a, &vm);
	OK(vmm_snapshot(t->a->vmm, RIG_ACCOUNT, vm.id, "s", NULL, &snap, &err));
	two_stored(t->a);
	atomic_store(&t->s3.down, true);
	suspended(t->a, &late);
	rig_stop(t->a);
	atomic_store(&t->s3.down, false);
	FAILS(-EBUSY, store_node_remove(t->b->store, t->n[0].id, /* lose= */ false, &err));
	assert_non_null(strstr(err.msg, "1 VMs, 0 snapshots and 0 repositories"));
	assert_string_equal(row_of(t->b, vm.id).node, t->n[0].id); /* nothing was done */
	OK(store_node_remove(t->b->store, t->n[0].id, /* lose= */ true, &err));
	FAILS(-ENOENT, store_vm_get(t->b->store, late.id, &(struct store_vm){ 0 }, &err));
	OK(rig_usable(t->b, vm.id, &err));
	OK(rig_create(t->b, snap.id, &child, &err));
	OK(store_point_get(t->b->store, vm.point, &p, &err));
	assert_string_equal(p.node, t->n[1].id);
	/* what it made is collected here now */
	OK(vmm_snapshot_delete(t->b->vmm, RIG_ACCOUNT, snap.id, &err));
	OK(vmm_delete(t->b->vmm, RIG_ACCOUNT, child.id, NULL, &err));
	OK(vmm_delete(t->b->vmm, RIG_ACCOUNT, vm.id, NULL, &err));
	rig_settle(t->b);
	FAILS(-ENOENT, store_point_get(t->b->store, vm.point, &p, &err));
	rig_check(t->b);
	two_free(t);
}

/* A chain with layers of both is flattened by one: what the other needs stays. */
static void a_chain_of_both_is_flattened(void **state)
{
	struct two *t = both();
	struct snapshot_info old, snap;
	struct vm_info vm, i, child;
	char flat[ID_SIZE];
	struct store_point p;
	struct store_layer l;
	struct vm *v;

	suspended(t->a, &vm);
	OK(vmm_snapshot(t->a->vmm, RIG_ACCOUNT, vm.id, "old", NULL, &old, &err));
	two_stored(t->a);
	rig_stop(t->a);
	assert_int_equal(use(t->b, vm.id), 0);
	OK(vmm_snapshot(t->b->vmm, RIG_ACCOUNT, vm.id, "s", NULL, &snap, &err));
	OK(vmm_suspend(t->b->vmm, RIG_ACCOUNT, vm.id, &i, &err));
	two_stored(t->b);
	OK(store_point_get(t->b->store, i.point, &p, &err));
	/* nothing to upload to: then it is not done */
	atomic_store(&t->s3.down, true);
	assert_true(flatten_layer(t->b->vmm, p.mem_layer, LAYER_MEM, NULL, flat, &err) < 0);
	assert_int_equal(store_unstored(t->b->store, i.point, "", &err), 0);
	atomic_store(&t->s3.down, false);
	OK(flatten_layer(t->b->vmm, p.mem_layer, LAYER_MEM, NULL, flat, &err));
	assert_int_equal(store_unstored(t->b->store, i.point, "", &err), 0);
	OK(store_point_get(t->b->store, i.point, &p, &err));
	assert_string_equal(p.mem_layer, flat);
	OK(rig_start(t->a, &err));
	rig_settle(t->a);
	rig_settle(t->b);
	rig_stop(t->b);
	OK(rig_create(t->a, old.id, &child, &err));
	OK(rig_usable(t->a, child.id, &err));
	OK(rig_usable(t->a, vm.id, &err));
	/* a running VM that shortens its own changes nothing for what is stored */
	assert_int_equal(use(t->a, vm.id), 0);
	OK(vmm_lock(t->a->vmm, RIG_ACCOUNT, vm.id, &v, &err));
	OK(store_layer_get(t->a->store, v->row.base_mem, &l, &err));
	atomic_store(&t->s3.down, true);
	if (l.depth >= 2)
		OK(flatten_layer(t->a->vmm, l.id, LAYER_MEM, v, flat, &err));
	vm_unlock(v);
	atomic_store(&t->s3.down, false);
	OK(rig_usable(t->a, vm.id, &err));
	rig_check(t->a);
	two_free(t);
}

/* Claims under a plan, again and again from the other one, until nothing fails any more. */
static unsigned claims_fail(struct two *t, const char *vm, bool lose_answer)
{
	unsigned fired = 0;
	bool more = true;

	for (unsigned n = 1; more && n < 100; n++) {
		struct store_vm row = row_of(t->b, vm);
		int r;

		if (strcmp(row.node, t->n[1].id) == 0) { /* from the start */
			struct vm *v;

			assert_true(vmm_has(t->b->vmm, vm));
			OK(vmm_find(t->b->vmm, RIG_ACCOUNT, vm, &v, &err));
			OK(store_vm_give_up(t->b->store, &row, &err));
			v->gone = true;
			vmm_forget(t->b->vmm, v);
			vm_unref(v);
		}
		arm(n, lose_answer);
		r = elsewhere_claim(t->b->vmm, RIG_ACCOUNT, vm, CLAIM_TO_USE, &err);
		plan.armed = false;
		more = plan.fired;
		fired += more;
		/* known here if and only if it said so; the row's owner may be a surprise */
		assert_int_equal(vmm_has(t->b->vmm, vm), r == 1);
		assert_true(r == 1 || more);
		if (n % 3 == 0) { /* it dies right there */
			rig_crash(t->b);
			OK(rig_start(t->b, &err));
		}
		r = elsewhere_claim(t->b->vmm, RIG_ACCOUNT, vm, CLAIM_TO_USE, &err);
		assert_int_equal(r, 1);
		row = row_of(t->b, vm);
		assert_string_equal(row.node, t->n[1].id);
	}
	return fired;
}

static void each_call_of_a_claim_fails_once(void **state)
{
	struct two *t = both();
	struct vm_info vm;

	suspended(t->a, &vm);
	two_stored(t->a);
	rig_stop(t->a);
	assert_true(claims_fail(t, vm.id, false) > 5);
	assert_true(claims_fail(t, vm.id, true) >= 1);
	OK(rig_usable(t->b, vm.id, &err));
	rig_check(t->b);
	two_free(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_suspended_vm_resumes_elsewhere),
		cmocka_unit_test(what_is_not_stored_waits_for_its_node),
		cmocka_unit_test(a_drained_node_gives_its_vms_up),
		cmocka_unit_test(a_lost_vm_goes_back_to_what_was_stored),
		cmocka_unit_test(checkpoints_bound_what_is_lost),
		cmocka_unit_test(a_snapshot_of_a_dead_node),
		cmocka_unit_test(an_outage_and_a_bit_flip),
		cmocka_unit_test(another_kind_of_machine),
		cmocka_unit_test(a_node_is_removed),
		cmocka_unit_test(a_chain_of_both_is_flattened),
		cmocka_unit_test(each_call_of_a_claim_fails_once),
	};
	int r;

	if (!db_is_pg()) {
		fprintf(stderr, "with_pg.py runs this\n");
		return 1;
	}
	if (rig_main_begin())
		return 1;
	r = cmocka_run_group_tests(tests, NULL, NULL);
	rig_main_end();
	return r;
}
