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
#include <sys/types.h>

#include "layers/control.h"
#include "layers/format.h"

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
	uint64_t us;
	uint32_t n_extents;
	int32_t status;    /* 0 or -errno; means something only if finished */
	uint32_t finished; /* written last */
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
	bool mapped, broken;
	uint32_t n_layers, n_mappings;
};

/* preload.c: no interposition, no errno surprises; for the library's own use */
uint64_t now_us(void);

/* seccomp.c: deny this process what QEMU never needs; 0 or -errno */
int seccomp_install(void);

/* control.c */
int control_start(int listen_fd_consume);

/* map.c: lay the stack in @fds under guest memory; fills @reply, never fails otherwise */
void map_stack(struct control *c, struct layers_reply *reply);

/* freeze.c */
int freeze_init(struct control *c);
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

#pragma GCC visibility pop

#endif
