/* SPDX-License-Identifier: MIT */
/*
 * rig.c - start a process with the library in it, talk to both
 *
 * Theory of operation: see rig.h. The process inherits the listening socket and, if it is host.c,
 * one end of a command socket and the memfd for copies, all by number.
 */
#include "rig.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

void rig_die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fprintf(stderr, "rig: ");
	vfprintf(stderr, fmt, ap);
	fprintf(stderr, "\n");
	va_end(ap);
	exit(1);
}

uint64_t rig_now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

static void wait_readable(int fd, const char *what)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int r;

	do
		r = poll(&p, 1, RIG_DEADLINE_MS);
	while (r < 0 && errno == EINTR);
	if (r <= 0)
		rig_die("no %s within %d ms", what, RIG_DEADLINE_MS);
}

/* --- the process --- */

int rig_init(struct rig *rig, uint64_t mem_bytes)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	*rig = (struct rig){
		.pid = -1,
		.pidfd = -1,
		.control_fd = -1,
		.command_fd = -1,
		.shared_fd = -1,
		.mem_bytes = mem_bytes,
		.addr = { .sun_family = AF_UNIX },
		.addr_len = sizeof(rig->addr),
	};
	/* no name given: the kernel chooses an abstract one */
	if (fd < 0 || bind(fd, (struct sockaddr *)&rig->addr, sizeof(sa_family_t)) < 0 ||
	    listen(fd, 4) < 0 || getsockname(fd, (struct sockaddr *)&rig->addr, &rig->addr_len) < 0)
		rig_die("listen: %s", strerror(errno));
	return fd;
}

static void uncloexec(int fd)
{
	if (fcntl(fd, F_SETFD, 0) < 0)
		_exit(120);
}

void rig_spawn(struct rig *rig, const char *so, char *const argv[], int listen_fd, const int *keep)
{
	char number[32];
	pid_t parent = getpid();

	rig->pid = fork();
	if (rig->pid < 0)
		rig_die("fork: %s", strerror(errno));
	if (rig->pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(121);
		uncloexec(listen_fd);
		for (; *keep >= 0; keep++)
			uncloexec(*keep);
		snprintf(number, sizeof(number), "%d", listen_fd);
		setenv(LAYERS_ENV_FD, number, 1);
		snprintf(number, sizeof(number), "%llu", (unsigned long long)rig->mem_bytes);
		setenv(LAYERS_ENV_MEM, number, 1);
		setenv("LD_PRELOAD", so, 1);
		execv(argv[0], argv);
		_exit(122);
	}
	rig->pidfd = (int)syscall(SYS_pidfd_open, rig->pid, 0);
	if (rig->pidfd < 0)
		rig_die("pidfd_open: %s", strerror(errno));
}

void rig_start_host(struct rig *rig, const char *so, const char *host, uint64_t mem_bytes)
{
	int listen_fd = rig_init(rig, mem_bytes);
	int pair[2];
	char cmd[16], shared[16], mem[32];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		rig_die("socketpair: %s", strerror(errno));
	rig->shared_fd = memfd_create("copy", MFD_CLOEXEC);
	if (rig->shared_fd < 0 || ftruncate(rig->shared_fd, (off_t)mem_bytes) < 0)
		rig_die("memfd: %s", strerror(errno));
	rig->shared = mmap(NULL, mem_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, rig->shared_fd, 0);
	if (rig->shared == MAP_FAILED)
		rig_die("mmap: %s", strerror(errno));
	snprintf(cmd, sizeof(cmd), "%d", pair[1]);
	snprintf(shared, sizeof(shared), "%d", rig->shared_fd);
	snprintf(mem, sizeof(mem), "%llu", (unsigned long long)mem_bytes);
	rig_spawn(rig, so, (char *const[]){ (char *)(uintptr_t)host, cmd, shared, mem, NULL },
	          listen_fd, (const int[]){ pair[1], rig->shared_fd, -1 });
	close(pair[1]);
	close(listen_fd);
	rig->command_fd = pair[0];
	/* its first answer says that memory is mapped */
	rig_host(rig, HOST_WRITES, 0, 0, 0);
	rig_connect(rig);
}

int rig_wait_exit(struct rig *rig)
{
	int status = 0;

	wait_readable(rig->pidfd, "exit of the process");
	if (waitpid(rig->pid, &status, 0) != rig->pid)
		rig_die("waitpid: %s", strerror(errno));
	rig->pid = -1;
	return status;
}

void rig_stop(struct rig *rig)
{
	if (rig->pid > 0) {
		kill(rig->pid, SIGKILL);
		rig_wait_exit(rig);
	}
	rig_disconnect(rig);
	close(rig->pidfd);
	if (rig->command_fd >= 0)
		close(rig->command_fd);
	if (rig->shared_fd >= 0) {
		munmap(rig->shared, rig->mem_bytes);
		close(rig->shared_fd);
	}
}

/* --- the control socket --- */

void rig_connect(struct rig *rig)
{
	rig->control_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (rig->control_fd < 0 ||
	    connect(rig->control_fd, (struct sockaddr *)&rig->addr, rig->addr_len) < 0)
		rig_die("connect: %s", strerror(errno));
}

void rig_disconnect(struct rig *rig)
{
	if (rig->control_fd >= 0)
		close(rig->control_fd);
	rig->control_fd = -1;
}

void rig_send(struct rig *rig, const struct layers_req *req, const int *fds, size_t n_fds)
{
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(128 * sizeof(int))];
	} u = { 0 };
	struct iovec iov = { .iov_base = (void *)(uintptr_t)req, .iov_len = sizeof(*req) };
	struct msghdr mh = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (n_fds > 0) {
		struct cmsghdr *cm;

		mh.msg_control = u.buf;
		mh.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
		cm = CMSG_FIRSTHDR(&mh);
		if (!cm)
			rig_die("no room for descriptors");
		cm->cmsg_level = SOL_SOCKET;
		cm->cmsg_type = SCM_RIGHTS;
		cm->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
		memcpy(CMSG_DATA(cm), fds, n_fds * sizeof(int));
	}
	if (sendmsg(rig->control_fd, &mh, MSG_NOSIGNAL) != sizeof(*req))
		rig_die("send request %u: %s", req->type, strerror(errno));
}

bool rig_recv(struct rig *rig, struct layers_reply *ret)
{
	ssize_t n;

	wait_readable(rig->control_fd, "message from the library");
	n = recv(rig->control_fd, ret, sizeof(*ret), 0);
	if (n == 0 || (n < 0 && errno == ECONNRESET))
		return false;
	if (n != sizeof(*ret))
		rig_die("message of %zd bytes", n);
	return true;
}

struct layers_reply rig_call(struct rig *rig, const struct layers_req *req, const int *fds,
                             size_t n_fds)
{
	struct layers_reply reply;

	rig_send(rig, req, fds, n_fds);
	if (!rig_recv(rig, &reply))
		rig_die("connection closed instead of an answer to request %u", req->type);
	if (reply.type != req->type)
		rig_die("answer of type %u to request %u", reply.type, req->type);
	return reply;
}

struct layers_reply rig_map(struct rig *rig, const int *fds, size_t n_fds)
{
	const struct layers_req req = { .type = LAYERS_MAP, .n_layers = (uint32_t)n_fds };

	return rig_call(rig, &req, fds, n_fds);
}

struct layers_reply rig_freeze(struct rig *rig, uint64_t token, uint32_t flags, int out_fd)
{
	const struct layers_req req = { .type = LAYERS_FREEZE, .flags = flags, .token = token };
	struct layers_reply reply = rig_call(rig, &req, &out_fd, 1);

	if (reply.status != 0 || reply.token != token)
		rig_die("freeze: %s: %s", strerror(-reply.status), reply.why);
	return reply;
}

struct layers_reply rig_wait_done(struct rig *rig, uint64_t token)
{
	struct layers_reply reply;

	if (!rig_recv(rig, &reply))
		rig_die("connection closed instead of DONE");
	if (reply.type != LAYERS_DONE || reply.token != token)
		rig_die("message of type %u, token %llu instead of DONE", reply.type,
		        (unsigned long long)reply.token);
	return reply;
}

struct layers_reply rig_stat(struct rig *rig)
{
	return rig_call(rig, &(struct layers_req){ .type = LAYERS_STAT }, NULL, 0);
}

/* --- host.c --- */

int64_t rig_host(struct rig *rig, enum host_op op, uint64_t off, uint64_t len, uint32_t arg)
{
	const struct host_cmd cmd = { .op = op, .arg = arg, .off = off, .len = len };
	int64_t value;

	if (send(rig->command_fd, &cmd, sizeof(cmd), MSG_NOSIGNAL) != sizeof(cmd))
		rig_die("send to host: %s", strerror(errno));
	if (op == HOST_EXEC)
		return 0;
	wait_readable(rig->command_fd, "answer from the host");
	if (recv(rig->command_fd, &value, sizeof(value), 0) != sizeof(value))
		rig_die("host has ended");
	return value;
}

const uint8_t *rig_copy(struct rig *rig)
{
	rig_host(rig, HOST_COPY, 0, 0, 0);
	return rig->shared;
}
