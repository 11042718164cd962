/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_privc.c - the client of pando-priv against a scripted peer
 *
 * The peer is a thread on the other end of a socket pair that runs a script: a
 * function which receives requests and sends what the test wants to be sent.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/sock.h"
#include "privc/privc.h"
#include "wire/priv.h"

struct peer {
	int fd;
	pthread_t thread;
	void (*script)(struct peer *p);
	uint32_t version;
};

static bool next(struct peer *p, struct priv_req *m, int *fds, size_t *n_fds)
{
	static uint8_t buf[PRIV_MSG_MAX];
	struct err err = { 0 };
	ssize_t n = sock_recv_fds(p->fd, buf, sizeof(buf), fds, SOCK_FDS_MAX, n_fds);

	return n > 0 && priv_req_decode(buf, (size_t)n, m, &err) == 0;
}

static void reply(struct peer *p, const struct priv_req *m, struct priv_rep *rep, const int *fds,
                  size_t n_fds)
{
	autobuf struct buf b = { 0 };
	struct err err = { 0 };

	rep->id = m->id;
	priv_rep_encode(rep, m->op, &b, &err);
	sock_send_fds(p->fd, b.p, b.len, fds, n_fds);
}

static void *peer_main(void *arg)
{
	struct peer *p = arg;
	int fds[SOCK_FDS_MAX];
	size_t n_fds;
	struct priv_req m;
	struct priv_rep *rep = calloc(1, sizeof(*rep));

	if (next(p, &m, fds, &n_fds) && m.op == PRIV_HELLO) {
		rep->info.version = p->version;
		memcpy(rep->info.tag, "0a1b2c3d", 9);
		memcpy(rep->info.limits, "none", 5);
		rep->info.slots_max = 12;
		reply(p, &m, rep, NULL, 0);
		p->script(p);
	}
	free(rep);
	close(p->fd);
	return NULL;
}

static int start(struct peer *p, void (*script)(struct peer *p), struct privc **ret,
                 struct priv_info *info, struct err *err)
{
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	p->fd = pair[1];
	p->script = script;
	if (!p->version)
		p->version = PRIV_VERSION;
	assert_int_equal(pthread_create(&p->thread, NULL, peer_main, p), 0);
	return privc_open(pair[0], ret, info, err);
}

static void nothing(struct peer *p)
{
}

static void script_backwards(struct peer *p)
{
	struct priv_req m[3];
	int fds[SOCK_FDS_MAX];
	size_t n;

	for (int i = 0; i < 3; i++)
		if (!next(p, &m[i], fds, &n))
			return;
	for (int i = 2; i >= 0; i--) {
		struct priv_rep *rep = calloc(1, sizeof(*rep));

		rep->stats[0] = m[i].slot;
		reply(p, &m[i], rep, NULL, 0);
		free(rep);
	}
	next(p, &m[0], fds, &n);
}

struct asker {
	struct privc *c;
	uint32_t slot;
	int r;
	uint64_t got;
};

static void *ask_main(void *arg)
{
	struct asker *a = arg;
	struct priv_slot_stats st = { 0 };
	struct err err = { 0 };

	a->r = privc_slot_stats(a->c, a->slot, &st, &err);
	a->got = st.from_guest_bytes;
	return NULL;
}

/* Three callers at once, answered in reverse: each gets its own. */
static void out_of_order(void **state)
{
	struct peer p = { 0 };
	struct priv_info info;
	struct privc *c = NULL;
	struct err err = { 0 };
	struct asker a[3];
	pthread_t t[3];

	assert_int_equal(start(&p, script_backwards, &c, &info, &err), 0);
	assert_string_equal(info.tag, "0a1b2c3d");
	assert_int_equal(info.slots_max, 12);
	for (uint32_t i = 0; i < 3; i++) {
		a[i] = (struct asker){ .c = c, .slot = i + 100 };
		assert_int_equal(pthread_create(&t[i], NULL, ask_main, &a[i]), 0);
	}
	for (uint32_t i = 0; i < 3; i++) {
		pthread_join(t[i], NULL);
		assert_int_equal(a[i].r, 0);
		assert_int_equal(a[i].got, i + 100);
	}
	privc_free(c);
	pthread_join(p.thread, NULL);
}

static void script_hang_up(struct peer *p)
{
	struct priv_req m;
	int fds[SOCK_FDS_MAX];
	size_t n;

	next(p, &m, fds, &n); /* and no answer */
}

static void peer_gone(void **state)
{
	struct peer p = { 0 };
	struct privc *c = NULL;
	struct err err = { 0 };

	assert_int_equal(start(&p, script_hang_up, &c, NULL, &err), 0);
	assert_int_equal(privc_slot_gate(c, 1, true, &err), -EPIPE);
	assert_int_equal(privc_slot_gate(c, 1, true, &err), -EPIPE);
	assert_string_equal(err.msg, "the connection to pando-priv was lost");
	privc_free(c);
	pthread_join(p.thread, NULL);
}

static void script_spawn(struct peer *p)
{
	struct priv_req m;
	int fds[SOCK_FDS_MAX];
	size_t n = 0;
	struct priv_rep *rep = calloc(1, sizeof(*rep));

	/* A right answer, one without its descriptor, one that is malformed. */
	if (next(p, &m, fds, &n) && n == 3 && !strcmp(m.spawn.argv[1], "x y")) {
		rep->pid = 4711;
		reply(p, &m, rep, &fds[0], 1);
	}
	for (size_t i = 0; i < n; i++)
		close(fds[i]);
	priv_req_done(&m);
	if (next(p, &m, fds, &n))
		reply(p, &m, rep, NULL, 0);
	for (size_t i = 0; i < n; i++)
		close(fds[i]);
	priv_req_done(&m);
	if (next(p, &m, fds, &n)) {
		uint8_t junk[9] = { 0 };

		put_be32(junk, m.id);
		send(p->fd, junk, sizeof(junk), 0);
	}
	next(p, &m, fds, &n);
	free(rep);
}

static void spawn(void **state)
{
	struct peer p = { 0 };
	struct privc *c = NULL;
	struct err err = { 0 };
	struct proc proc = PROC_NONE;
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	int fds[PRIV_SPAWN_FDS_MAX + 1] = { null, null };
	struct priv_spawn s = { .vm_id = "vm-a",
		                .slot = -1,
		                .argv = (const char *const[]){ "-a", "x y", NULL },
		                .fds = fds,
		                .n_fds = 2,
		                .log_fd = null,
		                .mem_mb = 1,
		                .vcpus = 1 };
	struct priv_slot_stats st;

	assert_int_equal(start(&p, script_spawn, &c, NULL, &err), 0);
	assert_int_equal(privc_spawn(c, &s, &proc, &err), 0);
	assert_int_equal(proc.pid, 4711);
	assert_true(proc.pidfd >= 0 && (fcntl(proc.pidfd, F_GETFD) & FD_CLOEXEC));
	proc_close(&proc);
	assert_int_equal(privc_spawn(c, &s, &proc, &err), -EBADMSG);
	assert_int_equal(privc_slot_stats(c, 0, &st, &err), -EBADMSG);
	/* What cannot be right is not even sent. */
	s.n_fds = PRIV_SPAWN_FDS_MAX + 1;
	assert_int_equal(privc_spawn(c, &s, &proc, &err), -E2BIG);
	s.n_fds = 0;
	s.vm_id = "../a";
	assert_int_equal(privc_spawn(c, &s, &proc, &err), -EINVAL);
	assert_int_equal(privc_kill(c, "", &err), -EINVAL);
	privc_free(c);
	pthread_join(p.thread, NULL);
	close(null);
}

static void script_list(struct peer *p)
{
	struct priv_req m;
	int fds[SOCK_FDS_MAX], out[PRIV_LIST_MAX];
	size_t n = 0;
	struct priv_rep *rep = calloc(1, sizeof(*rep));

	for (uint32_t page = 0; page < 2 && next(p, &m, fds, &n) && m.cursor == page * 40; page++) {
		rep->n_vms = page ? 1 : PRIV_LIST_MAX;
		rep->cursor = page ? PRIV_LIST_END : 40;
		for (uint32_t i = 0; i < rep->n_vms; i++) {
			memcpy(rep->vms[i].vm_id, "vm-a", 5);
			rep->vms[i].pid = page * 1000 + i;
			out[i] = p->fd;
		}
		reply(p, &m, rep, out, rep->n_vms);
	}
	next(p, &m, fds, &n);
	free(rep);
}

static void list_pages(void **state)
{
	struct peer p = { 0 };
	struct privc *c = NULL;
	struct err err = { 0 };
	struct priv_vm *v = NULL;
	size_t n = 0;

	assert_int_equal(start(&p, script_list, &c, NULL, &err), 0);
	assert_int_equal(privc_list(c, &v, &n, &err), 0);
	assert_int_equal(n, PRIV_LIST_MAX + 1);
	assert_int_equal(v[PRIV_LIST_MAX].proc.pid, 1000);
	for (size_t i = 0; i < n; i++)
		proc_close(&v[i].proc);
	free(v);
	privc_free(c);
	pthread_join(p.thread, NULL);
}

static void other_version(void **state)
{
	struct peer p = { .version = PRIV_VERSION + 1 };
	struct privc *c = NULL;
	struct err err = { 0 };

	assert_int_equal(start(&p, nothing, &c, NULL, &err), -EPROTO);
	assert_null(c);
	pthread_join(p.thread, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(out_of_order),  cmocka_unit_test(peer_gone),
		cmocka_unit_test(spawn),         cmocka_unit_test(list_pages),
		cmocka_unit_test(other_version),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
