/* SPDX-License-Identifier: Apache-2.0 */
/* api/git/shared.h - handlers of the repositories, and Git's own protocol over HTTP; for api/ only */
#pragma once

#include "api/call.h"
#include "git/git.h"

/* ---- who asks: api_git_wire.c ---- */
/* req->repo_id from the path, when the route has {repo}; without Git's ".git" at its end. */
int wire_repo_id(struct request *req, struct err *err);
/*
 * Basic (the password is a token or a key), Bearer or nothing; and whether it is about reading or
 * writing. 0: *req knows who; 1: nobody, and nobody need be; -EACCES with req->challenge.
 */
int wire_check(struct request *req, struct err *err);
/* The repository of the path, for what the handler does with it. */
int request_repo(struct request *req, enum repo_access access, struct store_repo *ret,
                 struct err *err);
/* A reply that is what one of git's programs says; takes it. prefix: sent first, or NULL. */
int reply_service(struct request *req, struct reply *res, struct wire *s_consume,
                  const char *prefix, const char *type, struct err *err);

/* Git's own protocol */
int api_git_info_refs(struct request *req, struct reply *res, struct err *err);
int api_git_upload_pack(struct request *req, struct reply *res, struct err *err);
int api_git_receive_pack(struct request *req, struct reply *res, struct err *err);
extern const struct intake api_git_push_intake;

/* large files */
int api_lfs_batch(struct request *req, struct reply *res, struct err *err);
int api_lfs_get(struct request *req, struct reply *res, struct err *err);
int api_lfs_put(struct request *req, struct reply *res, struct err *err);
extern const struct intake api_lfs_intake;

/* repositories */
int api_repo_create(struct request *req, struct reply *res, struct err *err);
int api_repo_list(struct request *req, struct reply *res, struct err *err);
int api_repo_get(struct request *req, struct reply *res, struct err *err);
int api_repo_delete(struct request *req, struct reply *res, struct err *err);
int api_repo_visibility(struct request *req, struct reply *res, struct err *err);
int api_repo_set_visibility(struct request *req, struct reply *res, struct err *err);
int api_repo_default_branch(struct request *req, struct reply *res, struct err *err);
int api_repo_set_default_branch(struct request *req, struct reply *res, struct err *err);

/* what is in them */
int api_repo_contents(struct request *req, struct reply *res, struct err *err);
int api_repo_tarball(struct request *req, struct reply *res, struct err *err);
int api_repo_zip(struct request *req, struct reply *res, struct err *err);
int api_repo_branches(struct request *req, struct reply *res, struct err *err);
int api_repo_branch(struct request *req, struct reply *res, struct err *err);
int api_repo_branch_create(struct request *req, struct reply *res, struct err *err);
int api_repo_branch_post(struct request *req, struct reply *res, struct err *err);
int api_repo_tags(struct request *req, struct reply *res, struct err *err);
int api_repo_tag(struct request *req, struct reply *res, struct err *err);
int api_repo_tag_object(struct request *req, struct reply *res, struct err *err);
int api_repo_blob(struct request *req, struct reply *res, struct err *err);
int api_repo_tree(struct request *req, struct reply *res, struct err *err);
int api_repo_commits(struct request *req, struct reply *res, struct err *err);
int api_repo_commit(struct request *req, struct reply *res, struct err *err);
int api_repo_commit_create(struct request *req, struct reply *res, struct err *err);
int api_repo_commit_object(struct request *req, struct reply *res, struct err *err);
int api_repo_compare(struct request *req, struct reply *res, struct err *err);
int api_repo_search(struct request *req, struct reply *res, struct err *err);
int api_repo_search_files(struct request *req, struct reply *res, struct err *err);
int api_repo_search_commits(struct request *req, struct reply *res, struct err *err);
int api_repo_search_diffs(struct request *req, struct reply *res, struct err *err);
