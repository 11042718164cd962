/* SPDX-License-Identifier: Apache-2.0 */
/* git/import.h - what the kinds of import share; for git/ only */
#pragma once

#include "git/git_internal.h"

#define IMPORT_BYTES_MAX (INT64_C(4) << 30) /* of all files, unpacked */
#define IMPORT_FILES_MAX 200000
#define DOWNLOAD_BYTES_MAX (INT64_C(2) << 30)

#define SOURCE_URL_MAX 2048

/* ---- source_auth.c ---- */
struct source_auth {
	char url[SOURCE_URL_MAX + 1]; /* without user and password */
	char key[SOURCE_URL_MAX + 64], value[2 * SOURCE_URL_MAX];
	const char *env[4]; /* for the child */
};
void source_auth(const char *url, struct source_auth *ret);
void source_auth_done(struct source_auth *a);

/* ---- source_plan.c ---- */
struct source_refs {
	char head[REPO_REF_SIZE];               /* the source's default branch, or "" */
	bool is_branch, is_tag, is_hash, empty; /* what the revision that was asked for is there */
};
struct source_plan {                /* not to be moved: refspecs points into it */
	char branch[REPO_REF_SIZE]; /* what it becomes here */
	bool is_tag;                /* of which the branch has to be made */
	char spec[2 * REPO_REF_SIZE + 64];
	const char *refspecs[4];
};
/* Is it an address that can be fetched from? NULL: it is missing. */
int source_url_check(const char *url, struct err *err);
void source_hide(const char *url, char *ret, size_t size);
int source_failed(const char *url, const char *says, struct repo_about *about, struct err *err);
/* out: what git ls-remote --symref printed; rev: or NULL. */
void source_refs_read(const struct buf *out, const char *rev, struct source_refs *ret);
/* all: not only that revision; want: the branch that a tag or commit becomes, or NULL. */
int source_plan(const struct source_refs *has, const char *url, const char *rev, bool all,
                const char *want, struct source_plan *ret, struct repo_about *about,
                struct err *err);

/* ---- import_source.c ---- */
int source_fetch(struct repos *g, const char *path, const char *url, const char *const *refspecs,
                 int64_t depth, struct repo_about *about, struct err *err);
/* Fetches rev (NULL: the default branch) or all; ret_branch: what it became, "": source is empty.
 */
int source_take(struct repos *g, const char *path, const char *url, const char *rev, bool all,
                int64_t depth, const char *want, char ret_branch[REPO_REF_SIZE],
                struct repo_about *about, struct err *err);

/* ---- tar.c: plain tar, piece by piece; ops are called by a thread of its own ---- */
enum tar_type { TAR_FILE, TAR_LINK, TAR_HARDLINK };
struct tar_entry {
	enum tar_type type;
	char path[PATH_MAX], target[PATH_MAX]; /* target: of links */
	bool executable;
	uint64_t size;
};
struct tar_ops {
	int (*entry)(void *ctx, const struct tar_entry *e, struct err *err);
	int (*data)(void *ctx, const uint8_t *p, size_t n, struct err *err); /* of a TAR_FILE */
	int (*end)(void *ctx, struct err *err);                              /* of a TAR_FILE */
};
struct tar;
struct tar *tar_new(const struct tar_ops *ops, void *ctx);
struct tar *tar_free(struct tar *t);
int tar_feed(struct tar *t, const uint8_t *p, size_t n, struct err *err);
/* Was it whole? The ops are not called after this, nor after a tar_feed() that failed. */
int tar_finish(struct tar *t, struct err *err);

/* ---- import_write.c: one commit of many files, through git fast-import ---- */
struct import_commit {
	const char *branch, *message, *name, *email; /* name, email: or NULL */
};
struct writer;
int writer_open(struct repos *g, const char *path, const struct import_commit *c, int64_t room,
                struct writer **ret, struct err *err);
int writer_file(struct writer *w, const char *path, bool executable, bool link, uint64_t size,
                struct err *err);
int writer_data(struct writer *w, const void *p, size_t n, struct err *err);
int writer_file_end(struct writer *w, struct err *err);
int writer_copy(struct writer *w, const char *from, const char *to, struct err *err);
size_t writer_count(const struct writer *w);
int writer_close(struct writer *w, struct err *err); /* frees it, whatever happens */
void writer_drop(struct writer *w);

/* ---- download.c ---- */
int download(struct repos *g, const char *url, int64_t max, int *ret_fd, struct repo_about *about,
             struct err *err);
