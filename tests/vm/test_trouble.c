/* SPDX-License-Identifier: Apache-2.0 */
/* test_trouble.c - defects that were seen, each as it was met */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/clock.h"
#include "tests/fault/fault.h"
#include "tests/unit/check.h"
#include "tests/vm/rig.h"
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

static size_t n_vms(struct rig *r)
{
	struct vm_info *v = NULL;
	size_t n = 0;

	OK(vmm_list(r->vmm, RIG_ACCOUNT, &v, &n, &err));
	free(v);
	return n;
}

/* ---- fork ---- */

struct hunt {
	struct rig *r;
	char parent[ID_SIZE];
	atomic_bool over;
	atomic_uint shots;
};

/* Kills the first child that the list shows, as soon as it shows one. */
static void *hunter(void *arg)
{
	struct hunt *h = arg;

	while (!atomic_load(&h->over)) {
		struct vm_info *v = NULL, i;
		size_t n = 0;

		if (vmm_list(h->r->vmm, RIG_ACCOUNT, &v, &n, NULL) < 0)
			continue;
		for (size_t k = 0; k < n; k++)
			if (strcmp(v[k].id, h->parent) != 0 && !h->shots &&
			    vmm_kill(h->r->vmm, RIG_ACCOUNT, v[k].id, &i, NULL) == 0)
				h->shots++;
		free(v);
	}
	return NULL;
}

static void a_child_that_is_killed_while_it_is_made(void **state)
{
	struct hunt h = { .r = *state };
	struct vm_info vm, *kids = NULL;
	pthread_t t;

	OK(rig_create(h.r, NULL, &vm, &err));
	snprintf(h.parent, sizeof(h.parent), "%s", vm.id);
	assert_int_equal(pthread_create(&t, NULL, hunter, &h), 0);
	OK(vmm_fork(h.r->vmm, RIG_ACCOUNT, vm.id, 12, &(struct vm_fork_opts){ 0 }, &kids, &err));
	while (!h.shots && n_vms(h.r) > 1)
		poll(NULL, 0, 1);
	atomic_store(&h.over, true);
	pthread_join(t, NULL);
	free(kids);
	rig_check(h.r);
}

/* Machines that die when they are let go: the first `n` of them. */
struct deaths {
	struct rig *r;
	atomic_int left;
	char except[ID_SIZE]; /* the parent */
};

static int die_at_cont(void *ctx, enum fake_face face, const char *what, const char *object)
{
	struct deaths *d = ctx;

	if (face == FAKE_ENGINE && !strcmp(what, "cont") && strcmp(object, d->except) != 0 &&
	    atomic_fetch_sub(&d->left, 1) > 0)
		fake_die(d->r->fake, object);
	return 0;
}

static void a_lost_child_is_made_again(void **state)
{
	struct rig *r = *state;
	struct deaths d = { .r = r, .left = 1 };
	struct vm_info vm, *kids = NULL;

	OK(rig_create(r, NULL, &vm, &err));
	snprintf(d.except, sizeof(d.except), "%s", vm.instance);
	r->ctx = &d;
	r->on_call = die_at_cont;
	OK(vmm_fork(r->vmm, RIG_ACCOUNT, vm.id, 4, &(struct vm_fork_opts){ 0 }, &kids, &err));
	r->on_call = NULL;
	assert_int_equal(n_vms(r), 5);
	for (int i = 0; i < 4; i++)
		OK(rig_exec(r, kids[i].id, "true", NULL, 0, &err));
	free(kids);
	rig_check(r);
}

static void a_fork_that_fails_leaves_nothing(void **state)
{
	struct rig *r = *state;
	struct deaths d = { .r = r, .left = 1000 };
	struct vm_info vm, *kids = NULL;

	OK(rig_create(r, NULL, &vm, &err));
	snprintf(d.except, sizeof(d.except), "%s", vm.instance);
	r->ctx = &d;
	r->on_call = die_at_cont;
	memset(&err, 0, sizeof(err));
	assert_true(vmm_fork(r->vmm, RIG_ACCOUNT, vm.id, 4, &(struct vm_fork_opts){ 0 }, &kids,
	                     &err) < 0);
	r->on_call = NULL;
	assert_int_equal(err.tag, ERR_FORK_FAILED);
	assert_int_equal(n_vms(r), 1);
	rig_check(r);
	OK(rig_usable(r, vm.id, &err));
	rig_check(r);
}

/* ---- the agent's channel ---- */

static struct fault_agent *channels[8]; /* all that were made, in their order */
static atomic_size_t n_channels;

static int on_agent(void *ctx, int fd_consume)
{
	size_t i = atomic_fetch_add(&n_channels, 1);
	int fd, r;

	(void)ctx;
	assert_true(i < ARRAY_SIZE(channels));
	r = fault_agent_start(fd_consume, &fd, &channels[i], NULL);
	return r < 0 ? r : fd;
}

/* ---- agents that do not answer at start ---- */

enum { SILENT = 3 };
static int silent_ends[SILENT]; /* of channels that lead nowhere */
static atomic_size_t n_silent;

static int nobody_there(void *ctx, int fd_consume)
{
	size_t i = atomic_fetch_add(&n_silent, 1);
	int v[2];

	(void)ctx;
	close(fd_consume);
	assert_true(i < SILENT);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, v), 0);
	silent_ends[i] = v[1];
	return v[0];
}

/* The server is there before it has given up on a single one of them, and it asks all at once.
 * What they have used is known by then, although it was not saved since. */
static void silent_agents_hold_up_no_start(void **state)
{
	struct rig *r = *state;
	struct vm_times times = rig_times;
	struct vm_info vm[SILENT];
	uint64_t end = deadline_in(60000);

	for (size_t i = 0; i < SILENT; i++)
		OK(rig_create(r, NULL, &vm[i], &err));
	atomic_store(&r->fake->cpu_us, 5000000);
	OK(vmm_get_used(r->vmm, NULL, vm[0].id, &vm[0], &err));
	assert_true(vm_usage_total(&vm[0]).cpu_s >= 5);
	rig_crash(r);
	times.agent_reconnect = 30000;
	times.agent_greet = 100;
	r->opts.times = &times;
	r->fake->on_agent = nobody_there;
	OK(rig_start(r, &err));
	while (n_silent < SILENT && deadline_left(end))
		poll(NULL, 0, 5);
	assert_int_equal(n_silent, SILENT);
	r->fake->on_agent = NULL;
	for (size_t i = 0; i < SILENT; i++) {
		struct pollfd p = { .fd = silent_ends[i] };

		assert_int_equal(poll(&p, 1, 0), 0); /* POLLHUP: it was given up on */
	}
	for (size_t i = 0; i < SILENT; i++) {
		OK(vmm_get_used(r->vmm, NULL, vm[i].id, &vm[i], &err));
		assert_true(vm_usage_total(&vm[i]).cpu_s >= 5);
		close(silent_ends[i]); /* the other end is told, and tries again */
	}
	atomic_store(&r->fake->cpu_us, 0);
	for (size_t i = 0; i < SILENT; i++)
		OK(rig_usable(r, vm[i].id, &err));
	rig_check(r);
	r->opts.times = NULL;
}

/* A command that ends when it is killed, and never times out. */
struct endless {
	struct guest *g;
	char command[256];
	int result;
};

static void *endless_main(void *arg)
{
	AUTO(guest_exec_result_done) struct guest_exec_result res = { 0 };
	struct endless *e = arg;

	e->result = guest_exec(e->g, &(struct guest_exec_req){ .command = e->command }, &res, NULL);
	return NULL;
}

/* The guest neither answers nor hangs up: only the call that finds out fails. */
static void a_channel_that_falls_silent(void **state)
{
	struct rig *r = *state;
	char running[256], end[256];
	struct endless e = { 0 };
	struct vm_info vm;
	pthread_t t;

	r->fake->on_agent = on_agent;
	OK(rig_create(r, NULL, &vm, &err));
	assert_int_equal(n_channels, 1);
	snprintf(e.command, sizeof(e.command), "echo $$ >%s/pid; exec sleep 3600", r->dir);
	snprintf(running, sizeof(running), "test -s %s/pid", r->dir);
	snprintf(end, sizeof(end), "kill $(cat %s/pid)", r->dir);
	OK(vmm_guest(r->vmm, RIG_ACCOUNT, vm.id, &e.g, &err));
	assert_int_equal(pthread_create(&t, NULL, endless_main, &e), 0);
	while (rig_exec(r, vm.id, running, NULL, 0, NULL) < 0)
		poll(NULL, 0, 1);
	fault_set(&(struct fault_plan){
	        .kinds = FAULT_BIT(FAULT_AGENT), .nth = 1, .error = FAULT_STALL });
	fault_arm();
	FAILS(-ETIMEDOUT, guest_ping(e.g, deadline_in(200), &err));
	fault_disarm();
	/* What waits for an answer is told; the next one talks to the agent again. */
	pthread_join(t, NULL);
	assert_int_equal(e.result, -ECONNRESET);
	OK(rig_exec(r, vm.id, end, NULL, 0, &err)); /* it went on without a listener */
	assert_int_equal(n_channels, 2);
	guest_unref(e.g);
	rig_check(r);
	OK(rig_usable(r, vm.id, &err));
	r->fake->on_agent = NULL;
	rig_free(r);
	*state = NULL;
	for (size_t i = 0; i < n_channels; i++)
		fault_agent_stop(channels[i]);
}

/* ---- a machine that dies ---- */

/* The linker has it called instead of pthread_create(): no thread for the n next callers. */
static atomic_int no_threads;

int __real_pthread_create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
int __wrap_pthread_create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
int __wrap_pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*fn)(void *), void *arg)
{
	if (atomic_load(&no_threads) > 0 && atomic_fetch_sub(&no_threads, 1) > 0)
		return EAGAIN;
	return __real_pthread_create(t, a, fn, arg);
}

/* Nobody uses the VM: its end is settled all the same. */
static void a_machine_that_dies_when_there_is_no_thread(void **state)
{
	struct rig *r = *state;
	struct vm_info vm, i;

	OK(rig_create(r, NULL, &vm, &err));
	rig_check(r);
	atomic_store(&no_threads, 3);
	fake_die(r->fake, vm.instance);
	do {
		poll(NULL, 0, 10);
		OK(vmm_get(r->vmm, RIG_ACCOUNT, vm.id, &i, &err));
	} while (i.state == VM_RUNNING);
	assert_int_equal(i.state, VM_STOPPED);
	assert_true(atomic_load(&no_threads) <= 0);
	atomic_store(&no_threads, 0);
	rig_check(r);
	OK(rig_usable(r, vm.id, &err));
}

/* ---- suspend ---- */

static void a_suspend_that_the_store_refuses(void **state)
{
	struct rig *r = *state;
	struct vm_info vm, i;

	OK(rig_create(r, NULL, &vm, &err));
	/* The first write is the transaction that makes it suspended. */
	fault_set(&(struct fault_plan){
	        .kinds = FAULT_BIT(FAULT_STORE), .nth = 1, .error = ENOSPC, .stays = true });
	fault_arm();
	memset(&err, 0, sizeof(err));
	assert_true(vmm_suspend(r->vmm, RIG_ACCOUNT, vm.id, &i, &err) < 0);
	fault_disarm();
	assert_true(fault_fired());
	OK(vmm_get(r->vmm, RIG_ACCOUNT, vm.id, &i, &err));
	assert_int_equal(i.state, VM_RUNNING);
	OK(rig_exec(r, vm.id, "true", NULL, 0, &err));
	rig_check(r);
	OK(rig_usable(r, vm.id, &err));
}

/* ---- create ---- */

static void a_wrong_vpc_costs_no_ready_vm(void **state)
{
	struct rig *r = rig_new(&(struct rig_opts){ .pool = 1 });
	struct vm_nic nic = { .account = RIG_ACCOUNT, .vpc = "vpc-nonesuch" };
	struct vm_create_opts o = { .account = RIG_ACCOUNT, .nic = &nic, .idle_timeout_s = -1 };
	struct vmm_status before, after;
	struct vm_info vm;

	(void)state;
	rig_check(r);
	vmm_status(r->vmm, &before);
	FAILS(-ENOENT, vmm_create(r->vmm, &o, &vm, &err));
	assert_int_equal(err.tag, ERR_NOT_FOUND);
	vmm_status(r->vmm, &after);
	assert_int_equal(after.pool_ready, 1); /* at once: the same one */
	assert_int_equal(after.pool_given, before.pool_given);
	rig_check(r);
	OK(rig_create(r, NULL, &vm, &err));
	OK(rig_usable(r, vm.id, &err));
	rig_check(r);
	rig_free(r);
}

static void a_store_that_fails_is_not_a_missing_snapshot(void **state)
{
	struct rig *r = *state;
	struct snapshot_info sc, got;
	struct vm_info vm;

	OK(rig_create(r, NULL, &vm, &err));
	OK(vmm_snapshot(r->vmm, RIG_ACCOUNT, vm.id, NULL, NULL, &sc, &err));
	for (unsigned long n = 1;; n++) {
		int k;

		fault_set(&(struct fault_plan){ .kinds = FAULT_BIT(FAULT_STORE_MEMORY), .nth = n });
		fault_arm();
		memset(&err, 0, sizeof(err));
		k = vmm_snapshot_get(r->vmm, RIG_ACCOUNT, sc.id, &got, &err);
		fault_disarm();
		if (!fault_fired())
			break;
		if (k < 0)
			assert_int_not_equal(k, -ENOENT);
		fault_set(&(struct fault_plan){ .kinds = FAULT_BIT(FAULT_STORE_MEMORY), .nth = n });
		fault_arm();
		memset(&err, 0, sizeof(err));
		k = rig_create(r, sc.id, &vm, &err);
		fault_disarm();
		if (k < 0)
			assert_int_not_equal(k, -ENOENT);
		else
			OK(vmm_delete(r->vmm, RIG_ACCOUNT, vm.id, NULL, &err));
	}
	FAILS(-ENOENT, vmm_snapshot_get(r->vmm, RIG_ACCOUNT, "sc-nonesuch", &got, &err));
	rig_check(r);
}

/* ---- suspend ---- */

static int die_at_freeze(void *ctx, enum fake_face face, const char *what, const char *object)
{
	struct rig *r = ctx;
	struct fake_machine m;

	if (face != FAKE_ENGINE || strncmp(what, "freeze", 6) != 0)
		return 0;
	fake_die(r->fake, object);
	while (fake_find(r->fake, object, &m) && fake_runs(r->fake, object))
		poll(NULL, 0, 1);
	return EIO;
}

/* It was "suspending" until the reaper came by; whoever came before that, such as a resize, took it
 * for a VM at rest, and what it had of the machine was lost. */
static void a_suspend_whose_machine_dies_leaves_a_stopped_vm(void **state)
{
	struct rig *r = *state;
	struct vm_size_fault fault;
	struct vm_info vm, i;

	OK(rig_create(r, NULL, &vm, &err));
	for (unsigned n = 0; n < 10; n++) {
		r->ctx = r;
		r->on_call = die_at_freeze;
		assert_true(vmm_suspend(r->vmm, RIG_ACCOUNT, vm.id, &i, NULL) < 0);
		OK(vmm_get(r->vmm, RIG_ACCOUNT, vm.id, &i, &err));
		assert_int_equal(i.state, VM_STOPPED);
		r->on_call = NULL;
		OK(vmm_resize(r->vmm, RIG_ACCOUNT, vm.id,
		              &(struct vm_size){ .vcpus = n % 2 ? 1 : 2 }, &fault, &err));
		OK(vmm_start(r->vmm, RIG_ACCOUNT, vm.id, &(struct vm_start_opts){ 0 }, &i, &err));
	}
	rig_check(r);
}

/* ---- kill ---- */

struct slow_start {
	struct rig *r;
	char id[ID_SIZE];
	atomic_bool spawning;
	int result;
};

/* The process takes longer than a kill waits before it cuts a start short; then the agent is
 * silent. */
static int start_slowly(void *ctx, enum fake_face face, const char *what, const char *object)
{
	struct slow_start *s = ctx;
	struct fake_machine m;

	if (face != FAKE_ENGINE)
		return 0;
	if (!strcmp(what, "spawn")) {
		atomic_store(&s->spawning, true);
		poll(NULL, 0, (int)rig_times.end_wait + 500);
	} else if (!strcmp(what, "agent socket") && fake_find(s->r->fake, object, &m)) {
		kill(m.agent, SIGSTOP);
	}
	return 0;
}

static void *starter(void *arg)
{
	struct slow_start *s = arg;
	struct vm_info i;

	s->result =
	        vmm_start(s->r->vmm, RIG_ACCOUNT, s->id, &(struct vm_start_opts){ 0 }, &i, NULL);
	return NULL;
}

static void a_start_is_cut_short_before_it_has_a_process(void **state)
{
	struct vm_times times = rig_times;
	struct slow_start s = { 0 };
	struct vm_info vm;
	pthread_t t;

	(void)state;
	times.agent_boot = 600000; /* nobody waits for that */
	s.r = rig_new(&(struct rig_opts){ .times = &times });
	OK(rig_create(s.r, NULL, &vm, &err));
	OK(vmm_kill(s.r->vmm, RIG_ACCOUNT, vm.id, &vm, &err));
	snprintf(s.id, sizeof(s.id), "%s", vm.id);
	s.r->ctx = &s;
	s.r->on_call = start_slowly;
	assert_int_equal(pthread_create(&t, NULL, starter, &s), 0);
	while (!atomic_load(&s.spawning))
		poll(NULL, 0, 1);
	OK(vmm_kill(s.r->vmm, RIG_ACCOUNT, vm.id, &vm, &err));
	pthread_join(t, NULL);
	assert_true(s.result < 0);
	assert_int_equal(vm.state, VM_STOPPED);
	s.r->on_call = NULL;
	rig_check(s.r);
	rig_free(s.r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_channel_that_falls_silent, setup, teardown),
		cmocka_unit_test_setup_teardown(silent_agents_hold_up_no_start, setup, teardown),
		cmocka_unit_test_setup_teardown(a_machine_that_dies_when_there_is_no_thread, setup,
		                                teardown),
		cmocka_unit_test_setup_teardown(a_suspend_that_the_store_refuses, setup, teardown),
		cmocka_unit_test(a_wrong_vpc_costs_no_ready_vm),
		cmocka_unit_test_setup_teardown(a_store_that_fails_is_not_a_missing_snapshot, setup,
		                                teardown),
		cmocka_unit_test_setup_teardown(a_lost_child_is_made_again, setup, teardown),
		cmocka_unit_test_setup_teardown(a_fork_that_fails_leaves_nothing, setup, teardown),
		cmocka_unit_test_setup_teardown(a_child_that_is_killed_while_it_is_made, setup,
		                                teardown),
		cmocka_unit_test_setup_teardown(a_suspend_whose_machine_dies_leaves_a_stopped_vm,
		                                setup, teardown),
		cmocka_unit_test(a_start_is_cut_short_before_it_has_a_process),
	};
	int r = rig_main_begin();

	if (r == 0) {
		fault_store_install(/* memory= */ true);
		r = cmocka_run_group_tests(tests, NULL, NULL);
		rig_main_end();
	}
	return r;
}
