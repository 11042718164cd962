/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_node.c - several nodes with one database: joining, what is refused, leases,
 * takeover, quotas; test_node_own.c has the rest. test_store_pg.py starts the server; other nodes
 * are other processes where they have to be stopped, and other connections of this one where not.
 */
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "tests/unit/node_fx.h"

#define WAIT_MS 60000

static void two_join_and_see_each_other(void **state)
{
	struct fx *f = *state;
	struct node_seen *v = NULL;
	char address[NODE_ADDRESS_SIZE], name[NODE_NAME_SIZE];
	size_t n = 0;

	one(f, false);
	two(f);
	OK(node_list(f->m, &v, &n, &err));
	assert_int_equal(n, 2);
	assert_string_equal(v[0].row.name, "one");
	assert_int_equal(v[0].health, NODE_ALIVE);
	assert_int_equal(v[1].row.gen, 1);
	free(v);
	OK(node_address(f->m, node_id(f->n), address, name, &err));
	assert_string_equal(address, "192.0.2.1:1");
	FAILS(-EHOSTUNREACH, node_address(f->m, "nd-none", address, name, &err));
	assert_string_equal(store_node_id(f->t), node_id(f->m));
}

static void what_cannot_join_is_told_why(void **state)
{
	struct fx *f = *state;
	struct node_conf c;
	struct store *s = NULL;
	char id[ID_SIZE], place[512];
	bool fresh;

	one(f, false);
	/* a machine by itself, while nodes use it */
	FAILS(-EBUSY, store_open(f->db, &s, &err));
	assert_non_null(strstr(err.msg, "PANDO_NODE_ADDRESS"));
	/* a copy of a data directory */
	FAILS(-EBUSY, store_open_as(f->db, node_id(f->n), &s, &err));
	assert_non_null(strstr(err.msg, "copy of a data directory"));
	/* the same name, the same address */
	open_store(f, &f->other, &f->t, id, &fresh);
	c = conf_of(f->t, id, "one", "192.0.2.2:1", fresh);
	FAILS(-EINVAL, node_open(&c, &f->m, &err));
	assert_non_null(strstr(err.msg, "PANDO_NODE_NAME"));
	c = conf_of(f->t, id, "two", "192.0.2.1:1", fresh);
	FAILS(-EINVAL, node_open(&c, &f->m, &err));
	assert_non_null(strstr(err.msg, "PANDO_NODE_ADDRESS"));
	/* later, without the setting */
	f->n = node_close(f->n);
	f->s = store_close(f->s);
	f->t = store_close(f->t);
	FAILS(-EINVAL, store_start(f->dir.path, f->db, NULL, &f->s, &fresh, &err));
	assert_non_null(strstr(err.msg, "shared by nodes"));
	/* another cluster's database */
	OK(node_self_id(f->dir.path, id, &err));
	OK(store_open_as(f->db, id, &f->s, &err));
	db_at(&f->other, "pando.db", place, sizeof(place));
	FAILS(-EINVAL, store_start(f->dir.path, place, id, &f->t, &fresh, &err));
	assert_non_null(strstr(err.msg, "is empty, but the data directory"));
}

static void a_machine_becomes_the_first_node_with_its_vms(void **state)
{
	struct fx *f = *state;
	struct store_vm v = { .slot = -1, .info = { .state = VM_SUSPENDED } }, got;
	struct store_vm *all = NULL;
	char id[ID_SIZE], point[ID_SIZE];
	struct node_conf c;
	size_t n = 0;
	bool fresh;

	OK(store_start(f->dir.path, f->db, NULL, &f->s, &fresh, &err));
	id_make("", v.info.id);
	OK(store_vm_add(f->s, &v, &err));
	struct store_point p = { .kind = POINT_TEMPLATE };
	id_make("pt-", p.id);
	OK(store_point_add(f->s, &p, NULL, 0, &err));
	OK(store_template_set(f->s, "key", p.id, &err));
	f->s = store_close(f->s);
	/* another machine must not come first */
	open_store(f, &f->other, &f->t, id, &fresh);
	c = conf_of(f->t, id, "two", "192.0.2.2:1", fresh);
	FAILS(-EINVAL, node_open(&c, &f->m, &err));
	assert_non_null(strstr(err.msg, "start that one with PANDO_NODE_ADDRESS first"));
	one(f, false);
	OK(store_vm_get(f->s, v.info.id, &got, &err));
	assert_string_equal(got.node, node_id(f->n));
	assert_string_equal(got.home, node_id(f->n));
	assert_int_equal(got.epoch, 1);
	OK(store_template_get(f->s, "key", point, &err));
	assert_string_equal(point, p.id);
	/* and now it may; what is the first one's is not its */
	OK(node_open(&c, &f->m, &err));
	OK(store_vm_list(f->t, NULL, &all, &n, &err));
	assert_int_equal(n, 0);
	free(all);
	FAILS(-ENOENT, store_template_get(f->t, "key", point, &err));
	OK(store_template_set(f->t, "key", p.id, &err));
	OK(store_template_drop(f->t, "key", p.id, &err));
	OK(store_template_get(f->s, "key", point, &err));
}

/* ---- rows ---- */

static void quotas_hold_across_nodes(void **state)
{
	struct fx *f = *state;
	struct store_vm v;

	one(f, false);
	two(f);
	OK(add_accounts(f->s, 2, &err));
	/* what two nodes found free at the same time is not given twice */
	v = vm_row(f->s, "acc", VM_RUNNING);
	OK(store_vm_add(f->s, &v, &err));
	v = vm_row(f->t, "acc", VM_RUNNING);
	OK(store_vm_add(f->t, &v, &err));
	v = vm_row(f->s, "acc", VM_RUNNING);
	FAILS(-EDQUOT, store_vm_add(f->s, &v, &err));
	assert_non_null(strstr(err.msg, "2 VMs on all nodes"));
	FAILS(-ENOENT, store_vm_get(f->s, v.info.id, &v, &err));
}

/* ---- death ---- */

static int said_over = -1;

static void over(void *ctx)
{
	(void)!write(said_over, "over", 4);
	_exit(0);
}

struct child {
	pid_t pid;
	int from; /* what it says, line by line */
};

static void say(int to, const char *text)
{
	if (write(to, text, strlen(text)) < 0)
		_exit(3);
}

/* A node with a running VM, a suspended one and one that is being built, in a process of its own.
 */
static void be_another(struct fx *f, int to)
{
	struct store *s = NULL;
	struct node *n = NULL;
	struct node_conf c;
	struct err e = { 0 };
	char id[ID_SIZE];
	struct store_vm v;
	bool fresh;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (node_self_id(f->other.path, id, &e) < 0 ||
	    store_start(f->other.path, f->db, id, &s, &fresh, &e) < 0)
		_exit(2);
	said_over = to;
	c = conf_of(s, id, "two", "192.0.2.2:1", fresh);
	c.over = over;
	if (node_open(&c, &n, &e) < 0 || add_accounts(s, QUOTA_NONE, &e) < 0)
		_exit(2);
	for (int st = 0; st < 3; st++) {
		char line[ID_SIZE + 2];

		v = vm_row(s, "acc",
		           (enum vm_state[]){ VM_RUNNING, VM_SUSPENDED, VM_BUILDING }[st]);
		if (store_vm_add(s, &v, &e) < 0)
			_exit(2);
		snprintf(line, sizeof(line), "%s\n", v.info.id);
		say(to, line);
	}
	for (;;)
		pause();
}

/* Up to the end of the line, or of what there is to come. */
static void read_line(int fd, char *ret, size_t size)
{
	size_t n = 0;

	for (;;) {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		char c;

		assert_int_equal(poll(&p, 1, WAIT_MS), 1);
		if (read(fd, &c, 1) != 1 || c == '\n')
			break;
		assert_true(n + 1 < size);
		ret[n++] = c;
	}
	ret[n] = '\0';
}

static struct child start_another(struct fx *f)
{
	struct child c;
	int p[2];

	assert_int_equal(pipe(p), 0);
	c.pid = fork();
	assert_true(c.pid >= 0);
	if (c.pid == 0)
		be_another(f, p[1]);
	close(p[1]);
	c.from = p[0];
	return c;
}

static void end_another(struct child *c)
{
	kill(c->pid, SIGKILL);
	waitpid(c->pid, NULL, 0);
	close(c->from);
}

static void until_lost(struct store *s, const char *id)
{
	uint64_t until = deadline_in(WAIT_MS);

	while (state_of(s, id) != VM_LOST) {
		assert_true(clock_ms() < until);
		usleep(50 * 1000);
	}
}

static void a_dead_node_is_taken_over(void **state)
{
	struct fx *f = *state;
	char ran[64], slept[64], built[64];
	struct node_counts counts;
	struct store_node row;
	struct store_vm v;
	struct child c;

	/* forked before this process has connections */
	c = start_another(f);
	read_line(c.from, ran, sizeof(ran));
	read_line(c.from, slept, sizeof(slept));
	read_line(c.from, built, sizeof(built));
	one(f, true);
	kill(c.pid, SIGKILL);
	until_lost(f->s, ran);
	assert_int_equal(state_of(f->s, slept), VM_SUSPENDED);
	assert_int_equal(state_of(f->s, built), VM_LOST);
	OK(store_vm_get(f->s, ran, &v, &err));
	assert_int_equal(v.epoch, 2);
	assert_string_not_equal(v.home, node_id(f->n));
	node_counts(f->n, &counts);
	assert_true(counts.left_ms > 0);
	/* what only it has is not thrown away unasked */
	FAILS(-ENOENT, store_node_find(f->s, "three", &row, &err));
	OK(store_node_find(f->s, "two", &row, &err));
	assert_false(row.alive);
	FAILS(-EBUSY, store_node_remove(f->s, row.id, /* lose= */ false, &err));
	assert_non_null(strstr(err.msg, "3 VMs"));
	OK(store_node_remove(f->s, row.id, /* lose= */ true, &err));
	FAILS(-ENOENT, store_vm_get(f->s, slept, &v, &err));
	OK(store_node_find(f->s, "one", &row, &err));
	FAILS(-EBUSY, store_node_remove(f->s, row.id, /* lose= */ true, &err));
	end_another(&c);
}

/* Whatever it does when it comes back is refused, and it ends by itself. */
static void a_node_that_was_stopped_ends(void **state)
{
	struct fx *f = *state;
	char ran[64], rest[64], said[64];
	struct child c = start_another(f);
	int status;

	read_line(c.from, ran, sizeof(ran));
	read_line(c.from, rest, sizeof(rest));
	read_line(c.from, rest, sizeof(rest));
	one(f, true);
	kill(c.pid, SIGSTOP);
	until_lost(f->s, ran);
	kill(c.pid, SIGCONT);
	read_line(c.from, said, sizeof(said));
	assert_string_equal(said, "over");
	assert_int_equal(waitpid(c.pid, &status, 0), c.pid);
	assert_int_equal(status, 0);
	close(c.from);
	/* it joins again with a generation of its own */
	{
		struct store_node row;
		struct node_conf nc;
		char id[ID_SIZE];
		bool fresh;

		open_store(f, &f->other, &f->t, id, &fresh);
		nc = conf_of(f->t, id, "two", "192.0.2.2:1", fresh);
		OK(node_open(&nc, &f->m, &err));
		OK(store_node_find(f->s, "two", &row, &err));
		assert_true(row.alive);
		assert_int_equal(row.gen, 3); /* its first, the takeover's, this one */
	}
}

static void a_node_that_leaves_is_not_waited_for(void **state)
{
	struct fx *f = *state;
	struct store_node row;

	one(f, false);
	two(f);
	f->m = node_close(f->m);
	OK(store_node_find(f->s, "two", &row, &err));
	assert_false(row.alive);
	OK(store_node_remove(f->s, row.id, /* lose= */ false, &err));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		T(two_join_and_see_each_other),
		T(what_cannot_join_is_told_why),
		T(a_machine_becomes_the_first_node_with_its_vms),
		T(quotas_hold_across_nodes),
		T(a_dead_node_is_taken_over),
		T(a_node_that_was_stopped_ends),
		T(a_node_that_leaves_is_not_waited_for),
	};

	if (!db_is_pg()) {
		fprintf(stderr, "test_store_pg.py runs this\n");
		return 1;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
