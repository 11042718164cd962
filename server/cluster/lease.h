/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cluster/lease.h - when a node may run VMs, and when another one may take them over
 *
 * Theory of operation: pure rules, without clocks, threads, sockets or SQL, so that a real node and
 * the simulation (tests/cluster) run the same code. The caller says what time it is and what
 * happened, and does what it is told.
 *
 * A node has a row in the database: its id, a generation and a beat. Joining makes a new
 * generation (if the row still has the one that the node saw: a join that was under way for long
 * must not end the lease of a later one) and takes all VMs from the one before; renewing adds one
 * to the beat of the node's own generation. Nothing in the row is a time. Every node measures on
 * its own clock:
 *
 *   - Its lease ends lease_ms after it sent the last renewal that was answered. Counted from before
 *     it was sent: the database cannot have seen it earlier. margin_ms before that all of its VMs
 *     must be gone, whatever became of the rest of the program (self-fencing, struct fence: it
 *     belongs into a process that does little else).
 *   - Another node is dead once a watcher saw the same generation and beat for lease_ms. The
 *     watcher saw it after the database had it. It takes over by a statement that requires both to
 *     be as it saw them, so a renewal at the last moment wins.
 *
 * So whoever takes over does it later than the owner's VMs ended, if the two clocks go at the same
 * speed to within margin_ms / lease_ms. They need not show the same time, and the database's clock
 * is not asked: it jumps when an operator sets it or a standby takes over (the simulation has that
 * variant, and it fails). The clock must go on while the machine sleeps (CLOCK_BOOTTIME); a host
 * that is itself a VM and is paused together with its clock is beyond this.
 *
 * Leases protect the world from two copies of a VM. Data is protected by epochs: a VM's row has the
 * node that owns it and a number that each change of owner raises, and every write of an owner
 * requires both.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct lease_conf {
	uint32_t lease_ms;  /* the same on all nodes */
	uint32_t renew_ms;  /* from one renewal to the next */
	uint32_t margin_ms; /* to end all VMs, and for clocks of different speed */
	uint32_t retry_ms;  /* without an answer a request is sent again */
};
/* 15 s, 3 s, 3 s, 2 s */
extern const struct lease_conf lease_default;
/* Is there time for at least two renewals before VMs have to end? */
bool lease_conf_valid(const struct lease_conf *c);

/*
 * enum lease_state - only lease.c writes it
 * @LEASE_OUT: no VM runs here, none may be started. Next: HELD when a join is answered in time.
 * @LEASE_HELD: VMs may run until the deadline. Next: OVER.
 * @LEASE_OVER: the deadline passed, or somebody else made a new generation of us: VMs must end.
 *	Mustn't: start VMs, write rows, renew. Next: OUT when they have ended.
 */
enum lease_state { LEASE_OUT, LEASE_HELD, LEASE_OVER };

enum lease_todo {
	LEASE_NOTHING,
	LEASE_JOIN,  /* send a join, then call lease_sent() with the time before it was sent */
	LEASE_RENEW, /* the same with a renewal of lease->gen */
	LEASE_FENCE, /* end all VMs, then call lease_fenced() */
};

struct lease {
	struct lease_conf conf;
	enum lease_state state;
	uint64_t gen;      /* ours, while HELD */
	uint64_t deadline; /* HELD: VMs must be gone by then */
	uint64_t renewed;  /* when the last answered request was sent */
	uint64_t sent;     /* when the open request was sent */
	uint64_t number;   /* of the open request; answers to others are ignored */
	bool open;         /* a request has not been answered */
};

void lease_init(struct lease *l, const struct lease_conf *c);
/* What is to be done now; the time may be asked as often as one likes. */
enum lease_todo lease_next(struct lease *l, uint64_t now);
/* Until then nothing is to be done unless an answer comes. */
uint64_t lease_wakeup(const struct lease *l, uint64_t now);
/* before: the time before it was sent. Number of the request, for its answer. */
uint64_t lease_sent(struct lease *l, uint64_t before);
/* The answers, at the time they came. Those of older requests change nothing. An error is no
 * answer: the request is sent again after retry_ms. */
void lease_joined(struct lease *l, uint64_t number, uint64_t gen, uint64_t now);
/* ours: the row still had our generation. */
void lease_renewed(struct lease *l, uint64_t number, bool ours, uint64_t now);
void lease_fenced(struct lease *l); /* no VM runs here any more */
/* May a VM be started, or something be written as its owner, now? */
bool lease_valid(const struct lease *l, uint64_t now);

/*
 * A VM was granted to us: it was claimed by a request with generation gen, and its row has this
 * epoch. May it be started? At most once for each epoch, however often and late answers come:
 * *next is the first epoch of this VM that we have not used, and lives as long as the process. Also
 * to be asked before a row that is ours but unused is given back: then nobody may start it.
 */
bool lease_grant(const struct lease *l, uint64_t gen, uint64_t epoch, uint64_t *next, uint64_t now);

/* ---- the last resort: ends VMs even if nobody asks lease_next() any more ---- */
struct fence {
	uint64_t deadline; /* 0: nothing may run */
};
/* The node's lease was renewed: its deadline. Never moves backwards. */
void fence_extend(struct fence *f, uint64_t deadline);
/* All VMs ended for another reason. */
void fence_clear(struct fence *f);
bool fence_due(const struct fence *f, uint64_t now);

/* ---- others: one for each node that is seen ---- */
struct watch {
	uint64_t gen, beat;
	uint64_t since; /* when these two were first seen */
	bool seen;
};
/* A row that was read; now: the time after the answer came. */
void watch_saw(struct watch *w, uint64_t gen, uint64_t beat, uint64_t now);
/* May it be taken over, if gen and beat are still these? */
bool watch_dead(const struct watch *w, const struct lease_conf *c, uint64_t now);
