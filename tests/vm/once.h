/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/vm/once.h - a verb is run with its 1st, 2nd, ... call failing, until it passes undisturbed
 *
 * One verb is one row. Before each run prepare() brings the subject to where the verb starts
 * from; run() is the verb. After it: an error has a code and a sentence; the subject is in the
 * state it was in or the one it was to be in; the rig agrees; the subject can be used; no
 * descriptor is left over; finish() removes what the verb made. All of prepare(), finish() and the
 * looks run undisturbed.
 */
#pragma once

#include "store/store.h"
#include "tests/vm/rig.h"

struct once {
	struct rig *r;
	struct vm_info vm;       /* the subject; id "": none */
	struct vm_info made;     /* by the verb */
	struct vm_info *kids;    /* by the verb; freed by finish() */
	char snapshot[ID_SIZE];  /* of the subject, kept for the whole row */
	struct snapshot_info sc; /* by the verb */
	unsigned n;              /* the verb's own number: of copies */
	size_t n_vms;            /* in the table before the verb */
	bool stalled;            /* a channel may have fallen silent */
	bool lossy;              /* a message may have been lost, even one with data */
};

struct once_verb {
	const char *name;
	struct rig_opts rig;
	unsigned n;
	unsigned coarse; /* so many times fewer calls, when time is short; 0: as usual */
	void (*begin)(struct once *o);   /* once per row */
	void (*prepare)(struct once *o); /* before each run */
	int (*run)(struct once *o, struct err *err);
	/* After each run; failed: what the verb returned. Fails the test when something is wrong.
	 */
	void (*finish)(struct once *o, bool failed);
	int from, to; /* states of the subject before, and after success; -1: it has none */
	int also;     /* a state that a failure may leave, too; -1 */
};

/* Runs one row as a cmocka test; *state is the row. */
void once_run(void **state);
/*
 * Before the VM is used: a channel that fell silent without hanging up fails the calls that find
 * out, and the next one has a new channel.
 */
void once_find_out(struct once *o, const char *id);
/* once_seed.c: a seed is there; a subject that was forked, or the row would say nothing */
void once_be_seeded(struct once *o);
void once_make_forked(struct once *o);
/* The seed has died: the VM is thawed, and then there is another seed. */
int once_create_reseed(struct once *o, struct err *err);
int once_create_sized(struct once *o, struct err *err); /* a VM of another size, */
void once_seed_size(struct once *o);                    /* which has a seed, too */
/* argv: [verb [kind [nth]]], for looking into a single failure. */
void once_args(int argc, char **argv);
bool once_wanted(const char *verb);
/* From PANDO_LONG: every call with every error, else some calls of kinds that have many. */
bool once_long(void);
