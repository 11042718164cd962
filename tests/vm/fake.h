/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/vm/fake.h - a host without QEMU and without root: machines, slots and what can fail
 *
 * struct fake is what the kernel, QEMU and pando-priv know of the machines of one data directory;
 * it outlives the manager and the engine, as they do. fake_priv_new() and fake_engine_new() are the
 * two faces of it. A machine is a real process with the real agent in it (fakehost.c); its layers
 * and states are real files of the engine's own formats, so checksums, flattening and collection
 * are those of the server.
 *
 * Every call into a face is announced to fake->on_call, if there is one, before it does
 * anything: an errno from there fails the call without effect. A call into the helper can also have
 * its effect and then fail (the answer was lost): FAKE_LOST | errno.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/id.h"
#include "base/lock.h"
#include "engine/engine.h"
#include "privc/privc.h"

#define FAKE_MACHINES_MAX 256
#define FAKE_SLOTS_MAX 128
#define FAKE_FORKS_MAX 64
#define FAKE_NODES_MAX 64
#define FAKE_LOST (1 << 16)

struct fake_machine {
	char instance[ID_SIZE]; /* "": this place is free */
	pid_t pid, agent;
	int slot;
	bool ended; /* reaped; status says how */
	int status;
	bool running; /* not stopped */
	bool stalled; /* as after a write to a full disk */
	bool rebooted;
	uint32_t vcpus, mem_mb;
	char nodes[FAKE_NODES_MAX][ID_SIZE]; /* disk layers it has open, bottom first */
	size_t n_nodes;                      /* the last one is written to */
	char token[ID_SIZE];                 /* point it was thawed from, "": cold boot */
	unsigned freezes;
	bool seed;               /* it is forked, and never runs again */
	char forked_of[ID_SIZE]; /* a seed; "": it was started */
};

/* A process that a seed has forked and that the helper does not know yet: it waits at its gate. */
struct fake_fork {
	char instance[ID_SIZE]; /* "": this place is free */
	pid_t pid, agent;
};

struct fake_slot {
	bool taken, open;
	char policy_of[ID_SIZE];
};

enum fake_face { FAKE_ENGINE, FAKE_HELPER };

struct fake {
	char data_dir[256];
	struct mutex lock; /* guards what follows */
	struct fake_machine machines[FAKE_MACHINES_MAX];
	struct fake_fork forks[FAKE_FORKS_MAX];
	struct fake_slot slots[FAKE_SLOTS_MAX];
	_Atomic uint64_t cpu_us;       /* more, that every machine has used */
	int wake_fd;                   /* the network's end of the last vpc.wake; -1: none */
	uint64_t fence_ms;             /* the last fence */
	uint32_t fresh_ttl_s, n_fresh; /* the last vpc.fresh, and how many */
	/* 0, or an errno to fail with. */
	int (*_Atomic on_call)(void *ctx, enum fake_face face, const char *what,
	                       const char *object);
	/* Every agent channel passes through here; gives the host's end. */
	int (*_Atomic on_agent)(void *ctx, int fd_consume);
	void *ctx;
};

/* Starts the program that starts machines; before the process has threads. 0, or why it cannot. */
int fake_begin(struct err *err);
void fake_end(void);

struct fake *fake_new(const char *data_dir);
/* Ends all its machines. */
struct fake *fake_free(struct fake *f);
int fake_priv_new(struct fake *f, struct privc **ret, struct priv_info *ret_info, struct err *err);
int fake_engine_new(struct fake *f, struct privc *priv, struct engine **ret, struct err *err);

/* ---- for tests ---- */
/* A copy; false: there is none of that name. */
bool fake_find(struct fake *f, const char *instance, struct fake_machine *ret);
/* SIGKILL from outside, as the kernel does when memory runs out. */
void fake_die(struct fake *f, const char *instance);
bool fake_runs(struct fake *f, const char *instance);
size_t fake_alive(struct fake *f); /* machines whose process runs */
size_t fake_slots(struct fake *f); /* slots that are taken */

/* ---- between fake.c and fake_engine.c ---- */
int fake_call(struct fake *f, enum fake_face face, const char *what, const char *object,
              struct err *err);
/* f->lock held; NULL: none. */
struct fake_machine *fake_get(struct fake *f, const char *instance);
/* A seed's process is forked: the new one waits at its gate until the helper takes it. */
int fake_fork(struct fake *f, const char *instance, int *ret_pidfd, struct err *err);
/* The gate closes: a process that still waits at it ends. */
void fake_fork_done(struct fake *f, const char *instance);
