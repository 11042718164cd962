/* SPDX-License-Identifier: Apache-2.0 */
/*
 * main.c - pando-agent: options, setup, main loop
 *
 * Theory of operation: wait for events -> note what became readable, writable or
 * ended -> take frames from the port -> move output -> handle what ended -> write
 * to the port. Everything produced in one turn is sent in one write, and no
 * step blocks.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/ready.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/log.h"

#define EVENTS_PER_TURN 64
#define NICE (-10)

static const char usage[] =
        "usage: pando-agent [--port PATH]\n"
        "The guest's end of a Pando virtual machine; started by systemd, runs as root.\n"
        "  --port PATH       the port (default /dev/virtio-ports/" AGENT_PORT_NAME ")\n"
        "  --fd N            for tests: use this descriptor as the port, exit when it closes\n"
        "  --test-root DIR   for tests: do not touch this machine's clock, names or power;\n"
        "                    write files below DIR, and the other steps\n                    to "
        "DIR/steps\n"
        "  --ready FILE      the library that preloads shells (default " READY_LIB ")\n"
        "  --kernels DIR     for tests: directory of the code interpreter's kernels\n"
        "  --pty-retain MS   for tests: how long to keep ended terminal sessions\n"
        "  --version         print the version\n";

static void on_event(struct agent *a, const struct epoll_event *ev)
{
	enum ref_kind kind;
	struct stream *s;

	if (ev->data.u64 == REF_PORT) {
		port_on_event(a, ev->events);
		return;
	}
	if (ev->data.u64 >> 56 >= REF_PTY) {
		pty_on_event(a, ev->data.u64, ev->events);
		return;
	}
	if (ev->data.u64 >> 56 == REF_SELF) {
		self_on_event(a, (uint32_t)ev->data.u64);
		return;
	}
	if (ev->data.u64 >> 56 == REF_READY) {
		ready_on_event(a);
		return;
	}
	if (code_on_event(a, ev->data.u64, ev->events))
		return;
	s = stream_resolve(a, ev->data.u64, &kind);
	if (!s)
		return;
	switch (kind) {
	case REF_PROC:
		job_on_exit(a, s);
		break;
	case REF_IN:
		if (s->in.fd < 0)
			break;
		s->in.writable = true;
		if (s->connecting)
			connect_on_writable(a, s);
		else
			pump_in(a, s);
		break;
	case REF_OUT:
	case REF_ERR: {
		struct out_chan *o = &s->out[kind == REF_OUT ? AGENT_OUT : AGENT_ERR];

		o->readable = o->fd >= 0;
		o->hup |= (ev->events & (EPOLLHUP | EPOLLRDHUP | EPOLLERR)) != 0;
		break;
	}
	case REF_RESULT:
		proc_on_result(a, s);
		break;
	case REF_LISTEN:
		listen_serve(a, s);
		break;
	default:
		break;
	}
}

static int wait_ms(const struct agent *a)
{
	const uint64_t at[] = { code_next_timer(a), pty_next_timer(a), ready_next_timer(a),
		                self_next_timer(a) };
	uint64_t next = UINT64_MAX, now;

	for (size_t i = 0; i < ARRAY_SIZE(at); i++)
		next = MIN(next, at[i]);

	for (unsigned i = 0; i < a->n_streams; i++) {
		uint64_t t = job_next_timer(a->slot[i]);

		next = MIN(next, t);
	}
	if (next == UINT64_MAX)
		return -1;
	now = clock_ms();
	return next <= now ? 0 : (int)MIN(next - now, (uint64_t)INT_MAX);
}

static void run(struct agent *a)
{
	bool more = true;

	while (!a->quit) {
		struct epoll_event ev[EVENTS_PER_TURN];
		int n = epoll_wait(a->ep, ev, EVENTS_PER_TURN, more ? 0 : wait_ms(a));
		uint64_t now;

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
		self_tick(a, now);
		port_flush(a);
		more |= !pump_idle(a) || !code_idle(a) || n == EVENTS_PER_TURN;
	}
}

/* Before other processes: their reaction to a clock jump can wait. Children start with the usual
 * priority. */
static void go_first(void)
{
	if (sched_setscheduler(0, SCHED_OTHER | SCHED_RESET_ON_FORK, &(struct sched_param){ 0 }) <
	            0 ||
	    setpriority(PRIO_PROCESS, 0, NICE) < 0)
		log_warn("cannot raise the priority, ignoring: %s", strerror(errno));
}

static void set_up(struct agent *a)
{
	struct rlimit rl;
	autofree char *oom = NULL;
	int fd;

	do { /* descriptors 0 to 2 must exist, so that no pipe becomes one of them */
		fd = open("/dev/null", O_RDWR);
	} while (fd >= 0 && fd < 3);
	if (fd >= 3)
		close(fd);
	signal(SIGPIPE, SIG_IGN);
	getrlimit(RLIMIT_NOFILE, &rl);
	a->nofile_soft = rl.rlim_cur;
	a->nofile_hard = rl.rlim_max;
	rl.rlim_cur = rl.rlim_max;
	setrlimit(RLIMIT_NOFILE, &rl);
	if (io_read_file(AT_FDCWD, "/proc/self/oom_score_adj", 64, &oom, NULL) == 0)
		a->reset_oom = oom[0] == '-';
	identity_open(a);
	self_open(a);
	environ_load(a);
	if (!a->test_root)
		go_first();
}

static void tear_down(struct agent *a)
{
	while (a->n_streams) {
		struct stream *s = a->slot[a->n_streams - 1];

		job_orphan(a, s);
		s->pid = 0; /* reaped by init */
		stream_free(a, s);
	}
	code_close(a);
	ready_close(a);
	self_close(a);
	while (a->procs)
		proc_free(a, a->procs);
	pty_end_all(a);
	agent_rx_done(&a->rx);
	buf_done(&a->tx);
	buf_done(&a->ack);
	buf_done(&a->open);
	identity_close(a);
	if (a->port >= 0)
		close(a->port);
	if (a->ep >= 0)
		close(a->ep);
}

#ifdef AGENT_MAIN /* in a program of the tests that has a main() of its own */
int agent_main(int argc, char **argv);
#define main agent_main
#endif

int main(int argc, char **argv)
{
	static const struct option opts[] = {
		{ "port", required_argument, NULL, 'p' },
		{ "fd", required_argument, NULL, 'f' },
		{ "test-root", required_argument, NULL, 't' },
		{ "ready", required_argument, NULL, 'r' },
		{ "kernels", required_argument, NULL, 'k' },
		{ "pty-retain", required_argument, NULL, 'R' },
		{ "version", no_argument, NULL, 'v' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	static struct agent agent = {
		.port = -1,
		.ep = -1,
		.urandom_fd = -1,
		.machine_id_fd = -1,
		.generation_fd = -1,
		.self = { .json_fd = -1, .fd = -1 },
		.ready = { .fd = -1, .spent = -1, .out = -1, .err = -1, .result = -1 },
		.pty_retain_ms = AGENT_PTY_RETAIN_MS,
	};
	struct agent *a = &agent;
	const char *path = "/dev/virtio-ports/" AGENT_PORT_NAME;
	int c, r, fd = -1;

	if (strcmp(basename(argv[0]), "pando") == 0)
		return self_main(argc, argv);
	while ((c = getopt_long(argc, argv, "", opts, NULL)) != -1) {
		switch (c) {
		case 'p':
			path = optarg;
			break;
		case 'f':
			fd = (int)strtol(optarg, NULL, 10);
			break;
		case 't':
			a->test_root = optarg;
			break;
		case 'r':
			a->ready.lib = optarg;
			break;
		case 'k':
			a->kernels = optarg;
			break;
		case 'R':
			a->pty_retain_ms = (unsigned)strtoul(optarg, NULL, 10);
			break;
		case 'v':
			printf("pando-agent %s, protocol %d\n", PANDO_VERSION, AGENT_VERSION_MAX);
			return 0;
		default:
			fputs(usage, c == 'h' ? stdout : stderr);
			return c == 'h' ? 0 : 2;
		}
	}
	if (optind != argc) {
		fputs(usage, stderr);
		return 2;
	}
	log_init("pando-agent", LOG_LV_INFO);
	set_up(a);
	a->ep = epoll_create1(EPOLL_CLOEXEC);
	if (a->ep < 0 || agent_rx_init(&a->rx) < 0) {
		log_error("cannot start: %m");
		return 1;
	}
	a->port_is_sock = fd >= 0;
	r = fd >= 0 ? port_attach(a, fd) : port_open(a, path);
	if (r < 0) {
		errno = -r;
		log_error("open the port %s: %m", path);
		tear_down(a);
		return 1;
	}
	if (!a->ready.lib && !a->test_root && access(READY_LIB, R_OK) == 0)
		a->ready.lib = READY_LIB;
	ready_plan(a, 0);
	agent_rx_hunt(&a->rx, HUNTED);
	hello_ready(a, AGENT_READY_START);
	run(a);
	tear_down(a);
	return 0;
}
