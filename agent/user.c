/* SPDX-License-Identifier: Apache-2.0 */
/*
 * user.c - accounts of the guest, without NSS
 *
 * The agent is linked statically, and a static program must not load NSS
 * modules: /etc/passwd and /etc/group are read here. Malformed lines are
 * skipped, as libc does. Becoming a user cannot be undone: only children do it.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/auto.h"
#include "base/io.h"

#define ACCOUNT_FILE_MAX (4u << 20) /* bytes of /etc/passwd or /etc/group */

/* Splits line at the separators; returns the number of fields, at most max. */
static size_t split(char *line, char sep, char **fields, size_t max)
{
	size_t n = 0;

	while (n < max) {
		fields[n++] = line;
		line = strchr(line, sep);
		if (!line)
			break;
		*line++ = '\0';
	}
	return n;
}

static bool parse_id(const char *s, uint32_t *ret)
{
	unsigned long long v;
	char *end;

	if (*s < '0' || *s > '9')
		return false;
	errno = 0;
	v = strtoull(s, &end, 10);
	if (errno || *end || v >= UINT32_MAX) /* (uid_t)-1 means "no change" to the kernel */
		return false;
	*ret = (uint32_t)v;
	return true;
}

static int find_groups(struct user *u)
{
	autofree char *text = NULL;
	char *save = NULL;
	int r = io_read_file(AT_FDCWD, "/etc/group", ACCOUNT_FILE_MAX, &text, NULL);

	u->n_groups = 0;
	u->groups[u->n_groups++] = u->gid;
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	for (char *l = strtok_r(text, "\n", &save); l; l = strtok_r(NULL, "\n", &save)) {
		char *f[4], *m_save = NULL;
		uint32_t gid;

		if (split(l, ':', f, 4) < 4 || !parse_id(f[2], &gid) || gid == u->gid)
			continue;
		for (char *m = strtok_r(f[3], ",", &m_save); m; m = strtok_r(NULL, ",", &m_save)) {
			if (strcmp(m, u->name) != 0)
				continue;
			if (u->n_groups < USER_GROUPS_MAX)
				u->groups[u->n_groups++] = gid;
			break;
		}
	}
	return 0;
}

static int find(const char *name, uid_t by_uid, struct user *ret)
{
	autofree char *text = NULL;
	char *save = NULL;
	int r = io_read_file(AT_FDCWD, "/etc/passwd", ACCOUNT_FILE_MAX, &text, NULL);

	if (r < 0)
		return r;
	for (char *l = strtok_r(text, "\n", &save); l; l = strtok_r(NULL, "\n", &save)) {
		char *f[7];
		uint32_t uid, gid;

		if (split(l, ':', f, 7) < 7 || !parse_id(f[2], &uid) || !parse_id(f[3], &gid))
			continue;
		if (name ? strcmp(f[0], name) != 0 : uid != by_uid)
			continue;
		if (strlen(f[0]) >= sizeof(ret->name) || strlen(f[5]) >= sizeof(ret->home) ||
		    strlen(f[6]) >= sizeof(ret->shell))
			continue;
		ret->uid = uid;
		ret->gid = gid;
		snprintf(ret->name, sizeof(ret->name), "%s", f[0]);
		snprintf(ret->home, sizeof(ret->home), "%s", f[5][0] ? f[5] : "/");
		snprintf(ret->shell, sizeof(ret->shell), "%s", f[6][0] ? f[6] : "/bin/sh");
		return find_groups(ret);
	}
	return -ENOENT;
}

int user_find(const char *name, struct user *ret)
{
	return find(name, 0, ret);
}

int user_find_uid(uid_t uid, struct user *ret)
{
	return find(NULL, uid, ret);
}

int user_become(const struct user *u)
{
	if (geteuid() != 0 && geteuid() == u->uid)
		return 0; /* not root, and no need to be */
	if (setgroups(u->n_groups, u->groups) < 0 || setresgid(u->gid, u->gid, u->gid) < 0 ||
	    setresuid(u->uid, u->uid, u->uid) < 0)
		return -errno;
	return 0;
}

/* lstat() and a look at the directory, with the rights this process has now. */
static bool finds(const struct user *u, const char *path, struct stat *ret)
{
	autofree char *dir = strdup(path);
	autofd int fd = -1;
	char *slash = dir ? strrchr(dir, '/') : NULL;

	if (!slash || lstat(path, ret) < 0)
		return false;
	if (ret->st_uid == u->uid)
		return true;
	slash[slash == dir] = '\0';
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd >= 0;
}

bool user_finds(const struct user *u, const char *path, struct stat *ret)
{
	gid_t own[USER_GROUPS_MAX];
	int n = getgroups(USER_GROUPS_MAX, own);
	bool yes;

	if (n < 0 || setgroups(u->n_groups, u->groups) < 0)
		return false;
	/* Only what concerns files: nobody can send us a signal meanwhile. */
	setfsgid(u->gid);
	setfsuid(u->uid);
	yes = (uid_t)setfsuid((uid_t)-1) == u->uid && finds(u, path, ret);
	setfsuid(0);
	setfsgid(0);
	return setgroups((size_t)n, own) == 0 && yes;
}
