/* SPDX-License-Identifier: MIT */
/*
 * layers_internal.h - shared by the files of the preloaded library only
 *
 * One process has one guest memory, and the functions that QEMU calls (open, mmap, madvise) carry
 * no context of ours: hence one struct ram. Everything else is reached from the control thread's
 * struct control. Names that QEMU must not see are hidden.
 */
#ifndef PANDO_LAYERS_INTERNAL_H
#define PANDO_LAYERS_INTERNAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "layers/control.h"
#include "layers/format.h"
#include "layers/guestmem.h"

#pragma GCC visibility push(hidden)

/*
 * struct ram - guest memory
 * @bytes: its size; 0 until the constructor has found the environment's settings
 * @base: where QEMU mapped it; NULL before. Written once by QEMU's main thread (release), read by
 *	the control thread (acquire)
 * @dontdump: QEMU asked for MADV_DONTDUMP; MAP's new mappings get it as well
 */
struct ram {
	uint64_t bytes;
	_Atomic(uint8_t *) base;
	atomic_bool dontdump;
};
extern struct ram ram;

static inline uint8_t *ram_base(void)
{
	return atomic_load_explicit(&ram.base, memory_order_acquire);
}

/* What the writer of a layer tells its parent, in memory both share. */
struct dump_result {
	uint64_t pages;
	uint64_t free_pages; /* private ones that were left out */
	uint64_t us;
	uint32_t n_extents;
	int32_t status;    /* 0 or -errno; means something only if finished */
	uint32_t finished; /* written last */
	uint32_t cancel;   /* written by the parent: stop at the next chance */
	char why[64];
};

/*
 * enum freeze_state - a freeze in flight
 * @FREEZE_FREE: the slot is unused. Next: RUNNING by freeze_start().
 * @FREEZE_RUNNING: a child writes. Next: ENDED when the child has ended and was reaped.
 * @FREEZE_ENDED: the outcome is known but no client has been told. Next: FREE, when one has.
 */
enum freeze_state { FREEZE_FREE, FREEZE_RUNNING, FREEZE_ENDED };

struct freeze {
	enum freeze_state state;
	uint64_t token;
	uint32_t flags;
	bool discarded;
	pid_t pid;
	int pidfd;                  /* owned while RUNNING, else -1 */
	struct dump_result *result; /* a place in memory shared with the child */
	struct layers_reply done;   /* valid when ENDED */
};

/* The control thread's state. */
struct control {
	int listen_fd;     /* owned */
	int client_fd;     /* owned; -1 when there is none */
	bool accept_later; /* the last accept failed: wait a little */
	struct freeze freezes[LAYERS_FREEZE_MAX];
	/* MAP */
	int layer_fds[LAYER_STACK_MAX]; /* owned; a stack that is still arriving */
	uint32_t n_layer_fds, n_layers_due;
	uint32_t stack_for; /* the request that it belongs to */
	bool mapped, broken;
	bool seed; /* may be forked */
	uint32_t n_layers, n_mappings;
	struct sweep *sweep; /* owned; NULL: nothing was looked for */
};

/* preload.c: no interposition, no errno surprises; for the library's own use */
uint64_t now_us(void);

/* seccomp.c: deny this process what QEMU never needs; 0 or -errno */
int seccomp_install(bool seed);
/* The same for a child of a seed: nothing that reaches another process. System calls only. */
int seccomp_child(void);

/*
 * park.c: all other threads stand still until park_release(), which a failed park_all() has done.
 * In between no lock may be taken, so no malloc and no stdio.
 */
#define PARK_THREADS_MAX 160 /* 32 vCPUs, 64 workers of QEMU's pool, and some */
void park_enable(void);      /* by the constructor: this process may be parked */
bool park_wanted(void);      /* it was called with success */
bool park_enabled(void);     /* and what it believes holds for the calling thread */
int park_all(void);
void park_release(void);
/* In a child: the calling thread's new id; then the parked ones live again. */
void park_own_child(void);
int park_revive(void);
/* The threads, or descriptors but for the one of the look itself; 0, -errno, or what fn returned.
 */
enum proc_dir { PROC_TASK, PROC_FD };
int proc_numbers(enum proc_dir which, int (*fn)(int n, void *ctx), void *ctx);

/* fds.c: what a child of a seed has instead of the seed's descriptors. System calls only. */
#define FDS_WHY_SIZE 80
int fds_plan(const struct control *c, const int given[LAYERS_FORK_FDS], char why[FDS_WHY_SIZE]);
int fds_exchange(const int given[LAYERS_FORK_FDS], int tap_fd);
/* preload.c: the placeholder for guest memory's file, and a new one */
bool ram_is_file(const struct stat *st);
int ram_new_file(void);
/*
 * preload.c: memory that the writer of a layer does not need, but a child of a seed does: kept out
 * of forks from now on.
 */
int ram_keep_others(void);
/* tap.c: what QEMU set on its tap, set on another one */
int tap_same(int fd);

/* seed.c */
void seed_start(struct control *c, struct layers_reply *reply);
/* Returns in both: the child's pid (then *ret_pidfd is its pidfd), 0 in the child, or -errno. */
int seed_fork(struct control *c, int given[LAYERS_FORK_FDS], int *ret_pidfd,
              struct layers_reply *reply);

/* control.c */
int control_start(int listen_fd_consume);

/*
 * map.c: lay the stack in c->layer_fds under guest memory; fills @reply, never fails otherwise.
 * again: what it shows is the same as before, and all other threads stand still meanwhile.
 */
void map_stack(struct control *c, bool again, struct layers_reply *reply);

/* freeze.c */
int freeze_init(struct control *c);
/* In a child of a seed: memory of its own for outcomes. System calls only. */
int freeze_init_child(struct control *c);
void freeze_start(struct control *c, const struct layers_req *req, int out_fd,
                  struct layers_reply *reply);
int freeze_discard(struct control *c, uint64_t token);
void freeze_reap(struct freeze *f);
uint32_t freeze_in_flight(const struct control *c);

/*
 * dump.c: runs in the forked child. May only use system calls and memory that was there before the
 * fork or that it maps itself: no malloc, no stdio, no locks. Never returns.
 */
struct dump_job {
	const uint8_t *base;
	uint64_t bytes;
	int fd;
	uint32_t flags;
	uint64_t low_bytes, note; /* LAYERS_FREEZE_FREE */
	pid_t parent;
	struct dump_result *result;
};
_Noreturn void dump_child(const struct dump_job *job);

/*
 * scan.c: the private pages of guest memory as runs. Safe after fork.
 * Runs that lie at most @gap_pages apart are joined; when there are still more than @max, the gap
 * is doubled until they fit, so the result has a known size. What is in the gaps is written too: so
 * large memories may have more runs, about one for every 2 MiB.
 */
#define SCAN_RUNS_MIN 4096u  /* per layer, up to 8 GiB; each is a mapping later */
#define SCAN_RUNS_MAX 16384u /* from 32 GiB on: vm.max_map_count is 65530 */

struct scan {
	uint64_t start[SCAN_RUNS_MAX], end[SCAN_RUNS_MAX]; /* offsets in guest memory */
	uint32_t n, max;
	uint64_t gap;   /* bytes */
	uint64_t pages; /* private pages found, without those in gaps */
};
int scan_private(const uint8_t *base, uint64_t bytes, uint32_t gap_pages, bool use_ioctl,
                 struct scan *ret);

/* sweep.c: LAYERS_SWEEP */
struct sweep;
void sweep_serve(struct control *c, const struct layers_req *req, struct layers_reply *reply);

#pragma GCC visibility pop

#endif
