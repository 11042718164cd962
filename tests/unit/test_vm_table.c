/* SPDX-License-Identifier: Apache-2.0 */
/* test_vm_table.c - the table of VMs: found by id, listed by account, however many there are */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/hash.h"
#include "vm/vm_internal.h"

#define VMS 5000
#define ACCOUNTS 37

static struct vm *vms; /* VMS of them */
static struct vm_table t;

static int setup(void **state)
{
	(void)state;
	vms = calloc(VMS, sizeof(*vms));
	for (size_t i = 0; vms && i < VMS; i++) {
		snprintf(vms[i].shown.id, ID_SIZE, "vm%zu", i);
		snprintf(vms[i].shown.account, ACCOUNT_SIZE, "acc%zu", i % ACCOUNTS);
		vms[i].shown.created_ms = (int64_t)i;
		vms[i].shown.disk_mb = 20480;
	}
	return vms ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	while (t.n)
		table_remove(&t, t.all[0]);
	assert_int_equal(t.n_owners, 0);
	table_done(&t);
	free(vms);
	return 0;
}

static void add(size_t i)
{
	assert_int_equal(table_add(&t, &vms[i]), 0);
}

static void nothing_is_found_in_an_empty_one(void **state)
{
	(void)state;
	assert_null(table_find(&t, "vm1"));
	assert_null(table_first(&t, "acc1"));
	assert_int_equal(table_count(&t, "acc1"), 0);
}

/* Those that are in it, by id and by account, in the order in which they came. */
static void check(const bool *in)
{
	size_t n = 0;

	for (size_t i = 0; i < VMS; i++) {
		assert_ptr_equal(table_find(&t, vms[i].shown.id), in[i] ? &vms[i] : NULL);
		n += in[i];
	}
	assert_int_equal(t.n, n);
	for (size_t a = 0; a < ACCOUNTS; a++) {
		char account[ACCOUNT_SIZE];
		const struct vm *vm;

		snprintf(account, sizeof(account), "acc%zu", a);
		vm = table_first(&t, account);
		n = 0;
		for (size_t i = a; i < VMS; i += ACCOUNTS) {
			if (!in[i])
				continue;
			assert_ptr_equal(vm, &vms[i]);
			vm = table_next(vm);
			n++;
		}
		assert_null(vm);
		assert_int_equal(table_count(&t, account), n);
	}
	for (size_t i = 0; i < t.n; i++)
		assert_int_equal(t.all[i]->place.at, i);
	assert_true(table_is_right(&t));
}

static void thousands_are_found(void **state)
{
	static bool in[VMS];

	(void)state;
	for (size_t i = 0; i < VMS; i++) {
		add(i);
		in[i] = true;
	}
	check(in);
	for (size_t i = 0; i < VMS; i++) {
		size_t k = hash_text(vms[i].shown.id, 1) % VMS; /* the same each time */

		if (in[k])
			table_remove(&t, &vms[k]);
		in[k] = false;
	}
	check(in);
	for (size_t i = 0; i < VMS; i++)
		if (in[i])
			table_remove(&t, &vms[i]);
	memset(in, 0, sizeof(in));
	check(in);
	assert_int_equal(t.n_owners, 0);
}

static void one_that_left_may_come_again(void **state)
{
	(void)state;
	add(0);
	add(ACCOUNTS); /* of the same account */
	table_remove(&t, &vms[0]);
	assert_null(vms[0].place.owner);
	assert_ptr_equal(table_first(&t, "acc0"), &vms[ACCOUNTS]);
	add(0); /* to its place: it is older */
	assert_ptr_equal(table_first(&t, "acc0"), &vms[0]);
	assert_ptr_equal(table_next(&vms[0]), &vms[ACCOUNTS]);
	assert_ptr_equal(table_last(&t, "acc0"), &vms[ACCOUNTS]);
	assert_ptr_equal(table_prev(&vms[ACCOUNTS]), &vms[0]);
	assert_null(table_next(&vms[ACCOUNTS]));
	assert_ptr_equal(table_find(&t, "vm0"), &vms[0]);
	assert_null(table_find(&t, "vm"));
	assert_null(table_first(&t, "acc"));
}

/* What a VM shows is counted, whatever it shows next. */
static void what_they_show_is_counted(void **state)
{
	const struct vm_tally *c;
	struct vm_info i;

	(void)state;
	for (size_t k = 0; k < 100; k++)
		add(k);
	for (size_t k = 0; k < 1000; k++) {
		struct vm *vm = &vms[hash_text("x", k) % 100];

		i = vm->shown;
		i.state = (enum vm_state)(k % VM_STATE_MAX);
		i.vcpus = (uint32_t)(k % 5);
		i.mem_mb = (uint32_t)k;
		i.created_ms = (int64_t)(hash_text("y", k) % 1000);
		table_show(&t, vm, &i);
		assert_true(table_is_right(&t));
	}
	i = vms[0].shown;
	i.state = VM_RUNNING;
	i.vcpus = 7;
	table_show(&t, &vms[0], &i);
	for (size_t k = ACCOUNTS; k < 100; k += ACCOUNTS)
		table_remove(&t, &vms[k]);
	c = table_tally(&t, "acc0");
	assert_int_equal(c->by_state[VM_RUNNING], 1);
	assert_int_equal(c->sum.vms, 1);
	assert_int_equal(c->sum.vcpus, 7);
	assert_int_equal(c->sum.disk_mb, 20480);
	assert_int_equal(table_tally(&t, "nobody")->sum.vms, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(nothing_is_found_in_an_empty_one, setup, teardown),
		cmocka_unit_test_setup_teardown(thousands_are_found, setup, teardown),
		cmocka_unit_test_setup_teardown(one_that_left_may_come_again, setup, teardown),
		cmocka_unit_test_setup_teardown(what_they_show_is_counted, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
