/* SPDX-License-Identifier: Apache-2.0 */
/* api/git/shared.h - what the handlers of repositories share; for api/ only */
#pragma once

#include "api/call.h"
#include "git/contents.h"

#define GIT_CHALLENGE "Basic realm=\"Pando Git\""

/* ---- who asks: smart_http.c ---- */
/*
 * Basic (the password is a token or a key), Bearer or nothing; and whether it is about reading or
 * writing. 0: the caller is known; 1: anonymous, which is enough; -EACCES with a challenge.
 */
int git_check(struct request *req, struct err *err);
/* The repository of the path, for what the handler does with it. */
int request_repo(struct request *req, enum repo_access access, struct store_repo *ret,
                 struct err *err);
/* Who asks, for what takes long; valid as long as the request. */
struct repo_client request_repo_client(struct request *req);
/* A reply that is what one of git's programs says; takes it. prefix: sent first, or NULL. */
int reply_service(struct request *req, struct reply *res, struct svc *s_consume, const char *prefix,
                  const char *type, struct err *err);

/* ---- GitHub Apps: github_apps.c ---- */
#define GITHUB_NUMBER_SIZE 32
/* GitHub's numbers, as a string or a number; *ret stays NULL for null or none. */
int github_number(const json_t *v, char buf[GITHUB_NUMBER_SIZE], const char **ret, struct err *err);
struct ghapps;
int github_apps_of(struct request *req, struct ghapps **ret, struct err *err);

/* ---- the contract's shapes: shape.c ---- */
json_t *shape_str(const char *s);      /* null for NULL */
json_t *shape_sha(const char *sha);    /* null for "" */
json_t *shape_object(const char *sha); /* {"sha": ...} */
json_t *shape_commit(const struct repo_commit *c);
json_t *shape_tag(const struct repo_tag *t);
/* Both return r; for an error they add to its reply what it is about. value NULL: nothing. */
int reply_extra_str(struct reply *res, int r, const char *name, const char *value);
int reply_about(struct reply *res, int r, const struct repo_about *a);
