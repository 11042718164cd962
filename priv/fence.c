/* SPDX-License-Identifier: Apache-2.0 */
/*
 * priv/fence.c - ends the VMs of a node whose lease is over
 *
 * Machines that share a database may take over each other's VMs (server/cluster/lease.h). That is
 * safe only if the VMs of a node that lost its lease have ended by then, even if its pandod is
 * stopped, swapped out or cut off. So pandod tells us until when they may run, and moves that
 * deadline on with each renewal. When it passes, all processes of VMs are killed and none is
 * started, until a pandod with a new lease sets a new deadline.
 *
 * The clock is CLOCK_BOOTTIME, which goes on while the machine sleeps; pandod counts on the same
 * one. The deadline is kept in a file: a pando-priv that was killed and started again ends VMs
 * whose time has passed meanwhile.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"
#include "base/log.h"
#include "priv/priv.h"
#include "priv/vms.h"

#define FENCE_FILE "fence"
#define AGAIN_MS 200 /* a process may have been about to be started */

static int set_timer(struct priv *p, uint64_t at_ms, struct err *err)
{
	struct itimerspec its = { .it_value = { .tv_sec = (time_t)(at_ms / 1000),
		                                .tv_nsec = (long)(at_ms % 1000) * 1000000 } };

	return timerfd_settime(p->fence.timer, TFD_TIMER_ABSTIME, &its, NULL) < 0
	               ? err_sys(err, -errno, "set the timer of the fence")
	               : 0;
}

static int keep(struct priv *p, uint64_t deadline, struct err *err)
{
	char text[32];
	int n = snprintf(text, sizeof(text), "%" PRIu64 "\n", deadline);

	if (!deadline)
		return unlinkat(p->in.dirfd, FENCE_FILE, 0) < 0 && errno != ENOENT
		               ? err_sys(err, -errno, "remove the file of the fence")
		               : 0;
	return io_write_file(p->in.dirfd, FENCE_FILE, text, (size_t)n, 0600, err);
}

int fence_open(struct priv *p, struct err *err)
{
	autofree char *text = NULL;
	int r = io_read_file(p->in.dirfd, FENCE_FILE, 64, &text, err);

	if (r < 0 && r != -ENOENT)
		return r;
	p->fence.timer = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
	if (p->fence.timer < 0)
		return err_sys(err, -errno, "make the timer of the fence");
	p->fence.deadline = text ? strtoull(text, NULL, 10) : 0;
	r = set_timer(p, p->fence.deadline, err);
	return r < 0 ? r : poll_add(p, p->fence.timer, POLL_FENCE, 0, err);
}

bool fence_is_over(const struct priv *p)
{
	return p->fence.deadline && clock_boot_ms() >= p->fence.deadline;
}

/* Written before it counts: a pando-priv that is started again never has an older one. */
int op_fence(struct priv *p, struct request *rq, struct err *err)
{
	uint64_t now = clock_boot_ms(), at = rq->m.fence_ms;
	int r;

	if (at > now + PRIV_FENCE_MAX_MS)
		return err_set(err, -EINVAL, "a fence %" PRIu64 " ms ahead: at most %u", at - now,
		               PRIV_FENCE_MAX_MS);
	if (at && at <= now)
		return err_set(err, -ESTALE, "the lease of this node is over");
	if (at && at <= p->fence.deadline)
		return 0;
	if ((r = keep(p, at, err)) < 0 || (r = set_timer(p, at, err)) < 0)
		return r;
	p->fence.deadline = at;
	return 0;
}

void fence_due(struct priv *p)
{
	uint64_t fired;
	unsigned n = 0;

	if (read(p->fence.timer, &fired, sizeof(fired)) < 0 || !fence_is_over(p))
		return;
	for (uint32_t i = 0; i < p->vms->top; i++) {
		struct vm *vm = &p->vms->vm[i];

		if (!vm->used || vm->ended)
			continue;
		log_obj(LOG_LV_ERROR, "vm", vm->id, "ended: the lease of this node is over");
		proc_kill(&vm->proc, SIGKILL);
		n++;
	}
	if (n)
		log_error("the lease of this node is over: %u VMs were ended", n);
	/* None is left only when the kernel has said so. */
	if (n && set_timer(p, clock_boot_ms() + AGAIN_MS, NULL) < 0)
		log_error("the timer of the fence cannot be set");
}
