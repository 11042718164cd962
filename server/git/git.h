/* SPDX-License-Identifier: Apache-2.0 */
/*
 * git/git.h - repositories of accounts; for main.c, api/ and ssh/
 *
 * A repository is a row in the store (whose it is, who may see it) and a bare repository on the
 * disk
 * (<data>/git/repos/<id>.git), made whole beside its place and then renamed. Git's own programs
 * speak Git's protocol, each in a jail of its own (jail.c); everything the API asks is read and
 * written through libgit2, whose names begin with git_: ours begin with repos_ (all of them) and
 * repo_ (one).
 *
 * Answers to questions of the API are JSON in the contract's shapes: they nest and have any size.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/proc.h"
#include "store/store_git.h"

struct err;
struct events;
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
	struct events *events; /* or NULL */
};

int repos_open(const struct repos_conf *c, struct store *s, struct repos **ret, struct err *err);
/* Ends what runs in the background. */
struct repos *repos_close(struct repos *g);

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
 * Of this account ("": nobody in particular). -ENOENT REPOSITORY_NOT_FOUND for what is not there
 * and for what is another's; what is public may be read by everyone. Grants of identities are
 * checked by auth before.
 */
int repo_find(struct repos *g, const char *account, const char *id, enum repo_access access,
              struct store_repo *ret, struct err *err);
bool repo_id_valid(const char *id);
/* Branch names that Git would take, and that do not look like an option. */
bool repo_branch_valid(const char *name);

struct repo_new {
	const char *account, *by;
	const char *name;           /* or NULL */
	const char *default_branch; /* or NULL: "main" */
	bool is_public;
	const json_t *source, *import; /* of the contract, or NULL; one of them at most */
};
int repo_create(struct repos *g, const struct repo_new *n, struct store_repo *ret,
                json_t **ret_extra, struct err *err);
int repo_delete(struct repos *g, const struct store_repo *r, struct err *err);
/* An item of the list: with branches, tags and the default branch. */
int repo_item(struct repos *g, const struct store_repo *r, json_t **ret, struct err *err);
int repo_default_branch(struct repos *g, const struct store_repo *r, char ret[REPO_REF_SIZE],
                        struct err *err);
int repo_set_default_branch(struct repos *g, const struct store_repo *r, const char *name,
                            struct err *err);

/* ---- what is in them; errors carry the contract's codes, *extra gets their members ---- */

int repo_branches(struct repos *g, const struct store_repo *r, json_t **ret, struct err *err);
int repo_branch(struct repos *g, const struct store_repo *r, const char *name, json_t **ret,
                struct err *err);
/* sha NULL: the default branch's tip. */
int repo_branch_create(struct repos *g, const struct store_repo *r, const char *by,
                       const char *name, const char *sha, json_t **ret, struct err *err);
int repo_tags(struct repos *g, const struct store_repo *r, json_t **ret, struct err *err);
int repo_tag(struct repos *g, const struct store_repo *r, const char *name, json_t **ret,
             struct err *err);
int repo_tag_object(struct repos *g, const struct store_repo *r, const char *hash, json_t **ret,
                    struct err *err);
int repo_blob(struct repos *g, const struct store_repo *r, const char *hash, json_t **ret,
              struct err *err);
int repo_tree(struct repos *g, const struct store_repo *r, const char *hash, json_t **ret,
              struct err *err);
int repo_contents(struct repos *g, const struct store_repo *r, const char *path, const char *rev,
                  bool recursive, json_t **ret, struct err *err);
int repo_commit(struct repos *g, const struct store_repo *r, const char *hash, json_t **ret,
                struct err *err);
int repo_compare(struct repos *g, const struct store_repo *r, const char *base, const char *head,
                 json_t **ret, struct err *err);

struct repo_log {
	const char *branch, *since, *until; /* or NULL */
	uint32_t limit, offset;
	bool has_offset, asc, no_total;
};
#define REPO_LOG_LIMIT 50
#define REPO_LOG_LIMIT_MAX 500
int repo_log(struct repos *g, const struct store_repo *r, const struct repo_log *q, json_t **ret,
             struct err *err);

struct repo_change {
	const char *path; /* borrowed */
	const char *content;
	size_t len;
	bool base64, deleted, executable;
};
struct repo_commit_new {
	const char *by, *branch, *message, *author_name, *author_email, *expected; /* NULL: none */
	struct repo_change *changes;
	size_t n_changes;
};
#define REPO_CHANGES_MAX 10000
/* *extra: members of the error, such as expected, actual and path; may be NULL. */
int repo_commit_create(struct repos *g, const struct store_repo *r, const struct repo_commit_new *n,
                       json_t **ret, json_t **extra, struct err *err);
/* The contract's low-level commit: an object, no branch moves. */
int repo_commit_object(struct repos *g, const struct store_repo *r, const json_t *body,
                       json_t **ret, struct err *err);

/* ---- search: search.c, search_files.c, search_log.c ---- */

struct repo_search {
	const char *query, *rev, *path_pattern, *exclude_pattern; /* NULL: none */
	uint32_t max_results, offset, context;
	bool case_sensitive, regex, whole_word;
};
#define REPO_SEARCH_RESULTS 100
#define REPO_SEARCH_RESULTS_MAX 1000
#define REPO_SEARCH_CONTEXT 2
#define REPO_SEARCH_CONTEXT_MAX 20
int repo_search(struct repos *g, const struct store_repo *r, const struct repo_search *q,
                json_t **ret, struct err *err);
int repo_search_files(struct repos *g, const struct store_repo *r, const struct repo_search *q,
                      json_t **ret, struct err *err);
int repo_search_commits(struct repos *g, const struct store_repo *r, const struct repo_search *q,
                        json_t **ret, struct err *err);
int repo_search_diffs(struct repos *g, const struct store_repo *r, const struct repo_search *q,
                      json_t **ret, struct err *err);

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
	const char *protocol; /* the client's Git-Protocol, or NULL */
	const char *by;       /* id of the key or token */
	bool advertise;       /* only advertise references (info/refs) */
	int stdin_fd;         /* borrowed; -1: svc_write() */
};
int svc_start(struct repos *g, const struct store_repo *r, const struct svc_opts *o,
              struct svc **ret, struct err *err);
/* format: "tar" or "zip", of this commit or tree. */
int svc_archive(struct repos *g, const struct store_repo *r, const char *format, const char *rev,
                struct svc **ret, struct err *err);
/* Feeds the child; its output meanwhile is kept. -EPIPE if it no longer reads. */
int svc_write(struct svc *s, const void *p, size_t n, struct err *err);
int svc_write_end(struct svc *s, struct err *err);
/* Its output: bytes, 0 if there is nothing now, -ENODATA after success, -EIO after a failure. */
ssize_t svc_read(struct svc *s, void *p, size_t n, struct err *err);
int svc_fd(struct svc *s); /* POLLIN: svc_read() may have something */
/* Lets a complete push finish; ends anything else. */
struct svc *svc_free(struct svc *s);

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

#define LFS_OBJECTS_MAX 1000 /* of one batch */
/* The batch API: href is the address of the repository as the client knows it. */
int repo_lfs_batch(struct repos *g, const struct store_repo *r, const json_t *body, bool may_write,
                   const char *href, const char *authorization, json_t **ret, json_t **extra,
                   struct err *err);
/* A descriptor of the bytes. */
int repo_lfs_get(struct repos *g, const struct store_repo *r, const char *oid, int *ret_fd,
                 uint64_t *ret_len, struct err *err);
struct lfs_put;
int lfs_put_open(struct repos *g, const struct store_repo *r, const char *oid, struct lfs_put **ret,
                 struct err *err);
int lfs_put_data(struct lfs_put *p, const void *data, size_t n, struct err *err);
/* Checks the hash and keeps it. */
int lfs_put_finish(struct lfs_put *p, struct err *err);
struct lfs_put *lfs_put_free(struct lfs_put *p);
