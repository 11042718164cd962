/* SPDX-License-Identifier: Apache-2.0 */
/*
 * metrics.c - for those who watch the server: GET /metrics, /healthz, /readyz
 *
 * /healthz says that the process answers, /readyz that a create would work. Both are open, say
 * nothing about who uses the server, and cost little: what /readyz has to ask is asked every few
 * seconds at most, however often it is called.
 */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "api/account/host.h"
#include "api/call.h"
#include "api/tally.h"
#include "base/auto.h"
#include "cert/cert.h"
#include "metrics/metrics.h"
#include "peer/peer.h"
#include "ssh/ssh.h"
#include "vm/history.h"

int api_healthz(struct request *req, struct reply *res, struct err *err)
{
	return reply_json(res, json_pack("{s:s}", "status", "ok"), err);
}

int api_readyz(struct request *req, struct reply *res, struct err *err)
{
	int r = vmm_is_ready(deps_of(req)->vmm, err);

	if (r < 0)
		return r; /* 503, with the reasons */
	return reply_json(res, json_pack("{s:s}", "status", "ready"), err);
}

static void show_vms(struct metrics_page *p, const struct vmm_host *h)
{
	metrics_family(p, METRIC_VMS);
	for (unsigned i = 0; i < VM_STATE_MAX; i++)
		metrics_sample(p, METRIC_VMS, h->by_state[i].n, METRIC_LABELS(vm_state_name(i)));
	metrics_family(p, METRIC_VM_MEMORY);
	for (unsigned i = 0; i < VM_STATE_MAX; i++) {
		const struct host_state *s = &h->by_state[i];
		const char *name = vm_state_name(i);

		metrics_sample(p, METRIC_VM_MEMORY, (double)s->given, METRIC_LABELS(name, "given"));
		metrics_sample(p, METRIC_VM_MEMORY, (double)s->resident,
		               METRIC_LABELS(name, "resident"));
		metrics_sample(p, METRIC_VM_MEMORY, (double)s->private,
		               METRIC_LABELS(name, "private"));
	}
}

static void show_pool(struct metrics_page *p, const struct vmm_status *s)
{
	metrics_one(p, METRIC_POOL_READY, s->pool_ready);
	metrics_one(p, METRIC_POOL_MEMORY, (double)s->pool_mem_mb * (1 << 20));
	metrics_one(p, METRIC_POOL_BLANKS, s->blanks);
	metrics_family(p, METRIC_POOL_CREATES);
	metrics_sample(p, METRIC_POOL_CREATES, (double)s->pool_given, METRIC_LABELS("hit"));
	metrics_sample(p, METRIC_POOL_CREATES, (double)s->pool_missed, METRIC_LABELS("miss"));
	metrics_one(p, METRIC_POOL_FORKED, (double)s->forked);
	metrics_one(p, METRIC_POOL_SEEDS, s->seeds);
	metrics_one(p, METRIC_AHEAD_BUDGET, (double)s->ahead_budget_mb * (1 << 20));
	for (int family = 0; family < 2; family++) {
		const struct {
			const char *kind;
			unsigned mb, want;
		} k[] = { { "ready", s->pool_mem_mb, s->pool_want },
			  { "process", s->blanks_mem_mb, s->blanks_want },
			  { "seed", s->seeds_mem_mb, s->seeds_want } };

		metrics_family(p, family ? METRIC_AHEAD_WANTED : METRIC_AHEAD_MEMORY);
		for (size_t i = 0; i < ARRAY_SIZE(k); i++)
			metrics_sample(p, family ? METRIC_AHEAD_WANTED : METRIC_AHEAD_MEMORY,
			               family ? k[i].want : (double)k[i].mb * (1 << 20),
			               METRIC_LABELS(k[i].kind));
	}
}

static void show_host(struct metrics_page *p, const struct vmm_host *h)
{
	const struct {
		const char *kind;
		uint64_t v;
	} mem[] = { { "total", h->mem.total },         { "free", h->mem.free },
		    { "available", h->mem.available }, { "private", h->mem.private },
		    { "shared", h->mem.shared },       { "cache", h->mem.cache },
		    { "other", h->mem.other } },
	  disk[] = { { "size", h->disk_size }, { "free", h->disk_free }, { "over", h->disk_over } };

	metrics_one(p, METRIC_LAYERS, h->layers);
	metrics_one(p, METRIC_LAYER_BYTES, (double)h->layer_bytes);
	metrics_family(p, METRIC_DISK);
	for (size_t i = 0; i < ARRAY_SIZE(disk); i++)
		metrics_sample(p, METRIC_DISK, (double)disk[i].v, METRIC_LABELS(disk[i].kind));
	metrics_family(p, METRIC_HOST_MEMORY);
	for (size_t i = 0; i < ARRAY_SIZE(mem); i++)
		metrics_sample(p, METRIC_HOST_MEMORY, (double)mem[i].v, METRIC_LABELS(mem[i].kind));
	metrics_one(p, METRIC_HOST_CPU, h->cpu / 100);
	metrics_one(p, METRIC_HOST_LOAD, h->load[0]);
}

static void show_edge(struct metrics_page *p, const struct api_deps *d)
{
	struct api_edge_status s = { .pid = -1 };

	if (d->edge_status)
		d->edge_status(d->front, &s);
	metrics_one(p, METRIC_EDGE_CONNECTIONS, (double)s.connections);
	metrics_one(p, METRIC_EDGE_OPEN, s.open);
	metrics_one(p, METRIC_EDGE_REQUESTS, (double)s.requests);
	metrics_one(p, METRIC_EDGE_REFUSED, (double)s.refused);
	metrics_one(p, METRIC_EDGE_WOKEN, (double)s.woken);
	metrics_one(p, METRIC_EDGE_STARTS, s.starts);
	metrics_one(p, METRIC_EDGE_LOST, (double)s.lines_lost);
}

static void show_ssh(struct metrics_page *p, struct sshd *d)
{
	struct sshd_status s = { 0 };

	if (d)
		sshd_status(d, &s);
	metrics_one(p, METRIC_SSH_CONNECTIONS, s.connections);
	metrics_one(p, METRIC_SSH_CHANNELS, s.channels);
}

static void show_objects(struct metrics_page *p, struct vmm *m)
{
	struct vmm_objects o;

	vmm_objects(m, &o);
	metrics_one(p, METRIC_OBJECTS_UP, o.on && o.asked && !o.failing);
	metrics_one(p, METRIC_OBJECTS_PENDING, (double)o.pending);
	metrics_one(p, METRIC_OBJECTS_PENDING_BYTES, (double)o.pending_bytes);
	metrics_one(p, METRIC_OBJECTS_GARBAGE, (double)o.garbage);
}

static void show_nodes(struct metrics_page *p, struct peers *peers)
{
	struct peers_counts n;

	peers_counts(peers, &n);
	metrics_family(p, METRIC_NODE_CONNECTIONS);
	metrics_sample(p, METRIC_NODE_CONNECTIONS, n.in, METRIC_LABELS("in"));
	metrics_sample(p, METRIC_NODE_CONNECTIONS, n.out, METRIC_LABELS("out"));
	metrics_sample(p, METRIC_NODE_CONNECTIONS, n.idle, METRIC_LABELS("unused"));
	metrics_one(p, METRIC_NODE_MADE, (double)n.made);
	metrics_one(p, METRIC_NODE_REFUSED, (double)n.refused);
	metrics_one(p, METRIC_NODE_CERT_EXPIRY, (double)n.cert_until_s);
}

static void show_notes(struct metrics_page *p, const struct api_deps *d, const struct vmm_host *h)
{
	autojson json_t *notes = host_notes(d, h);
	unsigned n[HOST_LEVELS] = { 0 };
	json_t *note;
	size_t i;

	json_array_foreach(notes, i, note) for (size_t k = 0; k < HOST_LEVELS; k++) n[k] +=
	        !strcmp(json_string_value(json_object_get(note, "level")), host_level_names[k]);
	metrics_family(p, METRIC_NOTES);
	for (size_t k = 0; k < HOST_LEVELS; k++)
		metrics_sample(p, METRIC_NOTES, n[k], METRIC_LABELS(host_level_names[k]));
}

static void show_cert(struct metrics_page *p, struct certs *c)
{
	struct cert_info first = { 0 };

	metrics_family(p, METRIC_CERT_EXPIRY);
	if (c && certs_first_to_end(c, &first) == 0)
		metrics_sample(p, METRIC_CERT_EXPIRY, (double)first.not_after, NULL);
}

int api_metrics(struct request *req, struct reply *res, struct err *err)
{
	const struct api_deps *d = deps_of(req);
	struct metrics_page p = { .open = metrics_wants_open(request_header(req, "Accept")) };
	struct vmm_status s;
	struct vmm_host h;
	size_t n;
	char *text;

	vmm_status(d->vmm, &s);
	vmm_host(d->vmm, &h);
	metrics_stored(&p);
	tally_show(api_of(req)->tally, &p);
	show_vms(&p, &h);
	show_pool(&p, &s);
	show_host(&p, &h);
	show_objects(&p, d->vmm);
	show_notes(&p, d, &h);
	metrics_one(&p, METRIC_READY, vmm_is_ready(d->vmm, NULL) == 0);
	show_cert(&p, d->certs);
	show_edge(&p, d);
	show_ssh(&p, d->sshd);
	show_nodes(&p, d->peers);
	metrics_family(&p, METRIC_BUILD_INFO);
	metrics_sample(&p, METRIC_BUILD_INFO, 1, METRIC_LABELS(PANDO_VERSION, s.accel));
	metrics_process(&p);
	metrics_end(&p);
	n = p.out.len;
	text = buf_take_str(&p.out);
	if (!text)
		return err_set(err, -ENOMEM, "out of memory");
	return reply_bytes(res, metrics_type(&p), text, n, err);
}
