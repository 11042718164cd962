/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_backup.c - backups of a manager at work: whatever state VMs are in, and whatever fails, a
 * second manager can be started on what was copied, and the first one goes on
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include <cmocka.h>

#include "backup/backup.h"
#include "base/auto.h"
#include "base/io.h"
#include "store/store.h"
#include "tests/unit/check.h"
#include "tests/vm/rig.h"

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

static struct backup_from from(struct rig *r)
{
	return (struct backup_from){ .data_dir = r->data_dir, .vmm = r->vmm };
}

static void state_is(struct rig *r, const char *id, enum vm_state want)
{
	struct vm_info i;

	OK(vmm_get(r->vmm, RIG_ACCOUNT, id, &i, &err));
	assert_int_equal(i.state, want);
}

/* A manager over what was backed up, which must agree with itself. */
static struct rig *restored(struct rig *r, const struct backup *b)
{
	struct rig *second;
	char data[PATH_MAX], key[PATH_MAX], copy[PATH_MAX];

	snprintf(data, sizeof(data), "%.4000s/data", b->path);
	snprintf(key, sizeof(key), "%s/secret.key", r->data_dir);
	snprintf(copy, sizeof(copy), "%.4000s/data/secret.key", b->path);
	OK(io_copy_file(key, copy, &err));
	second = rig_new(&(struct rig_opts){ .data_dir = data, .no_account = true });
	rig_check(second);
	return second;
}

static void usable(struct rig *r, const char *id)
{
	OK(rig_usable(r, id, &err));
}

static void every_state_comes_back(void **state)
{
	AUTO(backup_done) struct backup b = { 0 };
	struct rig *r = *state, *second;
	struct vm_info runs, sleeps, off, old, i;
	struct snapshot_info sc;
	struct backup_from f = from(r);

	OK(rig_create(r, NULL, &runs, &err));
	OK(rig_create(r, NULL, &sleeps, &err));
	OK(rig_create(r, NULL, &off, &err));
	OK(rig_create(r, NULL, &old, &err));
	OK(vmm_snapshot(r->vmm, RIG_ACCOUNT, old.id, "kept", NULL, &sc, &err));
	OK(vmm_delete(r->vmm, RIG_ACCOUNT, old.id, NULL, &err));
	OK(vmm_suspend(r->vmm, RIG_ACCOUNT, sleeps.id, &i, &err));
	OK(vmm_stop(r->vmm, RIG_ACCOUNT, off.id, &i, &err));
	OK(backup_begin(&f, &b, &err));
	assert_int_equal(b.vms.n_frozen, 1);
	assert_int_equal(b.vms.n_notes, 0);
	/* The first one goes on, and what it does is not in the backup. */
	state_is(r, runs.id, VM_RUNNING);
	state_is(r, sleeps.id, VM_SUSPENDED);
	usable(r, off.id);
	OK(vmm_delete(r->vmm, RIG_ACCOUNT, sleeps.id, NULL, &err));
	rig_check(r);

	second = restored(r, &b);
	state_is(second, runs.id, VM_SUSPENDED);
	state_is(second, sleeps.id, VM_SUSPENDED);
	state_is(second, off.id, VM_STOPPED);
	usable(second, runs.id);
	usable(second, sleeps.id);
	usable(second, off.id);
	OK(rig_create(second, sc.id, &i, &err));
	usable(second, i.id);
	rig_check(second);
	rig_free(second);
	OK(backup_end(r->data_dir, b.id, &err));
	FAILS(-ENOENT, backup_end(r->data_dir, b.id, &err));
	FAILS(-ENOENT, backup_end(r->data_dir, "../x", &err));
	usable(r, runs.id);
	rig_check(r);
}

/* ---- started behind its back ---- */

struct starter {
	struct rig *r;
	const char *id;
	bool done;
};

static void *start_it(void *arg)
{
	struct starter *s = arg;
	char out[32];
	struct err e = { 0 };

	s->done = rig_exec(s->r, s->id, "echo hello", out, sizeof(out), &e) == 0;
	return NULL;
}

/* In the freeze of another VM, once. */
static int start_in_freeze(void *ctx, enum fake_face face, const char *what, const char *object)
{
	struct starter *s = ctx;
	pthread_t t;

	if (face != FAKE_ENGINE || strncmp(what, "freeze", 6) != 0 || s->done)
		return 0;
	s->done = true; /* its own calls come here, too */
	assert_int_equal(pthread_create(&t, NULL, start_it, s), 0);
	pthread_join(t, NULL);
	return 0;
}

static void a_vm_that_starts_meanwhile_is_frozen_too(void **state)
{
	AUTO(backup_done) struct backup b = { 0 };
	struct rig *r = *state, *second;
	struct vm_info first, then, i;
	struct backup_from f = from(r);
	struct starter s = { .r = r };

	OK(rig_create(r, NULL, &first, &err));
	OK(rig_create(r, NULL, &then, &err));
	OK(vmm_suspend(r->vmm, RIG_ACCOUNT, first.id, &i, &err));
	s.id = first.id;
	r->ctx = &s;
	r->on_call = start_in_freeze;
	OK(backup_begin(&f, &b, &err));
	r->on_call = NULL;
	assert_true(s.done);
	assert_int_equal(b.vms.n_notes, 0);
	assert_int_equal(b.vms.n_frozen, 2);
	state_is(r, first.id, VM_RUNNING);
	second = restored(r, &b);
	usable(second, first.id);
	usable(second, then.id);
	rig_free(second);
	rig_check(r);
}

/* ---- things that fail ---- */

static int fail_freeze(void *ctx, enum fake_face face, const char *what, const char *object)
{
	return face == FAKE_ENGINE && strncmp(what, "freeze", 6) == 0 ? EIO : 0;
}

static void a_vm_that_cannot_be_frozen_is_older_in_it(void **state)
{
	AUTO(backup_done) struct backup b = { 0 };
	struct rig *r = *state, *second;
	struct vm_info vm;
	struct backup_from f = from(r);

	OK(rig_create(r, NULL, &vm, &err));
	r->on_call = fail_freeze;
	OK(backup_begin(&f, &b, &err));
	r->on_call = NULL;
	assert_int_equal(b.vms.n_frozen, 0);
	assert_int_equal(b.vms.n_notes, 1);
	assert_string_equal(b.vms.notes[0].vm, vm.id);
	assert_non_null(strstr(b.vms.notes[0].text, "last resumed"));
	second = restored(r, &b);
	state_is(second, vm.id, VM_SUSPENDED);
	usable(second, vm.id);
	rig_free(second);
	usable(r, vm.id);
	rig_check(r);
}

static unsigned calls, fail_at;

static int fail_nth(void *ctx, enum fake_face face, const char *what, const char *object)
{
	return __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED) == fail_at ? EIO : 0;
}

static void whatever_fails_the_server_goes_on(void **state)
{
	struct rig *r = *state;
	struct vm_info vm, off, i;
	struct backup_from f = from(r);

	OK(rig_create(r, NULL, &vm, &err));
	OK(rig_create(r, NULL, &off, &err));
	OK(vmm_stop(r->vmm, RIG_ACCOUNT, off.id, &i, &err));
	rig_settle(r);
	for (fail_at = 1; fail_at < 100; fail_at++) {
		AUTO(backup_done) struct backup b = { 0 };
		int k;

		calls = 0;
		r->on_call = fail_nth;
		k = backup_begin(&f, &b, &err);
		r->on_call = NULL;
		if (k == 0)
			rig_free(restored(r, &b));
		rig_check(r);
		usable(r, vm.id);
		if (calls < fail_at)
			break;
	}
	assert_true(fail_at > 2 && fail_at < 100);
}

static void a_missing_layer_is_noted(void **state)
{
	AUTO(backup_done) struct backup b = { 0 };
	struct rig *r = *state;
	struct vm_info vm, i;
	struct backup_from f = from(r);
	struct store_vm row;
	struct store_point p;
	char path[300];

	OK(rig_create(r, NULL, &vm, &err));
	OK(vmm_suspend(r->vmm, RIG_ACCOUNT, vm.id, &i, &err));
	OK(store_vm_get(r->store, vm.id, &row, &err));
	OK(store_point_get(r->store, row.info.point, &p, &err));
	snprintf(path, sizeof(path), "%s/layers/%s", r->data_dir, p.mem_layer);
	assert_int_equal(unlink(path), 0);
	OK(backup_begin(&f, &b, &err));
	assert_int_equal(b.vms.n_notes, 1);
	assert_string_equal(b.vms.notes[0].vm, p.mem_layer);
	OK(vmm_delete(r->vmm, RIG_ACCOUNT, vm.id, NULL, &err));
}

static void one_at_a_time(void **state)
{
	AUTO(backup_done) struct backup b = { 0 }, second = { 0 };
	struct rig *r = *state;
	struct backup_from f = from(r);
	char path[PATH_MAX];
	int fd;

	OK(backup_begin(&f, &b, &err));
	snprintf(path, sizeof(path), "%.4000s/lock", b.path);
	fd = open(path, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(flock(fd, LOCK_SH), 0); /* as `pando backup` does while it copies */
	FAILS(-EBUSY, backup_begin(&f, &second, &err));
	assert_int_equal(err.tag, ERR_CONFLICT);
	assert_int_equal(access(b.path, F_OK), 0);
	close(fd);
	/* Nobody copies it: the next one takes its place. */
	OK(backup_begin(&f, &second, &err));
	assert_int_equal(access(b.path, F_OK), -1);
	backup_sweep(r->data_dir);
	assert_int_equal(access(second.path, F_OK), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(t) cmocka_unit_test_setup_teardown(t, setup, teardown)
		T(every_state_comes_back),
		T(a_vm_that_starts_meanwhile_is_frozen_too),
		T(a_vm_that_cannot_be_frozen_is_older_in_it),
		T(whatever_fails_the_server_goes_on),
		T(a_missing_layer_is_noted),
		T(one_at_a_time),
	};
	int r = rig_main_begin();

	if (r == 0) {
		r = cmocka_run_group_tests(tests, NULL, NULL);
		rig_main_end();
	}
	return r;
}
