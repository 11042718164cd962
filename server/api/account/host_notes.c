/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host_notes.c - what is wrong with the host at this moment, and the way out
 *
 * One function for each thing that can be wrong; each says nothing when it is not. What is asked is
 * what the server knows anyway. OPERATIONS.md has a row for each in "When something is wrong".
 */
#include <dirent.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "api/account/host.h"
#include "api/call.h"
#include "base/auto.h"
#include "base/clock.h"
#include "cert/cert.h"
#include "vm/history.h"

#define LINK_WRONG "docs/OPERATIONS.md#when-something-is-wrong"
#define LINK_LIMITS "docs/OPERATIONS.md#limits-of-the-host"
#define LINK_OBJECTS "docs/CLUSTER.md#when-something-fails"
#define LINK_WALLS "docs/OPERATIONS.md#walls"
#define CERT_SOON_DAYS 14
#define MEM_LOW_PERCENT 10
#define FDS_HIGH_PERCENT 80
#define SLOTS_HIGH_PERCENT 90

const char *const host_level_names[HOST_LEVELS] = { "error", "warning", "info" };

struct look {
	const struct api_deps *d;
	const struct vmm_host *h;
	struct vmm_status s;
	json_t *by_level[HOST_LEVELS];
};

static void note(struct look *l, enum host_level level, const char *what_to_do, const char *link,
                 const char *fmt, ...) __attribute__((format(printf, 5, 6)));
static void note(struct look *l, enum host_level level, const char *what_to_do, const char *link,
                 const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	json_array_append_new(l->by_level[level],
	                      json_pack("{s:s, s:o, s:s, s:s}", "level", host_level_names[level],
	                                "text", shape_output(text, strlen(text)), "whatToDo",
	                                what_to_do, "link", link));
}

static double gb(uint64_t bytes)
{
	return (double)bytes / (1 << 30);
}

static void look_at_template(struct look *l)
{
	if (strcmp(l->s.template_state, "building") == 0)
		note(l, HOST_INFO, "Wait; it takes a minute, or several where KVM is missing.",
		     LINK_WRONG, "The base template is being made, creates wait for it: %s",
		     l->s.template_note);
	else if (strcmp(l->s.template_state, "ready") != 0)
		note(l, HOST_ERROR,
		     "Build the image again with pando-image (or make run), then restart the "
		     "server; its log has what the guest said.",
		     LINK_WRONG, "There is no base template, so no VM can be created: %s",
		     l->s.template_note);
}

static void look_at_accel(struct look *l)
{
	if (strcmp(l->s.accel, "kvm") == 0)
		return;
	note(l, HOST_WARNING,
	     "Let this machine use KVM: switch virtualization on in its firmware, or nested "
	     "virtualization in the hypervisor it runs on, and give the service access to "
	     "/dev/kvm.",
	     LINK_LIMITS, "VMs are emulated, which is about ten times slower than KVM: %s",
	     *l->s.accel_why ? l->s.accel_why : "PANDO_ACCEL says so");
}

static void look_at_disk(struct look *l)
{
	const struct vmm_host *h = l->h;

	if (h->disk_over)
		note(l, HOST_ERROR,
		     "Delete snapshots and VMs that nobody needs, raise PANDO_DISK_BUDGET_MB, or "
		     "make the file system larger.",
		     LINK_WRONG,
		     "The disk is full: %.1f GB more are used than allowed; creates, forks and "
		     "snapshots are refused",
		     gb(h->disk_over));
	else if (h->disk_size && h->disk_free < h->disk_floor * 2)
		note(l, HOST_WARNING,
		     "Delete snapshots and VMs that nobody needs, or make the file system larger; "
		     "sticky ones go by themselves when it is full.",
		     LINK_WRONG,
		     "The disk is nearly full: %.1f GB are free, and %.1f GB must stay so",
		     gb(h->disk_free), gb(h->disk_floor));
}

static void look_at_memory(struct look *l)
{
	const struct host_memory *m = &l->h->mem;

	if (m->total && m->available < m->total / 100 * MEM_LOW_PERCENT)
		note(l, HOST_WARNING,
		     "Suspend or delete VMs, shorten idleTimeoutSeconds, or lower "
		     "PANDO_AHEAD_MEM_MB.",
		     LINK_LIMITS,
		     "Memory is short: %.1f of %.1f GB are available, VMs have %.1f GB of their "
		     "own",
		     gb(m->available), gb(m->total), gb(m->private));
}

static void look_at_slots(struct look *l)
{
	unsigned running = l->h->by_state[VM_RUNNING].n;

	if (l->h->slots_max && running >= l->h->slots_max / 100.0 * SLOTS_HIGH_PERCENT)
		note(l, HOST_WARNING, "Start pando-priv with a larger --slots-max, or suspend VMs.",
		     LINK_LIMITS, "%u of at most %u VMs run", running, l->h->slots_max);
}

static void look_at_pool(struct look *l)
{
	if (l->h->pool_stuck)
		note(l, HOST_WARNING,
		     "Creates work, only slower. If memory is short, lower "
		     "PANDO_AHEAD_MEM_MB; it is tried again every few seconds.",
		     LINK_WRONG, "The pool of ready VMs cannot be filled: %s", l->h->pool_why);
}

static void look_at_objects(struct look *l)
{
	struct vmm_objects o;

	vmm_objects(l->d->vmm, &o);
	if (o.on && o.failing)
		note(l, HOST_ERROR,
		     "Nothing is lost: VMs run and are suspended as always, and what is not "
		     "uploaded "
		     "stays here. VMs whose layers are only in the object store do not resume "
		     "until "
		     "it is back.",
		     LINK_OBJECTS, "The object store cannot be used, %" PRIu64 " layers wait: %s",
		     o.pending, o.error);
}

static void look_at_edge(struct look *l)
{
	struct api_edge_status s = { .pid = -1 };

	if (l->d->edge_status)
		l->d->edge_status(l->d->front, &s);
	if (s.starts && s.pid < 0)
		note(l, HOST_ERROR,
		     "The server's log says why it ended; it is started again by itself.",
		     LINK_WRONG, "pando-edge does not run: names of VMs do not answer");
}

static void look_at_certs(struct look *l)
{
	struct cert_info c;
	int64_t left;

	if (!l->d->certs || certs_first_to_end(l->d->certs, &c) < 0)
		return;
	left = c.not_after - clock_wall_ms() / 1000;
	if (left < (int64_t)CERT_SOON_DAYS * 86400)
		note(l, left < 0 ? HOST_ERROR : HOST_WARNING,
		     strcmp(c.source, "given") == 0 ? "Replace the files of PANDO_TLS_CERT and "
		                                      "PANDO_TLS_KEY; they are read "
		                                      "again by themselves."
		                                    : "It is renewed by itself 30 days before its "
		                                      "end: the server's log says "
		                                      "why it was not (ACME).",
		     LINK_WRONG, "The certificate of %s %s (%" PRId64 " days)", c.name,
		     left < 0 ? "has ended" : "ends soon", left / 86400);
}

static void look_at_walls(struct look *l)
{
	if (!l->d->walls)
		return;
	if (!strstr(l->d->walls, "seccomp"))
		note(l, HOST_WARNING, "Set PANDO_WALLS=on, its default.", LINK_WALLS,
		     "The server runs without its walls: %s", l->d->walls);
	else if (!strstr(l->d->walls, "Landlock (ABI"))
		note(l, HOST_INFO, "Use a kernel with Landlock (lsm=landlock,...).", LINK_WALLS,
		     "A part of the walls is missing: %s", l->d->walls);
}

static void look_at_limits(struct look *l)
{
	if (strcmp(l->s.limits, "none") == 0)
		note(l, HOST_WARNING,
		     "Give the service control groups: Delegate=yes, or cgroup v2.", LINK_LIMITS,
		     "QEMU processes are in no control group: a VM can take more than its size");
}

static void look_at_fds(struct look *l)
{
	autodir DIR *d = opendir("/proc/self/fd");
	struct rlimit lim = { 0 };
	unsigned n = 0;

	while (d && readdir(d))
		n++;
	if (getrlimit(RLIMIT_NOFILE, &lim) == 0 && n > lim.rlim_cur / 100 * FDS_HIGH_PERCENT)
		note(l, HOST_WARNING, "Raise LimitNOFILE= of the service.", LINK_LIMITS,
		     "%u of %llu descriptors are open", n, (unsigned long long)lim.rlim_cur);
}

/* Something was created in the future: the clock was set back since, or was wrong then. */
static void look_at_clock(struct look *l)
{
	int64_t ahead = l->h->newest_ms - clock_wall_ms();

	if (ahead > 60000)
		note(l, HOST_WARNING, "Set the host's clock, and keep it with NTP.", LINK_WRONG,
		     "The clock is %" PRId64 " s behind a VM that was created: ends of life, "
		     "certificates and tokens go by it",
		     ahead / 1000);
}

static void look_at_ready(struct look *l)
{
	struct err err = { 0 };

	if (strcmp(l->s.template_state, "ready") == 0 && vmm_is_ready(l->d->vmm, &err) < 0)
		note(l, HOST_ERROR,
		     "A disk that cannot be written is in the kernel's log; restart the service if "
		     "pando-priv does not answer.",
		     LINK_WRONG, "No VM can be created: %s", err.msg);
}

json_t *host_notes(const struct api_deps *d, const struct vmm_host *h)
{
	static void (*const looks[])(struct look *) = {
		look_at_template, look_at_ready, look_at_disk,  look_at_memory,  look_at_slots,
		look_at_pool,     look_at_edge,  look_at_certs, look_at_accel,   look_at_walls,
		look_at_limits,   look_at_fds,   look_at_clock, look_at_objects,
	};
	struct look l = { .d = d, .h = h };
	json_t *all = json_array();

	vmm_status(d->vmm, &l.s);
	for (size_t i = 0; i < HOST_LEVELS; i++)
		l.by_level[i] = json_array();
	for (size_t i = 0; i < ARRAY_SIZE(looks); i++)
		looks[i](&l);
	for (size_t i = 0; i < HOST_LEVELS; i++) {
		json_array_extend(all, l.by_level[i]);
		json_decref(l.by_level[i]);
	}
	return all;
}
