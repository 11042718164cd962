/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_store_crash.c - kill -9 in the middle of writes loses nothing acknowledged
 *
 * A child writes for as long as it lives: three VMs and their layers per transaction, then
 * one byte to a pipe for the acknowledgement. The parent kills it at an arbitrary
 * moment and reads the database: every acknowledged transaction is there, and no
 * transaction is there in part.
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
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"
#include "store/store.h"
#include "tests/unit/db_fx.h"
#include "tests/unit/tmpdir.h"

#define ROUNDS 12
#define PER_TX 3

static int write_one(struct store *s, int round, int seq, struct err *err)
{
	struct store_vm v[PER_TX];
	struct store_layer l[PER_TX];

	for (int i = 0; i < PER_TX; i++) {
		v[i] = (struct store_vm){ .slot = -1, .info.created_ms = seq };
		l[i] = (struct store_layer){ .kind = LAYER_DISK, .format = "qcow2" };
		snprintf(v[i].info.id, ID_SIZE, "v%d-%d-%d", round, seq, i);
		snprintf(l[i].id, ID_SIZE, "ly-%d-%d-%d", round, seq, i);
		snprintf(v[i].disk_layer, ID_SIZE, "ly-%d-%d-%d", round, seq, i);
	}
	return store_vm_add_many(s, v, PER_TX, l, PER_TX, NULL, err);
}

static _Noreturn void child(const char *db, int round, int ack_fd)
{
	struct err err = { 0 };
	struct store *s = NULL;

	if (store_open(db, &s, &err) < 0)
		_exit(2);
	for (int seq = 0;; seq++)
		if (write_one(s, round, seq, &err) < 0 || io_write_all(ack_fd, "x", 1) < 0)
			_exit(3);
}

/* Lets the child live until it acknowledged something, then a while, then kills it. Acks seen. */
static int run_and_kill(const char *db, int round)
{
	uint64_t deadline = deadline_in(20000);
	int p[2], acks = 0, status;
	char b[64];
	ssize_t n;
	pid_t pid;

	assert_int_equal(pipe2(p, O_CLOEXEC), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		child(db, round, p[1]);
	close(p[1]);
	while (acks < 1 + round * 2 && io_wait(p[0], POLLIN, deadline) == 1 &&
	       (n = read(p[0], b, sizeof(b))) > 0)
		acks += (int)n;
	kill(pid, SIGKILL);
	while ((n = read(p[0], b, sizeof(b))) > 0)
		acks += (int)n;
	close(p[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	assert_true(acks > 0);
	return acks;
}

static void killed_writers_lose_nothing(void **state)
{
	int acks[ROUNDS], found[ROUNDS] = { 0 };
	struct tmpdir d;
	char db[256];

	assert_int_equal(tmpdir_make(&d), 0);
	db_at(&d, "crash.db", db, sizeof(db));
	for (int r = 0; r < ROUNDS; r++) {
		autofree struct store_vm *all = NULL;
		struct store *s = NULL;
		struct err err = { 0 };
		size_t n = 0;

		acks[r] = run_and_kill(db, r);
		if (store_open(db, &s, &err) < 0 || store_vm_list(s, NULL, &all, &n, &err) < 0)
			fail_msg("after kill %d: %s", r, err.msg);
		memset(found, 0, sizeof(found));
		for (size_t i = 0; i < n; i++) {
			struct store_layer l;
			int round, seq, k;

			assert_int_equal(sscanf(all[i].info.id, "v%d-%d-%d", &round, &seq, &k), 3);
			assert_int_equal(store_layer_get(s, all[i].disk_layer, &l, &err), 0);
			found[round]++;
		}
		for (int i = 0; i <= r; i++) {
			assert_int_equal(found[i] % PER_TX, 0);
			assert_true(found[i] / PER_TX >= acks[i]);
			/* At most the one transaction whose acknowledgement was not sent. */
			assert_true(found[i] / PER_TX <= acks[i] + 1);
		}
		store_close(s);
	}
	assert_int_equal(tmpdir_remove(&d), 0);
}

/* No room for the file to grow: an error with a message, nothing half written, and it continues. */
static void full_disk_is_an_error_not_a_loss(void **state)
{
	struct tmpdir d;
	char db[256];
	int status;
	pid_t pid;

	if (db_is_pg())
		skip(); /* it limits the size of SQLite's file; PostgreSQL's belong to its server */
	assert_int_equal(tmpdir_make(&d), 0);
	db_at(&d, "full.db", db, sizeof(db));
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		struct rlimit lim = { .rlim_cur = 2 << 20, .rlim_max = RLIM_INFINITY };
		struct err err = { 0 };
		struct store *s = NULL;
		struct store_vm back;
		char id[ID_SIZE];
		int seq = 0;

		signal(SIGXFSZ, SIG_IGN);
		setrlimit(RLIMIT_FSIZE, &lim);
		if (store_open(db, &s, &err) < 0)
			_exit(2);
		while (seq < 5000 && write_one(s, 0, seq, &err) == 0)
			seq++;
		if (seq == 0 || seq == 5000 || !err.msg[0])
			_exit(3);
		lim.rlim_cur = RLIM_INFINITY;
		setrlimit(RLIMIT_FSIZE, &lim);
		snprintf(id, sizeof(id), "v0-%d-0", seq);
		if (store_vm_get(s, id, &back, &err) != -ENOENT)
			_exit(4);
		if (write_one(s, 0, seq, &err) < 0 || store_vm_get(s, id, &back, &err) < 0)
			_exit(5);
		store_close(s);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	assert_int_equal(tmpdir_remove(&d), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(killed_writers_lose_nothing),
		cmocka_unit_test(full_disk_is_an_error_not_a_loss),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
