/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_agent.c - frames of the host (or of whoever got hold of its end) against the agent itself
 *
 * main.c is included, so that its loop can be run by hand. An input is frames: type, flags, stream,
 * length (two bytes), payload; RAW as a type sends the payload as it is. No process is ever started
 * and none is signalled: fork(2), kill(2) and the like come by here. So requests are decoded and
 * begun, but what their child would do is left to other targets and tests. The process has a
 * network of its own, without a way out. A loop that never comes to rest is a finding.
 */
#include "agent/main.c"

#undef main

#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "tests/fuzz/fuzz.h"

#define RAW 0xfe
#define TURNS_MAX 5000
#define FRAMES_MAX 64

pid_t __wrap_fork(void);
int __wrap_kill(pid_t pid, int sig);
int __wrap_execve(const char *path, char *const *argv, char *const *env);
int __wrap_reboot(int how);

pid_t __wrap_fork(void)
{
	errno = EAGAIN;
	return -1;
}

int __wrap_kill(pid_t pid, int sig)
{
	errno = ESRCH;
	return -1;
}

int __wrap_execve(const char *path, char *const *argv, char *const *env)
{
	abort();
}

int __wrap_reboot(int how)
{
	abort();
}

static char root[64];

static void remove_root(void)
{
	io_remove_tree(AT_FDCWD, root, NULL);
}

static void begin_process(void)
{
	struct ifreq lo = { .ifr_name = "lo", .ifr_flags = IFF_UP };
	autofd int fd = -1;

	if (*root)
		return;
	if (unshare(CLONE_NEWNET) < 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0) {
		fprintf(stderr, "fuzz_agent: no network namespace: %s\n", strerror(errno));
		exit(1);
	}
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	must(fd >= 0 && ioctl(fd, SIOCSIFFLAGS, &lo) == 0);
	log_init("fuzz", LOG_LV_ERROR + 1);
	snprintf(root, sizeof(root), "/tmp/pando-agent-XXXXXX");
	must(mkdtemp(root) != NULL);
	atexit(remove_root);
}

/* One turn of run(); true: there is more to do. */
static bool turn(struct agent *a)
{
	struct epoll_event ev[EVENTS_PER_TURN];
	int n = epoll_wait(a->ep, ev, EVENTS_PER_TURN, 0);
	uint64_t now;
	bool more;

	for (int i = 0; i < n; i++)
		on_event(a, &ev[i]);
	more = port_receive(a);
	pump_run(a);
	now = clock_ms();
	pty_tick(a, now);
	for (unsigned i = a->n_streams; i-- > 0;)
		job_tick(a, a->slot[i], now);
	code_run(a, now);
	ready_tick(a, now);
	port_flush(a);
	return more || n > 0 || !pump_idle(a) || !code_idle(a);
}

static void rest(struct agent *a, int host)
{
	static uint8_t trash[1 << 16];
	unsigned turns = 0;
	bool more;

	do {
		must(turns++ < TURNS_MAX);
		more = !a->quit && turn(a);
		while (recv(host, trash, sizeof(trash), MSG_DONTWAIT) > 0)
			more = !a->quit;
	} while (more);
}

static void give(int host, struct in *in)
{
	uint8_t type = in_u8(in), flags = in_u8(in), stream = in_u8(in);
	struct in p = in_take(in, in_u16(in));
	autobuf struct buf b = { 0 };

	if (type == RAW)
		buf_put(&b, p.p, p.n);
	else
		agent_frame_put(&b, type, flags, stream, p.p, p.n);
	must(!b.failed);
	(void)!send(host, b.p, b.len, MSG_NOSIGNAL | MSG_DONTWAIT);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct agent a;
	struct in in = { data, size };
	int pair[2];

	begin_process();
	a = (struct agent){
		.port = -1,
		.ep = epoll_create1(EPOLL_CLOEXEC),
		.urandom_fd = -1,
		.machine_id_fd = -1,
		.generation_fd = -1,
		.ready = { .fd = -1, .spent = -1, .out = -1, .err = -1, .result = -1 },
		.pty_retain_ms = AGENT_PTY_RETAIN_MS,
		.test_root = root,
		.kernels = root,
		.port_is_sock = true,
		.greeted = true,
	};
	must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
	must(a.ep >= 0 && agent_rx_init(&a.rx) == 0 && port_attach(&a, pair[0]) == 0);
	identity_open(&a);
	for (int i = 0; in.n && i < FRAMES_MAX && !a.quit; i++) {
		give(pair[1], &in);
		rest(&a, pair[1]);
	}
	tear_down(&a);
	for (size_t i = 0; i < ARRAY_SIZE(a.terms); i++)
		free(a.terms[i]); /* they live as long as the process */
	close(pair[1]);
	return 0;
}
