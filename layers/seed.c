/* SPDX-License-Identifier: MIT */
/*
 * seed.c - a stopped, warm QEMU is forked into another VM
 *
 * Theory of operation: under emulation a new process has no translated code, and that is most of
 * what its VM costs at first. A seed has it: it has run, was stopped and frozen, and its memory was
 * laid anew over the layers of that freeze. A fork of it is what a thaw of that point would be, but
 * warm. park.c takes the threads across, fds.c the descriptors.
 *
 * The child is not yet a VM when it is forked. It has one thread and waits at a gate for the one
 * that watches processes (pando-priv), which puts it into its records and cgroup and says which
 * user it is to be. A gate that closes ends it. Then: descriptors, memory that the seed shares with
 * its writers, the user, a filter of system calls, the other threads. CLONE_PARENT makes it the
 * child of whoever started the seed, and no process of the seed's.
 *
 * KVM's descriptors do not survive a fork; fds.c refuses them, as all that it does not know.
 */
#include <errno.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "layers/layers_internal.h"

void seed_start(struct control *c, struct layers_reply *reply)
{
	map_stack(c, /* again= */ true, reply);
	c->seed = reply->status == 0;
}

/* ---- in the child: system calls only ---- */

struct go {
	struct layers_go msg;
	int tap_fd; /* -1: none */
};

/* -ECANCELED: nobody wants it any more. */
static int wait_at_gate(int gate, struct go *ret)
{
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(sizeof(int))];
	} u;
	struct iovec iov = { .iov_base = &ret->msg, .iov_len = sizeof(ret->msg) };
	struct msghdr mh = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = u.buf,
		.msg_controllen = sizeof(u.buf),
	};
	struct cmsghdr *cm;
	ssize_t n;

	do
		n = recvmsg(gate, &mh, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n != sizeof(ret->msg))
		return -ECANCELED;
	ret->tap_fd = -1;
	cm = CMSG_FIRSTHDR(&mh);
	if (cm && cm->cmsg_level == SOL_SOCKET && cm->cmsg_type == SCM_RIGHTS)
		memcpy(&ret->tap_fd, CMSG_DATA(cm), sizeof(int));
	return (ret->tap_fd >= 0) == (ret->msg.n_tap == 1) ? 0 : -EPROTO;
}

static int change_user(uint32_t id)
{
	struct __user_cap_header_struct h = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[2] = { 0 };

	if (id != 0 &&
	    (syscall(SYS_setresgid, id, id, id) < 0 || syscall(SYS_setresuid, id, id, id) < 0))
		return -errno;
	if (syscall(SYS_capset, &h, none) < 0)
		return -errno;
	/* or its /proc files would be root's, and the writer of a layer could not read its own */
	return prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0 ? -errno : 0;
}

static int child_run(struct control *c, const int given[LAYERS_FORK_FDS], char *why)
{
	struct go go = { 0 };
	int r;

#define STEP(what, call)                                         \
	do {                                                     \
		r = (call);                                      \
		if (r < 0) {                                     \
			snprintf(why, FDS_WHY_SIZE, "%s", what); \
			return r;                                \
		}                                                \
	} while (0)
	park_own_child();
	STEP("wait for its record", wait_at_gate(given[LAYERS_FORK_GATE], &go));
	STEP("exchange descriptors", fds_exchange(given, go.tap_fd));
	STEP("memory of its own", freeze_init_child(c));
	STEP("leave memory to itself", ram_keep_others());
	STEP("change the user", change_user(go.msg.uid));
	STEP("filter system calls", seccomp_child());
	c->seed = false;
	STEP("continue the threads", park_revive());
#undef STEP
	return 0;
}

static _Noreturn void child_failed(int fd, int code, const char *why)
{
	struct layers_reply reply = { .type = LAYERS_FORK, .status = code };

	snprintf(reply.why, sizeof(reply.why), "%s", why);
	if (code != -ECANCELED)
		(void)send(fd, &reply, sizeof(reply), MSG_NOSIGNAL | MSG_DONTWAIT);
	_exit(124);
}

/* ---- in the seed ---- */

static int fail(struct layers_reply *reply, int code, const char *why)
{
	reply->status = code;
	if (!reply->why[0])
		snprintf(reply->why, sizeof(reply->why), "%s", why);
	return code;
}

static bool busy(const struct control *c)
{
	for (size_t i = 0; i < LAYERS_FREEZE_MAX; i++)
		if (c->freezes[i].state != FREEZE_FREE)
			return true;
	return false;
}

int seed_fork(struct control *c, int given[LAYERS_FORK_FDS], int *ret_pidfd,
              struct layers_reply *reply)
{
	uint64_t began = now_us();
	char why[FDS_WHY_SIZE] = "";
	long pid = -1;
	int r;

	if (!c->seed || c->broken)
		return fail(reply, -EINVAL, "this process is not a seed");
	if (busy(c))
		return fail(reply, -EBUSY, "a freeze is in flight");
	r = park_all();
	if (r < 0)
		return fail(reply, r, "stop the threads");
	r = fds_plan(c, given, reply->why);
	if (r == 0) {
		pid = syscall(SYS_clone, CLONE_PARENT | CLONE_PIDFD | SIGCHLD, NULL, ret_pidfd,
		              NULL, NULL);
		if (pid == 0) {
			int channel = c->client_fd;

			r = child_run(c, given, why);
			if (r < 0)
				child_failed(channel, r, why);
			return 0;
		}
		r = pid < 0 ? -errno : 0;
	}
	park_release();
	reply->us = now_us() - began;
	if (r < 0)
		return fail(reply, r, "fork");
	return (int)pid;
}
