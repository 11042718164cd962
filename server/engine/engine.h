/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine/engine.h - QEMU machines, and freeze and thaw; for vm/
 *
 * A machine at rest is memory layers, disk layers and a device state: an
 * engine_point. machine_spawn() and machine_load() create a process from a point
 * (thaw) or from disk layers alone (cold boot); machine_freeze() creates a point from a process.
 * There is no other way to save or load a VM. The engine knows files and processes; ownership is
 * recorded in the store and managed by vm/.
 *
 * Files below the data directory:
 *   layers/<layer id>        immutable, except the disk layer a machine writes to
 *   layers/<layer id>.part   a memory layer being written
 *   points/<point id>.state  device state
 *   run/<instance>/          sockets and console log of one process
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/id.h"
#include "base/proc.h"

struct engine;
struct err;
struct machine;
struct privc;

#define ENGINE_CHAIN_MAX \
	24 /* layers of one kind below a machine; chains are flattened long before */
#define ENGINE_FLATTEN_AT 6 /* depth from which a chain is worth flattening */
#define ENGINE_VCPUS_MAX 32
#define ENGINE_MEM_MIN_MB 512
#define ENGINE_MEM_MAX_MB 65536

enum accel { ACCEL_TCG, ACCEL_KVM, ACCEL_MAX };
const char *accel_name(enum accel a);

struct engine_conf {
	const char *data_dir;
	const char *image_dir;  /* vmlinux and initrd for cold boots */
	const char *qemu;       /* program, for its version and the probe */
	const char *accel;      /* "auto", "kvm", "tcg" */
	uint32_t probe_s;       /* for the test guest to boot */
	const char *probe_file; /* caches the result of the probe */
};
/* Probes the accelerator by booting a guest; may take seconds the first time, then
 * uses the cached result. */
int engine_new(const struct engine_conf *c, struct privc *priv, struct engine **ret,
               struct err *err);
struct engine *engine_free(struct engine *e);

struct engine_info {
	enum accel accel;
	char accel_why[160];
	char qemu_version[64];
	char machine[160];   /* -machine argument: part of a point's identity */
	char cpu[64];        /* identity of the CPU for points; cpu.c. Not the -cpu argument */
	const char *cmdline; /* the kernel's, on a cold boot */
	uint32_t boot_vcpus; /* a boot has no more at first, the owner switches the others on; 0:
	                        all */
	uint32_t tsc_mhz; /* of the host, to 10 MHz; 0 under KVM. An emulated guest's clock depends
	                     on it */
};
const struct engine_info *engine_info(const struct engine *e);

struct engine_layer {
	char id[ID_SIZE];
	char format[8]; /* "mem", "qcow2", "raw" */
	uint64_t bytes; /* expected size of the file; 0: not known (a layer still written to) */
	uint32_t crc; /* of the data, checked once per server run and whenever the file has changed
	               */
	bool has_crc;
};
struct engine_chain {
	struct engine_layer l[ENGINE_CHAIN_MAX]; /* bottom first */
	size_t n;
};

struct engine_point {
	char id[ID_SIZE];
	char line[ID_SIZE]; /* what stands for it in lines of descent: itself, mostly */
	struct engine_chain mem, disk;
	uint32_t vcpus, mem_mb, disk_mb;
	char qemu_version[64], machine[160], cpu[64], accel[8];
	uint32_t state_crc;
	uint64_t state_bytes;
};
/* 0, or an error that says what differs or is damaged (tag POINT_MISMATCH / POINT_DAMAGED). */
int engine_point_check(struct engine *e, const struct engine_point *p, struct err *err);
/* The part of it that needs no file: could machines of that kind continue it? */
int engine_point_fits(const struct engine_info *i, const struct engine_point *p, struct err *err);
/* Names of CPUs: is one as good as the other for what was frozen? */
bool engine_cpu_same(const char *a, const char *b);

struct machine_spawn {
	const char *instance; /* names process, run directory, jail */
	int slot;             /* network slot, -1: none */
	uint32_t vcpus, mem_mb;
	bool boot; /* for a cold boot: with a kernel; else for a thaw */
	bool seed; /* may become a seed; else machine_seed() fails */
};
/*
 * Starts a paused process without disk and memory, which can become any VM of that
 * size. So it may be done ahead of need.
 */
int machine_spawn(struct engine *e, const struct machine_spawn *s, struct machine **ret,
                  struct err *err);
/*
 * Opens disk layers that the machine will probably use (from the bottom of a chain), so
 * that machine_load() need not. A wrong guess costs only a few descriptors.
 */
int machine_prepare_disk(struct machine *m, const struct engine_chain *c, struct err *err);
struct machine_load {
	struct engine_chain disk;         /* the layers below the one it writes to */
	char disk_layer[ID_SIZE];         /* qcow2 layer it writes to */
	bool disk_layer_exists;           /* else it is created, empty */
	uint32_t disk_mb;                 /* size of the disk */
	const struct engine_point *point; /* NULL: cold boot */
};
/*
 * Gives it its disk, and for a thaw its memory and device state. It is still paused; machine_cont()
 * starts it. After a failure it can only be killed.
 */
int machine_load(struct machine *m, const struct machine_load *l, struct err *err);
/*
 * A stopped machine that was just frozen into that point (with .seed) becomes a seed: from now on
 * it only serves to be forked. Emulated guests only. After a failure it can only be killed.
 */
int machine_seed(struct machine *m, const struct engine_point *p, struct err *err);
/*
 * A machine as machine_spawn() and machine_load() of the seed's point make it: paused, with a new
 * disk layer. Any number of threads. A failure leaves the seed as it was, or dead.
 */
int machine_fork(struct machine *seed, const struct machine_spawn *s, const struct machine_load *l,
                 struct machine **ret, struct err *err);
/* Times of the steps, in microseconds since the calls of machine_spawn() and machine_load(). */
struct machine_times {
	uint64_t prepared, spawned, monitor; /* spawn */
	uint64_t disk, mapped, loaded;       /* load */
};
const struct machine_times *machine_times(const struct machine *m);
/* A process that outlived the server: connects to its sockets. A stopped machine is left stopped.
 */
int machine_adopt(struct engine *e, const char *instance, struct proc proc_consume, uint32_t vcpus,
                  uint32_t mem_mb, struct machine **ret, struct err *err);
/* Closes our ends; the process continues. */
struct machine *machine_free(struct machine *m);
/* SIGKILL and clean up, including the run directory. Succeeds if it is already gone. */
int engine_end(struct engine *e, const char *instance, struct err *err);
/* The same; then machine_free(). After a failure engine_end() can be tried again. */
int machine_kill(struct machine *m, struct err *err);
int machine_cont(struct machine *m, struct err *err);
int machine_stop(struct machine *m, struct err *err); /* pauses it */
bool machine_alive(const struct machine *m);
const struct proc *machine_proc(const struct machine *m);
/* For a machine whose process ended: did the guest reboot? */
bool machine_rebooted(struct machine *m);
/* Lets a stopped machine continue (after a crash of the server in the middle of a freeze). */
int machine_cont_if_stopped(struct machine *m, struct err *err);
/* 1: QEMU stopped it because its disk could not be written to; machine_cont() tries again. */
int machine_stalled(struct machine *m, uint64_t deadline_ms, struct err *err);
/* Connects to the agent's channel. */
int machine_agent_socket(struct machine *m, int *ret_fd, struct err *err);
/* Id of the disk layer it writes to now. */
int machine_disk_layer(struct machine *m, char ret_id[ID_SIZE], struct err *err);
/* The guest's disk requests since the machine started. */
struct machine_disk_stats {
	uint64_t read_bytes, write_bytes;
};
int machine_disk_stats(struct machine *m, uint64_t deadline_ms, struct machine_disk_stats *ret,
                       struct err *err);
/* The last lines of the console, for error messages. */
void machine_console_tail(struct engine *e, const char *instance, char *buf, size_t size);
/* The same of what QEMU itself said. */
void machine_qemu_tail(struct engine *e, const char *instance, char *buf, size_t size);
/* A guest may make both grow for ever: beyond some size they begin again. */
void machine_logs_trim(struct engine *e, const char *instance);

struct machine_freeze {
	const char *point_id; /* names the state file */
	const char
	        *mem_layer; /* new memory layer; its parent is what the machine was thawed from */
	const char *disk_next; /* keep_running: new disk layer it continues with; NULL otherwise */
	uint64_t disk_bytes;   /* virtual size of disk_next */
	bool keep_running; /* else it stays stopped and flushed; the caller kills it once the point
	                      is in the store */
	bool durable;      /* fsync what was written */
	bool seed; /* it stays stopped as with !keep_running, but may be made a seed; disk_next NULL
	            */
	uint64_t note; /* of the guest's kernel, at that physical address: what it has free is left
	                  out; 0: not known */
};
struct machine_frozen {
	uint64_t mem_bytes, mem_pages, free_pages; /* the last: left out */
	uint32_t mem_crc;
	uint64_t state_bytes;
	uint32_t state_crc;
	bool disk_switched; /* disk_next is in use now: true on some failures too */
	uint64_t pause_us, write_us, fork_us;
};
/* On failure the machine continues running as before (only disk_switched may have happened). */
int machine_freeze(struct machine *m, const struct machine_freeze *f, struct machine_frozen *ret,
                   struct err *err);

/*
 * Memory that the guest has freed goes back to the host. The machine runs, and is stopped for that
 * if there is enough to be gained. If it does not go on, that is an error.
 */
struct machine_swept {
	uint64_t found_pages, given_pages;
	uint64_t look_us, pause_us;
};
int machine_sweep(struct machine *m, uint64_t note, struct machine_swept *ret, struct err *err);

/*
 * After the disk chain `old` was flattened into `to`: the running machine, whose layer `above` is
 * on top of old's top, switches to `to`. 1 if it did, 0 if it does not use old.
 */
int machine_rebase_disk(struct machine *m, const char *above, const struct engine_chain *old,
                        const struct engine_layer *to, struct err *err);

/* The disk of a machine that runs is larger from now on, and its guest is told so. */
int machine_grow_disk(struct machine *m, uint64_t bytes, struct err *err);

/* Like engine_point_check(), but also reads every layer: the page cache is warm afterwards. */
int engine_point_verify(struct engine *e, const struct engine_point *p, struct err *err);

/* ---- files ---- */
/* Flushes all layers of it; those that are on the disk already cost nothing. */
int engine_sync_chain(struct engine *e, const struct engine_chain *c, struct err *err);
/* Links (or copies) a file as the layer of that id. */
int engine_import_layer(struct engine *e, const char *from, const char *id, uint64_t *ret_bytes,
                        struct err *err);
int engine_layer_path(const struct engine *e, const char *id, char *buf, size_t size);
int engine_state_path(const struct engine *e, const char *point_id, char *buf, size_t size);
void engine_remove_layer(struct engine *e, const char *id);
void engine_remove_point(struct engine *e, const char *id);
/*
 * New memory layer with the merged contents of the chain; with keep_bottom, of
 * the chain above its bottom, which stays the parent and is still shared.
 */
int engine_flatten_mem(struct engine *e, const struct engine_chain *c, bool keep_bottom,
                       const char *new_id, uint64_t *ret_bytes, uint32_t *ret_crc, struct err *err);
/* New qcow2 layer equal to all of the chain above its bottom. */
int engine_flatten_disk(struct engine *e, const struct engine_chain *c, const char *new_id,
                        uint64_t *ret_bytes, struct err *err);
/* CRC-32C over the whole file. */
int engine_layer_crc(struct engine *e, const char *id, uint64_t *ret_bytes, uint32_t *ret_crc,
                     struct err *err);
