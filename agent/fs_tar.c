/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fs_tar.c - sends a directory as a tar stream, made by the guest's own tar as the user
 *
 * tar handles hard links, large files and names of any length. The end of its error output goes
 * into the RESULT. A file that changed while it was read (exit code 1) is not a failure, because
 * that is normal in a directory that is in use.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/auto.h"
#include "base/err.h"

#define SAID_MAX 200u /* bytes of tar's error output, the newest */

/* Keeps the end of the input until the writer closes it. */
static void listen_to(int fd, char said[SAID_MAX])
{
	size_t len = 0;
	char p[512];
	ssize_t n;

	while ((n = read(fd, p, sizeof(p))) != 0) {
		size_t keep = (size_t)n;

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			break;
		keep = MIN(keep, SAID_MAX - 1);
		if (len + keep > SAID_MAX - 1) {
			size_t drop = len + keep - (SAID_MAX - 1);

			memmove(said, said + drop, len - drop);
			len -= drop;
		}
		memcpy(said + len, p + (size_t)n - keep, keep);
		len += keep;
	}
	while (len && said[len - 1] == '\n')
		len--;
	said[len] = '\0';
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)said[i] < ' ')
			said[i] = ' ';
}

static void run_tar(const struct job_fds *fds, const struct agent_fs_req *r, int err_fd)
{
	/* A path is absolute, so it cannot be an option. For / only its own file system: not /proc.
	 */
	const char *argv[12] = { "tar", "--create", "--file=-", "--format=posix" };
	size_t n = 4;
	static char *const env[] = { (char *)(uintptr_t) "PATH=/usr/sbin:/usr/bin:/sbin:/bin",
		                     (char *)(uintptr_t) "LANG=C.UTF-8", NULL };

	if (!r->path[strspn(r->path, "/.")])
		argv[n++] = "--one-file-system";
	if (r->deep)
		argv[n++] = "--gzip";
	argv[n++] = "-C";
	argv[n++] = r->path;
	argv[n] = ".";
	if (dup2(fds->out, 1) < 0 || dup2(err_fd, 2) < 0)
		_exit(126);
	execve("/usr/bin/tar", (char *const *)(uintptr_t)argv, env);
	execve("/bin/tar", (char *const *)(uintptr_t)argv, env);
	_exit(127);
}

void fs_tar(const struct job_fds *fds, const struct agent_fs_req *r)
{
	char said[SAID_MAX] = "";
	struct stat st;
	int p[2], ws;
	pid_t pid;

	if (stat(r->path, &st) < 0)
		child_fail(fds, errno, AGENT_TAG_NONE, "pack '%.200s': %s", r->path,
		           err_name(errno));
	if (!S_ISDIR(st.st_mode))
		child_fail(fds, ENOTDIR, AGENT_TAG_NONE, "'%.200s' is not a directory", r->path);
	if (access(r->path, R_OK | X_OK) < 0)
		child_fail(fds, errno, AGENT_TAG_NONE, "pack '%.200s': %s", r->path,
		           err_name(errno));
	if (pipe2(p, O_CLOEXEC) < 0 || (pid = fork()) < 0)
		child_fail(fds, errno, AGENT_TAG_SPAWN_FAILED, "start tar: %s", err_name(errno));
	if (pid == 0)
		run_tar(fds, r, p[1]);
	close(p[1]);
	listen_to(p[0], said);
	while (waitpid(pid, &ws, 0) < 0)
		if (errno != EINTR)
			child_fail(fds, errno, AGENT_TAG_NONE, "wait for tar: %s", err_name(errno));
	if (WIFEXITED(ws) && WEXITSTATUS(ws) == 127)
		child_fail(fds, EOPNOTSUPP, AGENT_TAG_SPAWN_FAILED, "this VM has no tar program");
	if (!WIFEXITED(ws) || WEXITSTATUS(ws) > 1)
		child_fail(fds, EIO, AGENT_TAG_NONE, "pack '%.80s': %s", r->path,
		           *said ? said : "tar was killed");
	child_finish(fds, 0, AGENT_TAG_NONE, "", NULL, 0);
}
