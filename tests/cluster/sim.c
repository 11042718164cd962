/* SPDX-License-Identifier: Apache-2.0 */
/* sim.c - see sim.h */
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "tests/cluster/sim_internal.h"

static uint64_t rnd(struct sim *s, uint64_t below)
{
	s->random ^= s->random << 13;
	s->random ^= s->random >> 7;
	s->random ^= s->random << 17;
	return s->random % below;
}

/* ---- events ---- */

static bool before(const struct event *a, const struct event *b)
{
	return a->at != b->at ? a->at < b->at : a->order < b->order;
}

void push(struct sim *s, struct event e)
{
	size_t i = s->n++;

	if (s->n > s->cap) {
		s->cap = s->cap ? 2 * s->cap : 4096;
		s->heap = reallocarray(s->heap, s->cap, sizeof(*s->heap));
		if (!s->heap)
			abort();
	}
	e.order = s->order++;
	for (; i > 0 && before(&e, &s->heap[(i - 1) / 2]); i = (i - 1) / 2)
		s->heap[i] = s->heap[(i - 1) / 2];
	s->heap[i] = e;
}

static struct event pop(struct sim *s)
{
	struct event top = s->heap[0], last = s->heap[--s->n];
	size_t i = 0;

	for (;;) {
		size_t k = 2 * i + 1;

		if (k >= s->n)
			break;
		if (k + 1 < s->n && before(&s->heap[k + 1], &s->heap[k]))
			k++;
		if (!before(&s->heap[k], &last))
			break;
		s->heap[i] = s->heap[k];
		i = k;
	}
	s->heap[i] = last;
	return top;
}

/* Most messages take a millisecond or so, some seconds, a few are held up for long. */
uint64_t delay(struct sim *s)
{
	uint64_t k = rnd(s, 1000);

	if (s->now >= s->faults_until || k < 900)
		return MS / 5 + rnd(s, 2 * MS);
	return k < 960 ? rnd(s, 3 * S) : rnd(s, 40 * S);
}

static uint64_t local(const struct sim *s, const struct node *n)
{
	return n->offset + s->now * (uint64_t)(1000000 + n->ppm) / 1000000 / MS;
}

static uint64_t id_of(const struct sim *s, const struct node *n)
{
	return (uint64_t)(n - s->nodes);
}

static void ask(struct sim *s, struct node *n, struct event e)
{
	e.kind = EV_ARRIVE;
	e.node = (uint32_t)id_of(s, n);
	e.life = n->life;
	e.at = s->now + delay(s);
	if (s->now >= n->cut_out_until)
		push(s, e);
}

/* ---- what is really so ---- */

static void really_start(struct sim *s, struct node *n, uint32_t vm)
{
	if (s->runner[vm] != NOBODY)
		s->r.twice++;
	s->runner[vm] = (uint32_t)id_of(s, n);
}

static void really_end(struct sim *s, struct node *n, uint32_t vm)
{
	if (s->runner[vm] == id_of(s, n))
		s->runner[vm] = NOBODY;
}

static void end_all(struct sim *s, struct node *n)
{
	for (unsigned i = 0; i < n->n_held; i++)
		really_end(s, n, n->held[i].vm);
}

/* ---- a node ---- */

static bool has(const struct node *n, uint32_t vm)
{
	for (unsigned i = 0; i < n->n_held; i++)
		if (n->held[i].vm == vm)
			return true;
	return false;
}

static void drop(struct node *n, uint32_t vm, uint64_t epoch)
{
	for (unsigned i = 0; i < n->n_held; i++) {
		if (n->held[i].vm == vm && n->held[i].epoch == epoch) {
			n->held[i] = n->held[--n->n_held];
			return;
		}
	}
}

static void look_after_lease(struct sim *s, struct node *n)
{
	uint64_t now = local(s, n);

	switch (lease_next(&n->lease, now)) {
	case LEASE_JOIN:
		ask(s, n,
		    (struct event){ .verb = JOIN,
		                    .gen = n->seen_gen,
		                    .number = lease_sent(&n->lease, now) });
		break;
	case LEASE_RENEW:
		ask(s, n,
		    (struct event){ .verb = RENEW,
		                    .gen = n->lease.gen,
		                    .number = lease_sent(&n->lease, now) });
		break;
	case LEASE_FENCE:
		s->r.fences++;
		if (s->c.mutant != SIM_NO_FENCE) {
			end_all(s, n);
			n->n_held = 0;
		}
		n->claiming = false;
		fence_clear(&n->fence);
		lease_fenced(&n->lease);
		break;
	case LEASE_NOTHING:
		break;
	}
}

/* Ends a VM and stores it; an answer that does not come is asked for again. */
static void suspend(struct sim *s, struct node *n, struct held *h)
{
	if (!h->storing)
		really_end(s, n, h->vm);
	h->storing = true;
	h->store_at = local(s, n);
	ask(s, n,
	    (struct event){ .verb = STORE, .vm = h->vm, .epoch = h->epoch, .version = h->version });
}

static void work(struct sim *s, struct node *n)
{
	uint64_t now = local(s, n);
	unsigned k;

	for (k = 0; k < n->n_held; k++)
		if (n->held[k].storing && now >= n->held[k].store_at + n->lease.conf.retry_ms)
			suspend(s, n, &n->held[k]);
	if (now >= n->read_at + 1000) {
		n->read_at = now;
		ask(s, n, (struct event){ .verb = READ, .gen = n->lease.gen });
	}
	if (n->claiming && now >= n->claim_at + n->lease.conf.retry_ms)
		n->claiming = false;
	if (s->now >= s->faults_until)
		return;
	if (n->n_held && (rnd(s, 2) || n->n_held == VMS_OF_NODE)) {
		k = (unsigned)rnd(s, n->n_held);
		if (!n->held[k].storing)
			suspend(s, n, &n->held[k]);
	} else if (!n->claiming) {
		n->claiming = true;
		n->claim_at = now;
		ask(s, n,
		    (struct event){
		            .verb = CLAIM, .gen = n->lease.gen, .vm = (uint32_t)rnd(s, s->c.vms) });
	}
}

static void tick(struct sim *s, struct node *n)
{
	look_after_lease(s, n);
	if (lease_valid(&n->lease, local(s, n)))
		work(s, n);
	push(s, (struct event){ .at = s->now + 50 * MS + rnd(s, 200 * MS),
	                        .kind = EV_TICK,
	                        .node = (uint32_t)id_of(s, n),
	                        .life = n->life });
}

/* The rows of all nodes: who is dead is taken over. Rows that are ours by an answer that never
 * came are given back. */
static void have_read(struct sim *s, struct node *n, const struct event *e)
{
	uint64_t now = local(s, n);

	for (uint32_t i = 0; i < s->c.nodes; i++) {
		struct watch *w = &n->watch[i];

		watch_saw(w, e->rows[i].gen, e->rows[i].beat, now);
		if (i != e->node && e->rows[i].gen && lease_valid(&n->lease, now) &&
		    (watch_dead(w, &n->lease.conf, now) || s->c.mutant == SIM_SERVER_CLOCK))
			ask(s, n,
			    (struct event){
			            .verb = TAKE, .other = i, .gen = w->gen, .beat = w->beat });
	}
	if (!lease_valid(&n->lease, now) || e->gen != n->lease.gen || n->claiming)
		return;
	for (size_t i = 0; i < e->n_ours; i++) {
		uint32_t vm = (uint32_t)e->rows[s->c.nodes + i].gen;
		uint64_t epoch = e->rows[s->c.nodes + i].beat;

		/* An epoch that was used, or is now, so that a late answer does not start it. */
		if (!has(n, vm) && (epoch < n->next_epoch[vm] ||
		                    lease_grant(&n->lease, e->gen, epoch, &n->next_epoch[vm], now)))
			ask(s, n, (struct event){ .verb = RELEASE, .vm = vm, .epoch = epoch });
	}
}

static void answer(struct sim *s, struct node *n, struct event *e)
{
	uint64_t now = local(s, n);

	switch (e->verb) {
	case JOIN:
	case RENEW:
		if (s->c.mutant == SIM_FROM_ANSWER && n->lease.open)
			n->lease.sent = now;
		if (e->verb == RENEW) {
			lease_renewed(&n->lease, e->number, e->yes, now);
		} else {
			n->seen_gen = e->gen;
			if (e->yes)
				lease_joined(&n->lease, e->number, e->gen, now);
		}
		if (lease_valid(&n->lease, now))
			fence_extend(&n->fence, n->lease.deadline);
		break;
	case READ:
		have_read(s, n, e);
		break;
	case CLAIM:
		n->claiming = false;
		if (!e->yes || n->n_held == VMS_OF_NODE || has(n, e->vm) ||
		    !lease_grant(&n->lease, e->gen, e->epoch, &n->next_epoch[e->vm], now))
			break;
		s->r.claims++;
		n->held[n->n_held++] =
		        (struct held){ .vm = e->vm, .epoch = e->epoch, .version = e->version };
		really_start(s, n, e->vm);
		break;
	case STORE:
		if (e->yes) {
			s->r.suspends++;
			s->acked[e->vm] = MAX(s->acked[e->vm], e->version + 1);
		}
		drop(n, e->vm, e->epoch);
		break;
	case TAKE:
	case RELEASE:
		break;
	}
}

/* ---- faults ---- */

static void begin_life(struct sim *s, struct node *n)
{
	n->life++;
	n->dead = n->claiming = false;
	n->n_held = 0;
	n->seen_gen = 0;
	fence_clear(&n->fence);
	lease_init(&n->lease, &s->lease);
	memset(n->watch, 0, s->c.nodes * sizeof(*n->watch));
	memset(n->next_epoch, 0, s->c.vms * sizeof(*n->next_epoch));
	push(s, (struct event){ .at = s->now + rnd(s, S),
	                        .kind = EV_TICK,
	                        .node = (uint32_t)id_of(s, n),
	                        .life = n->life });
}

static void fault(struct sim *s)
{
	struct node *n = &s->nodes[rnd(s, s->c.nodes)];
	uint64_t until = s->now + (rnd(s, 2) ? rnd(s, 13 * S) : rnd(s, 40 * S));

	if (s->now >= s->faults_until)
		return;
	push(s, (struct event){ .at = s->now + rnd(s, 40 * S / s->c.nodes), .kind = EV_FAULT });
	if (n->dead)
		return;
	switch (rnd(s, 20)) {
	case 0:
	case 1:
	case 2: /* with all its VMs */
		s->r.deaths++;
		end_all(s, n);
		n->dead = true;
		n->back_at = until;
		break;
	case 3:
	case 4:
	case 5:
		s->r.cuts++;
		n->cut_out_until = until;
		break;
	case 6:
	case 7:
	case 8:
		s->r.cuts++;
		n->cut_in_until = until;
		break;
	case 9:
		s->r.cuts++;
		n->cut_in_until = n->cut_out_until = until;
		break;
	case 10:
		s->r.jumps++;
		s->wall_jump += (int64_t)rnd(s, 240000) - 120000;
		break;
	case 11:
		if (rnd(s, 10) == 0)
			s->down_until = s->now + rnd(s, 20 * S);
		break;
	case 12: /* slow, then gone: answers are read late */
		s->r.hangs++;
		n->back_at = s->now + rnd(s, 10 * S);
		n->cut_out_until = s->now + 40 * S;
		break;
	default: /* its pandod; VMs and fence go on */
		s->r.hangs++;
		n->back_at = until;
		break;
	}
}

/* ---- a run ---- */

static void handle(struct sim *s, struct event e)
{
	struct node *n = e.kind == EV_FAULT ? NULL : &s->nodes[e.node];

	switch (e.kind) {
	case EV_FAULT:
		fault(s);
		return;
	case EV_ARRIVE:
		arrive(s, e);
		return;
	case EV_FENCE: /* a process of its own, on the node's clock; also: dead nodes come back */
		if (n->dead && s->now >= n->back_at)
			begin_life(s, n);
		if (!n->dead && s->c.mutant != SIM_NO_FENCE && n->n_held &&
		    fence_due(&n->fence, local(s, n)))
			end_all(s, n);
		e.at = s->now + 100 * MS;
		push(s, e);
		return;
	case EV_TICK:
	case EV_ANSWER:
		break;
	}
	if (n->dead || e.life != n->life) {
		free(e.rows);
		return;
	}
	if (s->now < n->back_at) { /* hangs: it happens later */
		e.at = n->back_at + rnd(s, MS);
		push(s, e);
		return;
	}
	if (e.kind == EV_TICK)
		tick(s, n);
	else
		answer(s, n, &e);
	free(e.rows);
}

static void look_at_the_end(struct sim *s)
{
	for (uint32_t i = 0; i < s->c.nodes; i++)
		s->r.stuck += !lease_valid(&s->nodes[i].lease, local(s, &s->nodes[i]));
	for (uint32_t i = 0; i < s->c.vms; i++) {
		uint32_t owner = s->vms[i].node;

		s->r.lost += s->vms[i].version < s->acked[i];
		s->r.stuck += owner != s->runner[i];
	}
}

static void *zeroed(size_t n, size_t size)
{
	void *p = calloc(n, size);

	if (!p)
		abort();
	return p;
}

void sim_run(const struct sim_conf *c, struct sim_result *ret)
{
	struct sim s = { .c = *c,
		         .lease = lease_default,
		         .random = c->seed * 0x9e3779b97f4a7c15ull + 1,
		         .faults_until = c->seconds * S };
	uint64_t end = (c->seconds + QUIET_S) * S;

	s.nodes = zeroed(c->nodes, sizeof(*s.nodes));
	s.rows = zeroed(c->nodes, sizeof(*s.rows));
	s.vms = zeroed(c->vms, sizeof(*s.vms));
	s.runner = zeroed(c->vms, sizeof(*s.runner));
	s.acked = zeroed(c->vms, sizeof(*s.acked));
	for (uint32_t i = 0; i < c->vms; i++)
		s.vms[i].node = s.runner[i] = NOBODY;
	for (uint32_t i = 0; i < c->nodes; i++) {
		struct node *n = &s.nodes[i];

		n->watch = zeroed(c->nodes, sizeof(*n->watch));
		n->next_epoch = zeroed(c->vms, sizeof(*n->next_epoch));
		n->offset = rnd(&s, 1000000000);
		n->ppm = (int64_t)rnd(&s, 2 * DRIFT_PPM + 1) - DRIFT_PPM;
		begin_life(&s, n);
		push(&s, (struct event){ .at = rnd(&s, 100 * MS), .kind = EV_FENCE, .node = i });
	}
	push(&s, (struct event){ .at = 5 * S, .kind = EV_FAULT });
	while (s.n && s.heap[0].at < end) {
		struct event e = pop(&s);

		s.now = e.at;
		s.r.events++;
		handle(&s, e);
	}
	s.now = end;
	look_at_the_end(&s);
	for (size_t i = 0; i < s.n; i++)
		free(s.heap[i].rows);
	for (uint32_t i = 0; i < c->nodes; i++) {
		free(s.nodes[i].watch);
		free(s.nodes[i].next_epoch);
	}
	free(s.heap);
	free(s.nodes);
	free(s.rows);
	free(s.vms);
	free(s.runner);
	free(s.acked);
	*ret = s.r;
}
