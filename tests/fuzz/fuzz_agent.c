/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_agent.c - frames of the host (or of whoever got hold of its end) against the agent itself
 *
 * main.c is included, so that its loop can be run by hand. An input is frames: type, flags, stream,
 * length (two bytes), payload; RAW as a type sends the payload as it is, REPEAT the frame in its
 * payload several times on streams that follow each other, BULK sends long ones of nothing, DEAF
 * makes the host stop reading, TIME lets it pass (two bytes, in units of 16 ms), and PROGRAM says
 * what every program does from now on.
 *
 * Children are real, but harmless: fork(2), kill(2), execve(2) and the like come by here. A child
 * is nobody in an empty root directory, with limits; the program it then runs is none of this
 * host's but run_program(): it prints what the input says, waits for its standard input if it is
 * to, and ends. Only own children can be signalled. Without root there are none. The process has a
 * network of its own, without a way out; while an input runs it is nobody, too. A loop that never
 * comes to rest is a finding, and so is a child that a sanitizer ends.
 */
#include "agent/main.c"

#undef main

#include <grp.h>
#include <net/if.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/shared_counters.h"

#define RAW 0xfe
#define TIME 0xfd
#define PROGRAM 0xfc
#define REPEAT 0xfb
#define DEAF 0xfa
#define BULK 0xf9
#define TURNS_MAX 5000
#define WAITS_MAX 3000 /* of a millisecond: for children that still do something */
#define FRAMES_MAX 64
#define FORKS_MAX 16 /* of an input, children of children included */
#define NOBODY 65534
#define SANITIZER_EXIT 86 /* of a child; libFuzzer's own handler has 77 */

static struct agent agent_;
static char root[64], work[80];
static struct in program;
static pid_t children[FORKS_MAX];
static unsigned n_forks;
static bool is_child, deaf;
static uint64_t skew_ms;

pid_t __real_fork(void);
pid_t __wrap_fork(void);
int __real_kill(pid_t pid, int sig);
int __wrap_kill(pid_t pid, int sig);
pid_t __real_waitpid(pid_t pid, int *status, int how);
pid_t __wrap_waitpid(pid_t pid, int *status, int how);
int __wrap_execve(const char *path, char *const *argv, char *const *env);
int __wrap_execl(const char *path, const char *arg, ...);
int __wrap_reboot(int how);
uint64_t __real_clock_ms(void);
uint64_t __wrap_clock_ms(void);
const char *__asan_default_options(void);

const char *__asan_default_options(void)
{
	return "exitcode=86";
}

uint64_t __wrap_clock_ms(void)
{
	return __real_clock_ms() + skew_ms;
}

/* For good: nothing of this host is in its reach. */
static void confine(void)
{
	const struct rlimit file = { 1 << 20, 1 << 20 }, cpu = { 2, 2 }, core = { 0, 0 };

	must(seteuid(0) == 0 && setegid(0) == 0 && chroot(root) == 0 && chdir("/work") == 0);
	must(setgroups(0, NULL) == 0 && setresgid(NOBODY, NOBODY, NOBODY) == 0);
	must(setresuid(NOBODY, NOBODY, NOBODY) == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	must(setrlimit(RLIMIT_FSIZE, &file) == 0 && setrlimit(RLIMIT_CPU, &cpu) == 0);
	must(setrlimit(RLIMIT_CORE, &core) == 0);
	agent_.test_root = agent_.kernels = "/work";
	alarm(4);
}

pid_t __wrap_fork(void)
{
	pid_t pid;

	if (getuid() != 0 && !is_child) {
		errno = EAGAIN;
		return -1;
	}
	if (n_forks == FORKS_MAX) {
		errno = EAGAIN;
		return -1;
	}
	pid = __real_fork();
	if (pid > 0) {
		children[n_forks++] = pid;
	} else if (pid == 0) {
		memset(children, 0, sizeof(children));
		n_forks = MIN(n_forks + 2, FORKS_MAX);
		if (!is_child)
			confine();
		is_child = true;
	}
	return pid;
}

static bool is_own(pid_t pid)
{
	for (size_t i = 0; pid > 1 && i < FORKS_MAX; i++)
		if (children[i] == pid)
			return true;
	return false;
}

int __wrap_kill(pid_t pid, int sig)
{
	if (is_own(pid < 0 ? -pid : pid))
		return __real_kill(pid, sig);
	errno = ESRCH;
	return -1;
}

pid_t __wrap_waitpid(pid_t pid, int *status, int how)
{
	int st = 0;
	pid_t r = __real_waitpid(pid, &st, how);

	if (r > 0) {
		must(!WIFEXITED(st) ||
		     (WEXITSTATUS(st) != SANITIZER_EXIT && WEXITSTATUS(st) != 77));
		must(!WIFSIGNALED(st) || (WTERMSIG(st) != SIGSEGV && WTERMSIG(st) != SIGABRT));
		for (size_t i = 0; i < FORKS_MAX; i++)
			if (children[i] == r)
				children[i] = 0;
	}
	if (status)
		*status = st;
	return r;
}

/* What to do, how to end, what to print. */
static __attribute__((noreturn)) void run_program(void)
{
	struct in in = program;
	uint8_t what = in_u8(&in), code = in_u8(&in);
	bool kernel = what & BIT(5); /* speaks on descriptor 3 */
	char trash[4096];

	must(is_child);
	close_range(kernel ? 4 : 3, ~0u, 0); /* they are all to be closed by an exec */
	for (unsigned fd = 1; fd <= 2; fd++)
		for (int i = 0; what & BIT(fd) && i < (what & BIT(6) ? 1000 : 1); i++)
			if (write((int)fd, in.p, in.n) <
			    0) /* a thousand times, or until it is killed */
				break;
	if (kernel)
		(void)!write(3, in.p, in.n);
	while (what & BIT(3) && read(kernel ? 3 : 0, trash, sizeof(trash)) > 0)
		;
	if (what & BIT(4))
		raise(SIGTERM);
	_exit(code == SANITIZER_EXIT || code == 77 ? 1 : code);
}

int __wrap_execve(const char *path, char *const *argv, char *const *env)
{
	if (!program.n) {
		errno = ENOENT;
		return -1;
	}
	run_program();
}

int __wrap_execl(const char *path, const char *arg, ...)
{
	return __wrap_execve(path, NULL, NULL);
}

int __wrap_reboot(int how)
{
	abort();
}

static void remove_root(void)
{
	io_remove_tree(AT_FDCWD, root, NULL);
}

static void put_file(const char *sub, const char *name, const char *text)
{
	char path[160];

	snprintf(path, sizeof(path), "%s/%s", root, sub);
	must(mkdir(path, 0755) == 0);
	snprintf(path, sizeof(path), "%s/%s/%s", root, sub, name);
	must(io_write_file(AT_FDCWD, path, text, strlen(text), 0644, NULL) == 0);
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
	must(mkdtemp(root) != NULL && chmod(root, 0755) == 0);
	atexit(remove_root);
	snprintf(work, sizeof(work), "%s/work", root);
	put_file("etc", "passwd",
	         "root:x:65534:65534::/work:/bin/sh\nnobody:x:65534:65534:u:/none:/bin/bash\n");
	put_file("root", "home", "");
	put_file("dev", "null", "");
	share_counters();
}

/* Without what earlier inputs have left. */
static void clean_work(void)
{
	char etc[96];

	snprintf(etc, sizeof(etc), "%s/etc", work);
	io_remove_tree(AT_FDCWD, work, NULL);
	must(mkdir(work, 0755) == 0 && mkdir(etc, 0755) == 0);
	must(geteuid() != 0 ||
	     (chown(work, NOBODY, NOBODY) == 0 && chown(etc, NOBODY, NOBODY) == 0));
	n_forks = 0;
}

/* Only while an input runs: libFuzzer writes its own files as whoever started it. */
static void be_nobody(bool yes)
{
	static int home = -1;

	if (home < 0)
		must((home = open(".", O_PATH | O_CLOEXEC)) >= 0);
	if (getuid() == 0 && yes)
		must(setegid(NOBODY) == 0 && seteuid(NOBODY) == 0);
	else if (getuid() == 0)
		must(seteuid(0) == 0 && setegid(0) == 0);
	must(yes ? chdir(work) == 0 : fchdir(home) == 0);
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
	must(wait_ms(a) >= -1); /* when the loop would look again */
	return more || n > 0 || !pump_idle(a) || !code_idle(a);
}

/* Does a child still do something, or does it wait for us? */
static bool is_busy(pid_t pid)
{
	char path[64], *text = NULL;
	bool busy = false;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	if (io_read_file(AT_FDCWD, path, 1024, &text, NULL) == 0) {
		const char *p = strrchr(text, ')');

		/* one that has ended is busy until that is known */
		busy = p && p[1] == ' ' && p[2] != 'S' && p[2] != 'T';
	}
	free(text);
	return busy;
}

static bool any_busy(void)
{
	for (size_t i = 0; i < FORKS_MAX; i++)
		if (children[i] && is_busy(children[i]))
			return true;
	return false;
}

static bool swallow(int host)
{
	static uint8_t trash[1 << 16];
	bool any = false;

	while (!deaf && recv(host, trash, sizeof(trash), MSG_DONTWAIT) > 0)
		any = true;
	return any;
}

static void rest(struct agent *a, int host)
{
	unsigned turns = 0, waits = 0;
	bool more;

	do {
		must(turns++ < TURNS_MAX);
		more = !a->quit && turn(a);
		more |= swallow(host) && !a->quit;
		while (!more && !a->quit && waits++ < WAITS_MAX && any_busy()) {
			struct pollfd p = { .fd = a->ep, .events = POLLIN };

			more = poll(&p, 1, 1) > 0;
		}
	} while (more);
}

static void give(int host, struct in *in, unsigned more)
{
	uint8_t type = in_u8(in), flags = in_u8(in);
	unsigned stream = in_u8(in) + more;
	struct in p = in_take(in, in_u16(in));
	autobuf struct buf b = { 0 };

	if (type == TIME)
		skew_ms += (uint64_t)16 * in_u16(&p);
	if (type == PROGRAM)
		program = p;
	for (unsigned i = 0; type == REPEAT && !more && i < flags; i++) {
		struct in again = p;

		give(host, &again, i + 1);
		rest(&agent_, host);
	}
	if (type == DEAF)
		deaf = flags;
	if (type == BULK) { /* flags: the type; the payload: its flags, how long, how often */
		static const uint8_t zeros[AGENT_PAYLOAD_MAX];
		uint8_t how = in_u8(&p);
		size_t n = in_u16(&p);

		for (unsigned i = in_u8(&p) % 64; i; i--) {
			buf_reset(&b);
			agent_frame_put(&b, flags, how, stream, zeros, n);
			(void)!send(host, b.p, b.len, MSG_NOSIGNAL | MSG_DONTWAIT);
			rest(&agent_, host);
		}
		return;
	}
	if (type == TIME || type == PROGRAM || type == REPEAT || type == DEAF)
		return;
	if (type == RAW)
		buf_put(&b, p.p, p.n);
	else
		agent_frame_put(&b, type, flags, stream, p.p, p.n);
	must(!b.failed);
	(void)!send(host, b.p, b.len, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* None outlives its input. */
static void end_children(void)
{
	for (size_t i = 0; i < FORKS_MAX; i++) {
		pid_t pid = children[i];

		if (!pid)
			continue;
		__real_kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	memset(children, 0, sizeof(children));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct agent *a = &agent_;
	struct in in = { data, size };
	int pair[2];

	begin_process();
	clean_work();
	be_nobody(true);
	program = (struct in){ 0 };
	deaf = false;
	*a = (struct agent){
		.port = -1,
		.ep = epoll_create1(EPOLL_CLOEXEC),
		.urandom_fd = -1,
		.machine_id_fd = -1,
		.generation_fd = -1,
		.ready = { .fd = -1, .spent = -1, .out = -1, .err = -1, .result = -1 },
		.pty_retain_ms = AGENT_PTY_RETAIN_MS,
		.test_root = work,
		.kernels = work,
		.port_is_sock = true,
		.greeted = true,
		.nofile_soft = 1024,
		.nofile_hard = 1024,
	};
	must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
	must(a->ep >= 0 && agent_rx_init(&a->rx) == 0 && port_attach(a, pair[0]) == 0);
	identity_open(a);
	for (int i = 0; in.n && i < FRAMES_MAX && !a->quit; i++) {
		give(pair[1], &in, 0);
		rest(a, pair[1]);
	}
	deaf = false;
	shutdown(pair[1], SHUT_WR);
	rest(a, pair[1]);
	must(a->quit);
	tear_down(a);
	for (size_t i = 0; i < ARRAY_SIZE(a->terms); i++)
		free(a->terms[i]); /* they live as long as the process */
	close(pair[1]);
	be_nobody(false);
	end_children();
	return 0;
}
