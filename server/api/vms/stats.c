/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stats.c - GET /v1/vms/{id}/stats/stream: one line of JSON per interval
 *
 * This neither wakes a VM nor waits for it: the lines of a suspended one say
 * so. The stream ends when the VM is deleted, the client disconnects or the server
 * stops. A slow client delays only its own connection.
 */
#include "api/vms/shared.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"

#define INTERVAL_DEFAULT_MS 1000
#define INTERVAL_MIN_MS 100
#define INTERVAL_MAX_MS 10000

struct stats {
	struct vmm *vmm; /* weak */
	int timer;       /* owned timerfd */
	char account[ACCOUNT_SIZE], id[ID_SIZE];
	bool begun, over;
	struct vm_sample last;
	char *line; /* owned; being sent */
	size_t len, sent;
};

static void stats_free(void *ctx)
{
	struct stats *s = ctx;

	if (s->timer >= 0)
		close(s->timer);
	free(s->line);
	free(s);
}

static int stats_fd(void *ctx)
{
	struct stats *s = ctx;

	return s->timer;
}

/* Of one CPU, since the previous sample; 0 for the first. */
static double cpu_percent(const struct vm_sample *a, const struct vm_sample *b)
{
	double wall = (double)(b->at_ms - a->at_ms) / 1e3, cpu = b->total.cpu_s - a->total.cpu_s;

	return wall > 0 && cpu > 0 ? cpu / wall * 100 : 0;
}

static json_t *shape_sample(struct stats *s, const struct vm_sample *v)
{
	return json_pack(
	        "{s:o, s:s, s:s, s:{s:f, s:f}, s:{s:I, s:I}, s:{s:I, s:I}, s:{s:I, s:I}}",
	        "timestamp", shape_time(v->at_ms), "vmId", s->id, "state", vm_state_name(v->state),
	        "cpu", "percent", s->begun ? cpu_percent(&s->last, v) : 0.0, "seconds",
	        v->total.cpu_s, "memory", "rssBytes", (json_int_t)v->mem_bytes, "privateBytes",
	        (json_int_t)v->private_bytes, "disk", "readBytes", (json_int_t)v->total.disk_read,
	        "writeBytes", (json_int_t)v->total.disk_write, "network", "rxBytes",
	        (json_int_t)v->total.net_in, "txBytes", (json_int_t)v->total.net_out);
}

/* The next line; false: out of memory, or the end. */
static bool next_line(struct stats *s)
{
	struct vm_sample v;
	autojson json_t *j = NULL;
	char *text;

	if (vmm_sample(s->vmm, s->account, s->id, &v, NULL) < 0) {
		s->over = true;
		j = json_pack("{s:o, s:s, s:s}", "timestamp", shape_time(clock_wall_ms()), "vmId",
		              s->id, "state", "deleted");
	} else {
		j = shape_sample(s, &v);
		s->last = v;
	}
	text = j ? json_dumps(j, JSON_COMPACT) : NULL;
	free(s->line);
	s->line = NULL;
	s->len = s->sent = 0;
	if (!text)
		return false;
	if (asprintf(&s->line, "%s\n", text) < 0)
		s->line = NULL;
	free(text);
	s->len = s->line ? strlen(s->line) : 0;
	return s->line != NULL;
}

/* Is it time for a line? The first comes at once. */
static bool due(struct stats *s)
{
	uint64_t n;

	return !s->begun || read(s->timer, &n, sizeof(n)) == (ssize_t)sizeof(n);
}

static ssize_t stats_next(void *ctx, char *p, size_t max, struct err *err)
{
	struct stats *s = ctx;
	size_t n;

	if (s->sent == s->len) {
		if (s->over)
			return -ENODATA;
		if (!due(s))
			return 0;
		if (!next_line(s))
			return err_set(err, -ENOMEM, "out of memory");
		s->begun = true;
	}
	n = MIN(max, s->len - s->sent);
	memcpy(p, s->line + s->sent, n);
	s->sent += n;
	return (ssize_t)n;
}

static const struct outflow_ops stats_ops = {
	.next = stats_next, .fd = stats_fd, .free = stats_free, .endless = true, .ends_well = true
};

static int start_timer(uint32_t ms, struct err *err)
{
	struct timespec t = { .tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000 };
	struct itimerspec it = { .it_interval = t, .it_value = t };
	autofd int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);

	if (fd < 0 || timerfd_settime(fd, 0, &it, NULL) < 0)
		return err_sys(err, -errno, "start a timer");
	return TAKE_FD(fd);
}

int api_vm_stats(struct request *req, struct reply *res, struct err *err)
{
	uint32_t interval = INTERVAL_DEFAULT_MS;
	struct vm_sample v;
	struct stats *s;
	const char *id;
	int r, timer;

	if ((r = request_vm_id(req, 0, &id, err)) < 0 ||
	    (r = request_query_u32(req, "interval_ms", UINT32_MAX, &interval, err)) < 0 ||
	    (r = vmm_sample(deps_of(req)->vmm, who_of(req)->account, id, &v, err)) < 0)
		return r;
	timer = start_timer(MIN(MAX(interval, INTERVAL_MIN_MS), INTERVAL_MAX_MS), err);
	if (timer < 0)
		return timer;
	s = calloc(1, sizeof(*s));
	if (!s) {
		close(timer);
		return err_set(err, -ENOMEM, "out of memory");
	}
	s->vmm = deps_of(req)->vmm;
	s->timer = timer;
	snprintf(s->account, sizeof(s->account), "%s", who_of(req)->account);
	snprintf(s->id, sizeof(s->id), "%s", id);
	return reply_flow(req, res, &stats_ops, s, OUTFLOW_UNKNOWN, "application/x-ndjson", err);
}
