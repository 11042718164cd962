/* SPDX-License-Identifier: Apache-2.0 */
/*
 * git/contents.h - what is in a repository: references, objects, files, history, search; for api/
 *
 * Results are plain structs. Their strings and arrays are in the caller's arena, which frees them
 * all at once. Names, messages and lines are as Git has them: any bytes, not only UTF-8. Errors
 * carry the contract's codes.
 */
#pragma once

#include "base/arena.h"
#include "git/git.h"

/* ---- references: refs.c ---- */

struct repo_branch {
	const char *name;
	char sha[REPO_SHA_SIZE]; /* "": it only names another reference */
};
struct repo_branches {
	struct repo_branch *v;
	size_t n;
};
int repo_branches(struct repos *g, const struct store_repo *r, struct arena *mem,
                  struct repo_branches *ret, struct err *err);
/* ret_sha: the commit it is at. */
int repo_branch(struct repos *g, const struct store_repo *r, const char *name,
                char ret_sha[REPO_SHA_SIZE], struct err *err);
/* sha NULL: the default branch's tip. */
int repo_branch_create(struct repos *g, const struct store_repo *r, const char *by,
                       const char *name, const char *sha, char ret_sha[REPO_SHA_SIZE],
                       struct err *err);

struct repo_person {
	const char *name, *email; /* NULL: nobody is named */
	int64_t when_s;           /* since 1970 */
	int offset_min;           /* of the person's clock, from UTC */
};

struct repo_tag {
	const char *name, *message; /* message NULL: none */
	struct repo_person tagger;  /* nobody: a mere name for an object */
	char sha[REPO_SHA_SIZE], target[REPO_SHA_SIZE];
};
struct repo_tags {
	struct repo_tag *v;
	size_t n;
	size_t bytes; /* of their messages */
};
int repo_tags(struct repos *g, const struct store_repo *r, struct arena *mem, struct repo_tags *ret,
              struct err *err);
int repo_tag(struct repos *g, const struct store_repo *r, const char *name, struct arena *mem,
             struct repo_tag *ret, struct err *err);

/* What a list of repositories shows of one; at most REPO_ITEM_REFS branches and tags. */
#define REPO_ITEM_REFS 1000
struct repo_item {
	char default_branch[REPO_REF_SIZE];
	struct repo_branches branches;
	struct repo_tags tags;
};
int repo_item(struct repos *g, const struct store_repo *r, struct arena *mem, struct repo_item *ret,
              struct err *err);

/* ---- objects, by hash: object.c ---- */

struct repo_commit {
	char sha[REPO_SHA_SIZE], tree[REPO_SHA_SIZE];
	struct repo_person author, committer;
	const char *message;
	char (*parents)[REPO_SHA_SIZE];
	size_t n_parents;
};
int repo_commit(struct repos *g, const struct store_repo *r, const char *hash, struct arena *mem,
                struct repo_commit *ret, struct err *err);

struct repo_blob {
	char sha[REPO_SHA_SIZE];
	const void *content;
	size_t size;
};
int repo_blob(struct repos *g, const struct store_repo *r, const char *hash, struct arena *mem,
              struct repo_blob *ret, struct err *err);

/* A file or a directory; a submodule is a file without bytes. */
struct repo_entry {
	const char *path; /* in a tree: the name */
	char sha[REPO_SHA_SIZE];
	bool dir;
	uint64_t size;              /* of a file */
	struct repo_entry *entries; /* of a directory, if they were asked for */
	size_t n_entries;
};
struct repo_tree {
	char sha[REPO_SHA_SIZE];
	struct repo_entry *v;
	size_t n;
};
int repo_tree(struct repos *g, const struct store_repo *r, const char *hash, struct arena *mem,
              struct repo_tree *ret, struct err *err);
int repo_tag_object(struct repos *g, const struct store_repo *r, const char *hash,
                    struct arena *mem, struct repo_tag *ret, struct err *err);

/* ---- files of a revision: contents.c ---- */

struct repo_contents {
	struct repo_entry at;
	const void *content; /* of a file: at.size bytes */
	size_t n_below;      /* of a directory: entries that are listed, at all levels */
};
/* rev NULL: the default branch. */
int repo_contents(struct repos *g, const struct store_repo *r, const struct repo_client *by,
                  const char *path, const char *rev, bool recursive, struct arena *mem,
                  struct repo_contents *ret, struct err *err);

/* ---- history: log.c, compare.c ---- */

struct repo_log {
	const char *branch, *since, *until; /* or NULL */
	uint32_t limit, offset;
	bool has_offset, asc, no_total;
	const struct repo_client *client; /* who asks; NULL: the server itself */
};
#define REPO_LOG_LIMIT 50
#define REPO_LOG_LIMIT_MAX 500
struct repo_history {
	struct repo_commit *v; /* the page */
	size_t n;
	size_t total;             /* of all pages, unless no_total */
	char next[REPO_SHA_SIZE]; /* the first one of the next page, or "" */
};
int repo_log(struct repos *g, const struct store_repo *r, const struct repo_log *q,
             struct arena *mem, struct repo_history *ret, struct err *err);

enum repo_diff_status {
	REPO_DIFF_ADDED,
	REPO_DIFF_REMOVED,
	REPO_DIFF_RENAMED,
	REPO_DIFF_COPIED,
	REPO_DIFF_CHANGED, /* became something else: a link, a submodule */
	REPO_DIFF_UNCHANGED,
	REPO_DIFF_MODIFIED,
	REPO_DIFF_STATUS_MAX
};
struct repo_diff_file {
	const char *path, *old_path; /* old_path: of one that was renamed or copied, else NULL */
	char sha[REPO_SHA_SIZE];     /* "": removed */
	enum repo_diff_status status;
	size_t added, removed; /* lines */
};
struct repo_comparison {
	size_t ahead, behind; /* commits that only head, and only base, has */
	struct repo_diff_file *v;
	size_t n;
};
/* by: who asks, here and below; NULL: the server itself. */
int repo_compare(struct repos *g, const struct store_repo *r, const struct repo_client *by,
                 const char *base, const char *head, struct arena *mem, struct repo_comparison *ret,
                 struct err *err);

/* ---- new commits: commit.c, commit_object.c ---- */

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
/* *about: of an error. */
int repo_commit_create(struct repos *g, const struct store_repo *r, const struct repo_commit_new *n,
                       struct arena *mem, struct repo_commit *ret, struct repo_about *about,
                       struct err *err);

/* A commit of a tree and parents that are there already; no branch moves. */
struct repo_commit_object {
	const char *message, *tree;
	const char *const *parents;
	size_t n_parents;
	const struct repo_person *author, *committer; /* NULL: the server, now */
};
#define REPO_PARENTS_MAX 16
int repo_commit_object(struct repos *g, const struct store_repo *r,
                       const struct repo_commit_object *n, struct arena *mem,
                       struct repo_commit *ret, struct err *err);

/* ---- search: search.c, search_files.c, search_log.c ---- */

struct repo_search {
	const char *query, *rev, *path_pattern, *exclude_pattern; /* NULL: none */
	uint32_t max_results, offset, context;
	bool case_sensitive, regex, whole_word;
	const struct repo_client *client; /* who asks; NULL: the server itself */
};
#define REPO_SEARCH_RESULTS 100
#define REPO_SEARCH_RESULTS_MAX 1000
#define REPO_SEARCH_CONTEXT 2
#define REPO_SEARCH_CONTEXT_MAX 20

struct repo_text {
	const char *p; /* may have NULs in it */
	size_t n;
};

/* A page of the files that match. Of the names alone, they have no lines. */
struct repo_match {
	uint64_t number;        /* of the line in the file, from 1 */
	size_t at;              /* index of the line in the file's lines */
	uint32_t before, after; /* how many of those next to it there are its context */
	size_t start, end;      /* bytes of the line */
};
struct repo_found_file {
	const char *path;
	uint64_t size;
	struct repo_text *lines; /* those that match, and those around them, once each */
	struct repo_match *matches;
	size_t n_lines, n_matches;
};
struct repo_found_files {
	struct repo_found_file *v;
	size_t n;
	uint64_t total, total_matches; /* of all pages */
};
int repo_search(struct repos *g, const struct store_repo *r, const struct repo_search *q,
                struct arena *mem, struct repo_found_files *ret, struct err *err);
int repo_search_files(struct repos *g, const struct store_repo *r, const struct repo_search *q,
                      struct arena *mem, struct repo_found_files *ret, struct err *err);

/* A page of the commits that match: by their message, or by lines that they added and removed. */
struct repo_changed_line {
	struct repo_text line;
	uint64_t number;
	size_t start, end; /* bytes of the line */
	bool added;
};
struct repo_changed_file {
	const char *path;
	struct repo_changed_line *v;
	size_t n;
};
struct repo_found_commit {
	struct repo_text sha, author_name, author_email, time; /* time: RFC 3339 */
	struct repo_text subject, message; /* message: of a search in messages */
	struct repo_changed_file *files;   /* of a search in changes */
	size_t n_files;
};
struct repo_found_commits {
	struct repo_found_commit *v;
	size_t n;
	uint64_t total; /* of all pages */
};
int repo_search_commits(struct repos *g, const struct store_repo *r, const struct repo_search *q,
                        struct arena *mem, struct repo_found_commits *ret, struct err *err);
int repo_search_diffs(struct repos *g, const struct store_repo *r, const struct repo_search *q,
                      struct arena *mem, struct repo_found_commits *ret, struct err *err);
