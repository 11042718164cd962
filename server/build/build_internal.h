/* SPDX-License-Identifier: Apache-2.0 */
/* build/build_internal.h - a build in progress; for files of this folder only */
#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/lock.h"
#include "base/log.h"
#include "build/build.h"
#include "build/spec_internal.h"
#include "guest/guest.h"
#include "vm/stage.h"

#define BUILD_LINES_MAX 5000 /* kept of one build */
#define BUILD_BATCH 64       /* lines written at once */
#define BUILD_FLUSH_MS 300   /* or fewer, after that time */
#define PHASES_MAX 160       /* of one build */

struct claim; /* a layer that is being built */

struct builder {
	struct store *store; /* weak */
	struct vmm *vmm;     /* weak */
	struct builder_conf conf;
	struct mutex lock;
	struct cond changed;
	struct claim *claims GUARDED_BY(lock); /* lock */
	bool stopping GUARDED_BY(lock);        /* lock */
};

struct run {
	struct builder *b;
	const struct spec *spec;
	const struct build_opts *o;
	const struct vm_create_opts *vm; /* NULL: for a snapshot, not listed */
	struct store_snapshot *snapshot; /* being built, or NULL */
	char keys[SPEC_LIST_MAX][SPEC_KEY_SIZE];
	char workdir[WORKDIR_SIZE];    /* of the result */
	char point[ID_SIZE];           /* reached so far: held; "" before the start */
	char point_key[SPEC_KEY_SIZE]; /* the cache entry it came from, or "" */
	char build_id[ID_SIZE];        /* of the newest layer; "" when nothing was built */
	struct vm_stage *stage;        /* VM continuing from that point, or NULL */
	struct guest *guest;           /* of the stage; ref'd */
	uint64_t deadline_ms;
	struct store_build row; /* row.id "": nothing had to be built yet */
	struct store_phase phase;
	int64_t n_phases;
	char step[64];     /* the current step, for messages */
	bool setup_failed; /* the failure is in the guest, caused by the spec */
	/* log */
	struct store_build_log *lines; /* BUILD_BATCH of them */
	size_t n_lines;
	int64_t seq;
	uint64_t flushed_ms;
	struct buf partial[3]; /* by channel: an incomplete line */
	char last_line[200];   /* of the step, for the error message */
};

/* key.c */
char *layer_text(const struct spec_layer *l); /* canonical; caller frees */
int base_key(const char *account, const char *template_key, const char *snapshot_id,
             char ret[SPEC_KEY_SIZE], struct err *err);
int layer_key(const char *parent, const struct spec_layer *l, char ret[SPEC_KEY_SIZE],
              struct err *err);

/* unit.c; done: units that were removed after success; left out of dependencies */
void unit_text(const struct service *s, const json_t *done, struct buf *b);
void unit_patch_text(const struct service *s, const json_t *done, struct buf *b);

/* record.c: row, phases and log of a build */
int record_begin(struct run *run, size_t first, struct err *err);
int record_phase(struct run *run, size_t layer, const char *name, struct err *err);
void record_line(struct run *run, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* As guest_output_fn. */
int record_output(void *ctx, int chan, const uint8_t *p, size_t n);
void record_flush(struct run *run);
void record_end(struct run *run, bool ok, const char *why);

/* step.c: one command in the guest; its output goes to the log */
struct step {
	const char *script;     /* run by bash */
	const char *const *env; /* "K=V", NULL-terminated */
	int ok_code;            /* another exit code that is not a failure, or 0 */
};
/* Its exit code; -EIO with a message when it failed. */
int step_run(struct run *run, const struct step *s, struct err *err);
/* Its output, at most max bytes, instead of the log. Caller frees *ret. */
int step_read(struct run *run, const char *script, const char *const *env, size_t max, char **ret,
              struct err *err);
int step_write(struct run *run, const char *path, uint32_t mode, const void *p, size_t n,
               struct err *err);

/* apply.c, apply_units.c */
int layer_apply(struct run *run, size_t i, struct err *err);
int apply_units(struct run *run, const struct spec_layer *l, struct err *err);
/* diag.c: the state of the services, for diagnosing a failure. NULL: not available. */
json_t *diagnose(struct run *run);
