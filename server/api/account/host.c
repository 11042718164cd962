/* SPDX-License-Identifier: Apache-2.0 */
/* host.c - the host for its operator: GET /v1/host, its last hour, how long operations take */
#include "api/account/host.h"

#include <errno.h>

#include "api/call.h"
#include "base/auto.h"
#include "metrics/metrics.h"
#include "vm/history.h"

static double one_digit(double v)
{
	return (double)(long long)(v * 10 + 0.5) / 10;
}

static json_t *shape_memory(const struct vmm_host *h)
{
	const struct host_memory *m = &h->mem;
	json_t *by = json_object();

	for (unsigned i = 0; i < VM_STATE_MAX; i++) {
		const struct host_state *s = &h->by_state[i];

		json_object_set_new(by, vm_state_name(i),
		                    json_pack("{s:I, s:I, s:I}", "givenBytes", (json_int_t)s->given,
		                              "residentBytes", (json_int_t)s->resident,
		                              "privateBytes", (json_int_t)s->private));
	}
	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o}", "totalBytes",
	                 (json_int_t)m->total, "freeBytes", (json_int_t)m->free, "availableBytes",
	                 (json_int_t)m->available, "privateBytes", (json_int_t)m->private,
	                 "sharedBytes", (json_int_t)m->shared, "mappedBytes", (json_int_t)m->mapped,
	                 "cacheBytes", (json_int_t)m->cache, "otherBytes", (json_int_t)m->other,
	                 "byState", by);
}

static json_t *shape_vms(const struct vmm_host *h)
{
	json_t *by = json_object();

	for (unsigned i = 0; i < VM_STATE_MAX; i++)
		json_object_set_new(by, vm_state_name(i), json_integer(h->by_state[i].n));
	return json_pack("{s:o, s:I}", "byState", by, "runningMax", (json_int_t)h->slots_max);
}

static json_t *shape_pool(const struct vmm_host *h, const struct vmm_status *s)
{
	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:o}", "ready", (json_int_t)s->pool_ready,
	                 "wanted", (json_int_t)h->pool_want, "memoryBytes",
	                 (json_int_t)s->pool_mem_mb << 20, "blankProcesses", (json_int_t)s->blanks,
	                 "given", (json_int_t)s->pool_given, "missed", (json_int_t)s->pool_missed,
	                 "trouble", shape_text(h->pool_why));
}

int api_host(struct request *req, struct reply *res, struct err *err)
{
	const struct api_deps *d = deps_of(req);
	struct vmm_status s;
	struct vmm_host h;

	vmm_status(d->vmm, &s);
	vmm_host(d->vmm, &h);
	return reply_json(
	        res,
	        json_pack("{s:{s:I, s:f, s:[f, f, f]}, s:o, s:{s:I, s:I, s:I, s:I, s:I, s:I, s:I}, "
	                  "s:o, s:o, s:I, s:s, s:s, s:o, s:{s:s, s:o}, s:o, s:o}",
	                  "cpu", "cores", (json_int_t)h.cores, "percent", one_digit(h.cpu), "load",
	                  h.load[0], h.load[1], h.load[2], "memory", shape_memory(&h), "disk",
	                  "sizeBytes", (json_int_t)h.disk_size, "freeBytes",
	                  (json_int_t)h.disk_free, "mustStayFreeBytes", (json_int_t)h.disk_floor,
	                  "layerBytes", (json_int_t)h.layer_bytes, "layers", (json_int_t)h.layers,
	                  "budgetBytes", (json_int_t)h.disk_budget, "overBytes",
	                  (json_int_t)h.disk_over, "vms", shape_vms(&h), "pool", shape_pool(&h, &s),
	                  "uptimeSeconds", (json_int_t)h.uptime_s, "version", PANDO_VERSION,
	                  "accel", s.accel, "accelWhy", shape_text(s.accel_why), "template",
	                  "state", s.template_state, "note", shape_text(s.template_note), "walls",
	                  shape_text(d->walls ? d->walls : ""), "notes", host_notes(d, &h)),
	        err);
}

static json_t *shape_sample(const struct host_sample *s)
{
	return json_pack("{s:o, s:f, s:f, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "at",
	                 shape_time((int64_t)s->at_s * 1000), "cpuPercent", one_digit(s->cpu),
	                 "load", (double)s->load, "running", (json_int_t)s->running,
	                 "memoryFreeBytes", (json_int_t)s->mem_free, "memoryPrivateBytes",
	                 (json_int_t)s->mem_private, "memorySharedBytes", (json_int_t)s->mem_shared,
	                 "memoryCacheBytes", (json_int_t)s->mem_cache, "diskFreeBytes",
	                 (json_int_t)s->disk_free, "diskReadBytesPerSec", (json_int_t)s->disk_read,
	                 "diskWriteBytesPerSec", (json_int_t)s->disk_write, "netRxBytesPerSec",
	                 (json_int_t)s->net_rx, "netTxBytesPerSec", (json_int_t)s->net_tx);
}

int api_host_history(struct request *req, struct reply *res, struct err *err)
{
	autofree struct host_sample *s = NULL;
	autojson json_t *list = json_array();
	size_t n;
	int r = vmm_host_history(deps_of(req)->vmm, &s, &n, err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < n; i++)
		if (json_array_append_new(list, shape_sample(&s[i])) < 0)
			return err_set(err, -ENOMEM, "out of memory");
	return reply_json(
	        res, json_pack("{s:i, s:O}", "intervalSeconds", HISTORY_STEP_S, "samples", list),
	        err);
}

/* ---- latency ---- */

static json_t *shape_latency(const struct metric_sum *s)
{
	autojson json_t *buckets = json_array();
	uint64_t n = 0;

	for (size_t i = 0; i <= METRIC_BUCKETS; i++) {
		json_t *le = i < METRIC_BUCKETS ? json_real((double)metric_bounds_us[i] / 1e6)
		                                : json_null();

		n += s->bucket[i];
		json_array_append_new(
		        buckets, json_pack("{s:o, s:I}", "leSeconds", le, "count", (json_int_t)n));
	}
	return json_pack("{s:I, s:f, s:O, s:f, s:f, s:f}", "count", (json_int_t)s->n, "sumSeconds",
	                 s->seconds, "buckets", buckets, "p50", metric_quantile(s, 0.5), "p90",
	                 metric_quantile(s, 0.9), "p99", metric_quantile(s, 0.99));
}

int api_host_latency(struct request *req, struct reply *res, struct err *err)
{
	static const struct {
		const char *verb;
		enum metric m;
	} verbs[] = {
		{ "create", METRIC_VM_CREATE },
		{ "resume", METRIC_VM_RESUME },
		{ "fork", METRIC_VM_FORK },
		{ "exec", METRIC_VM_EXEC },
		{ "thaw", METRIC_VM_THAW },
		{ "boot", METRIC_VM_BOOT },
		{ "freezePause", METRIC_VM_FREEZE_PAUSE },
		{ "suspend", METRIC_VM_SUSPEND },
		{ "snapshot", METRIC_VM_SNAPSHOT },
		{ "wake", METRIC_VM_WAKE },
	};
	autojson json_t *by = json_object();

	for (size_t i = 0; i < ARRAY_SIZE(verbs); i++) {
		struct metric_sum s;

		metrics_sum(verbs[i].m, &s);
		if (json_object_set_new(by, verbs[i].verb, shape_latency(&s)) < 0)
			return err_set(err, -ENOMEM, "out of memory");
	}
	return reply_json(res, json_pack("{s:O}", "verbs", by), err);
}
