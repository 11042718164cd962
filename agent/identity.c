/* SPDX-License-Identifier: Apache-2.0 */
/*
 * identity.c - applies the identity given by the host
 *
 * Theory of operation: entropy -> clock -> host name -> machine id -> hooks, in
 * that order, each step or an errno; the first failure ends it and the host
 * fails closed. Randomness comes first, so that everything the later steps wake up
 * already uses the new pool.
 *
 * It is on the path of every thaw, where all code that runs for
 * the first time costs an emulated guest milliseconds. So nothing is opened,
 * created or renamed: the files that a step writes to have been open since the start
 * (identity_open()) and are in memory. /etc/machine-id is a file of /run bound
 * over the one on disk; the host name is set in the kernel only, /etc/hostname stays
 * as in the image. No process runs unless a hook is installed.
 *
 * With a test root the machine itself is not changed: files are written below
 * it, and what would be set in the kernel is written to its file "steps".
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/random.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/auto.h"
#include "base/id.h"
#include "base/io.h"
#include "base/log.h"

#define NS_PER_S 1000000000u

int identity_record(struct agent *a, const char *fmt, ...)
{
	char path[PATH_MAX], line[256];
	autofd int fd = -1;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	snprintf(path, sizeof(path), "%s/steps", a->test_root);
	fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	if (fd < 0 || dprintf(fd, "%s\n", line) < 0)
		return -errno;
	return 0;
}

static int step_entropy(struct agent *a, const struct agent_hello *h, const struct agent_who *who)
{
	struct {
		int bits, bytes;
		uint8_t pool[AGENT_ENTROPY_LEN];
	} info = { .bits = AGENT_ENTROPY_LEN * 8, .bytes = AGENT_ENTROPY_LEN };
	int r = 0;

	if (a->test_root)
		return identity_record(a, "entropy %u bytes", AGENT_ENTROPY_LEN);
	memcpy(info.pool, h->entropy, sizeof(info.pool));
	if (ioctl(a->urandom_fd, RNDADDENTROPY, &info) < 0 ||
	    ioctl(a->urandom_fd, RNDRESEEDCRNG) < 0)
		r = -errno;
	explicit_bzero(&info, sizeof(info));
	return r;
}

int identity_clock(struct agent *a, uint64_t wall_ns)
{
	struct timespec ts = { .tv_sec = (time_t)(wall_ns / NS_PER_S),
		               .tv_nsec = (long)(wall_ns % NS_PER_S) };

	if (a->test_root)
		return identity_record(a, "clock %llu", (unsigned long long)wall_ns);
	return clock_settime(CLOCK_REALTIME, &ts) < 0 ? -errno : 0;
}

void identity_remember(struct agent *a)
{
	char line[32];
	uint32_t nonce = 0;
	int n;

	/* Two machines that begin at one point have the same generation: what compares the whole
	 * line must see that it is in another one. */
	if (a->has_generation)
		random_bytes(&nonce, sizeof(nonce));
	n = snprintf(line, sizeof(line), "%020llu %08x\n",
	             (unsigned long long)(a->has_generation ? a->generation : 0), nonce);

	if (a->generation_fd < 0 || pwrite(a->generation_fd, line, (size_t)n, 0) != n)
		log_warn(
		        "cannot write the generation, ignoring: a restart of the agent forgets it");
}

static bool name_valid(const char *s)
{
	size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-.");

	return n >= 1 && n <= 64 && !s[n] && s[0] != '-' && s[0] != '.';
}

/* Setting the same name again would still wake everything that monitors it. */
static int step_hostname(struct agent *a, const struct agent_hello *h, const struct agent_who *who)
{
	char now[HOST_NAME_MAX + 1];

	if (!name_valid(h->hostname))
		return -EINVAL;
	if (a->test_root)
		return identity_record(a, "hostname %s", h->hostname);
	if (gethostname(now, sizeof(now)) == 0 && !strcmp(now, h->hostname))
		return 0;
	return sethostname(h->hostname, strlen(h->hostname)) < 0 ? -errno : 0;
}

static int step_machine_id(struct agent *a, const struct agent_hello *h,
                           const struct agent_who *who)
{
	char line[40];
	int n = snprintf(line, sizeof(line), "%s\n", h->machine_id);

	if (strlen(h->machine_id) != 32 || strspn(h->machine_id, "0123456789abcdef") != 32)
		return -EINVAL;
	if (a->machine_id_fd < 0)
		return -ENOENT;
	return pwrite(a->machine_id_fd, line, (size_t)n, 0) == n ? 0 : -EIO;
}

static int step_hooks(struct agent *a, const struct agent_hello *h, const struct agent_who *who)
{
	char dir[PATH_MAX];

	snprintf(dir, sizeof(dir), "%s/usr/lib/pando/identity.d", a->test_root ? a->test_root : "");
	return hooks_run(dir, h->reason, h->generation, who);
}

static int step_clock(struct agent *a, const struct agent_hello *h, const struct agent_who *who)
{
	return identity_clock(a, h->wall_ns);
}

void identity_apply(struct agent *a, const struct agent_hello *h, const struct agent_who *who,
                    struct agent_hello_ack *ack)
{
	static int (*const steps[])(struct agent *, const struct agent_hello *,
	                            const struct agent_who *) = {
		[AGENT_STEP_ENTROPY] = step_entropy,   [AGENT_STEP_CLOCK] = step_clock,
		[AGENT_STEP_HOSTNAME] = step_hostname, [AGENT_STEP_MACHINE_ID] = step_machine_id,
		[AGENT_STEP_HOOKS] = step_hooks,
	};
	static_assert(ARRAY_SIZE(steps) == AGENT_STEP_END, "a step has no function");

	for (unsigned i = 0; i < AGENT_STEP_END; i++) {
		int r = steps[i](a, h, who);

		if (r < 0) {
			ack->failed_step = (uint16_t)i;
			ack->failed_errno = (uint32_t)-r;
			return;
		}
		ack->steps_done |= BIT(i);
	}
}
