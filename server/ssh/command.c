/* SPDX-License-Identifier: Apache-2.0 */
/* command.c - parses the command that Git sends to an SSH server: a program and a quoted repository
 */
#include <errno.h>
#include <string.h>

#include "base/auto.h"
#include "ssh/name.h"

#define ENDING ".git"

static const struct {
	const char *word;
	enum sshd_git kind;
} words[] = {
	{ "git-upload-pack", SSHD_GIT_FETCH },
	{ "git-receive-pack", SSHD_GIT_PUSH },
	{ "git-lfs-authenticate", SSHD_GIT_LFS },
};

/* [/]repo[.git][/], as a path is written in an address. */
static bool names(const char *p, size_t n, const char *repo)
{
	size_t k = strlen(repo);

	if (n && *p == '/') {
		p++;
		n--;
	}
	if (n && p[n - 1] == '/')
		n--;
	if (n > strlen(ENDING) && memcmp(p + n - strlen(ENDING), ENDING, strlen(ENDING)) == 0)
		n -= strlen(ENDING);
	return n == k && memcmp(p, repo, k) == 0;
}

/* The beginning of the argument; *end is what follows it. */
static const char *argument(const char *p, size_t *ret_len, const char **ret_end)
{
	p += strspn(p, " ");
	if (*p == '\'' || *p == '"') {
		const char *q = strchr(p + 1, *p);

		if (!q)
			return NULL;
		*ret_len = (size_t)(q - p - 1);
		*ret_end = q + 1;
		return p + 1;
	}
	*ret_len = strcspn(p, " ");
	*ret_end = p + *ret_len;
	return p;
}

int sshd_git_parse(const char *command, const char *repo, enum sshd_git *ret)
{
	size_t n = strcspn(command, " "), len;
	const char *path, *rest;

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		if (strlen(words[i].word) != n || memcmp(command, words[i].word, n) != 0)
			continue;
		path = argument(command + n, &len, &rest);
		if (!path)
			return -EINVAL;
		rest += strspn(rest, " ");
		if (words[i].kind == SSHD_GIT_LFS
		            ? strcmp(rest, "download") != 0 && strcmp(rest, "upload") != 0
		            : *rest)
			return -EINVAL;
		*ret = words[i].kind;
		return names(path, len, repo) ? 0 : -ENOENT;
	}
	return -EINVAL;
}
