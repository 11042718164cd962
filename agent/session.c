/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session.c - end everything a command started
 *
 * The process group goes first; shells with job control put children into
 * groups of their own, so /proc is then walked for members of the session, again
 * until a walk finds none. What called setsid(2) has left on purpose and lives.
 * The leader is our unreaped child, so its number cannot mean anybody else.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/auto.h"

#define KILL_PASSES 8 /* walks; a fork bomb outruns any number, but not SIGKILL to all it had */

static bool is_live_member(const char *pid, pid_t leader)
{
	char path[64], text[512], *p, state;
	autofd int fd = -1;
	ssize_t n;
	int session;

	snprintf(path, sizeof(path), "/proc/%s/stat", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	n = read(fd, text, sizeof(text) - 1);
	if (n <= 0)
		return false;
	text[n] = '\0';
	p = strrchr(text, ')'); /* the name before it may hold anything */
	if (!p || sscanf(p, ") %c %*d %*d %d", &state, &session) != 2)
		return false;
	return session == leader && state != 'Z' && state != 'X';
}

static unsigned kill_members(pid_t leader)
{
	autodir DIR *d = opendir("/proc");
	struct dirent *de;
	unsigned killed = 0;

	while (d && (de = readdir(d))) {
		autofd int fd = -1;

		if (!isdigit((unsigned char)de->d_name[0]) || !is_live_member(de->d_name, leader))
			continue;
		fd = pidfd_open((pid_t)strtol(de->d_name, NULL, 10), 0);
		/* Looked at again: the number may have changed hands before it was held. */
		if (fd < 0 || !is_live_member(de->d_name, leader))
			continue;
		if (pidfd_send_signal(fd, SIGKILL, NULL, 0) == 0)
			killed++;
	}
	return killed;
}

void session_kill(pid_t leader)
{
	if (leader <= 1)
		return;
	kill(-leader, SIGKILL);
	kill(leader, SIGKILL); /* before its setsid(2) it has no group yet */
	for (int i = 0; i < KILL_PASSES && kill_members(leader); i++)
		;
}
