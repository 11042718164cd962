/* SPDX-License-Identifier: Apache-2.0 */
/* test_life.c - the verbs of the manager, undisturbed, over a fake host */
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
#include "base/clock.h"
#include "tests/unit/check.h"
#include "tests/vm/rig.h"
#include "vm/tree.h"
#include "vm/vm_internal.h"

static int setup(void **state)
{
	*state = rig_new(NULL);
	return 0;
}

static int teardown(void **state)
{
	*state = rig_free(*state);
	return 0;
}

static void says_hello(struct rig *r, const char *id)
{
	char out[64];

	OK(rig_exec(r, id, "echo hello", out, sizeof(out), &err));
	assert_string_equal(out, "hello\n");
}

static void a_whole_life(void **state)
{
	struct rig *r = *state;
	struct snapshot_info sc;
	struct vm_info vm, twin, i, *kids = NULL;

	rig_check(r);
	OK(rig_create(r, NULL, &vm, &err));
	says_hello(r, vm.id);
	rig_check(r);
	OK(vmm_suspend(r->vmm, RIG_ACCOUNT, vm.id, &i, &err));
	assert_int_equal(i.state, VM_SUSPENDED);
	rig_check(r);
	says_hello(r, vm.id);
	rig_check(r);
	OK(vmm_snapshot(r->vmm, RIG_ACCOUNT, vm.id, "one", NULL, &sc, &err));
	OK(rig_create(r, sc.id, &twin, &err));
	OK(vmm_fork(r->vmm, RIG_ACCOUNT, vm.id, 3, &(struct vm_fork_opts){ 0 }, &kids, &err));
	for (int k = 0; k < 3; k++)
		says_hello(r, kids[k].id);
	rig_check(r);
	OK(vmm_stop(r->vmm, RIG_ACCOUNT, vm.id, &i, &err));
	assert_int_equal(i.state, VM_STOPPED);
	rig_check(r);
	says_hello(r, vm.id);
	OK(vmm_kill(r->vmm, RIG_ACCOUNT, twin.id, &i, &err));
	for (int k = 0; k < 3; k++)
		OK(vmm_delete(r->vmm, RIG_ACCOUNT, kids[k].id, NULL, &err));
	free(kids);
	rig_check(r);
	OK(vmm_delete(r->vmm, RIG_ACCOUNT, vm.id, NULL, &err));
	OK(vmm_delete(r->vmm, RIG_ACCOUNT, twin.id, NULL, &err));
	rig_check(r);
	assert_int_equal(fake_alive(r->fake), 0);
}

/* More often than a chain may have layers. */
static void suspended_again_and_again(void **state)
{
	struct rig *r = *state;
	struct vm_info vm, i;

	OK(rig_create(r, NULL, &vm, &err));
	for (int n = 0; n < ENGINE_CHAIN_MAX + 4; n++) {
		OK(vmm_suspend(r->vmm, RIG_ACCOUNT, vm.id, &i, &err));
		says_hello(r, vm.id);
	}
	rig_check(r);
	OK(vmm_delete(r->vmm, RIG_ACCOUNT, vm.id, NULL, &err));
	rig_check(r);
}

static void vms_outlive_the_manager(void **state)
{
	struct rig *r = *state;
	struct vm_info runs, sleeps, dies, i;

	OK(rig_create(r, NULL, &runs, &err));
	OK(rig_create(r, NULL, &sleeps, &err));
	OK(rig_create(r, NULL, &dies, &err));
	OK(vmm_suspend(r->vmm, RIG_ACCOUNT, sleeps.id, &i, &err));
	rig_check(r);
	rig_crash(r);
	fake_die(r->fake, dies.instance);
	OK(rig_start(r, &err));
	rig_check(r);
	OK(vmm_get(r->vmm, RIG_ACCOUNT, runs.id, &i, &err));
	assert_int_equal(i.state, VM_RUNNING);
	assert_string_equal(i.instance, runs.instance);
	OK(vmm_get(r->vmm, RIG_ACCOUNT, dies.id, &i, &err));
	assert_int_equal(i.state, VM_STOPPED);
	says_hello(r, runs.id);
	says_hello(r, sleeps.id);
	says_hello(r, dies.id);
	rig_check(r);
}

/* As the keeper does it when its time has come. */
static void make_checkpoint(struct rig *r, const char *id, char ret[ID_SIZE])
{
	struct vm *vm;

	OK(vmm_lock(r->vmm, RIG_ACCOUNT, id, &vm, &err));
	vm->row.info.checkpoint_every_s = 3600;
	vm->checkpoint_ms = clock_ms() - UINT64_C(3600) * 1000; /* wraps if we are young */
	vm_look_at_checkpoint(vm);
	snprintf(ret, ID_SIZE, "%s", vm->row.checkpoint);
	vm_unlock(vm);
}

static void back_to_a_checkpoint(void **state)
{
	struct rig *r = *state;
	char first[ID_SIZE], second[ID_SIZE];
	struct vm_rewind w;
	struct store_point p;
	struct vm_info vm, i;

	OK(rig_create(r, NULL, &vm, &err));
	assert_int_equal(vmm_rewind(r->vmm, RIG_ACCOUNT, vm.id, NULL, true, &w, &err), -ENOENT);
	assert_int_equal(err.tag, ERR_SNAPSHOT_NOT_FOUND);
	make_checkpoint(r, vm.id, first);
	make_checkpoint(r, vm.id, second);
	assert_true(*first && *second && strcmp(first, second) != 0);
	rig_check(r);
	FAILS(-ENOENT, store_point_get(r->store, first, &p, &err)); /* one is kept */
	OK(store_point_get(r->store, second, &p, &err));
	rig_crash(r);
	fake_die(r->fake, vm.instance);
	OK(rig_start(r, &err));
	OK(vmm_get(r->vmm, RIG_ACCOUNT, vm.id, &i, &err));
	assert_int_equal(i.state, VM_STOPPED); /* never by itself */
	OK(vmm_rewind(r->vmm, RIG_ACCOUNT, vm.id, NULL, false, &w, &err));
	assert_int_equal(w.vm.state, VM_SUSPENDED);
	assert_string_equal(w.vm.point, second);
	OK(rig_usable(r, vm.id, &err));
	rig_check(r);
	OK(vmm_delete(r->vmm, RIG_ACCOUNT, vm.id, NULL, &err));
	rig_check(r);
	FAILS(-ENOENT, store_point_get(r->store, second, &p, &err));
}

static void a_pool_hands_over(void **state)
{
	struct rig *r = rig_new(&(struct rig_opts){ .pool = 2, .blanks = 1 });
	struct vmm_status st;
	struct vm_info vm;

	(void)state;
	rig_check(r);
	OK(rig_create(r, NULL, &vm, &err));
	vmm_status(r->vmm, &st);
	assert_int_equal(st.pool_given, 1);
	OK(rig_usable(r, vm.id, &err));
	rig_check(r);
	rig_crash(r);
	OK(rig_start(r, &err));
	OK(rig_usable(r, vm.id, &err));
	rig_check(r);
	rig_free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_whole_life, setup, teardown),
		cmocka_unit_test_setup_teardown(suspended_again_and_again, setup, teardown),
		cmocka_unit_test_setup_teardown(vms_outlive_the_manager, setup, teardown),
		cmocka_unit_test_setup_teardown(back_to_a_checkpoint, setup, teardown),
		cmocka_unit_test(a_pool_hands_over),
	};
	int r = rig_main_begin();

	if (r == 0) {
		r = cmocka_run_group_tests(tests, NULL, NULL);
		rig_main_end();
	}
	return r;
}
