/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store/store_internal.h - statements, transactions and row tables; for store/ only
 *
 * A struct col table says once how a C struct and its table correspond; INSERT,
 * UPDATE and SELECT texts are made from it, so a member cannot be written in one
 * place and forgotten in another. Parameters are written $1, $2, ... in the
 * order of their first appearance, which both SQLite and PostgreSQL number the
 * same way.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/lock.h"
#include "secret/secret.h"
#include "store/db_internal.h"
#include "store/store.h"
#include "store/store_account.h"

#define STORE_STMTS_MAX 448 /* distinct statement texts of this folder, with some to spare */
#define STORE_SQL_MAX 4096  /* bytes of one generated statement */
#define STORE_BUSY_MS 10000 /* wait for another process (a backup, sqlite3) to finish */

struct store {
	struct mutex lock; /* guards everything below and the connection itself */
	struct db *db;     /* owned */
	char *where;       /* owned */
	const char *const
	        *migrations; /* of this database: store_migrations or those of the audit log */
	unsigned n_migrations;
	bool log;                               /* of requests */
	const char *ledger;                     /* the table of steps that were applied */
	struct db_stmt *stmts[STORE_STMTS_MAX]; /* owned; found again by their text */
	unsigned n_stmts;
	struct secrets *secrets;       /* weak; NULL: store_unlock() was not called */
	bool sealed;                   /* secret columns are sealed */
	int reserve_fd;                /* owned; -1: none */
	off_t reserved;                /* its size in bytes */
	bool hooks_counted, any_hooks; /* is any_hooks true of the database? */
	void (*hook_fn)(void *ctx);    /* store_hook_notify(); NULL: nobody */
	void *hook_ctx;
	/* store_feed.c: events that wait to be written, and those of the open transaction */
	struct mutex feed_lock;
	struct feed_note *feed_queue GUARDED_BY(feed_lock), *feed_end GUARDED_BY(feed_lock);
	size_t n_feed_queue GUARDED_BY(feed_lock);
	bool feed_lost GUARDED_BY(feed_lock); /* some had no room */
	struct feed_note *feed_taken;
	bool feed_was_lost;
	void (*feed_fn)(void *ctx, const char *account); /* changed with both locks */
	void *feed_ctx;
	/* store_node.c: written once, at start. "": there are no nodes */
	char node[ID_SIZE];
	uint64_t node_gen;
	struct vm_quota node_quota;
	struct rate *refusals; /* owned; of quotas, told to those who follow the account */
};

/* ---- store_reserve.c: space for transactions on a full disk ---- */

void reserve_open(struct store *s, const char *path);
void reserve_look(struct store *s); /* before a transaction; s->lock held */
void reserve_close(struct store *s);

/* ---- store_sql.c ---- */

/* A statement in use: bind in order, step, read columns in order. Reset at the end of the scope. */
struct query {
	struct store *s;
	struct db_stmt *st;
	int n_bound, n_read;
	int failed; /* sticky -errno of a bind or a read */
};
#define autoquery AUTO(query_done)

int query_begin(struct query *q, struct store *s, const char *sql, struct err *err);
void query_done(struct query *q);
void query_bind_text(struct query *q, const char *v); /* NULL binds NULL */
void query_bind_ref(struct query *q, const char *v);  /* "" binds NULL */
void query_bind_i64(struct query *q, int64_t v);
void query_bind_double(struct query *q, double v);
/* 1: there is a row, 0: no more, -errno. */
int query_step(struct query *q, struct err *err);
/* For statements without rows: number of rows changed, or -errno. */
int query_run(struct query *q, struct err *err);
/* The number that the statement selects; arg: its text parameter, or NULL. */
int query_count(struct store *s, const char *sql, const char *arg, struct err *err);
/* Next column of the row. A value that does not fit makes query_read_end() fail. */
void query_read_text(struct query *q, char *dst, size_t size); /* NULL reads as "" */
char *query_read_strdup(struct query *q);     /* the caller frees; NULL reads as "" */
const char *query_peek_text(struct query *q); /* not read yet; valid until the next step */
int64_t query_read_i64(struct query *q, int64_t min, int64_t max);
double query_read_double(struct query *q);
int query_read_end(struct query *q, struct err *err);

/* A write transaction: takes the lock; rolls back at the end of the scope unless committed. */
struct tx {
	struct store *s;
	bool open;
};
#define autotx AUTO(tx_end)
int tx_begin(struct tx *t, struct store *s, struct err *err);
int tx_commit(struct tx *t, struct err *err);
void tx_end(struct tx *t);

/* ---- store_secret.c: columns that are sealed ---- */

/* row: the key of the row. A failure is sticky, like that of any bind or read. */
void query_bind_secret(struct query *q, struct secret_place at, const char *v);
/* The caller wipes and frees; NULL after a failure. */
char *query_read_secret(struct query *q, struct secret_place at);
/* At open: finds out whether they are sealed. */
int secret_look(struct store *s, struct err *err);

/* ---- store_row.c ---- */

enum col_type {
	COL_TEXT, /* char array */
	COL_REF,  /* char array; "" is NULL */
	COL_U32,
	COL_INT,
	COL_I64,
	COL_U64, /* below 2^63 */
	COL_BOOL,
	COL_DOUBLE,
	COL_WORD,   /* an enum (int sized), written as a word */
	COL_SECRET, /* char array; sealed in the database: store_secret.c has the list */
};

struct col {
	const char *name;
	enum col_type type;
	size_t off, size;
	const char *const *words; /* COL_WORD */
	int n_words;
};

struct table {
	const char *name;
	const struct col *cols; /* cols[0] is the primary key */
	size_t n_cols;
	size_t row_size;
	enum err_code missing_tag; /* for a missing row, or ERR_NONE */
	const char *noun;          /* "VM", for messages */
};

#define COL_AT(type_, struct_, member, column)                   \
	{                                                        \
		column, type_, offsetof(struct struct_, member), \
		        sizeof(((struct struct_ *)0)->member)    \
	}
#define COL_WORD_AT(struct_, member, column, words_)                                           \
	{                                                                                      \
		column, COL_WORD, offsetof(struct struct_, member),                            \
		        sizeof(((struct struct_ *)0)->member), words_, (int)ARRAY_SIZE(words_) \
	}

/* All of them are called under the lock. */
int row_insert(struct store *s, const struct table *t, const void *row, struct err *err);
/* The whole row by its key; -ENOENT if there is none. */
int row_update(struct store *s, const struct table *t, const void *row, struct err *err);
int row_delete(struct store *s, const struct table *t, const char *key, struct err *err);
int row_get(struct store *s, const struct table *t, const char *key, void *ret, struct err *err);
/* tail: what follows "SELECT columns FROM table"; args are text parameters. Caller frees *ret. */
int row_list(struct store *s, const struct table *t, const char *tail, const char *const *args,
             size_t n_args, void **ret, size_t *ret_n, struct err *err);
int row_missing(const struct table *t, const char *key, struct err *err);

/* ---- shared between the verbs; under the lock ---- */
int layer_add_locked(struct store *s, const struct store_layer *l, struct err *err);
/* Adds new ones, seals existing ones; parents may follow their children. */
int layers_put_locked(struct store *s, const struct store_layer *l, size_t n, struct err *err);
/* Writes the tombstone of a deleted VM, and drops the oldest of its account. */
int tombstone_add_locked(struct store *s, const struct vm_info *v, const char *reason,
                         struct err *err);
extern const char *const vm_state_words[VM_STATE_MAX];
extern const char *const vm_persist_words[PERSIST_MAX];
extern const char *const vm_event_words[DELETE_EVENT_MAX];
int point_add_locked(struct store *s, const struct store_point *p, struct err *err);
/* All grants on a deleted VM or repository. */
/* Policy, address and tunnels of a deleted VM: store_net.c. */
int net_drop_locked(struct store *s, const char *vm_id, struct err *err);
int ports_drop_locked(struct store *s, const char *vm_id, struct err *err);
int ports_fork_locked(struct store *s, const char *parent, const char *child, struct err *err);
int notes_drop_locked(struct store *s, const char *vm_id, struct err *err);
int grants_drop_locked(struct store *s, enum grant_kind kind, const char *target, struct err *err);
/* All names that lead to a deleted VM. */
int mappings_drop_locked(struct store *s, const char *vm, struct err *err);
int mappings_drop_deploy_locked(struct store *s, const char *deployment, struct err *err);
/* All DNS records of a domain that changes owners: store_record.c. */
int records_drop_locked(struct store *s, const char *domain, struct err *err);
/* Runs a statement whose parameters are all text: number of rows changed, or -errno. */
int run_text(struct store *s, const char *sql, const char *const *args, size_t n, struct err *err);

/* ---- store.c ---- */
/* A path, or postgresql://... */
int store_open_with(const char *where, const char *const *migrations, unsigned n_migrations,
                    struct store **ret, struct err *err);
/* The same for the log of requests (store_audit.h). */
int store_open_log(const char *where, const char *const *migrations, unsigned n_migrations,
                   struct store **ret, struct err *err);
/*
 * Without changing it: its schema must be the present one; empty_too: or there is none. A main
 * database (not log) is opened by nobody else. For store_move.c.
 */
int store_open_still(const char *where, bool log, bool empty_too, struct store **ret,
                     struct err *err);
/* Facts about the database itself; under the lock. *ret NULL: there is no such row. */
int meta_get(struct store *s, const char *key, char **ret, struct err *err);
int meta_put(struct store *s, const char *key, const char *value, struct err *err); /* NULL: none */

/* The same; node: NULL, or the id of this node. */
int store_open_as(const char *where, const char *node, struct store **ret, struct err *err);

/* ---- store_node.c; under the lock, in a transaction. Without nodes they do nothing. ---- */
#define NODE_KEY_SIZE (ID_SIZE + 1 + SPEC_KEY_SIZE)
/* Is the lease still that of this process, and the VM's row as this node knows it? -ESTALE */
int node_holds_locked(struct store *s, struct err *err);
int node_owns_locked(struct store *s, const struct store_vm *v, struct err *err);
/* After VMs were added: is the account within its quotas, counted over all nodes? -EDQUOT */
int node_quota_locked(struct store *s, const char *account, struct err *err);
/* store_gc.c: points and layers of a node whose process is gone, that nothing refers to. */
int collect_node_locked(struct store *s, const char *node, struct err *err);
/* A row that was added is this node's. */
int node_mark_locked(struct store *s, const char *sql, const char *id, struct err *err);
/* What a node was building has failed. */
int build_fail_locked(struct store *s, const char *node, const char *why, struct err *err);
/* Attempts of schedules that a node was running have failed; the next ones are due at once. */
int cron_fail_locked(struct store *s, const char *node, const char *why, struct err *err);
/* Repositories whose files are gone with their node, and not stored, are deleted. */
int repos_lose_locked(struct store *s, const char *node, struct err *err);
/* The same of runs of scripts, of a node that will not come back. */
int run_fail_locked(struct store *s, const char *node, struct err *err);
int vm_bury_locked(struct store *s, const struct store_vm *v, const char *reason, struct err *err);
int account_locked(struct store *s, const char *id, struct store_account *ret, struct err *err);
/* The key of what each node has of its own: "nd-.../key". */
const char *node_key(const struct store *s, const char *key, char ret[NODE_KEY_SIZE]);
/* The reverse, in place. */
void node_key_strip(const struct store *s, char *key);

extern const struct table git_repo_table;
extern const struct table vm_table, snapshot_table, point_table, layer_table, node_table;
/* store_claim.c: 1: nobody but a claim can write to what is this node's ("": nobody's), and it
 * cannot join before the transaction is over. */
int node_gone_locked(struct store *s, const char *node, struct err *err);
/* store_claim.c: how many files of that point, and of that layer and all below it, are not in the
 * object store; "": none asked for. */
int unstored_locked(struct store *s, const char *point, const char *layer, struct err *err);
/* The same of what a VM at rest wakes from: a suspended one from its point, a stopped one from its
 * disk. */
int unstored_vm_locked(struct store *s, const struct store_vm *v, struct err *err);

/* ---- store_cluster.c: the files with the cluster's id ---- */
/* name: "cluster" or "cluster.new". "" if there is no such file. */
int cluster_read(const char *data_dir, const char *name, char ret[ID_SIZE], struct err *err);
int cluster_write(const char *data_dir, const char *id, struct err *err); /* cluster.new */
int cluster_finish(const char *data_dir, struct err *err); /* cluster.new becomes cluster */

/* ---- store_tree.c ---- */
/* Before points are deleted: their children get the nearest remaining ancestor as
 * parent. */
struct gone_point {
	char id[ID_SIZE], parent[ID_SIZE];
};
int line_mend_locked(struct store *s, struct gone_point *gone, size_t n, struct err *err);
/* The existing point that id now stands for; "" if there is none. */
int line_living_locked(struct store *s, const char *id, char ret[ID_SIZE], struct err *err);

/* ---- store_schema.c ---- */
/* Entry n takes the database from version n to n + 1; never edited once released. */
extern const char *const store_migrations[];
extern const unsigned store_n_migrations;
/* Programs that know at least this version can use a database of the present one. Never lowered;
 * raised by a step that takes away what they use (store_schema.c). */
extern const unsigned store_schema_oldest;
/* store_audit.c: those of the log of requests */
extern const char *const audit_migrations[];
extern const unsigned audit_n_migrations;
extern const char migration_21[], migration_22[], migration_23[], migration_24[], migration_25[],
        migration_26[], migration_27[], migration_28[], migration_29[]; /* store_schema_21.c */
extern const char migration_30[], migration_31[], migration_32[], migration_33[], migration_34[],
        migration_35[]; /* store_schema_30.c */

/* ---- store_trigger.c ---- */
/* For a deleted repository. */
int triggers_drop_locked(struct store *s, const char *repo, struct err *err);
/* store_pack.c: likewise; its objects become garbage. And: may this node write to it? -ESTALE */
int packs_drop_locked(struct store *s, const char *repo, struct err *err);
int repo_free_locked(struct store *s, const char *repo, struct err *err);
/* Stored repositories of a node that does not come back are nobody's. */
int repos_give_up_locked(struct store *s, const char *node, struct err *err);
/* store_sync.c: likewise */
int sync_drop_locked(struct store *s, const char *repo, struct err *err);

/* store_object.c: objects that nobody needs from then on */
int object_garbage_locked(struct store *s, const char *object, uint32_t chunks, int64_t at_ms,
                          struct err *err);

/* ---- store_hook.c ---- */
struct store_hook;
struct store_hook_delivery;
int hooks_any_locked(struct store *s, struct err *err); /* 1, 0 or -errno */
/* Caller wipes and frees. */
int hooks_of_locked(struct store *s, const char *account, struct store_hook **ret, size_t *ret_n,
                    struct err *err);
int hook_delivery_add_locked(struct store *s, struct store_hook_delivery *d, const char *body,
                             struct err *err);

/* ---- store_outbox.c: events for webhooks, in the transaction of the change ---- */
/* VMs that were added, with their notes; of a fork: also that their parent was forked. */
int outbox_added_locked(struct store *s, const struct store_vm *v, size_t n, struct err *err);
/* Before the row is updated: what happens to it is told by comparison with the old one. */
int outbox_update_locked(struct store *s, const struct store_vm *v, struct err *err);
/* Before the row and its notes are deleted. */
int outbox_bury_locked(struct store *s, const struct store_vm *v, const char *reason,
                       struct err *err);
/* After an insert (old NULL), or before an update. */
int outbox_snapshot_locked(struct store *s, const struct store_snapshot *old,
                           const struct store_snapshot *now, struct err *err);
/* Before the update. */
int outbox_build_locked(struct store *s, const struct store_build *now, struct err *err);
/* After the insert: a build begins; a phase of it does. */
int outbox_started_locked(struct store *s, const struct store_build *b, struct err *err);
int outbox_phase_locked(struct store *s, const struct store_phase *p, struct err *err);
/* After the notes of an existing VM have changed. */
int outbox_noted_locked(struct store *s, const char *vm_id, struct err *err);
/* Before all unfinished builds and snapshots are marked as failed. */
int outbox_unfinished_locked(struct store *s, const char *node, const char *why, struct err *err);
/* ---- store_feed.c: what accounts can follow, in the transaction of the change ---- */
int feed_put_locked(struct store *s, const char *account, const char *type, const char *vm,
                    const char *member, json_t *about, struct err *err);
/* The same; NULL is out of memory. */
int feed_tell_locked(struct store *s, const char *account, const char *type, const char *vm,
                     const char *member, json_t *about_consume, struct err *err);
/* The transaction was committed, or rolled back: then its notes wait again. */
void feed_tx_over(struct store *s, bool committed);
int feed_refusals_open(struct store *s, struct err *err);
void feed_close(struct store *s);

/* store_note.c: under the lock; env is left out. 1: there are some. The caller frees. */
int note_words_locked(struct store *s, const char *vm_id, char **ret_tags, char **ret_metadata,
                      struct err *err);
/* store_note.c: the same for each of the VMs. */
struct store_note;
int note_put_locked(struct store *s, const struct store_note *n, struct err *err);
extern const struct table build_table;
