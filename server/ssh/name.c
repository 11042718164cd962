/* SPDX-License-Identifier: Apache-2.0 */
/*
 * name.c - parses an SSH user name
 *
 * Neither an id nor a Linux user contains a colon or a comma, so the first of them ends the name
 * and the rest is the secret, whatever it looks like; whether it is valid is not decided here. scp
 * and sftp cut user names at a colon: the comma is for them.
 */
#include "ssh/name.h"

#include <errno.h>
#include <string.h>

static int copy(char *dst, size_t size, const char *p, size_t n)
{
	if (n >= size)
		return -EINVAL;
	memcpy(dst, p, n);
	dst[n] = '\0';
	return 0;
}

static int parse(const char *text, struct sshd_name *ret)
{
	size_t head = strcspn(text, ":,"), vm = strcspn(text, "+:,");
	const char *secret = text[head] ? text + head + 1 : "";

	if (strnlen(text, SSHD_NAME_MAX + 1) > SSHD_NAME_MAX)
		return -EINVAL;
	if (vm == UUID_SIZE - 1 && vm == head) {
		if (copy(ret->repo, sizeof(ret->repo), text, vm) < 0 || !uuid_valid(ret->repo))
			return -EINVAL;
	} else if (copy(ret->vm, sizeof(ret->vm), text, vm) < 0 || !id_valid("", ret->vm)) {
		return -EINVAL;
	}
	if (vm < head && (copy(ret->user, sizeof(ret->user), text + vm + 1, head - vm - 1) < 0 ||
	                  !linux_user_valid(ret->user)))
		return -EINVAL;
	return copy(ret->secret, sizeof(ret->secret), secret, strlen(secret));
}

int sshd_name_parse(const char *text, struct sshd_name *ret)
{
	int r;

	*ret = (struct sshd_name){ 0 };
	r = parse(text, ret);
	if (r < 0) {
		explicit_bzero(ret, sizeof(*ret));
		return r;
	}
	return 0;
}
