/* SPDX-License-Identifier: Apache-2.0 */
/* git/git_internal.h - children, jails and libgit2 handles; for git/ only */
#pragma once

#include <git2.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/auto.h"
#include "base/budget.h"
#include "base/buf.h"
#include "base/lock.h"
#include "git/contents.h"
#include "git/jail_internal.h"

#define CHILDREN_ACCOUNTS 64    /* of git's programs at a time, for clients with a key */
#define CHILDREN_ACCOUNT 48     /* and for one account */
#define CHILDREN_STRANGERS 32   /* for clients without a key */
#define CHILDREN_ADDRESS 8      /* and from one address */
#define CHILD_WAIT_MS 10000     /* for one of them to end, so that the next may begin */
#define CHILD_ASK_MB 1024       /* memory of a child that answers a question, unless it says more */
#define SERVICE_MB 2048         /* of one upload-pack, receive-pack or archive, or of a fetch */
#define SERVICE_CPU_S 3600      /* processor time of one upload-pack or receive-pack */
#define SERVICE_STALL_MS 300000 /* a child that neither reads nor writes nor ends */
#define CONTENT_MAX (64u << 20) /* bytes of one file in a JSON answer */
#define TREE_ENTRIES_MAX 200000 /* of one recursive listing */

struct push_hook;
struct shared;
struct slot;
struct push_sub {
	repo_push_fn fn;
	void *ctx;
};

struct repos {
	struct repos_conf conf;
	struct store *store; /* weak */
	char root[300];      /* <data>/git */
	char jail_dir[320];  /* skeleton of a child's root */
	bool jailed, closed; /* closed: there is no jail, and the operator wants one */
	bool own_starter;    /* there was none */
	char jail_text[160];
	char uid_map[64], gid_map[64];
	struct mutex lock;
	struct mutex lfs; /* between a large file's bytes and its rows */
	/* quota.c */
	struct mutex quota;
	struct hold *holds GUARDED_BY(quota); /* owned */
	uint64_t hold_mark GUARDED_BY(quota);
	struct budget *accounts, *strangers; /* children, by account and by address */
	struct push_sub subs[REPOS_SUBSCRIBERS_MAX] GUARDED_BY(lock);
	unsigned n_subs GUARDED_BY(lock);
	/* maint.c */
	pthread_t maint;
	bool maint_runs, ending GUARDED_BY(lock);
	struct cond work;
	char (*dirty)[REPO_ID_SIZE];
	size_t n_dirty, cap_dirty;
	/* backup.c: one repository is packed at a time, and one pinned: never the same */
	char packing[REPO_ID_SIZE] GUARDED_BY(lock), pinned[REPO_ID_SIZE] GUARDED_BY(lock);
	struct cond packed;
	struct text_cache *texts; /* for searches */
	struct shared *shared;    /* owned; NULL: nothing is shared. shared.h */
	/* caps.c; under lock: upload-pack's capabilities, and the program's file they are from */
	struct buf caps;
	ino_t caps_ino;
	time_t caps_time;
};

/* Paths: of a repository, and of a name below <data>/git. */
void repo_path(const struct repos *g, const char *id, char ret[PATH_MAX]);
void repos_path(const struct repos *g, const char *sub, const char *name, char ret[PATH_MAX]);

/* ---- jail.c ---- */

struct child_opts {
	const char *const *argv; /* argv[0] is absolute; the repository is its working directory */
	const char *repo;        /* path of it; NULL: none */
	const char *work;        /* another directory, "/work" for the child; or NULL */
	const char *const *env;  /* more variables, "A=b"; NULL at the end; or NULL */
	int in, out, err;        /* borrowed; -1: /dev/null */
	int extra;               /* borrowed; the child's descriptor 3, or -1 */
	int talk;                /* likewise 4, if there is a 3; 0 and -1: none */
	bool write;              /* may it write to the repository? */
	bool network;            /* through a proxy of ours only; *ret_listen is where it listens */
	unsigned cpu_s, mem_mb;  /* memory it may have, each of its processes; 0: CHILD_ASK_MB */
	const struct repo_client *client; /* who it runs for; NULL: the server itself */
};
struct child {
	struct proc p;
	struct repos *g;  /* while it runs */
	struct budget *b; /* counted there while set, for: */
	char holder[BUDGET_HOLDER_SIZE];
};
#define CHILD_NONE ((struct child){ .p = { -1, -1 } })
int child_start(struct repos *g, const struct child_opts *o, struct child *ret, int *ret_listen,
                struct err *err);
/* Exit status, 128 + signal, or -ETIMEDOUT after ending it. */
int child_wait(struct child *c, uint64_t deadline_ms);
void child_end(struct child *c); /* polite first; what was waited for already is fine */
/* Only counts: for what starts several children, which then have no client. NULL: not counted */
int room_take(struct repos *g, const struct repo_client *by, struct child *ret, struct err *err);
void room_give(struct child *c);
int jail_prepare(struct repos *g, struct err *err);
/* Tries a child; sets g->jailed. */
int jail_probe(struct repos *g, struct err *err);
void jail_close(struct repos *g);

/* ---- run.c: a child to its end, with limits on time and output ---- */

struct run_opts {
	const char *repo, *work;
	const char *const *argv, *const *env;
	const void *in; /* for its stdin, or NULL */
	size_t in_len;
	int in_fd;   /* instead; 0: none */
	int stop_fd; /* once it is readable the child is ended: -ECANCELED; 0: none */
	const struct repo_client *client; /* likewise once that has left; NULL: the server itself */
	bool write, network;
	size_t out_max;            /* more is -EFBIG */
	unsigned limit_ms, mem_mb; /* mem_mb 0: CHILD_ASK_MB */
	int64_t net_max;           /* bytes from the network; 0: no limit */
	/* Instead of keeping what it writes: called with each piece; not 0 ends the child. */
	int (*each)(void *ctx, const uint8_t *p, size_t n, struct err *err);
	void *ctx;
};
struct run_result {
	int status; /* exit status, 128 + signal */
	struct buf out, err_text;
};
#define autorun AUTO(run_result_done)
void run_result_done(struct run_result *r);
int run_git(struct repos *g, const struct run_opts *o, struct run_result *ret, struct err *err);
/* Did it reach the limit on its memory or processor time? */
bool run_exhausted(const struct run_result *r);

/* ---- proxy.c: the only way out of a child with network ---- */
struct proxy;
/* Takes the listening socket, which lives in the child's network namespace. max: bytes that servers
 * may send; 0: any number */
int proxy_start(int listen_fd_consume, bool allow_private, int64_t max, struct proxy **ret,
                struct err *err);
/* Why the last connection was rejected, or "". */
struct proxy *proxy_stop(struct proxy *p, char *ret_refusal, size_t size);

/* ---- backup.c ---- */
/* false: it is being copied, and nothing may be removed from it. */
bool gc_begin(struct repos *g, const char *id);
void gc_end(struct repos *g);

/* ---- libgit2 ---- */
static inline void git_repository_freep(git_repository **p)
{
	git_repository_free(*p);
}
static inline void git_reference_freep(git_reference **p)
{
	git_reference_free(*p);
}
static inline void git_object_freep(git_object **p)
{
	git_object_free(*p);
}
static inline void git_commit_freep(git_commit **p)
{
	git_commit_free(*p);
}
static inline void git_tree_freep(git_tree **p)
{
	git_tree_free(*p);
}
static inline void git_blob_freep(git_blob **p)
{
	git_blob_free(*p);
}
static inline void git_revwalk_freep(git_revwalk **p)
{
	git_revwalk_free(*p);
}
static inline void git_odb_freep(git_odb **p)
{
	git_odb_free(*p);
}
static inline void git_reference_iterator_freep(git_reference_iterator **p)
{
	git_reference_iterator_free(*p);
}
#define autorepo AUTO(git_repository_freep) git_repository
#define autoref AUTO(git_reference_freep) git_reference
#define autoobject AUTO(git_object_freep) git_object
#define autocommit AUTO(git_commit_freep) git_commit
#define autotree AUTO(git_tree_freep) git_tree
#define autoblob AUTO(git_blob_freep) git_blob
#define autowalk AUTO(git_revwalk_freep) git_revwalk
#define autoodb AUTO(git_odb_freep) git_odb
#define autorefs AUTO(git_reference_iterator_freep) git_reference_iterator

int repo_open(struct repos *g, const struct store_repo *r, git_repository **ret, struct err *err);
/* -errno and libgit2's message; what: "read the tree". */
int git_fail(int rc, const char *what, struct err *err);

/* ---- rev.c ---- */
/* A branch, tag or (part of a) commit's hash; NULL or "": HEAD. The commit it leads to. */
int rev_commit(git_repository *repo, const char *rev, git_commit **ret, struct err *err);
/* A whole hash: INVALID_OBJECT_ID. */
int rev_oid(const char *hash, git_oid *ret, struct err *err);
/* A branch of that name: BRANCH_NOT_FOUND. */
int rev_branch(git_repository *repo, const char *name, git_commit **ret, struct err *err);
/* The branch HEAD names, whether it exists or not. */
int rev_head(git_repository *repo, char ret[REPO_REF_SIZE], struct err *err);

/* ---- refs.c ---- */
int branch_clash(const char *name, struct err *err);

/* ---- object.c ---- */
int commit_read(git_commit *c, struct arena *mem, struct repo_commit *ret, struct err *err);
/* Everything but the path. */
void entry_read(git_odb *odb, const git_tree_entry *e, struct repo_entry *ret);
/* A reference below refs/tags: annotated, or a name for a commit. false: for another reference. */
bool tag_ref_read(git_repository *repo, git_reference *ref, struct arena *mem,
                  struct repo_tag *ret);
int blob_size_check(git_object_size_t n, struct err *err); /* GET_CONTENT_FAILED */

/* ---- tree_edit.c ---- */
struct tree_edit {
	const char *path;
	git_oid blob;
	git_filemode_t mode; /* 0: removed */
	bool keep_mode;      /* of what is there now, if it is a file */
	bool found;          /* set: there was something to remove */
};
/* edits are sorted by it. base NULL: an empty tree. */
int tree_edit(git_repository *repo, git_tree *base, struct tree_edit *edits, size_t n, git_oid *ret,
              struct err *err);
/* A relative path that Git would check out, anywhere: INVALID_FILE_PATH. */
int tree_path_check(const char *path, struct err *err);

/* ---- push.c ---- */
void push_tell(const struct repo_push *p, struct repos *g);

/* ---- note.c: what is about to be pushed ---- */
struct note {
	struct repos *g;
	char repo[REPO_ID_SIZE];
	char by[ID_SIZE], id[ID_SIZE];
	int fd; /* owned; the child's descriptor 3; -1: none */
	int64_t since_s;
	struct slot *slot; /* owned; or NULL */
	size_t planned;    /* that were stored with it */
};
#define NOTE_NONE ((struct note){ .fd = -1 })
#define autonote AUTO(note_close) struct note
/* Marks the repository as busy_mark() does. */
int note_open(struct repos *g, const char *repo, const char *by, struct note *ret, struct err *err);
/*
 * Before it is decided what is to move: nobody else writes from now on, until the note is closed or
 * this is ended. Where repositories are shared (shared.h); else it does nothing.
 */
int note_hold(struct note *n, struct err *err);
void note_unhold(struct note *n);
/* To be called before these references move; it stays, whatever happens to the host. */
int note_plan(struct note *n, const struct repo_update *u, size_t k, struct err *err);
/* Flushes what has moved, and tells everybody; fails if it may be lost when the power fails. */
int note_tell(struct note *n, const struct store_repo *r, struct err *err);
/* The same for callers that know what has moved. */
int note_told(struct note *n, const struct store_repo *r, const struct repo_update *u, size_t k,
              struct err *err);
void note_close(struct note *n); /* it is forgotten; none is fine */
/* It stays for the next start: something was broken off. */
void note_leave(struct note *n);
/* Is this the name of a note in git/busy? */
bool note_named(const char *name);

/* ---- flush.c ---- */
/* Objects that were written since then are on the disk, with their names. */
int repo_flush_objects(struct repos *g, const char *repo, int64_t since_s, struct err *err);
/* The same, and names that were made for these updates since then are on the disk. */
int repo_flush(struct repos *g, const char *repo, int64_t since_s, const struct repo_update *u,
               size_t n, struct err *err);

/* ---- pack.c: upload-pack or receive-pack as a child ---- */
struct pack {
	struct repos *g;
	struct store_repo repo;
	struct child c;
	struct note note;       /* of a push */
	struct push_hook *hook; /* owned; likewise, or NULL */
	bool push;
	struct repo_client client; /* who it is for; without a holder: the server itself */
	char holder[BUDGET_HOLDER_SIZE];
	struct hold *hold; /* owned; of a push */
	int64_t fed, room; /* bytes of it, and what git was told that it may take */
};
struct pack_cmd { /* points into itself */
	const char *argv[10], *env[2];
	char protocol[96], max_input[64], path[PATH_MAX];
};
void pack_init(struct pack *p, struct repos *g, const struct store_repo *r,
               const struct repo_client *by);
/* Quota, command line and note; the caller starts the child, with the note as its descriptor 3. */
int pack_prepare(struct pack *p, const struct svc_opts *o, bool stateless, struct pack_cmd *ret,
                 struct err *err);
/* So many more bytes come in: -EDQUOT when they do not fit into the account's limit. */
int pack_takes(struct pack *p, size_t n, struct err *err);
/* The child has ended. Fails if what it wrote may be lost when the power fails. */
int pack_tell(struct pack *p, struct err *err);
void pack_end(struct pack *p); /* ends it if it has not */

/* ---- caps.c ---- */
/* Is this the question what upload-pack can do? */
bool caps_asked(const struct svc_opts *o);
/* Appends the answer. */
int caps_get(struct repos *g, const struct store_repo *r, struct buf *ret, struct err *err);

/* ---- maint.c ---- */
int maint_start(struct repos *g, struct err *err);
void maint_stop(struct repos *g);
/* Something was written: to be measured, and tidied up when there is enough. */
void maint_note(struct repos *g, const char *id);
int64_t repo_measure(const char *path);
/* Marks a repository that is being written to: after a crash it is looked after. */
unsigned busy_mark(struct repos *g, const char *id);
void busy_clear(struct repos *g, const char *id, unsigned mark);
int repos_reconcile(struct repos *g, struct err *err);

/* ---- lfs.c ---- */
/* Removes the bytes of those that no repository of the account has any more. */
void lfs_collect(struct repos *g, const struct store_lfs *l, size_t n);

/* ---- quota.c ---- */
int quota_repo(struct repos *g, const char *account, struct err *err);
/* Bytes that the account may still store; INT64_MAX: no limit. -EDQUOT when there are none. */
int quota_room(struct repos *g, const char *account, int64_t *ret, struct err *err);
/*
 * Bytes that are on their way count before they are stored, so that several uploads at once cannot
 * pass the limit together. -EDQUOT as above.
 */
struct hold;
int hold_new(struct repos *g, const char *account, const char *repo, int64_t bytes,
             struct hold **ret, struct err *err);
/* As many in all, at least. NULL is fine, here and below. */
int hold_grow(struct hold *h, int64_t bytes, struct err *err);
struct hold *hold_drop(struct hold *h);
/* They are stored: counted here until the repository has been measured. */
struct hold *hold_keep(struct hold *h);
void holds_free(struct repos *g);
/* Of a measurement that begins now; and when it is in the store. */
uint64_t quota_mark(struct repos *g);
void quota_measured(struct repos *g, const char *repo, uint64_t mark);
static inline void hold_dropp(struct hold **h)
{
	*h = hold_drop(*h);
}
#define autohold AUTO(hold_dropp) struct hold

/* ---- import.c, import_source.c ---- */
int import_source(struct repos *g, const char *account, const char *path,
                  const struct repo_source *source, const char *branch, struct repo_about *about,
                  struct err *err);
int import_run(struct repos *g, const char *account, const char *path,
               const struct repo_import *import, const char *branch, struct repo_about *about,
               struct err *err);

/* ---- match.c: patterns that cannot run away ---- */
struct match;
struct match_opts {
	bool regex, case_sensitive, whole_word;
	bool glob;  /* instead of regex: the whole text, with *, ** and ? */
	bool lines; /* match_line() will be asked */
};
int match_new(const char *pattern, const struct match_opts *o, struct match **ret, struct err *err);
struct match *match_free(struct match *m);
static inline void match_freep(struct match **m)
{
	*m = match_free(*m);
}
#define automatch AUTO(match_freep) struct match
/* Searches end then, with -ELOOP; looked at between pieces of a text. 0: never */
void match_until(struct match *m, uint64_t deadline_ms);
/* One line. 1 with the first place, 0: none, -ELOOP: it takes too long. */
int match_find(struct match *m, const char *p, size_t n, size_t *ret_start, size_t *ret_end);
/* The next line of a text that matches; from is where a line begins. As above; without its end. */
int match_line(struct match *m, const char *p, size_t n, size_t from, size_t *ret_at,
               size_t *ret_len);
