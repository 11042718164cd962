/* SPDX-License-Identifier: Apache-2.0 */
/* engine/engine_internal.h - for files of this folder only */
#pragma once

#include "base/lock.h"

#include "engine/engine_ops.h"
#include "engine/qmp.h"

/* A verified file: unchanged as long as these match. */
struct verified {
	char id[ID_SIZE];
	uint64_t ino, size;
	int64_t ctime_ns;
};
#define VERIFIED_MAX 4096 /* entries of the cache; when full it starts over */

struct engine {
	struct engine_info info;
	const struct engine_ops *ops;
	void *impl;         /* of the table; weak */
	struct privc *priv; /* weak */
	char data_dir[256];
	char image_dir[512];
	char qemu[256];
	char probe_file[512];
	uint32_t probe_s;
	uint32_t tsc_khz; /* of the host, for emulated guests; 0 under KVM */
	struct mutex lock;
	struct verified *verified GUARDED_BY(lock);
	size_t n_verified GUARDED_BY(lock);
};

#define MACHINE_BASE_MAX 4 /* layers machine_prepare_disk() adds */

struct machine {
	struct engine *e; /* weak */
	char instance[ID_SIZE];
	uint32_t vcpus, mem_mb;
	struct proc proc;
	struct qmp *qmp; /* owned */
	int agent_fd;    /* agent channel, until machine_agent_socket() returns it; owned */
	int layers_fd;   /* control socket of the layer library; owned */
	char disk_layer[ID_SIZE];
	char base[MACHINE_BASE_MAX][ID_SIZE]; /* disk layers that have nodes, from the bottom */
	size_t n_base;
	bool boot; /* started with a kernel, for a cold boot */
	uint64_t next_token;
	int knows_free;         /* its library knows of free memory: 1, -1: not; 0: not asked yet */
	struct mutex fork_lock; /* of a seed: one request to its library at a time */
	uint64_t started_us, load_us; /* clock_us() at machine_spawn() and machine_load() */
	struct machine_times times;
	void *impl; /* of the implementation, if it is not QEMU */
};

/* Deadlines of single steps, in ms. Generous, because emulated machines on busy hosts are slow. */
#define QMP_STEP_MS 20000
#define QEMU_START_MS 30000
#define STATE_LOAD_MS 30000
#define LAYER_WRITE_MS 600000

/* guestlog.c: "console" and "qemu.log" below run/<instance>. The descriptor is the caller's. */
int guestlog_create(struct engine *e, const char *instance, const char *name, struct err *err);
void guestlog_tail(struct engine *e, const char *instance, const char *name, char *buf,
                   size_t size);
void guestlog_trim(struct engine *e, const char *instance, const char *name);

/* machine.c */
struct machine *machine_new(struct engine *e, const char *instance, uint32_t vcpus,
                            uint32_t mem_mb); /* NULL: out of memory */
int machine_run_path(struct engine *e, const char *instance, const char *name, char *buf,
                     size_t size, struct err *err);

/* qemu.c: monitor, layer library and agent channel of an existing process */
int machine_connect(struct machine *m, unsigned start_ms, struct err *err);

/* spawn.c, load.c, freeze.c, rebase.c, stats.c: entries of engine_qemu */
int qemu_spawn(struct engine *e, const struct machine_spawn *s, struct machine **ret,
               struct err *err);
int qemu_prepare_disk(struct machine *m, const struct engine_chain *c, struct err *err);
int qemu_load(struct machine *m, const struct machine_load *l, struct err *err);
int qemu_freeze(struct machine *m, const struct machine_freeze *req, struct machine_frozen *ret,
                struct err *err);
int qemu_sweep(struct machine *m, uint64_t note, struct machine_swept *ret, struct err *err);
/* What its library is told of the guest's kernel; note 0 if it knows nothing of that. */
struct layer_kernel qemu_kernel(struct machine *m, uint64_t note);
int qemu_grow_disk(struct machine *m, uint64_t bytes, struct err *err);
int qemu_rebase_disk(struct machine *m, const char *above, const struct engine_chain *old,
                     const struct engine_layer *to, struct err *err);
int qemu_disk_stats(struct machine *m, uint64_t deadline_ms, struct machine_disk_stats *ret,
                    struct err *err);

/* fork.c */
int qemu_seed(struct machine *m, const struct engine_point *p, struct err *err);
int qemu_fork(struct machine *seed, const struct machine_spawn *s, const struct machine_load *l,
              struct machine **ret, struct err *err);

/* block.c */
int block_fdset_add(struct machine *m, int fd, unsigned *ret_set, struct err *err);
void block_fdset_remove(struct machine *m, unsigned set);
/* A closed layer as a node over that of `backing` (NULL: none). */
int block_add_layer(struct machine *m, const struct engine_layer *l, const char *backing,
                    struct err *err);
/* A layer to write to; both descriptors stay the caller's. */
int block_add_top(struct machine *m, const char *id, const char *backing, int rw, int ro,
                  struct err *err);
/* The node becomes the machine's disk, replacing the empty one it started with. */
int block_attach(struct machine *m, const char *id, struct err *err);

/* layerctl.c: the layer library's control socket */
struct layer_done {
	int error; /* 0 or errno */
	uint64_t pages, bytes, extents, write_us, free_bytes;
};
/* Where the guest's kernel says what is free. */
struct layer_kernel {
	uint64_t note;   /* physical address; 0: not known */
	uint32_t low_mb; /* memory below 4 GiB */
};
/* Two halves: in between, the library works on a thread of its own in QEMU. */
int layerctl_map(int fd, const int *layer_fds, size_t n, struct err *err);
int layerctl_mapped(int fd, uint64_t deadline_ms, struct err *err);
/* The same layers as its memory has, once more; the process may be forked then. */
int layerctl_seed(int fd, const int *layer_fds, size_t n, uint64_t deadline_ms, struct err *err);
/* given: LAYERS_FORK_FDS of them. The pidfd is the caller's. */
int layerctl_fork(int fd, const int *given, uint64_t deadline_ms, int *ret_pidfd, struct err *err);
/* The first message of the new process, on its own channel. */
int layerctl_forked(int fd, uint64_t deadline_ms, struct err *err);
int layerctl_freeze(int fd, int out_fd, uint64_t token, bool fsync_it, const struct layer_kernel *k,
                    uint64_t deadline_ms, uint64_t *ret_fork_us, struct err *err);
/* 1: it knows of free memory; 0: it is a library of before. */
int layerctl_knows_free(int fd, uint64_t deadline_ms, struct err *err);
/* pages 0: a look. Gives pages, and how many runs of them are left. */
int layerctl_sweep(int fd, const struct layer_kernel *k, uint64_t pages, uint64_t deadline_ms,
                   uint64_t *ret_pages, uint32_t *ret_left, struct err *err);
int layerctl_wait_done(int fd, uint64_t token, uint64_t deadline_ms, struct layer_done *ret,
                       struct err *err);

/* files.c */
int engine_path(const struct engine *e, char *buf, size_t size, const char *dir, const char *name,
                const char *suffix, struct err *err);
int engine_open_layer(struct engine *e, const struct engine_layer *l, int *ret_fd, struct err *err);
int engine_new_disk(struct engine *e, const char *id, uint64_t virtual_bytes, int *ret_rw,
                    int *ret_ro, struct err *err);
int engine_file_crc(int fd, uint64_t *ret_bytes, uint32_t *ret_crc, struct err *err);

/* cpu.c: fills info.cpu; needs the accelerator and, emulated, the TSC's frequency */
int engine_cpu_identity(struct engine *e, struct err *err);
void engine_cpu_of(const char *cpuinfo, char *buf, size_t size);

/* probe.c */
int engine_probe(struct engine *e, const char *wanted, struct err *err);

/* probe_memory.c: false if nothing that still counts is known of the key */
bool probe_recall(const char *file, const char *key, bool *ret_works, char *why, size_t why_size);
int probe_remember(const char *file, const char *key, bool works, const char *why, struct err *err);
