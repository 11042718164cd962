/* SPDX-License-Identifier: Apache-2.0 */
/* sim_db.c - the database of the simulation: statements that take effect one after the other */
#include <stdlib.h>

#include "tests/cluster/sim_internal.h"

static int64_t wall_ms(const struct sim *s)
{
	return (int64_t)(s->now / MS) + s->wall_jump;
}

static void release_all(struct sim *s, uint32_t node)
{
	for (uint32_t i = 0; i < s->c.vms; i++) {
		if (s->vms[i].node == node) {
			s->vms[i].node = NOBODY;
			s->vms[i].epoch++;
		}
	}
}

static void read_rows(struct sim *s, struct event *e)
{
	e->rows = calloc(s->c.nodes + VMS_READ, sizeof(*e->rows));
	if (!e->rows)
		abort();
	for (uint32_t i = 0; i < s->c.nodes; i++)
		e->rows[i] = (struct row_seen){ s->rows[i].gen, s->rows[i].beat };
	for (uint32_t i = 0; i < s->c.vms && e->n_ours < VMS_READ; i++)
		if (s->vms[i].node == e->node)
			e->rows[s->c.nodes + e->n_ours++] = (struct row_seen){ i, s->vms[i].epoch };
}

/* One statement or transaction each. */
static void execute(struct sim *s, struct event *e)
{
	switch (e->verb) {
	case JOIN: /* UPDATE nodes SET gen = gen + 1, beat = 0 WHERE id AND gen = $; release */
		e->yes = s->rows[e->node].gen == e->gen;
		if (e->yes) {
			s->rows[e->node].gen++;
			s->rows[e->node].beat = 0;
			s->rows[e->node].wall_until = wall_ms(s) + WALL_LEASE_MS;
			release_all(s, e->node);
		}
		e->gen = s->rows[e->node].gen;
		break;
	case RENEW: /* UPDATE nodes SET beat = beat + 1 WHERE id AND gen = $ */
		e->yes = s->rows[e->node].gen == e->gen;
		if (e->yes) {
			s->rows[e->node].beat++;
			s->rows[e->node].wall_until = wall_ms(s) + WALL_LEASE_MS;
		}
		break;
	case READ: /* SELECT id, gen, beat FROM nodes; SELECT id, epoch FROM vms WHERE node = $ */
		read_rows(s, e);
		break;
	case TAKE: /* UPDATE nodes SET gen = gen + 1 WHERE id AND gen = $ AND beat = $; release */
		e->yes = s->rows[e->other].gen == e->gen && s->rows[e->other].beat == e->beat;
		if (s->c.mutant == SIM_SERVER_CLOCK)
			e->yes = wall_ms(s) > s->rows[e->other].wall_until;
		if (e->yes) {
			s->r.takeovers++;
			s->rows[e->other].gen++;
			s->rows[e->other].beat = 0;
			release_all(s, e->other);
		}
		break;
	case CLAIM: /* UPDATE vms SET node, epoch = epoch + 1 WHERE node IS NULL AND our gen = $ */
		e->yes = s->rows[e->node].gen == e->gen && s->vms[e->vm].node == NOBODY;
		if (e->yes) {
			s->vms[e->vm].node = e->node;
			e->epoch = ++s->vms[e->vm].epoch;
			e->version = s->vms[e->vm].version;
		}
		break;
	case STORE: /* UPDATE vms SET node = NULL, version WHERE node = $ AND epoch = $ */
		e->yes = s->vms[e->vm].node == e->node &&
		         (s->vms[e->vm].epoch == e->epoch || s->c.mutant == SIM_NO_EPOCH);
		if (e->yes) {
			s->r.stale += s->vms[e->vm].version != e->version;
			s->r.lost += e->version + 1 < s->acked[e->vm];
			s->vms[e->vm].version = e->version + 1;
			s->vms[e->vm].node = NOBODY;
		} else {
			s->r.refused++;
		}
		break;
	case RELEASE: /* UPDATE vms SET node = NULL, epoch = epoch + 1 WHERE node, epoch */
		if (s->vms[e->vm].node == e->node && s->vms[e->vm].epoch == e->epoch) {
			s->vms[e->vm].node = NOBODY;
			s->vms[e->vm].epoch++;
		}
		break;
	}
}

void arrive(struct sim *s, struct event e)
{
	struct node *n = &s->nodes[e.node];

	if (s->now < s->down_until)
		return;
	execute(s, &e);
	e.kind = EV_ANSWER;
	e.at = s->now + delay(s);
	if (s->now < n->cut_in_until || e.verb == RELEASE || e.verb == TAKE) {
		free(e.rows);
		return;
	}
	push(s, e);
}
