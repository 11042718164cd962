/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine/engine_ops.h - the interface behind machines; for the files of this folder and for tests
 *
 * Files, checksums and flattening belong to the engine itself. Everything that needs a machine goes
 * through this table: QEMU is behind it (qemu.c), or a fake without a guest kernel (tests/vm/). The
 * contracts are those of the functions of the same name in engine.h.
 */
#pragma once

#include "engine/engine.h"

enum machine_status { MACHINE_RUNS, MACHINE_STOPPED, MACHINE_STALLED };

struct engine_ops {
	int (*spawn)(struct engine *e, const struct machine_spawn *s, struct machine **ret,
	             struct err *err);
	/* Connects to the process in m->proc and learns the disk layer it writes to. */
	int (*adopt)(struct machine *m, struct err *err);
	/* Releases what it allocated beyond struct machine; machine_free() frees m itself. */
	void (*done)(struct machine *m);
	int (*prepare_disk)(struct machine *m, const struct engine_chain *c, struct err *err);
	int (*load)(struct machine *m, const struct machine_load *l, struct err *err);
	/* Both NULL: there are no seeds. */
	int (*seed)(struct machine *m, const struct engine_point *p, struct err *err);
	int (*fork)(struct machine *seed, const struct machine_spawn *s,
	            const struct machine_load *l, struct machine **ret, struct err *err);
	int (*cont)(struct machine *m, struct err *err);
	int (*stop)(struct machine *m, struct err *err);
	int (*status)(struct machine *m, uint64_t deadline_ms, enum machine_status *ret,
	              struct err *err);
	bool (*rebooted)(struct machine *m);
	int (*agent_socket)(struct machine *m, int *ret_fd, struct err *err);
	int (*disk_layer)(struct machine *m, char ret_id[ID_SIZE], struct err *err);
	int (*disk_stats)(struct machine *m, uint64_t deadline_ms, struct machine_disk_stats *ret,
	                  struct err *err);
	int (*freeze)(struct machine *m, const struct machine_freeze *f, struct machine_frozen *ret,
	              struct err *err);
	int (*sweep)(struct machine *m, uint64_t note, struct machine_swept *ret, struct err *err);
	int (*grow_disk)(struct machine *m, uint64_t bytes, struct err *err);
	int (*rebase_disk)(struct machine *m, const char *above, const struct engine_chain *old,
	                   const struct engine_layer *to, struct err *err);
};
extern const struct engine_ops engine_qemu;

/* An engine over any table. impl is private to the table, borrowed. */
int engine_make(const char *data_dir, struct privc *priv, const struct engine_ops *ops, void *impl,
                const struct engine_info *info, struct engine **ret, struct err *err);
void *engine_impl(const struct engine *e);
