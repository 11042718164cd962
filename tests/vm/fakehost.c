/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fakehost.c - starts fake machines: processes with the real agent in them and no guest kernel
 *
 * usage: fakehost KERNEL, where KERNEL is agent/kernels/bash.sh, or a directory with all kernels.
 *
 * A machine is a process that stands where QEMU would: it listens on <dir>/agent, passes bytes
 * between one connection at a time and its agent, and ends when the agent was asked to shut down.
 * The agent is this program's own copy (agent_main() is pando-agent's main()), forked, so that a
 * machine is there within milliseconds. It survives its connections as it does in a real guest,
 * and ends with its machine. It works in <dir>/guest, so /proc/self/cwd is to it a directory that
 * no other machine has; all else that it sees is this host's.
 *
 * Commands of a fake guest run on this host. So that none of those the server runs by itself
 * (systemctl, resize2fs, fstrim, sync, ...) does anything here, the program has a mount
 * namespace of its own where they are scripts that succeed, and /srv and the folder of systemd's
 * units are empty ones that are kept in memory. The kernels of the code interpreter are
 * all Bash there, which starts at once; given a directory they are those, with this host's Python
 * and Node.
 */
#include "tests/vm/fakehost.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/io.h"
#include "base/sock.h"

#define CTL_FD 3
#define STUBS "/usr/local/sbin" /* first in the agent's PATH */
#define KERNELS STUBS "/kernels"
#define CHUNK 16384
#define FLUSH_MS 20 /* nothing more came from the agent for so long: its last words are out */

int agent_main(int argc, char **argv); /* agent/main.c */

static const char *kernels = KERNELS;

/* ---- in the machine ---- */

struct machine {
	int listen_fd, conn, agent, steps;
	char dir[256];
};

/* Tells its pid when it ends with its parent, not before: a test may stop it at once. */
static void agent_run(int fd, const char *dir, pid_t parent, int told)
{
	pid_t self = getpid();
	char root[300];
	char *argv[] = { (char *)(uintptr_t) "pando-agent",
		         (char *)(uintptr_t) "--fd",
		         (char *)(uintptr_t) "3",
		         (char *)(uintptr_t) "--test-root",
		         root,
		         (char *)(uintptr_t) "--kernels",
		         (char *)(uintptr_t)kernels,
		         NULL };

	snprintf(root, sizeof(root), "%s/guest", dir);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent || write(told, &self, sizeof(self)) != sizeof(self) ||
	    chdir(root) < 0 || dup2(fd, 3) < 0)
		_exit(1);
	close_range(4, ~0u, 0);
	_exit(agent_main((int)ARRAY_SIZE(argv) - 1, argv));
}

/* What one side said, to the other; false: that side is gone. */
static bool pass(int from, int to)
{
	char buf[CHUNK];
	ssize_t n = read(from, buf, sizeof(buf));

	if (n <= 0)
		return n < 0 && (errno == EINTR || errno == EAGAIN);
	if (to >= 0)
		(void)!io_write_all(to, buf, (size_t)n); /* nobody there: lost, as with QEMU */
	return true;
}

static bool shut_down(const struct machine *m)
{
	autofree char *text = NULL;
	char path[300];

	snprintf(path, sizeof(path), "%s/guest/steps", m->dir);
	return io_read_file(AT_FDCWD, path, 1 << 20, &text, NULL) == 0 && strstr(text, "shutdown");
}

static void power_off(struct machine *m)
{
	while (io_wait(m->agent, POLLIN, 0) >= 0) {
		struct pollfd p = { .fd = m->agent, .events = POLLIN };

		if (poll(&p, 1, FLUSH_MS) != 1 || !pass(m->agent, m->conn))
			break;
	}
	_exit(0);
}

static void machine_run(struct machine *m)
{
	for (;;) {
		struct pollfd p[] = {
			{ .fd = m->conn < 0 ? m->listen_fd : -1, .events = POLLIN },
			{ .fd = m->conn, .events = POLLIN },
			{ .fd = m->agent, .events = POLLIN },
			{ .fd = m->steps, .events = POLLIN },
		};
		char drain[4096];

		if (poll(p, ARRAY_SIZE(p), -1) < 0 && errno != EINTR)
			_exit(1);
		if (p[0].revents)
			m->conn = accept4(m->listen_fd, NULL, NULL, SOCK_CLOEXEC);
		if (p[2].revents && !pass(m->agent, m->conn))
			_exit(0); /* the agent ended */
		if (p[1].revents && !pass(m->conn, m->agent)) {
			close(m->conn);
			m->conn = -1;
		}
		if (p[3].revents && read(m->steps, drain, sizeof(drain)) > 0 && shut_down(m))
			power_off(m);
	}
}

/* ---- in the program ---- */

static int make_dirs(const char *dir)
{
	static const char *const dirs[] = {
		"", "/etc", "/run", "/var", "/var/lib", "/var/lib/dbus"
	};

	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
		char path[300];

		snprintf(path, sizeof(path), "%s/guest%s", dir, dirs[i]);
		if (mkdir(path, 0755) < 0)
			return -errno;
	}
	return 0;
}

static int machine_open(const char *dir, struct machine *m, int *ret_agent_end)
{
	char path[300];
	int pair[2], r = make_dirs(dir);

	if (r < 0)
		return r;
	*m = (struct machine){ .conn = -1 };
	snprintf(m->dir, sizeof(m->dir), "%s", dir);
	snprintf(path, sizeof(path), "%s/agent", dir);
	m->listen_fd = sock_unix_listen(path, SOCK_STREAM, NULL);
	if (m->listen_fd < 0)
		return m->listen_fd;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	m->agent = pair[0];
	*ret_agent_end = pair[1];
	m->steps = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	snprintf(path, sizeof(path), "%s/guest", dir);
	if (m->steps < 0 || inotify_add_watch(m->steps, path, IN_MODIFY | IN_CREATE) < 0)
		return -errno;
	return 0;
}

static int spawn(const struct fakehost_req *q, struct fakehost_rep *a)
{
	struct machine m;
	int told[2], agent_end = -1, r = machine_open(q->dir, &m, &agent_end);
	pid_t host = getpid();

	if (r < 0)
		return r;
	if (pipe2(told, O_CLOEXEC) < 0)
		return -errno;
	a->pid = fork();
	if (a->pid == 0) {
		pid_t self = getpid(), agent;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != host)
			_exit(1);
		close(CTL_FD);
		agent = fork();
		if (agent == 0)
			agent_run(agent_end, m.dir, self, told[1]);
		close(agent_end);
		if (agent < 0)
			_exit(1);
		close(told[0]);
		close(told[1]);
		machine_run(&m);
	}
	close(told[1]);
	if (a->pid < 0 || read(told[0], &a->agent, sizeof(a->agent)) != sizeof(a->agent))
		r = -EIO;
	close(told[0]);
	close(m.listen_fd);
	close(m.agent);
	close(m.steps);
	close(agent_end);
	return r;
}

static int reap(pid_t pid, int flags, int *ret_status)
{
	pid_t r;

	do {
		r = waitpid(pid, ret_status, flags);
	} while (r < 0 && errno == EINTR);
	return r == 0 ? -EAGAIN : r < 0 ? -errno : 0;
}

static int serve(const struct fakehost_req *q, struct fakehost_rep *a)
{
	switch (q->op) {
	case FAKEHOST_SPAWN:
		return spawn(q, a);
	case FAKEHOST_KILL:
		kill(q->pid, SIGKILL);
		return reap(q->pid, 0, &a->status);
	case FAKEHOST_STATUS:
		return reap(q->pid, WNOHANG, &a->status);
	}
	return -EINVAL;
}

/* ---- where commands do nothing ---- */

static int put(const char *path, const char *text, size_t n)
{
	autofd int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0755);

	return fd < 0 ? -errno : io_write_all(fd, text, n);
}

static int own_mounts(void)
{
	char map[64];
	uid_t uid = getuid();
	gid_t gid = getgid();

	if (unshare(CLONE_NEWNS) == 0)
		return 0;
	if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
		return -errno;
	snprintf(map, sizeof(map), "0 %u 1", uid);
	if (put("/proc/self/setgroups", "deny", 4) < 0 ||
	    put("/proc/self/uid_map", map, strlen(map)) < 0)
		return -EPERM;
	snprintf(map, sizeof(map), "0 %u 1", gid);
	return put("/proc/self/gid_map", map, strlen(map)) < 0 ? -EPERM : 0;
}

static int make_stubs(const char *const names[], size_t n)
{
	static const char script[] = "#!/bin/sh\nexit 0\n";
	char path[128];
	int r = 0;

	for (size_t i = 0; r == 0 && i < n; i++) {
		snprintf(path, sizeof(path), STUBS "/%s", names[i]);
		r = put(path, script, sizeof(script) - 1);
	}
	return r;
}

/* Every language is Bash. */
static int make_kernels(const char *kernel)
{
	static const char *const stubs[] = { "python3", "node", "git" };
	static const char *const names[] = { "python.py", "node.mjs", "bash.sh" };
	static const char *const bashes[] = { "/usr/bin/python3", "/usr/bin/node" };
	autofree char *bash = NULL;
	char path[128];
	int r = make_stubs(stubs, ARRAY_SIZE(stubs));

	if (r == 0)
		r = io_read_file(AT_FDCWD, kernel, 1 << 20, &bash, NULL);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(names); i++) {
		snprintf(path, sizeof(path), KERNELS "/%s", names[i]);
		r = put(path, bash, strlen(bash));
	}
	if (r < 0)
		return r;
	for (size_t i = 0; i < ARRAY_SIZE(bashes); i++)
		if (mount("/bin/bash", bashes[i], NULL, MS_BIND, NULL) < 0)
			return -errno;
	return 0;
}

/* Where the server writes by itself, and where tests may: nothing of it is this host's. */
static int make_room(void)
{
	static const char *const dirs[] = { "/etc/systemd/system", "/srv" };

	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++)
		if (access(dirs[i], F_OK) == 0 && mount("room", dirs[i], "tmpfs", 0, NULL) < 0)
			return -errno;
	return 0;
}

static int make_guest(const char *kernel)
{
	static const char *const stubs[] = { "systemctl", "journalctl", "sync",  "resize2fs",
		                             "findmnt",   "ip",         "fstrim" };
	struct stat st;
	int r;

	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("stubs", STUBS, "tmpfs", 0, NULL) < 0 || mkdir(KERNELS, 0755) < 0 ||
	    mount("vm", "/proc/sys/vm", "tmpfs", 0, NULL) < 0 || stat(kernel, &st) < 0)
		return -errno;
	r = make_room();
	if (r == 0)
		r = make_stubs(stubs, ARRAY_SIZE(stubs));
	if (r == 0 && S_ISDIR(st.st_mode))
		kernels = kernel;
	else if (r == 0)
		r = make_kernels(kernel);
	/* Called by its whole name; a host without it has nothing to protect. */
	if (r == 0 && access("/usr/sbin/fstrim", F_OK) == 0 &&
	    mount(STUBS "/fstrim", "/usr/sbin/fstrim", NULL, MS_BIND, NULL) < 0)
		r = -errno;
	return r;
}

int main(int argc, char **argv)
{
	struct fakehost_rep hello = { 0 };

	signal(SIGPIPE, SIG_IGN);
	umask(022);
	if (argc != 2)
		return 2;
	hello.code = own_mounts();
	if (hello.code == 0)
		hello.code = make_guest(argv[1]);
	if (write(CTL_FD, &hello, sizeof(hello)) != sizeof(hello) || hello.code < 0)
		return 1;
	for (;;) {
		struct fakehost_req q;
		struct fakehost_rep a = { 0 };
		ssize_t n = read(CTL_FD, &q, sizeof(q));

		if (n < 0 && errno == EINTR)
			continue;
		if (n != sizeof(q))
			return 0;
		a.code = serve(&q, &a);
		if (write(CTL_FD, &a, sizeof(a)) != sizeof(a))
			return 1;
	}
}
