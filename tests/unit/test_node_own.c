/* SPDX-License-Identifier: Apache-2.0 */
/* test_node_own.c - what nodes of one database write, collect, store and settle: their own */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "store/store_cron.h"
#include "store/store_object.h"
#include "store/store_run.h"
#include "tests/unit/node_fx.h"

static void only_the_owner_writes(void **state)
{
	struct fx *f = *state;
	struct store_vm v, w, *rows = NULL;
	struct vm_quota q;
	size_t n = 0;

	one(f, false);
	two(f);
	OK(add_accounts(f->s, QUOTA_NONE, &err));
	v = vm_row(f->s, "acc", VM_RUNNING);
	OK(store_vm_add(f->s, &v, &err));
	w = vm_row(f->t, "acc", VM_SUSPENDED);
	OK(store_vm_add(f->t, &w, &err));
	/* seen by the other one, and counted */
	OK(store_vm_list_elsewhere(f->t, "acc", &rows, &n, &err));
	assert_int_equal(n, 1);
	assert_string_equal(rows->info.id, v.info.id);
	free(rows);
	OK(store_usage_elsewhere(f->t, "acc", &q, &err));
	assert_int_equal(q.vms, 1);
	assert_int_equal(q.running, 1);
	assert_int_equal(q.mem_mb, 100);
	/* not written by it */
	v.info.state = VM_SUSPENDED;
	FAILS(-ESTALE, store_vm_update(f->t, &v, NULL, 0, NULL, &err));
	FAILS(-ESTALE, store_vm_bury(f->t, &v, "deleted", &err));
	OK(store_vm_update(f->s, &v, NULL, 0, NULL, &err));
	/* nor by the owner with an older epoch */
	v.epoch = 0;
	FAILS(-ESTALE, store_vm_update(f->s, &v, NULL, 0, NULL, &err));
	v.epoch = 1;
	OK(store_vm_bury(f->s, &v, "deleted", &err));
	FAILS(-ENOENT, store_vm_update(f->s, &v, NULL, 0, NULL, &err));
}

static void a_node_collects_its_own(void **state)
{
	struct fx *f = *state;
	struct store_layer l = { .kind = LAYER_DISK, .format = "qcow2" }, k = l;
	struct store_point p = { .kind = POINT_LIVE }, q = p;
	struct store_garbage g = { 0 };

	one(f, false);
	two(f);
	id_make("ly-", l.id);
	id_make("ly-", k.id);
	id_make("pt-", p.id);
	id_make("pt-", q.id);
	OK(store_layer_add(f->s, &l, &err));
	OK(store_layer_add(f->t, &k, &err));
	OK(store_point_add(f->s, &p, NULL, 0, &err));
	OK(store_point_add(f->t, &q, NULL, 0, &err));
	/* nothing refers to any of the four; the other node may hold its own */
	OK(store_collect(f->t, NULL, 0, NULL, 0, &g, &err));
	assert_int_equal(g.n_points, 1);
	assert_string_equal(g.points[0], q.id);
	assert_int_equal(g.n_layers, 1);
	assert_string_equal(g.layers[0], k.id);
	store_garbage_done(&g);
	OK(store_layer_get(f->s, l.id, &l, &err));
	OK(store_point_get(f->s, p.id, &p, &err));
}

/* What one node has in the object store is uploaded and dropped by it, and not by the other. */
static void a_node_stores_its_own(void **state)
{
	struct fx *f = *state;
	struct store_point p = { .kind = POINT_LIVE };
	struct store_object_garbage *left = NULL;
	struct store_upload *u = NULL;
	struct store_uploads_sum sum;
	struct store_node row;
	size_t n = 0;
	struct store_layer l = { .kind = LAYER_DISK, .format = "qcow2", .bytes = 100 };
	char(*idle)[ID_SIZE] = NULL, object[STORE_OBJECT_SIZE];

	one(f, false);
	two(f);
	id_make("ly-", l.id);
	id_make("pt-", p.id);
	snprintf(p.disk_layer, sizeof(p.disk_layer), "%s", l.id);
	OK(store_point_add(f->t, &p, &l, 1, &err));
	OK(store_template_set(f->t, "key", p.id, &err));
	OK(store_uploads(f->s, 8, &u, &n, &err));
	assert_int_equal(n, 0);
	free(u);
	OK(store_uploads_sum(f->s, &sum, &err));
	assert_int_equal(sum.n, 0);
	OK(store_uploads(f->t, 8, &u, &n, &err));
	assert_int_equal(n, 2);
	free(u);
	OK(store_uploads_sum(f->t, &sum, &err));
	assert_int_equal(sum.n, 2);
	OK(store_upload_begin(f->t, OBJECT_LAYER, l.id, 3, &err));
	OK(store_upload_done(f->t, OBJECT_LAYER, l.id, &err));
	OK(store_template_drop(f->t, "key", p.id, &err));
	OK(store_layers_idle(f->s, &idle, &n, &err)); /* it may have a copy */
	assert_int_equal(n, 1);
	free(idle);
	idle = NULL;
	OK(store_layers_idle(f->t, &idle, &n, &err));
	assert_int_equal(n, 1);
	free(idle);
	/* removed with all it had: its objects are garbage */
	f->m = node_close(f->m);
	OK(store_node_find(f->s, "two", &row, &err));
	assert_false(row.alive);
	OK(store_node_remove(f->s, row.id, /* lose= */ true, &err));
	OK(store_object_garbage(f->s, INT64_MAX, 8, &left, &n, &err));
	assert_int_equal(n, 1);
	assert_string_equal(left->object, object_name(OBJECT_LAYER, l.id, object));
	assert_int_equal(left->chunks, 3);
	free(left);
}

/* An attempt is settled by the node that makes it, or by the one that takes over from it. */
static void a_node_settles_its_own_attempts(void **state)
{
	struct fx *f = *state;
	struct store_schedule sch = { .active = true, .next_ms = 1000, .retries = 1 };
	struct store_execution x = { .state = CRON_RUNNING, .run_at_ms = 1000, .max_attempts = 2 };
	struct store_execution again, *v = NULL;
	struct store_run run = { .state = RUN_STARTING }, *runs = NULL;
	struct store_attempt *a = NULL;
	struct store_node row;
	unsigned lost;
	size_t n = 0;

	one(f, false);
	two(f);
	id_make("sch-", sch.id);
	id_make("exe-", x.id);
	id_make("run-", run.id);
	snprintf(sch.account, sizeof(sch.account), "acc");
	snprintf(x.account, sizeof(x.account), "acc");
	snprintf(run.account, sizeof(run.account), "acc");
	snprintf(run.name, sizeof(run.name), "once");
	snprintf(x.schedule, sizeof(x.schedule), "%s", sch.id);
	OK(add_accounts(f->s, QUOTA_NONE, &err));
	OK(store_schedule_add(f->s, &sch, &err));
	OK(store_cron_take(f->t, &sch, 2000, &x, &err));
	FAILS(-ESTALE, store_cron_take(f->s, &sch, 2000, &x, &err));
	OK(store_run_add(f->t, &run, &err));
	/* a start of the other one leaves both alone */
	OK(store_cron_running(f->s, &v, &n, &err));
	assert_int_equal(n, 0);
	free(v);
	OK(store_cron_running(f->t, &v, &n, &err));
	assert_int_equal(n, 1);
	free(v);
	OK(store_run_unfinished(f->s, &runs, &n, &err));
	assert_int_equal(n, 0);
	store_runs_free(runs, n);
	OK(store_run_unfinished(f->t, &runs, &n, &err));
	assert_int_equal(n, 1);
	store_runs_free(runs, n);
	/* taken over: the next attempt is anybody's, the run waits for its node */
	OK(store_node_find(f->s, "two", &row, &err));
	assert_int_equal(store_node_reap(f->s, &row, &lost, &err), 1);
	FAILS(-ESTALE,
	      store_cron_done(f->t, &x, &(struct store_attempt){ .id = "att-late" }, &err));
	OK(store_cron_retry(f->s, INT64_MAX, &again, &err));
	assert_string_equal(again.id, x.id);
	assert_int_equal(again.attempts, 1);
	OK(store_attempt_list(f->s, x.id, &a, &n, &err));
	assert_int_equal(n, 1);
	assert_string_equal(a->error, "its node is gone");
	free(a);
	OK(store_cron_running(f->s, &v, &n, &err));
	assert_int_equal(n, 1);
	free(v);
	OK(store_node_remove(f->s, row.id, /* lose= */ true, &err));
	OK(store_run_get(f->s, "acc", run.id, &run, &err));
	assert_int_equal(run.state, RUN_COMPLETE);
	assert_true(run.failed);
	store_run_done(&run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		T(only_the_owner_writes),
		T(a_node_collects_its_own),
		T(a_node_stores_its_own),
		T(a_node_settles_its_own_attempts),
	};

	if (!db_is_pg()) {
		fprintf(stderr, "test_store_pg.py runs this\n");
		return 1;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
