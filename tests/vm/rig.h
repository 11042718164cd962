/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/vm/rig.h - the real VM manager over a fake host, and whether all of it agrees
 *
 * main() calls rig_main_begin() before anything has threads. Then:
 *
 *	struct rig *r = rig_new(&(struct rig_opts){ .pool = 2 });   data directory, store, manager
 *	OK(rig_create(r, NULL, &vm, &err));
 *	rig_crash(r);                    as kill -9 of pandod: nothing it did not yet do happens
 *	OK(rig_start(r, &err));          the next pandod: recovers
 *	rig_check(r);                    fails the test with a message when something disagrees
 *	r = rig_free(r);                 ends machines, removes files
 *
 * What a test may break: r->fake->on_call (engine and helper, fake.h), the agent's channel
 * (on_agent), and whatever is wrapped around store and files. rig_check() wants nobody at work.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "guest/guest.h"
#include "tests/vm/fake.h"
#include "vm/vm.h"
#include "vm/vmm.h"

#define RIG_ACCOUNT "acme"

struct rig;
struct rig_opts {
	unsigned pool, blanks;            /* made ahead of need; 0: none */
	unsigned seeds;                   /* sizes whose VMs are forked from a seed */
	const struct vm_times *times;     /* NULL: rig_times */
	bool no_template;                 /* rig_new() does not wait for it */
	bool no_account;                  /* RIG_ACCOUNT is not made */
	uint32_t vcpus, mem_mb, disk_mb;  /* default VM; 0: as small as can be */
	uint32_t size_vcpus, size_mem_mb; /* a size that is made ahead of need; 0: none */
	bool no_sizes_disk;               /* no room for templates of other sizes */
	uint32_t quota_vcpus;             /* of an account; 0: no limit */
	struct events *events;            /* weak; told what happens to VMs, or NULL */
	const char *ca;                   /* that guests are to trust, in PEM; or NULL */
	const char *objects;              /* URL of an object store; NULL: none */
	const char *data_dir;             /* one that is there, and stays; NULL: one of its own */
	/* Instead of a database of its own: opens r->store; afterwards, with its secrets unlocked;
	 * and before it is closed. Or NULL, all three. */
	int (*open)(struct rig *r, struct err *err);
	int (*join)(struct rig *r, struct err *err);
	void (*leave)(struct rig *r);
	void *own; /* theirs */
	void (*prepare)(
	        struct rig *r); /* sets on_call and fake->on_agent before anything runs; or NULL */
};
/* Short where "never" must be short, quick where something waits for quiet. */
extern const struct vm_times rig_times;

struct rig {
	struct rig_opts opts;
	char dir[128];
	char data_dir[160], image_dir[160];
	struct fake *fake;
	struct store *store;
	struct secrets *secrets;
	struct privc *priv;
	struct priv_info priv_info;
	struct engine *engine;
	struct dns *dns;
	struct gates *gates;
	struct objects *objects;
	struct vmm *vmm; /* NULL: ended */
	bool dead;       /* set by rig_crash(): calls of the old manager have no effect */
	/* Atomic, as in fake.h: the pool's thread calls it while a test sets it. */
	int (*_Atomic on_call)(void *ctx, enum fake_face face, const char *what,
	                       const char *object);
	void *ctx;
};

/* 0, or 1 with a message on stderr: this host has no mount namespaces for us. */
int rig_main_begin(void);
void rig_main_end(void);

struct rig *rig_new(const struct rig_opts *o);
struct rig *rig_free(struct rig *r);
/* A manager over what is there: recovers, waits for the template. */
int rig_start(struct rig *r, struct err *err);
void rig_stop(struct rig *r);  /* the manager ends properly; VMs continue */
void rig_crash(struct rig *r); /* it dies here; VMs continue */

/* Other data directories do not find templates any more. */
void rig_forget_templates(void);

/* Waits until a seed is there and has passed its trial, whatever failed before. */
void rig_seeded(struct rig *r);
/* Waits until nothing happens in the background any more: keeper, starts, and the pool as asked
 * for. */
void rig_settle(struct rig *r);
/* rig_settle(), then everything must agree; fail_msg() when not. See rig_check.c for the list. */
void rig_check(struct rig *r);
/* The same, told: false and a message. */
bool rig_agrees(struct rig *r, char *why, size_t size);

/* ---- verbs with what is usual ---- */
int rig_create(struct rig *r, const char *snapshot_id, struct vm_info *ret, struct err *err);
/* Runs a command in the guest, which wakes it; its output, cut to size. */
int rig_exec(struct rig *r, const char *id, const char *command, char *out, size_t size,
             struct err *err);
/* An exec answers, a suspend works, an exec answers again. */
int rig_usable(struct rig *r, const char *id, struct err *err);
