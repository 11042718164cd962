/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_spread.c - forks over two managers with one PostgreSQL and one object store, and what verbs
 * ask of the database; with_pg.py runs it
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/auto.h"
#include "store/store_internal.h"
#include "tests/unit/check.h"
#include "tests/unit/db_fx.h"
#include "tests/vm/two.h"
#include "vm/elsewhere.h"

/* What this thread has asked of the database. */
static __thread unsigned n_commits, n_statements;

int __real_query_step(struct query *q, struct err *e);
int __real_query_run(struct query *q, struct err *e);
int __real_tx_commit(struct tx *t, struct err *e);
int __wrap_query_step(struct query *q, struct err *e);
int __wrap_query_run(struct query *q, struct err *e);
int __wrap_tx_commit(struct tx *t, struct err *e);

int __wrap_query_step(struct query *q, struct err *e)
{
	n_statements++;
	return __real_query_step(q, e);
}

int __wrap_query_run(struct query *q, struct err *e)
{
	n_statements++;
	return __real_query_run(q, e);
}

int __wrap_tx_commit(struct tx *t, struct err *e)
{
	n_commits++;
	return __real_tx_commit(t, e);
}

static struct store_vm row_of(struct rig *r, const char *vm)
{
	struct store_vm row;

	OK(store_vm_get(r->store, vm, &row, &err));
	return row;
}

static int use(struct rig *r, const char *vm)
{
	char out[64];

	return rig_exec(r, vm, "echo hello", out, sizeof(out), &err);
}

static struct two *both(void)
{
	struct two *t = two_new();

	two_stored(t->a);
	two_join(t);
	return t;
}

/* Copies on both nodes, with the parent's identity, tree and numbers; all of them or none. */
static void a_fork_is_spread_over_nodes(void **state)
{
	struct two *t = both();
	autofree struct vm_spread *s = calloc(1, sizeof(*s));
	struct vm_fork_opts o = { .spread = s };
	autofree struct vm_info *forks = NULL;
	struct vm_info vm, i;
	unsigned there = 0;

	OK(rig_create(t->a, NULL, &vm, &err));
	OK(vmm_fork(t->a->vmm, RIG_ACCOUNT, vm.id, 4, &o, &forks, &err));
	assert_string_equal(s->note, "");
	assert_int_equal(s->elsewhere, 2);
	for (unsigned k = 0; k < 4; k++) {
		struct store_vm row = row_of(t->a, forks[k].id);
		char to[ID_SIZE];

		assert_string_equal(row.info.parent_id, vm.id);
		assert_string_equal(row.info.account, RIG_ACCOUNT);
		assert_int_equal(row.info.fork_index, k + 1);
		assert_int_equal(row.info.fork_count, 4);
		if (!*s->node[k]) {
			assert_string_equal(row.node, t->n[0].id);
			assert_int_equal(row.info.state, VM_RUNNING);
			OK(rig_usable(t->a, forks[k].id, &err));
			continue;
		}
		there++;
		assert_string_equal(s->node[k], t->n[1].id);
		assert_string_equal(row.node, "");
		assert_int_equal(row.info.state, VM_SUSPENDED);
		/* whoever is asked says the same */
		assert_int_equal(vmm_claimant(t->a->vmm, RIG_ACCOUNT, forks[k].id, to, &err), 1);
		assert_string_equal(to, t->n[1].id);
		assert_int_equal(vmm_claimant(t->b->vmm, RIG_ACCOUNT, forks[k].id, to, &err), 1);
		assert_string_equal(to, t->n[1].id);
		OK(rig_usable(t->b, forks[k].id, &err));
		row = row_of(t->b, forks[k].id);
		assert_string_equal(row.node, t->n[1].id);
		/* a copy that was suspended since is no new one */
		OK(vmm_suspend(t->b->vmm, RIG_ACCOUNT, forks[k].id, &i, &err));
		row = row_of(t->b, forks[k].id);
		assert_false(spread_is_new(&row, row.info.point));
		OK(rig_usable(t->b, forks[k].id, &err));
	}
	assert_int_equal(there, 2);
	rig_settle(t->a);
	rig_settle(t->b);
	rig_check(t->a);
	two_free(t);
}

/* Its node dies before it has started a copy: another one has it. One alone forks plainly. */
static void a_spread_fork_survives_its_nodes(void **state)
{
	struct two *t = both();
	autofree struct vm_spread *s = calloc(1, sizeof(*s));
	struct vm_fork_opts o = { .spread = s };
	struct vm_info *forks = NULL;
	struct vm_info vm;
	size_t before, after;
	struct store_vm *rows = NULL;

	OK(rig_create(t->a, NULL, &vm, &err));
	OK(vmm_fork(t->a->vmm, RIG_ACCOUNT, vm.id, 2, &o, &forks, &err));
	assert_int_equal(s->elsewhere, 1);
	rig_stop(t->b);
	for (unsigned k = 0; k < 2; k++)
		OK(rig_usable(t->a, forks[k].id, &err));
	free(forks);
	OK(vmm_fork(t->a->vmm, RIG_ACCOUNT, vm.id, 2, &o, &forks, &err));
	assert_int_equal(s->elsewhere, 0);
	assert_non_null(strstr(s->note, "no other node"));
	free(forks);
	OK(rig_start(t->b, &err));
	/* what cannot be stored is not spread, and leaves nothing */
	OK(store_vm_list(t->a->store, RIG_ACCOUNT, &rows, &before, &err));
	free(rows);
	atomic_store(&t->s3.down, true);
	err = (struct err){ 0 };
	assert_true(vmm_fork(t->a->vmm, RIG_ACCOUNT, vm.id, 2, &o, &forks, &err) < 0);
	atomic_store(&t->s3.down, false);
	OK(store_vm_list(t->a->store, RIG_ACCOUNT, &rows, &after, &err));
	free(rows);
	assert_int_equal(after, before);
	OK(rig_usable(t->a, vm.id, &err));
	rig_check(t->a);
	rig_check(t->b);
	two_free(t);
}

static void cost(const char *verb, unsigned most)
{
	printf("    %-28s %2u transactions, %3u statements\n", verb, n_commits, n_statements);
	if (n_commits > most)
		fail_msg("%s takes %u transactions, at most %u are wanted", verb, n_commits, most);
	n_commits = n_statements = 0;
}

/* docs/CLUSTER.md (Sizing) has the figures: each transaction takes the cluster's one lock. */
static void what_verbs_ask_of_the_database(void **state)
{
	struct two *t = both();
	autofree struct vm_spread *s = calloc(1, sizeof(*s));
	struct vm_fork_opts plain = { 0 }, spread = { .spread = s };
	struct vm_persistence keep = { PERSIST_STICKY, 5, DELETE_ON_SUSPEND };
	struct vm_info vm, other, *forks = NULL;
	struct snapshot_info snap;

	n_commits = n_statements = 0;
	OK(rig_create(t->a, NULL, &vm, &err));
	cost("create", 4);
	OK(use(t->a, vm.id));
	cost("command, running", 0);
	OK(vmm_suspend(t->a->vmm, RIG_ACCOUNT, vm.id, &other, &err));
	cost("suspend", 4);
	OK(use(t->a, vm.id));
	cost("command, suspended", 4);
	OK(vmm_snapshot(t->a->vmm, RIG_ACCOUNT, vm.id, NULL, &keep, &snap, &err));
	cost("snapshot", 5);
	OK(vmm_fork(t->a->vmm, RIG_ACCOUNT, vm.id, 4, &plain, &forks, &err));
	cost("fork into 4", 5);
	OK(vmm_delete(t->a->vmm, RIG_ACCOUNT, forks[0].id, NULL, &err));
	cost("delete", 4);
	free(forks);
	OK(vmm_fork(t->a->vmm, RIG_ACCOUNT, vm.id, 4, &spread, &forks, &err));
	cost("fork into 4, spread", 16);
	for (unsigned k = 0; k < 4; k++) {
		if (!*s->node[k])
			continue;
		n_commits = n_statements = 0;
		OK(use(t->b, forks[k].id));
		cost("claim, resume and command", 6);
		break;
	}
	free(forks);
	OK(vmm_suspend(t->a->vmm, RIG_ACCOUNT, vm.id, &other, &err));
	two_free(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_fork_is_spread_over_nodes),
		cmocka_unit_test(a_spread_fork_survives_its_nodes),
		cmocka_unit_test(what_verbs_ask_of_the_database),
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
