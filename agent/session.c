/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session.c - ends everything a command started
 *
 * The process group is killed first; shells with job control put children into
 * separate groups, so /proc is then searched for members of the session, repeatedly
 * until none is found. A process that called setsid(2) has left on purpose and survives.
 * The leader is our unreaped child, so its number cannot belong to another process.
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

#define KILL_PASSES 8 /* passes; a fork bomb can outrun any number of them */

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
	p = strrchr(text, ')'); /* the name before it may contain anything */
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
		/* Checked again: the pid may have been reused before the pidfd was opened. */
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
