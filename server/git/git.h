/* SPDX-License-Identifier: Apache-2.0 */
/*
 * git/git.h - repositories of accounts; for main.c, api/ and ssh/
 *
 * A repository is a row in the store (whose it is, who may see it) and a bare repository on the
 * disk (<data>/git/repos/<id>.git), made whole beside its place and then renamed. Git's own
 * programs speak Git's protocol, each in a jail of its own (jail.c); everything the API asks is
 * read and written through libgit2, whose names begin with git_: ours begin with repos_ (all
 * repositories) and repo_ (one).
 *
 * What is in a repository, and new commits: git/contents.h.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/proc.h"
#include "store/store_git.h"

struct err;
struct events;
struct objects;
struct repos;
struct store;

struct repos_conf {
	char data_dir[256];
	char domain[128];      /* of the e-mail address of commits without an author */
	bool allow_private;    /* imports may reach loopback, private and link-local addresses */
	int64_t quota_repos;   /* of an account; 0: no limit */
	int64_t quota_mb;      /* likewise: all repositories and large files together */
	uint32_t search_s;     /* for one search; 0: the default */
	uint32_t search_mb;    /* texts kept for searches; 0: none */
	uint32_t slow_s;       /* in which a client takes REPO_SLOW_BYTES; 0: the default */
	bool unjailed;         /* children may run without a jail where there are no namespaces */
	struct events *events; /* or NULL */
	/* Of nodes: repositories outlive theirs. NULL: they are files and nothing else. */
	struct objects *objects;
};

int repos_open(const struct repos_conf *c, struct store *s, struct repos **ret, struct err *err);
/* Ends what runs in the background. */
struct repos *repos_close(struct repos *g);
/* -EAGAIN with a sentence if Git is not served, because there is no jail for it. */
int repos_ready(const struct repos *g, struct err *err);

/*
 * Who something is done for. Git's programs are counted by holder, and what takes long ends when
 * the client leaves.
 */
struct repo_client {
	const char *holder; /* the account, or the address of a stranger */
	bool stranger;      /* it has shown no key */
	int fd;             /* its connection; -1: none */
};

/* ---- how much an account may have: quota.c; QUOTA_NONE: no limit ---- */
int repos_limits(struct repos *g, const char *account, int64_t *ret_repos, int64_t *ret_mb,
                 struct err *err);
int repos_usage(struct repos *g, const char *account, int64_t *ret_repos, int64_t *ret_mb,
                struct err *err);

/* ---- pushes: push.c. One event for git over HTTP, over SSH, and the API ---- */

#define REPO_REF_SIZE 512 /* bytes of a reference's name with the NUL */
#define REPO_SHA_SIZE 41

struct repo_update {
	char ref[REPO_REF_SIZE];                             /* "refs/heads/main" */
	char old_sha[REPO_SHA_SIZE], new_sha[REPO_SHA_SIZE]; /* all zeros: did not exist, is gone */
};
struct repo_push {
	const struct store_repo *repo;
	const char *by; /* id of the key or token, or "" */
	const char *id; /* of this push */
	bool again;     /* a crash interrupted the event: it may have been published before */
	const struct repo_update *updates;
	size_t n_updates;
};
/* Called on the pusher's thread, before the client has its reply: must not block long. */
typedef void (*repo_push_fn)(const struct repo_push *p, void *ctx);
#define REPOS_SUBSCRIBERS_MAX 4
int repos_on_push(struct repos *g, repo_push_fn fn, void *ctx, struct err *err);
/* Once all have subscribed: publishes pushes that a crash left unpublished. */
void repos_tell_unheard(struct repos *g);

/* ---- repositories: repo.c, list.c ---- */

enum repo_access { REPO_READ, REPO_WRITE, REPO_OWN };

/*
 * For this account ("": an anonymous caller). -ENOENT REPOSITORY_NOT_FOUND if there is none, or if
 * it is private and belongs to another account. Grants of identities are checked by auth before.
 */
int repo_find(struct repos *g, const char *account, const char *id, enum repo_access access,
              struct store_repo *ret, struct err *err);
bool repo_id_valid(const char *id);
/* Branch names that Git would take, and that do not look like an option. */
bool repo_branch_valid(const char *name);

/*
 * What an error is about, for the members of a reply that name it. NULL and "": not about that.
 * Pointers are borrowed from what was asked for.
 */
struct repo_about {
	const char *path, *revision;
	const char *expected;       /* where a branch should be; and where it is: */
	char actual[REPO_SHA_SIZE]; /* "": there is no such branch */
	char url[300];              /* without a password */
	char dir[PATH_MAX];         /* that the repository or archive at url does not have */
};

/* Another repository, with its history. */
struct repo_source {
	const char *url;
	const char *rev; /* a branch, tag or hash; NULL: the default branch */
	bool all_branches;
	int64_t depth; /* commits of the history; 0: all */
};

/* Files that become one commit. */
enum repo_import_kind { REPO_IMPORT_FILES, REPO_IMPORT_ARCHIVE, REPO_IMPORT_GIT };
struct repo_import_file {
	const char *path, *content;
	size_t len;
};
struct repo_import {
	enum repo_import_kind kind;
	const struct repo_import_file *files;             /* of REPO_IMPORT_FILES */
	size_t n_files;                                   /* likewise */
	const char *url;                                  /* of the others */
	const char *dir;                                  /* what is below it alone, or NULL */
	const char *rev;                                  /* of REPO_IMPORT_GIT, or NULL */
	const char *message, *author_name, *author_email; /* or NULL */
};

struct repo_new {
	const char *account, *by;
	const char *name;           /* or NULL */
	const char *default_branch; /* or NULL: "main" */
	bool is_public;
	const struct repo_source *source; /* or NULL */
	const struct repo_import *import; /* or NULL; not both */
};
int repo_create(struct repos *g, const struct repo_new *n, struct store_repo *ret,
                struct repo_about *about, struct err *err);
int repo_delete(struct repos *g, const struct store_repo *r, struct err *err);
int repo_default_branch(struct repos *g, const struct store_repo *r, char ret[REPO_REF_SIZE],
                        struct err *err);
int repo_set_default_branch(struct repos *g, const struct store_repo *r, const char *name,
                            struct err *err);

/* ---- backup.c ---- */

/*
 * A copy of a repository (path: its directory, which must not exist) that is whole whatever is
 * being pushed: what never changes is linked. -ENOENT: it was deleted.
 */
int repo_backup(struct repos *g, const char *id, const char *path, struct err *err);
/* All large files, linked, below path. */
int repos_backup_lfs(struct repos *g, const char *path, struct err *err);

/* ---- for a place that cannot reach us: bundle.c ---- */

/* The public address, without any secret. */
void repo_url(const struct repos *g, const char *id, char *ret, size_t size);
/* The commit that a revision (NULL, "": HEAD) leads to; "" when there is nothing yet. */
int repo_tip(struct repos *g, const struct store_repo *r, const char *rev, char ret[REPO_SHA_SIZE],
             struct err *err);
/*
 * Everything in it as a bundle in a file without a name, to be read from its beginning; -1 when it
 * is empty. *ret_shallow: its commits without parents, or NULL. Both are the caller's.
 */
int repo_bundle(struct repos *g, const struct store_repo *r, int *ret_fd, char **ret_shallow,
                struct err *err);

/* ---- git's own programs: service.c ---- */

enum repo_service { REPO_UPLOAD_PACK, REPO_RECEIVE_PACK };

/* A child whose ends are ours to read and write: upload-pack, receive-pack, archive. */
struct svc;
struct svc_opts {
	enum repo_service kind;
	const char *protocol;             /* the client's Git-Protocol, or NULL */
	const char *by;                   /* id of the key or token */
	bool advertise;                   /* only advertise references (info/refs) */
	const struct repo_client *client; /* NULL: the server itself */
	int stdin_fd;                     /* borrowed; -1: svc_write() */
};
int svc_start(struct repos *g, const struct store_repo *r, const struct svc_opts *o,
              struct svc **ret, struct err *err);
/* format: "tar" or "zip", of this commit or tree. */
int svc_archive(struct repos *g, const struct store_repo *r, const struct repo_client *by,
                const char *format, const char *rev, struct svc **ret, struct err *err);
/* Feeds the child; its output meanwhile is kept. -EPIPE if it no longer reads. */
int svc_write(struct svc *s, const void *p, size_t n, struct err *err);
int svc_write_end(struct svc *s, struct err *err);
/* Its output: bytes, 0 if there is nothing now, -ENODATA after success, -EIO after a failure. */
ssize_t svc_read(struct svc *s, void *p, size_t n, struct err *err);
int svc_fd(struct svc *s); /* POLLIN: svc_read() may have something */
/* Lets a complete push finish; ends anything else. */
struct svc *svc_free(struct svc *s);

/* ---- clients that take it too slowly: drain.c ---- */
#define REPO_SLOW_BYTES (256u << 10)
struct repo_drain {
	uint64_t since_ms;         /* it has been waited for since then; 0: it is not */
	uint64_t waited_ms, bytes; /* so far, since it was judged last */
};
/*
 * To be called whenever something changes, and now and then. waits: there is something for the
 * client that it does not take; taken: what it has taken since. -ETIMEDOUT: it is too slow, and
 * should be cut off.
 */
int drain_look(const struct repos *g, struct repo_drain *d, bool waits, size_t taken,
               struct err *err);
unsigned repos_slow_ms(const struct repos *g);
/* How long the client of a child may take nothing at all. */
unsigned svc_stall_ms(const struct svc *s);

/* ---- the same for a front with both directions at once (SSH): talk.c. Nothing of it waits ---- */
struct talk;
/* Of the options kind, protocol and by count. The caller has checked who may. */
int talk_start(struct repos *g, const struct store_repo *r, const struct svc_opts *o,
               struct talk **ret, struct err *err);
int talk_fd(const struct talk *t);   /* POLLIN: something changed since talk_seen() */
void talk_seen(struct talk *t);      /* to be called before looking */
bool talk_eof(const struct talk *t); /* it has no more output */
/* Bytes of its stdout (1) or stderr (2), 0: none now, -ENODATA: it has ended. */
ssize_t talk_read(struct talk *t, int *ret_chan, void *p, size_t n);
/* Bytes that were taken, 0: none now, -EPIPE: it no longer reads. */
ssize_t talk_feed(struct talk *t, const void *p, size_t n);
void talk_feed_end(struct talk *t);
int talk_status(const struct talk *t); /* once it has ended: exit status, 128 + signal */
/* now: ends it; else a push comes to its own end, without input. */
struct talk *talk_free(struct talk *t, bool now);

/* ---- large files: lfs.c ---- */

enum lfs_state {
	LFS_INVALID, /* not an oid, or no size */
	LFS_UNREADABLE,
	LFS_KEPT, /* upload: it is there already */
	LFS_UPLOAD,
	LFS_TOO_LARGE,
	LFS_DOWNLOAD,
	LFS_MISSING,
};
struct lfs_object {
	const char *oid; /* or NULL */
	int64_t size;    /* as the client says; of LFS_DOWNLOAD, what it is */
	enum lfs_state state;
};
/* What a client has to do to upload, or download, these: sets the states. */
int repo_lfs_batch(struct repos *g, const struct store_repo *r, bool upload, struct lfs_object *v,
                   size_t n, struct err *err);
/* A descriptor of the bytes. */
int repo_lfs_get(struct repos *g, const struct store_repo *r, const char *oid, int *ret_fd,
                 uint64_t *ret_len, struct err *err);
struct lfs_put;
/* len: bytes, which are reserved at once; -1: nobody knows yet. */
int lfs_put_open(struct repos *g, const struct store_repo *r, const char *oid, int64_t len,
                 struct lfs_put **ret, struct err *err);
int lfs_put_data(struct lfs_put *p, const void *data, size_t n, struct err *err);
/* Checks the hash and keeps it. */
int lfs_put_finish(struct lfs_put *p, struct err *err);
struct lfs_put *lfs_put_free(struct lfs_put *p);
