/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim.h - many nodes with one database, in virtual time; for tests only
 *
 * Theory of operation: a queue of events in the order of time, one of which happens at a time, so a
 * seed decides everything. Nodes run the rules of server/cluster/lease.h on clocks of their own,
 * which begin anywhere and go a little too fast or slow. The database is two tables whose changes
 * are atomic; requests and answers take time, and some are lost. Nodes hang (their pandod does
 * nothing, its fence still works), die and come back, are cut off in one direction or both; the
 * database goes away for a while, and its wall clock jumps.
 *
 * What is really so is kept beside it: which node runs a VM, and what a VM's state is made from.
 * Checked at every step: no VM runs twice; no write is accepted that is not made from the state
 * before it; what was acknowledged stays. At the end of a run the faults stop, and soon every node
 * must have a lease and no VM an owner that does not run it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Rules that are left out, to see that the checks notice. */
enum sim_mutant {
	SIM_RIGHT,
	SIM_NO_FENCE,     /* nodes whose lease is over go on */
	SIM_FROM_ANSWER,  /* the lease is counted from the answer, not from before the request */
	SIM_NO_EPOCH,     /* writes require the owner only */
	SIM_SERVER_CLOCK, /* leases by the wall clock of the database */
	SIM_MUTANTS
};

struct sim_conf {
	uint64_t seed;
	unsigned nodes, vms;
	unsigned seconds; /* of virtual time, with faults */
	enum sim_mutant mutant;
};

struct sim_result {
	uint64_t events, claims, suspends, refused, fences, takeovers, deaths, hangs, cuts, jumps;
	uint64_t twice; /* a VM was started while it ran elsewhere */
	uint64_t stale; /* a write was accepted that misses an earlier one */
	uint64_t lost;  /* something acknowledged is gone */
	uint64_t stuck; /* nodes without a lease, VMs of nobody, at the end */
};

void sim_run(const struct sim_conf *c, struct sim_result *ret);
