/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store/store.h - all persistent state; all SQL is in this folder
 *
 * Two engines, the same statements (db_internal.h): a SQLite file in WAL mode with
 * synchronous=FULL, or a PostgreSQL database. One connection under a mutex, so any thread may
 * call. Every function is one transaction: when it returns 0 the change is on
 * disk. Migrations are numbered and forward only; a database that is newer than the
 * program is rejected with an error message (store.c has the exception).
 *
 * Layers form trees by `parent`. A layer is in use while another layer, a
 * point or a VM refers to it; a point while a VM, a snapshot, a template or a cached
 * spec layer does.
 * References are found by query, never counted, so they cannot become wrong.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/id.h"
#include "model/account.h"
#include "model/snapshot.h"
#include "model/vm.h"

struct err;
struct secrets;
struct store;

/*
 * where: a path, or postgresql://... A PostgreSQL database is this process's alone. -EACCES: wrong
 * credentials; -ENOTCONN: not reachable; -EBUSY: another process has it; -ENOTSUP: newer than the
 * program; -EMEDIUMTYPE: another program's; -EINVAL: it cannot be used like this.
 */
int store_open(const char *where, struct store **ret, struct err *err);
struct store *store_close(struct store *s);
/* Is it one that other machines could reach? Then the data directory does not have it. */
bool store_is_shared(const struct store *s);
/* As given to store_open(): may have a password. */
const char *store_where(const struct store *s);

/* ---- secrets: store_secret.c ---- */
/* Have its secrets been sealed? Then they cannot be read or written before store_unlock(). */
bool store_is_sealed(const struct store *s);
/* Writes something that changes nothing, all the way to the disk. */
int store_probe(struct store *s, struct err *err);
/*
 * Gives the store the keys (weak), at start. Seals what is still plain. -EINVAL: they are not the
 * ones it was sealed with; the message names the file. secrets_settle() comes after this.
 */
int store_unlock(struct store *s, struct secrets *k, struct err *err);
/* For others that keep secrets beside the database; NULL: none. */
struct secrets *store_secrets(struct store *s);

/* ---- accounts and API keys; more of both: store_account.h ---- */
/* The first account is the operator's. */
int store_account_create(struct store *s, const char *account, const char *name, struct err *err);
int store_account_first(struct store *s, char ret_account[ACCOUNT_SIZE],
                        struct err *err); /* -ENOENT */
/* hash: hex SHA-256 of the whole key. id: public part, for listing and revoking. */
int store_key_add(struct store *s, const char *account, const char *key_id, const char *name,
                  const char *hash_hex, struct err *err);
int store_key_find(struct store *s, const char *hash_hex, char ret_account[ACCOUNT_SIZE],
                   struct err *err);                   /* -ENOENT when unknown or revoked */
int store_key_count(struct store *s, struct err *err); /* live keys, or negative */
int store_key_revoke(struct store *s, const char *account, const char *key_id, struct err *err);

/* ---- layers ---- */
enum layer_kind { LAYER_MEM, LAYER_DISK, LAYER_KIND_MAX };
struct store_layer {
	char id[ID_SIZE]; /* "ly-..." */
	enum layer_kind kind;
	char parent[ID_SIZE]; /* "": bottom */
	char format[8];       /* "mem", "qcow2", "raw" */
	uint64_t bytes;       /* of the file */
	uint32_t crc;         /* data checksum; 0 with has_crc false: not sealed yet */
	bool has_crc;
	uint32_t depth;             /* layers below it; 0: bottom. Computed by store_layer_add */
	char account[ACCOUNT_SIZE]; /* whose key it gets in the object store; "": the cluster's */
	uint32_t chunks;            /* objects it has there, or may have; 0: none */
	bool stored;                /* it is there, all of it */
	char node[ID_SIZE];         /* that has its file; set by store_layer_add. "": no nodes */
};
int store_layer_add(struct store *s, const struct store_layer *l, struct err *err);
int store_layer_get(struct store *s, const char *id, struct store_layer *ret, struct err *err);
/* Seals the layer: size and checksum are known from now on. */
int store_layer_seal(struct store *s, const char *id, uint64_t bytes, uint32_t crc, bool has_crc,
                     struct err *err);
/* From the bottom to id. Caller frees. */
int store_layer_chain(struct store *s, const char *id, struct store_layer **ret, size_t *ret_n,
                      struct err *err);
int store_layer_list(struct store *s, struct store_layer **ret, size_t *ret_n, struct err *err);

/* ---- points ---- */
/* How it was created: from a machine that kept running (snapshot, fork), one that was suspended, a
 * template.
 */
enum point_kind { POINT_LIVE, POINT_SUSPEND, POINT_TEMPLATE, POINT_KIND_MAX };
struct store_point {
	char id[ID_SIZE]; /* "pt-..." */
	char mem_layer[ID_SIZE], disk_layer[ID_SIZE];
	enum point_kind kind;
	char parent[ID_SIZE]; /* the previous point of its machine's line, or ""; see store_tree.c
	                       */
	char source_vm[ID_SIZE]; /* or "" */
	uint32_t vcpus, mem_mb, disk_mb;
	char qemu_version[64], machine[160], cpu[64], accel[8];
	uint32_t state_crc; /* of the device state file */
	uint64_t state_bytes;
	int64_t created_ms;
	char node[ID_SIZE];         /* as that of its layers */
	char account[ACCOUNT_SIZE]; /* these three as of a layer */
	uint32_t chunks;
	bool stored;
};
/* Adds the point and seals/adds its layers in one transaction. new_layers may be NULL. */
int store_point_add(struct store *s, const struct store_point *p,
                    const struct store_layer *new_layers, size_t n_layers, struct err *err);
int store_point_get(struct store *s, const char *id, struct store_point *ret, struct err *err);
int store_point_list(struct store *s, struct store_point **ret, size_t *ret_n, struct err *err);
/*
 * After flattening: points that use `from`, and layers on top of it, use `to` instead, which has
 * the same contents. VMs keep the name they know. Of a node: its own points and layers; those that
 * are stored only if `to` is stored, too.
 */
int store_point_swap_layer(struct store *s, const char *from, const char *to, struct err *err);

/* ---- templates: the point every default VM is created from ---- */
int store_template_set(struct store *s, const char *key, const char *point, struct err *err);
int store_template_get(struct store *s, const char *key, char ret_point[ID_SIZE], struct err *err);
struct store_template {
	char key[64], point[ID_SIZE];
};
/* Of a node: its own. */
int store_template_list(struct store *s, struct store_template **ret, size_t *ret_n,
                        struct err *err);
/* Fine when there is none, or when it has another point by now. */
int store_template_drop(struct store *s, const char *key, const char *point, struct err *err);

/* ---- VMs ---- */
struct store_vm {
	struct vm_info info;
	char base_point[ID_SIZE]; /* thawed from; determines its memory layers; "" after a
	                             cold boot */
	char base_mem[ID_SIZE];   /* top memory layer below it, or "" */
	char disk_layer[ID_SIZE]; /* the layer it writes to (running) or rests on */
	int slot;                 /* network slot while it runs, or -1 */
	char head[ID_SIZE]; /* last point of its line: thawed from or frozen into; may be gone. Not
	                       a reference: see store_tree.c */
	bool grow_fs;       /* its disk grew: the file system follows at the next boot */
	char origin[ID_SIZE]; /* the point it is recreated from, or "" */
	/* Frozen while it ran, so that there is something to go back to; or "". The second one is
	 * kept until the first is stored. */
	char checkpoint[ID_SIZE], checkpoint_before[ID_SIZE];
	/* Who may write the row, since how many owners, and who made its layers; "": no nodes. node
	 * "" and home: given up, whoever is asked for it claims it (store_claim.h). */
	char node[ID_SIZE], home[ID_SIZE];
	uint64_t epoch;
	char why[16]; /* not in the row: what this change is due to, for webhooks; or "" */
};
struct store_note;
/*
 * One or several (fork), all or none. new_layers: their disk layers. note: tags, metadata and
 * environment of each of them; or NULL.
 */
int store_vm_add_many(struct store *s, const struct store_vm *v, size_t n,
                      const struct store_layer *new_layers, size_t n_layers,
                      const struct store_note *note, struct err *err);
int store_vm_get(struct store *s, const char *id, struct store_vm *ret, struct err *err);
/* account NULL: all, of a node its own. */
int store_vm_list(struct store *s, const char *account, struct store_vm **ret, size_t *ret_n,
                  struct err *err);
/* Writes the whole row. new_layers/new_point (NULL, 0: none) are added in the same transaction. */
int store_vm_update(struct store *s, const struct store_vm *v, const struct store_layer *new_layers,
                    size_t n_layers, const struct store_point *new_point, struct err *err);
/* Usage of the running machines so far, in one transaction; rows of other instances stay unchanged.
 */
int store_vm_usage(struct store *s, const struct vm_info *v, size_t n, struct err *err);
/* The row becomes a tombstone with the usage in v; reason NULL: it is just deleted. */
int store_vm_bury(struct store *s, const struct store_vm *v, const char *reason, struct err *err);
int store_vm_delete(struct store *s, const char *id,
                    struct err *err); /* with the usage in the row */
int store_tombstone_get(struct store *s, const char *id, struct vm_tombstone *ret, struct err *err);
/* Newest first. Caller frees. */
int store_tombstone_list(struct store *s, const char *account, struct vm_tombstone **ret,
                         size_t *ret_n, struct err *err);

/* ---- snapshots ---- */
struct store_snapshot {
	struct snapshot_info info;
	char point[ID_SIZE]; /* "" once deleted, so that the point can be collected */
};
int store_snapshot_add(struct store *s, const struct store_snapshot *n, struct err *err);
int store_snapshot_get(struct store *s, const char *id, struct store_snapshot *ret,
                       struct err *err);
int store_snapshot_list(struct store *s, const char *account, bool include_deleted,
                        struct store_snapshot **ret, size_t *ret_n, struct err *err);
int store_snapshot_rename(struct store *s, const char *id, const char *name, struct err *err);
int store_snapshot_delete(struct store *s, const char *id, struct err *err);
/* Its point is damaged or was evicted: it stays listed as lost. */
int store_snapshot_lose(struct store *s, const char *id, const char *reason, struct err *err);
/* A VM was just created from it. */
int store_snapshot_used(struct store *s, const char *id, struct err *err);

/* ---- the tree: store_tree.c ---- */
struct store_tree_layer {
	char id[ID_SIZE], parent[ID_SIZE];
	uint64_t bytes; /* 0: still written to */
	uint32_t users; /* layers, points and VMs not at rest that refer to it, of any account */
};
struct store_tree {           /* one account's view at one moment */
	struct store_vm *vms; /* head: an existing point, or "" */
	size_t n_vms;
	struct store_snapshot *snapshots; /* not deleted ones */
	size_t n_snapshots;
	struct store_point *points; /* oldest first: all ancestors of the VMs and snapshots */
	size_t n_points;
	struct store_tree_layer *layers; /* sorted by id: all below the points and VMs */
	size_t n_layers;
};
int store_tree_load(struct store *s, const char *account, struct store_tree *ret, struct err *err);
void store_tree_done(struct store_tree *t);

struct store_line {
	char id[ID_SIZE];
	int64_t created_ms;
};
/* From that point (or its nearest remaining ancestor) up to the root, nearest first. Caller frees.
 */
int store_point_line(struct store *s, const char *head, struct store_line **ret, size_t *ret_n,
                     struct err *err);

/*
 * Updates a snapshot that is being built with its build or its result: the whole row except its
 * name. -ENOENT if it was deleted.
 */
int store_snapshot_settle(struct store *s, const struct store_snapshot *n, struct err *err);

/* ---- cached spec layers: key (a content hash) -> point ---- */
#define SPEC_KEY_SIZE 65 /* hex SHA-256 and the NUL */
struct store_spec {
	char key[SPEC_KEY_SIZE];
	char point[ID_SIZE];
	char build_id[ID_SIZE]; /* that made it */
	int64_t created_ms, used_ms;
};
/* Replaces an existing entry; then drops the least recently used until at most `max` are left. */
int store_spec_put(struct store *s, const struct store_spec *l, uint32_t max, struct err *err);
/* Counts as a use. -ENOENT. */
int store_spec_get(struct store *s, const char *key, struct store_spec *ret, struct err *err);
/* Deletes the entry if it still refers to that point; fine if not. */
int store_spec_drop(struct store *s, const char *key, const char *point, struct err *err);
/* Caller frees. */
int store_spec_list(struct store *s, struct store_spec **ret, size_t *ret_n, struct err *err);

/* ---- builds ---- */
enum build_state { BUILD_PENDING, BUILD_RUNNING, BUILD_SUCCEEDED, BUILD_FAILED, BUILD_STATE_MAX };
const char *build_state_name(enum build_state s);
struct store_build {
	char id[ID_SIZE]; /* "bld-..." */
	char account[ACCOUNT_SIZE];
	char request_id[40]; /* of the background request, or "" */
	enum build_state state;
	char template_hash[SPEC_KEY_SIZE];
	char failure[384];
	char planned[4096]; /* phase names, one a line */
	int64_t started_ms, finished_ms, updated_ms;
};
struct store_phase {
	char id[ID_SIZE]; /* "bph-..." */
	char build_id[ID_SIZE];
	int64_t seq;
	char name[64];
	char snapshot_id[ID_SIZE]; /* of the state in which it failed, or "" */
	int64_t started_ms;
};
#define BUILD_LINE_SIZE 1024 /* longer lines are truncated; with the NUL */
struct store_build_log {
	char build_id[ID_SIZE];
	int64_t seq, at_ms;
	char phase[64];
	char message[BUILD_LINE_SIZE];
};
/* An account's old builds are deleted with their phases and logs, so that it has at most
 * BUILDS_KEPT.
 */
#define BUILDS_KEPT 2000
#define BUILD_LOGS_KEPT 200 /* builds of an account whose logs are kept */
int store_build_add(struct store *s, const struct store_build *b, struct err *err);
int store_build_update(struct store *s, const struct store_build *b, struct err *err);
int store_build_get(struct store *s, const char *id, struct store_build *ret, struct err *err);
/* The newest of an account, up to limit; state -1: any. Caller frees. */
int store_build_list(struct store *s, const char *account, int state, uint32_t limit,
                     struct store_build **ret, size_t *ret_n, struct err *err);
/* At start: marks builds and snapshots that a crash left unfinished as failed. */
int store_build_fail_unfinished(struct store *s, const char *why, struct err *err);
int store_phase_add(struct store *s, const struct store_phase *p, struct err *err);
int store_phase_update(struct store *s, const struct store_phase *p, struct err *err);
/* In order. Caller frees. */
int store_phase_list(struct store *s, const char *build_id, struct store_phase **ret, size_t *ret_n,
                     struct err *err);
/* Lines of one build, all or none. */
int store_build_log_add(struct store *s, const struct store_build_log *l, size_t n,
                        struct err *err);
/* Which lines: "" for any. At least one of build and request. */
struct store_build_log_query {
	const char *account;
	const char *build, *request;
	const char *search; /* a part of the message, ASCII case ignored */
	int64_t from_ms, to_ms;
	int64_t before_ms, before_seq; /* only lines written before that; INT64_MAX both: all */
	uint32_t limit;
};
/* Newest first, of the account's builds only. Caller frees. */
int store_build_log_list(struct store *s, const struct store_build_log_query *w,
                         struct store_build_log **ret, size_t *ret_n, struct err *err);

/* ---- garbage ---- */
struct store_garbage {
	char (*points)[ID_SIZE];
	size_t n_points;
	char (*layers)[ID_SIZE];
	size_t n_layers;
};
/*
 * Removes points and layers that nothing refers to, repeatedly until none is left, and
 * returns their ids so that the caller can remove the files. held_points/held_layers are
 * names that only a thread knows yet (a freeze or thaw in progress): they and
 * what is below them stay.
 */
int store_collect(struct store *s, const char *const *held_points, size_t n_points,
                  const char *const *held_layers, size_t n_layers, struct store_garbage *ret,
                  struct err *err);
void store_garbage_done(struct store_garbage *g);

/* ---- log lines per account; bounded ---- */
#define STORE_EVENT_TEXT 1024 /* bytes of a line, with the NUL; longer ones are truncated */
#define STORE_EVENTS_PER_ACCOUNT 20000 /* rows kept; the oldest are deleted first */
#define STORE_EVENTS_KEEP_MS (INT64_C(7) * 24 * 3600 * 1000)

struct store_event {
	int64_t seq; /* given by store_event_add() */
	int64_t at_ms;
	char account[ACCOUNT_SIZE];
	char level[8], source[16];
	char vm[ID_SIZE], instance[ID_SIZE], build[ID_SIZE], request[ID_SIZE]; /* "": none */
	char message[STORE_EVENT_TEXT];
};
/* All in one transaction; deletes what is too much or too old. */
int store_event_add(struct store *s, const struct store_event *v, size_t n, struct err *err);

struct store_event_query {
	const char *account;
	const char *vm, *instance, *build, *request; /* "": any */
	const char *search;            /* "": any; a part of the message, ASCII case ignored */
	int64_t from_ms, to_ms;        /* both inclusive */
	int64_t before_ms, before_seq; /* only lines older than this one */
	size_t limit;
};
/* Newest first. Caller frees. */
int store_event_list(struct store *s, const struct store_event_query *q, struct store_event **ret,
                     size_t *ret_n, struct err *err);

/* ---- calls that continue in the background, and those that may be repeated ---- */
#define STORE_REQUEST_KEEP_MS (INT64_C(24) * 3600 * 1000)
#define STORE_REQUESTS_PER_ACCOUNT 1000 /* finished ones; the oldest are deleted first */
#define STORE_IDEM_KEY_SIZE 129         /* characters of an Idempotency-Key, and the NUL */

struct store_request {
	char id[ID_SIZE]; /* "ri-..." */
	char account[ACCOUNT_SIZE];
	char route[64];
	char idem_key[STORE_IDEM_KEY_SIZE]; /* "": none */
	char idem_hash[65];                 /* of the body that came with it */
	int64_t created_ms, done_ms;        /* done_ms 0: still running */
	uint32_t status;                    /* HTTP, once done */
};
/* Adds the row; deletes what is too much or too old. */
int store_request_add(struct store *s, const struct store_request *q, struct err *err);
int store_request_finish(struct store *s, const char *id, unsigned status, const char *body,
                         struct err *err);
/* The caller frees *ret_body (may be NULL). -ENOENT. */
int store_request_get(struct store *s, const char *id, struct store_request *ret, char **ret_body,
                      struct err *err);
/* The newest one with this Idempotency-Key. -ENOENT. */
int store_request_find(struct store *s, const char *account, const char *idem_key,
                       struct store_request *ret, char **ret_body, struct err *err);
/* At start: requests still marked as running were lost with the previous server. Number of rows, or
 * -errno. */
int store_request_lost(struct store *s, unsigned status, const char *body, struct err *err);
