/* SPDX-License-Identifier: Apache-2.0 */
/* api/git/shared.h - what the handlers of repositories share; for api/ only */
#pragma once

#include "api/call.h"
#include "git/git.h"

#define GIT_CHALLENGE "Basic realm=\"Pando Git\""

/* ---- who asks: smart_http.c ---- */
/* The caller's repo_id from the path, when the route has {repo}; without Git's ".git" at its end.
 */
int repo_id_check(struct request *req, struct err *err);
/*
 * Basic (the password is a token or a key), Bearer or nothing; and whether it is about reading or
 * writing. 0: *req knows who; 1: nobody, and nobody need be; -EACCES with a challenge.
 */
int git_check(struct request *req, struct err *err);
/* The repository of the path, for what the handler does with it. */
int request_repo(struct request *req, enum repo_access access, struct store_repo *ret,
                 struct err *err);
/* A reply that is what one of git's programs says; takes it. prefix: sent first, or NULL. */
int reply_service(struct request *req, struct reply *res, struct svc *s_consume, const char *prefix,
                  const char *type, struct err *err);
