/* SPDX-License-Identifier: Apache-2.0 */
/* ssh/name.h - what a client puts into the SSH user name: VM, Linux user, token */
#pragma once

#include "base/id.h"

#define SSHD_NAME_MAX 256   /* bytes of a whole user name */
#define SSHD_SECRET_MAX 128 /* bytes of a key or token, with the NUL */

struct sshd_name {
	char vm[ID_SIZE];
	char user[LINUX_USER_MAX + 1]; /* "": root */
	char secret[SSHD_SECRET_MAX];  /* "": not in the name */
};

/* vm[+user][:secret], or a comma in the colon's place. 0 or -EINVAL; then *ret is empty. */
int sshd_name_parse(const char *text, struct sshd_name *ret);
