/* SPDX-License-Identifier: Apache-2.0 */
/* sim_internal.h - the state of a run: sim.c (nodes and faults), sim_db.c (the database) */
#pragma once

#include "cluster/lease.h"
#include "tests/cluster/sim.h"

#define MS 1000ull /* times are microseconds */
#define S (1000 * MS)
#define VMS_OF_NODE 300
#define VMS_READ 600u /* rows of a node that are read at once: twice as many */
#define NOBODY UINT32_MAX
#define DRIFT_PPM 500 /* how wrong a clock may go */
#define QUIET_S 75    /* without faults, at the end */
#define WALL_LEASE_MS 15000

enum kind { EV_TICK, EV_FENCE, EV_ARRIVE, EV_ANSWER, EV_FAULT };
enum verb { JOIN, RENEW, READ, TAKE, CLAIM, STORE, RELEASE };

struct row_seen {
	uint64_t gen, beat; /* of a node; or a VM and its epoch */
};

struct event {
	uint64_t at, order;
	enum kind kind;
	uint32_t node, life; /* of the process that it is for */
	enum verb verb;
	uint32_t vm, other;
	uint64_t number, gen, beat, epoch, version;
	bool yes;
	struct row_seen *rows; /* READ's answer: all nodes, then our VMs; owned */
	size_t n_ours;
};

struct held {
	uint32_t vm;
	uint64_t epoch, version;
	bool storing;      /* it has ended, its state is on the way */
	uint64_t store_at; /* local ms: sent last */
};

struct node {
	uint32_t life;
	bool dead;
	uint64_t back_at; /* dead until, or hung until */
	uint64_t cut_out_until, cut_in_until;
	uint64_t offset; /* ms: what its clock showed at the beginning */
	int64_t ppm;
	struct lease lease;
	struct fence fence;
	struct watch *watch;  /* of all nodes */
	uint64_t *next_epoch; /* of all VMs */
	struct held held[VMS_OF_NODE];
	unsigned n_held;
	uint64_t seen_gen, claim_at, read_at;
	bool claiming;
};

struct sim {
	struct sim_conf c;
	struct sim_result r;
	struct lease_conf lease;
	uint64_t now, random, order, faults_until;
	struct event *heap;
	size_t n, cap;
	struct node *nodes;
	/* the database */
	struct {
		uint64_t gen, beat;
		int64_t wall_until; /* SIM_SERVER_CLOCK */
	} * rows;
	struct {
		uint32_t node;
		uint64_t epoch, version;
	} * vms;
	uint64_t down_until;
	int64_t wall_jump; /* of its wall clock, ms */
	/* what is really so */
	uint32_t *runner;
	uint64_t *acked;
};

/* ---- sim.c ---- */
void push(struct sim *s, struct event e);
/* Of a message, in microseconds. */
uint64_t delay(struct sim *s);

/* ---- sim_db.c ---- */
/* A request has reached the database: it is executed, and its answer sent. */
void arrive(struct sim *s, struct event e);
