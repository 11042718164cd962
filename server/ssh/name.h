/* SPDX-License-Identifier: Apache-2.0 */
/* ssh/name.h - parts of an SSH user name: VM or repository, Linux user, token */
#pragma once

#include "base/id.h"

#define SSHD_NAME_MAX 256   /* bytes of a whole user name */
#define SSHD_SECRET_MAX 128 /* bytes of a key or token, with the NUL */

struct sshd_name {
	char vm[ID_SIZE];              /* or "" */
	char repo[UUID_SIZE];          /* or a repository */
	char user[LINUX_USER_MAX + 1]; /* "": root */
	char secret[SSHD_SECRET_MAX];  /* "": not in the name */
};

/*
 * vm[+user][:secret] or repo[:secret], with a comma or a colon. 0 or -EINVAL; then *ret is
 * empty.
 */
int sshd_name_parse(const char *text, struct sshd_name *ret);

/* Git's commands over SSH. */
enum sshd_git { SSHD_GIT_FETCH, SSHD_GIT_PUSH, SSHD_GIT_LFS };
/* -EINVAL: another command. -ENOENT: another repository. */
int sshd_git_parse(const char *command, const char *repo, enum sshd_git *ret);
