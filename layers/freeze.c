/* SPDX-License-Identifier: MIT */
/*
 * freeze.c - the parent's side of a freeze: fork, answer, reap
 *
 * Theory of operation: the caller has stopped the vCPUs, so memory holds still for as long as fork
 * takes; that is all of the pause. The child (dump.c) then owns a copy-on-write picture of that
 * instant and writes it while the guest continues. Parent and child share one page per slot for the
 * outcome. The child ends by exit or by a signal (a kill, a memory limit, a layer file that was cut
 * short underneath it): the parent sees its pidfd become readable, and everything but a finished
 * result is an error.
 *
 * clone is called directly. fork() would run QEMU's and other libraries' atfork handlers, which
 * take locks that a vCPU thread may hold. No exit signal is asked for: QEMU gets no SIGCHLD for a
 * child it does not know, and no wait of its own can take ours.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "layers/layers_internal.h"

int freeze_init(struct control *c)
{
	void *shared = mmap(NULL, (size_t)LAYERS_FREEZE_MAX * LAYER_PAGE, PROT_READ | PROT_WRITE,
	                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	static_assert(sizeof(struct dump_result) <= LAYER_PAGE, "one page per slot");
	if (shared == MAP_FAILED)
		return -errno;
	for (size_t i = 0; i < LAYERS_FREEZE_MAX; i++)
		c->freezes[i] = (struct freeze){
			.pidfd = -1,
			.result = (void *)((uint8_t *)shared + i * LAYER_PAGE),
		};
	return 0;
}

int freeze_init_child(struct control *c)
{
	/* at the same place, where the seed's own was: nothing is shared with it */
	void *at = c->freezes[0].result;
	void *p = (void *)syscall(SYS_mmap, at, (size_t)LAYERS_FREEZE_MAX * LAYER_PAGE,
	                          PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED,
	                          -1, (off_t)0);

	return p == MAP_FAILED ? -errno : 0;
}

uint32_t freeze_in_flight(const struct control *c)
{
	uint32_t n = 0;

	for (size_t i = 0; i < LAYERS_FREEZE_MAX; i++)
		n += c->freezes[i].state == FREEZE_RUNNING;
	return n;
}

static struct freeze *freeze_find(struct control *c, uint64_t token)
{
	for (size_t i = 0; i < LAYERS_FREEZE_MAX; i++)
		if (c->freezes[i].state != FREEZE_FREE && c->freezes[i].token == token)
			return &c->freezes[i];
	return NULL;
}

static int refuse(struct layers_reply *reply, int code, const char *why)
{
	reply->status = code;
	snprintf(reply->why, sizeof(reply->why), "%s", why);
	return code;
}

static int check_output(int fd, struct layers_reply *reply)
{
	struct stat st;
	int mode = fcntl(fd, F_GETFL);

	if (fd < 0 || mode < 0)
		return refuse(reply, -EBADF, "freeze needs one descriptor");
	if (fstat(fd, &st) < 0)
		return refuse(reply, -errno, "stat the layer's file");
	if (!S_ISREG(st.st_mode) || st.st_size != 0)
		return refuse(reply, -EINVAL, "the layer's file is not an empty regular file");
	if ((mode & O_ACCMODE) == O_RDONLY || (mode & O_APPEND))
		return refuse(reply, -EINVAL,
		              "the layer's file is not open for writing at offsets");
	return 0;
}

void freeze_start(struct control *c, const struct layers_req *req, int out_fd,
                  struct layers_reply *reply)
{
	struct freeze *f = NULL;
	struct dump_job job;
	uint64_t began;
	long pid;
	int pidfd = -1;

	reply->token = req->token;
	if (req->flags & ~(LAYERS_FREEZE_FSYNC | LAYERS_FREEZE_NO_SCAN | LAYERS_FREEZE_FREE)) {
		refuse(reply, -EINVAL, "unknown freeze flags");
		return;
	}
	if (!ram_base()) {
		refuse(reply, -EAGAIN, "guest memory is not mapped yet");
		return;
	}
	if (c->broken) {
		refuse(reply, -EIO, "guest memory is unusable since MAP failed");
		return;
	}
	if (freeze_find(c, req->token)) {
		refuse(reply, -EEXIST, "this token is in flight");
		return;
	}
	for (size_t i = 0; i < LAYERS_FREEZE_MAX && !f; i++)
		if (c->freezes[i].state == FREEZE_FREE)
			f = &c->freezes[i];
	if (!f) {
		refuse(reply, -EBUSY, "too many freezes in flight");
		return;
	}
	if (check_output(out_fd, reply) < 0)
		return;

	memset(f->result, 0, sizeof(*f->result));
	job = (struct dump_job){
		.base = ram_base(),
		.bytes = ram.bytes,
		.fd = out_fd,
		.flags = req->flags,
		.low_bytes = (uint64_t)req->n_layers << 20,
		.note = (uint64_t)req->first * LAYER_PAGE,
		.parent = getpid(),
		.result = f->result,
	};
	began = now_us();
	pid = syscall(SYS_clone, CLONE_PIDFD, NULL, &pidfd, NULL, NULL);
	if (pid == 0)
		dump_child(&job);
	if (pid < 0) {
		refuse(reply, -errno, "fork");
		return;
	}
	reply->us = now_us() - began;
	f->state = FREEZE_RUNNING;
	f->token = req->token;
	f->flags = req->flags;
	f->discarded = false;
	f->pid = (pid_t)pid;
	f->pidfd = pidfd;
}

int freeze_discard(struct control *c, uint64_t token)
{
	struct freeze *f = freeze_find(c, token);

	if (!f || f->state != FREEZE_RUNNING)
		return -ENOENT;
	f->discarded = true;
	/* a child of a seed cannot send signals to another process: its writer looks by itself */
	__atomic_store_n(&f->result->cancel, 1, __ATOMIC_RELEASE);
	(void)syscall(SYS_pidfd_send_signal, f->pidfd, SIGKILL, NULL, 0);
	return 0;
}

static void describe_death(const struct freeze *f, const siginfo_t *si, struct layers_reply *done)
{
	done->status = f->discarded ? -ECANCELED : -EIO;
	if (f->discarded)
		snprintf(done->why, sizeof(done->why), "discarded");
	else if (si->si_code == CLD_EXITED)
		snprintf(done->why, sizeof(done->why), "writer ended with code %d", si->si_status);
	else
		snprintf(done->why, sizeof(done->why), "writer died of signal %d", si->si_status);
}

/* The child of @f has ended: reap it and determine the result. */
void freeze_reap(struct freeze *f)
{
	const struct dump_result *res = f->result;
	struct layers_reply done = { .type = LAYERS_DONE, .token = f->token, .flags = f->flags };
	siginfo_t si = { 0 };
	int r;

	do
		r = waitid(P_PIDFD, (id_t)f->pidfd, &si, WEXITED | __WALL);
	while (r < 0 && errno == EINTR);
	if (__atomic_load_n(&res->finished, __ATOMIC_ACQUIRE)) {
		done.status = res->status;
		done.us = res->us;
		done.pages = res->pages;
		done.bytes = res->pages * LAYER_PAGE;
		done.mem_bytes = res->free_pages * LAYER_PAGE;
		done.n_extents = res->n_extents;
		snprintf(done.why, sizeof(done.why), "%.*s", (int)sizeof(res->why), res->why);
	} else if (r < 0) {
		done.status = -errno;
		snprintf(done.why, sizeof(done.why), "wait for the writer");
	} else {
		describe_death(f, &si, &done);
	}
	close(f->pidfd);
	f->pidfd = -1;
	f->done = done;
	f->state = FREEZE_ENDED;
}
