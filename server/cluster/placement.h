/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cluster/placement.h - which node gets something new, or takes a VM over
 *
 * Pure rules, without clocks, threads, sockets or SQL: a table of nodes goes in, a choice comes
 * out. Used for creates, for VMs that are claimed, and for forks that are spread.
 *
 * A node is out of the question if it is dead, is being drained, cannot continue what was frozen
 * (another CPU, QEMU or accelerator), or has not the memory. Of those that are left, the best is
 *
 *   1. of forks that are spread: one with fewer of their siblings;
 *   2. one that is not short of memory: with it PLACEMENT_SPARE_MB are left;
 *   3. one that is nearer: it has the files, or was asked;
 *   4. one with more free memory, then with fewer running VMs, then with the smaller id, so that
 *      all nodes that ask come to the same answer.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PLACEMENT_SPARE_MB 512

enum placement_near {
	NEAR_NOT,
	NEAR_ASKED, /* the request is there, nothing needs to be sent on */
	NEAR_FILES, /* layers would have to be fetched anywhere else */
};
struct placement_node {
	const char *id; /* weak */
	bool open;      /* alive, and takes new VMs */
	bool fits;
	enum placement_near near;
	uint32_t free_mb, running;
	unsigned siblings; /* forks of the same call that it has; counted by placement_spread() */
};

/* The best one for a VM that needs so much; SIZE_MAX: there is none. spread: rule 1 holds. */
size_t placement_best(const struct placement_node *v, size_t n, uint64_t need_mb, bool spread);
/* A node for each of count VMs, as indexes in ret: what each takes is taken off. false: not all of
 * them have one. */
bool placement_spread(struct placement_node *v, size_t n, uint64_t need_mb, unsigned count,
                      size_t *ret);
