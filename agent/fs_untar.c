/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fs_untar.c - unpacks a tar stream below a directory, and nowhere else
 *
 * Theory of operation: check the target directory as the user -> make it the root
 * of this process (chroot) -> become the user for good -> unpack. Whatever names and
 * links the archive contains, and whatever links already exist, the kernel resolves
 * them inside. A compressed stream goes through the guest's gzip, which was started
 * before and stays outside.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/auto.h"
#include "base/err.h"

/* The decoder's output; *ret_pid is the decoder. */
static int start_gunzip(const struct job_fds *fds, const struct user *u, pid_t *ret_pid)
{
	static char *const argv[] = { (char *)(uintptr_t) "gzip", (char *)(uintptr_t) "-dc", NULL };
	static char *const env[] = { (char *)(uintptr_t) "PATH=/usr/bin:/bin", NULL };
	int p[2];

	if (pipe2(p, O_CLOEXEC) < 0 || (*ret_pid = fork()) < 0)
		child_fail(fds, errno, AGENT_TAG_SPAWN_FAILED, "start gzip: %s", err_name(errno));
	if (*ret_pid == 0) {
		int null = open("/dev/null", O_WRONLY | O_CLOEXEC); /* its messages are not ours */

		if (user_become(u) < 0 || dup2(fds->in, 0) < 0 || dup2(p[1], 1) < 0 ||
		    dup2(null, 2) < 0)
			_exit(126);
		execve("/usr/bin/gzip", argv, env);
		execve("/bin/gzip", argv, env);
		_exit(127);
	}
	close(p[1]);
	close(fds->in); /* only the decoder uses it: our copy would hide a broken pipe */
	return p[0];
}

static void end_gunzip(const struct job_fds *fds, pid_t pid)
{
	int ws;

	while (waitpid(pid, &ws, 0) < 0)
		if (errno != EINTR)
			child_fail(fds, errno, AGENT_TAG_NONE, "wait for gzip: %s",
			           err_name(errno));
	if (WIFEXITED(ws) && WEXITSTATUS(ws) == 127)
		child_fail(fds, EOPNOTSUPP, AGENT_TAG_SPAWN_FAILED, "this VM has no gzip program");
	if (!WIFEXITED(ws) || WEXITSTATUS(ws) != 0)
		child_fail(fds, EBADMSG, AGENT_TAG_BAD_REQUEST, "the body is not a gzip stream");
}

/* As the user: checks access and that it is a directory. Missing ones are created. */
static int open_target(const struct job_fds *fds, const struct agent_fs_req *r,
                       const struct user *u)
{
	bool swap = geteuid() == 0 && u->uid != 0;
	int e, fd;

	if (swap &&
	    (setgroups(u->n_groups, u->groups) < 0 || setegid(u->gid) < 0 || seteuid(u->uid) < 0))
		child_fail(fds, errno, AGENT_TAG_NONE, "become user '%s': %s", u->name,
		           err_name(errno));
	e = fs_make_parents(r->path, strlen(r->path));
	fd = e ? -1 : open(r->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (!e && (fd < 0 || faccessat(fd, ".", W_OK | X_OK, AT_EACCESS) < 0))
		e = errno;
	if (swap && (seteuid(0) < 0 || setegid(0) < 0))
		e = errno;
	if (e)
		child_fail(fds, e, AGENT_TAG_NONE, "unpack into '%.200s': %s", r->path,
		           err_name(e));
	return fd;
}

static void find_user(const struct job_fds *fds, const char *name, struct user *ret)
{
	int r = *name ? user_find(name, ret) : user_find_uid(geteuid(), ret);

	if (!*name && r < 0) {
		*ret = (struct user){ .name = "root",
			              .home = "/",
			              .uid = geteuid(),
			              .gid = getegid(),
			              .n_groups = 0 };
		return;
	}
	if (r == -ENOENT)
		child_fail(fds, ENOENT, AGENT_TAG_USER_NOT_FOUND,
		           "there is no user '%s' in this VM", name);
	if (r < 0)
		child_fail(fds, -r, AGENT_TAG_NONE, "find user '%s': %s", name, err_name(r));
}

void fs_untar(const struct job_fds *fds, const struct agent_fs_req *r)
{
	static struct user u;
	char msg[AGENT_MSG_MAX] = "", byte;
	pid_t gunzip = 0;
	int dir, in = fds->in, e;

	find_user(fds, r->user, &u);
	if (r->path[0] != '/')
		child_fail(fds, EINVAL, AGENT_TAG_NONE, "the path '%.128s' is not absolute",
		           r->path);
	dir = open_target(fds, r, &u);
	if (r->deep)
		in = start_gunzip(fds, &u, &gunzip);
	if (fchdir(dir) < 0 || chroot(".") < 0 || close(dir) < 0)
		child_fail(fds, errno, AGENT_TAG_NONE, "confine the archive to '%.128s': %s",
		           r->path, err_name(errno));
	e = -user_become(&u);
	if (e)
		child_fail(fds, e, AGENT_TAG_NONE, "become user '%s': %s", u.name, err_name(e));
	e = untar(in, /* owners= */ r->off && geteuid() == 0, msg, sizeof(msg));
	if (gunzip && (e == 0 || e == EBADMSG))
		end_gunzip(fds, gunzip);
	if (e)
		child_fail(fds, e, e == EBADMSG ? AGENT_TAG_BAD_REQUEST : AGENT_TAG_NONE, "%s",
		           msg);
	if (read(fds->commit, &byte, 1) != 1)
		child_fail(fds, ECANCELED, AGENT_TAG_NONE, "the upload was cut off");
	child_finish(fds, 0, AGENT_TAG_NONE, "", NULL, 0);
}
