/* SPDX-License-Identifier: Apache-2.0 */
/* test_walk.c - fs.walk, fs.hash and terminals: the real agent on a socketpair */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "tests/agent/raw.h"
#include "tests/agent/util.h"
#include "wire/agent.h"

static struct err err;

static uint64_t soon(void)
{
	return deadline_in(TEST_DEADLINE_MS);
}

/* The paths below root, each with its kind, one per line. */
static char *walk(struct rig *r, const char *root, const char *after, const char *ignore)
{
	struct guest_walk_req req = {
		.root = root, .after = after, .ignore = &ignore, .n_ignore = ignore ? 1 : 0
	};
	struct guest_walk_rec rec;
	struct guest_walk *w;
	struct buf b = { 0 };
	int k;

	if (guest_walk_open(r->g, &req, soon(), &w, &err) < 0)
		fail_msg("walk: %s", err.msg);
	while ((k = guest_walk_next(w, &rec, &err)) == 1)
		buf_printf(&b, "%c%s%s%s\n", "fdlo"[rec.kind], rec.path + strlen(r->dir),
		           *rec.link ? ">" : "", rec.link);
	if (k < 0)
		fail_msg("walk: %s", err.msg);
	assert_int_equal(guest_walk_next(w, &rec, &err), 0); /* the end stays the end */
	guest_walk_close(w);
	buf_put_u8(&b, 0);
	return (char *)b.p;
}

static void check_walk(struct rig *r, const char *root, const char *after, const char *ignore,
                       const char *want)
{
	autofree char *got = walk(r, root, after, ignore);

	assert_string_equal(got, want);
}

static void test_order(void **state)
{
	struct rig *r = *state;
	struct guest_exec_result x;
	char cmd[512], root[128], after[128], skip[128];

	snprintf(cmd, sizeof(cmd),
	         "cd %s && mkdir -p t/a/b t/a-b t/c && touch t/a/z t/a/b/y t/a-b/x t/a.txt && "
	         "ln -s nowhere t/c/link && mkfifo t/c/pipe",
	         r->dir);
	run_ok(r, cmd, &x);
	assert_int_equal(x.exit_code, 0);
	guest_exec_result_done(&x);
	snprintf(root, sizeof(root), "%s/t", r->dir);
	snprintf(after, sizeof(after), "%s/t/a/b", r->dir);
	snprintf(skip, sizeof(skip), "%s/t/a", r->dir);
	check_walk(r, root, NULL, NULL,
	           "d/t\nd/t/a\nd/t/a/b\nf/t/a/b/y\nf/t/a/z\nd/t/a-b\nf/t/a-b/x\nf/t/a.txt\nd/t/c\n"
	           "l/t/c/link>nowhere\no/t/c/pipe\n");
	check_walk(r, root, after, NULL,
	           "f/t/a/b/y\nf/t/a/z\nd/t/a-b\nf/t/a-b/x\nf/t/a.txt\nd/t/c\n"
	           "l/t/c/link>nowhere\no/t/c/pipe\n");
	check_walk(r, root, NULL, skip,
	           "d/t\nd/t/a-b\nf/t/a-b/x\nf/t/a.txt\nd/t/c\nl/t/c/link>nowhere\no/t/c/pipe\n");
	snprintf(root, sizeof(root), "%s/t/a.txt", r->dir);
	check_walk(r, root, NULL, NULL, "f/t/a.txt\n");
	snprintf(root, sizeof(root), "%s/none", r->dir);
	check_walk(r, root, NULL, NULL, "");
}

/* More than a window of records, taken slowly or not at all. */
static void test_large(void **state)
{
	struct rig *r = *state;
	struct guest_walk_req req = { 0 };
	struct guest_walk_rec rec;
	struct guest_exec_result x;
	struct guest_walk *w;
	char cmd[256], root[128];
	unsigned n = 0;
	int k;

	snprintf(cmd, sizeof(cmd),
	         "mkdir %s/many && cd %s/many && seq -f 'a-name-that-is-long-enough-%%05g' 6000 | "
	         "xargs touch",
	         r->dir, r->dir);
	run_ok(r, cmd, &x);
	assert_int_equal(x.exit_code, 0);
	guest_exec_result_done(&x);
	snprintf(root, sizeof(root), "%s/many", r->dir);
	req.root = root;
	assert_int_equal(guest_walk_open(r->g, &req, soon(), &w, &err), 0);
	while ((k = guest_walk_next(w, &rec, &err)) == 1)
		n++;
	assert_int_equal(k, 0);
	assert_int_equal(n, 6001);
	guest_walk_close(w);
	assert_int_equal(guest_walk_open(r->g, &req, soon(), &w, &err), 0);
	assert_int_equal(guest_walk_next(w, &rec, &err), 1);
	guest_walk_close(w); /* in the middle */
	assert_int_equal(guest_ping(r->g, soon(), &err), 0);
}

static void test_hash(void **state)
{
	struct rig *r = *state;
	char p[4][128];
	const char *paths[4];
	struct guest_hash h[4];

	rig_write(r, "one", "contents", 0644);
	rig_write(r, "two", "contents", 0644);
	rig_write(r, "three", "Contents", 0644);
	for (int i = 0; i < 4; i++) {
		static const char *const names[] = { "one", "two", "three", "missing" };

		snprintf(p[i], sizeof(p[i]), "%s/%s", r->dir, names[i]);
		paths[i] = p[i];
	}
	assert_int_equal(guest_hash_files(r->g, paths, 4, h, soon(), &err), 0);
	assert_true(h[0].ok && h[1].ok && h[2].ok && !h[3].ok);
	assert_memory_equal(h[0].bytes, h[1].bytes, 16);
	assert_memory_not_equal(h[0].bytes, h[2].bytes, 16);
}

static void exec_in(struct rig *r, const char *terminal, const char *command)
{
	struct guest_exec_req req = { .command = command,
		                      .terminal = terminal,
		                      .timeout_ms = 20000 };
	struct guest_exec_result x = { 0 };

	if (guest_exec(r->g, &req, &x, &err) < 0)
		fail_msg("%s: %s", command, err.msg);
	assert_int_equal(x.exit_code, 0);
	guest_exec_result_done(&x);
}

static void test_terminal(void **state)
{
	struct rig *r = *state;
	autofree struct guest_term *v = NULL;
	struct guest_term_log l = { 0 };
	struct guest_exec_req bad = { .command = "true", .terminal = "a/b" };
	struct guest_exec_result x = { 0 };
	size_t n = 0;

	exec_in(r, "dev", "echo one");
	exec_in(r, "dev", "echo two >&2");
	exec_in(r, NULL, "echo elsewhere");
	exec_in(r, "other", "echo three");
	assert_int_equal(guest_term_list(r->g, &v, &n, &err), 0);
	assert_int_equal(n, 2);
	assert_string_equal(v[0].name, "dev");
	assert_string_equal(v[0].user, "root");
	assert_int_equal(v[0].running, 0);
	assert_int_equal(guest_term_read(r->g, NULL, "dev", &l, &err), 0);
	assert_string_equal(l.text, "one\ntwo\n");
	assert_int_equal(l.n_marks, 2);
	assert_int_equal(l.marks[1].at, 4);
	assert_true(l.marks[1].wall_ms >= l.marks[0].wall_ms);
	guest_term_log_done(&l);
	assert_int_equal(guest_term_read(r->g, "nobody", "dev", &l, &err), -ENOENT);
	assert_int_equal(guest_term_read(r->g, NULL, "none", &l, &err), -ENOENT);
	assert_true(guest_exec(r->g, &bad, &x, &err) < 0);
}

/* Only the end is kept; if there are too many names, the quietest is dropped. */
static void test_terminal_limits(void **state)
{
	struct rig *r = *state;
	autofree struct guest_term *v = NULL;
	struct guest_term_log l = { 0 };
	size_t n = 0;

	exec_in(r, "big", "seq 1 100000; echo end");
	assert_int_equal(guest_term_read(r->g, NULL, "big", &l, &err), 0);
	assert_int_equal(l.len, AGENT_TERM_BYTES);
	assert_int_equal(l.start + l.len, 588895 + 4);
	assert_string_equal(l.text + l.len - 11, "100000\nend\n");
	guest_term_log_done(&l);
	for (unsigned i = 0; i < AGENT_TERMS_MAX + 2; i++) {
		char name[16];

		snprintf(name, sizeof(name), "t%u", i);
		exec_in(r, name, "echo x");
	}
	assert_int_equal(guest_term_list(r->g, &v, &n, &err), 0);
	assert_int_equal(n, AGENT_TERMS_MAX);
	assert_int_equal(guest_term_read(r->g, NULL, "big", &l, &err), -ENOENT);
	assert_int_equal(guest_term_read(r->g, NULL, "t33", &l, &err), 0);
	guest_term_log_done(&l);
}

/* What is still written after the command ended is kept too. */
static void test_terminal_late(void **state)
{
	struct rig *r = *state;
	struct guest_term_log l = { 0 };
	uint64_t end = soon();

	exec_in(r, "late", "echo now; { sleep 0.5; echo later; } &");
	do {
		guest_term_log_done(&l);
		assert_int_equal(guest_term_read(r->g, NULL, "late", &l, &err), 0);
		usleep(20000);
	} while (!strstr(l.text, "later\n") && clock_ms() < end);
	assert_string_equal(l.text, "now\nlater\n");
	guest_term_log_done(&l);
}

/* ---- a hostile guest ---- */

struct liar {
	int fd;
	const char *const *paths;
	size_t n;
	pthread_t thread;
};

static void *liar_main(void *arg)
{
	struct liar *l = arg;
	struct agent_frame f;
	struct raw w;

	raw_init(&w, l->fd);
	if (raw_greet(&w)) {
		autobuf struct buf all = { 0 }, rec = { 0 };
		uint32_t id;

		raw_expect(&w, AGENT_F_OPEN, &f);
		id = f.stream;
		for (size_t i = 0; i < l->n; i++) {
			struct agent_walk_rec m = { .kind = AGENT_FILE,
				                    .path = l->paths[i],
				                    .link = "" };

			buf_reset(&rec);
			agent_walk_rec_put(&rec, &m);
			buf_put_blob(&all, rec.p, rec.len);
		}
		buf_put_u32(&all, UINT32_MAX); /* and a record that never ends */
		raw_send(&w, AGENT_F_DATA, AGENT_OUT, id, all.p, all.len);
		while (raw_recv(&w, &f))
			;
	}
	raw_done(&w);
	return NULL;
}

/* How many records are taken before the walk is ended. */
static int believed(const char *root, const char *const *paths, size_t n)
{
	struct guest_identity id = { .reason = GUEST_THAW,
		                     .generation = 9,
		                     .machine_id = "0123456789abcdef0123456789abcdef",
		                     .hostname = "h" };
	struct guest_walk_req req = { .root = root };
	struct liar l = { .paths = paths, .n = n };
	struct guest_walk *w = NULL;
	struct guest_walk_rec rec;
	struct guest *g;
	int pair[2], k, count = 0;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	l.fd = pair[1];
	assert_int_equal(guest_new("liar", pair[0], &g, &err), 0);
	assert_int_equal(pthread_create(&l.thread, NULL, liar_main, &l), 0);
	assert_int_equal(guest_hello(g, &id, soon(), NULL, &err), 0);
	assert_int_equal(guest_walk_open(g, &req, soon(), &w, &err), 0);
	while ((k = guest_walk_next(w, &rec, &err)) == 1)
		count++;
	assert_int_equal(k, -EPROTO);
	guest_walk_close(w);
	guest_close(g);
	guest_unref(g);
	shutdown(pair[1], SHUT_RDWR);
	pthread_join(l.thread, NULL);
	close(pair[1]);
	return count;
}

static void test_lies(void **state)
{
	static const char *const good[] = { "/a", "/a/b", "/a-b" };
	static const char *const order[] = { "/a", "/a-b", "/a/b" };
	static const char *const twice[] = { "/a", "/a" };
	static const char *const outside[] = { "/etc/x", "/etcetera" };

	assert_int_equal(believed("/", good, 3), 3); /* then the record without an end */
	assert_int_equal(believed("/", order, 3), 2);
	assert_int_equal(believed("/", twice, 2), 1);
	assert_int_equal(believed("/etc", outside, 2), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lies),
		cmocka_unit_test_setup_teardown(test_order, rig_ready, rig_done),
		cmocka_unit_test_setup_teardown(test_large, rig_ready, rig_done),
		cmocka_unit_test_setup_teardown(test_hash, rig_ready, rig_done),
		cmocka_unit_test_setup_teardown(test_terminal, rig_ready, rig_done),
		cmocka_unit_test_setup_teardown(test_terminal_limits, rig_ready, rig_done),
		cmocka_unit_test_setup_teardown(test_terminal_late, rig_ready, rig_done),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
