/* SPDX-License-Identifier: Apache-2.0 */
/*
 * identity.c - become the machine the host says we are
 *
 * Theory of operation: entropy -> clock -> host name -> machine id -> hooks, in
 * that order, each step or an errno; the first failure ends it and the host
 * fails closed. It is on the path of every thaw: no fsync, no process unless a
 * hook is installed. Randomness comes first, so that whatever the later steps
 * wake already draws from the new pool.
 *
 * With a test root nothing of the machine is touched: files are written below
 * it, and what the kernel would have been told goes into its file "steps".
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

static int step_entropy(struct agent *a, const struct agent_hello *h)
{
	struct {
		int bits, bytes;
		uint8_t pool[AGENT_ENTROPY_LEN];
	} info = { .bits = AGENT_ENTROPY_LEN * 8, .bytes = AGENT_ENTROPY_LEN };
	autofd int fd = -1;
	int r = 0;

	if (a->test_root)
		return identity_record(a, "entropy %u bytes", AGENT_ENTROPY_LEN);
	fd = open("/dev/urandom", O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	memcpy(info.pool, h->entropy, sizeof(info.pool));
	if (ioctl(fd, RNDADDENTROPY, &info) < 0 || ioctl(fd, RNDRESEEDCRNG) < 0)
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

/* Replaces path by text + "\n" in one rename, or in place where a mount holds it. No fsync. */
static int replace_file(struct agent *a, const char *path, const char *text, mode_t mode)
{
	char full[PATH_MAX], tmp[PATH_MAX + 16], line[128];
	autofd int fd = -1;
	int n = snprintf(line, sizeof(line), "%s\n", text), r = 0;

	if ((size_t)snprintf(full, sizeof(full), "%s%s", a->test_root ? a->test_root : "", path) >=
	    sizeof(full))
		return -ENAMETOOLONG;
	snprintf(tmp, sizeof(tmp), "%s.pando-new", full);
	fd = open(tmp, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, mode);
	if (fd < 0)
		return -errno;
	if (fchmod(fd, mode) < 0)
		r = -errno;
	if (r == 0)
		r = io_write_all(fd, line, (size_t)n);
	if (r == 0 && rename(tmp, full) < 0)
		r = -errno;
	if (r == 0)
		return 0;
	unlink(tmp);
	if (r != -EBUSY)
		return r;
	/* A bind mount: /etc/machine-id of a read-only root. */
	close(TAKE_FD(fd));
	fd = open(full, O_WRONLY | O_TRUNC | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : io_write_all(fd, line, (size_t)n);
}

static void run_path(const struct agent *a, char path[PATH_MAX])
{
	snprintf(path, PATH_MAX, "%s/run/pando-generation", a->test_root ? a->test_root : "");
}

void identity_remember(struct agent *a)
{
	char path[PATH_MAX];
	autofd int fd = -1;

	run_path(a, path);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0 || dprintf(fd, "%llu\n", (unsigned long long)a->generation) < 0)
		log_warn("cannot write %s, ignoring: a restart of the agent forgets it", path);
}

void identity_remembered(struct agent *a)
{
	autofree char *text = NULL;
	char path[PATH_MAX];

	run_path(a, path);
	if (io_read_file(AT_FDCWD, path, 64, &text, NULL) < 0 || !strchr(text, '\n'))
		return;
	a->generation = strtoull(text, NULL, 10);
	a->has_generation = true;
}

void identity_forget(struct agent *a)
{
	char path[PATH_MAX];

	run_path(a, path);
	unlink(path);
}

static bool name_valid(const char *s)
{
	size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-.");

	return n >= 1 && n <= 64 && !s[n] && s[0] != '-' && s[0] != '.';
}

static int step_hostname(struct agent *a, const struct agent_hello *h)
{
	int r;

	if (!name_valid(h->hostname))
		return -EINVAL;
	if (a->test_root)
		r = identity_record(a, "hostname %s", h->hostname);
	else
		r = sethostname(h->hostname, strlen(h->hostname)) < 0 ? -errno : 0;
	return r < 0 ? r : replace_file(a, "/etc/hostname", h->hostname, 0644);
}

static int step_machine_id(struct agent *a, const struct agent_hello *h)
{
	char dbus[PATH_MAX];
	struct stat st;
	int r;

	if (strlen(h->machine_id) != 32 || strspn(h->machine_id, "0123456789abcdef") != 32)
		return -EINVAL;
	r = replace_file(a, "/etc/machine-id", h->machine_id, 0444);
	if (r < 0)
		return r;
	/* Usually a link to the one above; a copy of its own must not stay behind. */
	snprintf(dbus, sizeof(dbus), "%s/var/lib/dbus/machine-id",
	         a->test_root ? a->test_root : "");
	if (lstat(dbus, &st) < 0)
		return errno == ENOENT || errno == ENOTDIR ? 0 : -errno;
	return S_ISREG(st.st_mode)
	               ? replace_file(a, "/var/lib/dbus/machine-id", h->machine_id, 0444)
	               : 0;
}

static int step_hooks(struct agent *a, const struct agent_hello *h)
{
	char dir[PATH_MAX];

	snprintf(dir, sizeof(dir), "%s/usr/lib/pando/identity.d", a->test_root ? a->test_root : "");
	return hooks_run(dir, h->reason, h->generation);
}

static int step_clock(struct agent *a, const struct agent_hello *h)
{
	return identity_clock(a, h->wall_ns);
}

void identity_apply(struct agent *a, const struct agent_hello *h, struct agent_hello_ack *ack)
{
	static int (*const steps[])(struct agent *, const struct agent_hello *) = {
		[AGENT_STEP_ENTROPY] = step_entropy,   [AGENT_STEP_CLOCK] = step_clock,
		[AGENT_STEP_HOSTNAME] = step_hostname, [AGENT_STEP_MACHINE_ID] = step_machine_id,
		[AGENT_STEP_HOOKS] = step_hooks,
	};
	static_assert(ARRAY_SIZE(steps) == AGENT_STEP_END, "a step has no function");

	for (unsigned i = 0; i < AGENT_STEP_END; i++) {
		int r = steps[i](a, h);

		if (r < 0) {
			ack->failed_step = (uint16_t)i;
			ack->failed_errno = (uint32_t)-r;
			return;
		}
		ack->steps_done |= BIT(i);
	}
}
