/* SPDX-License-Identifier: Apache-2.0 */
/* signals.c - signals as a descriptor to poll, so that remote work is ended properly */
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "cli/stream.h"

static int depth; /* of signals_open(), which only one thread calls */
static sigset_t before;

int signals_open(void)
{
	sigset_t set;
	int fd;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGWINCH);
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (fd >= 0 && depth++ == 0)
		pthread_sigmask(SIG_BLOCK, &set, &before);
	return fd;
}

int signals_take(int fd)
{
	struct signalfd_siginfo si;

	return read(fd, &si, sizeof(si)) == (ssize_t)sizeof(si) ? (int)si.ssi_signo : 0;
}

void signals_close(int fd)
{
	if (fd < 0)
		return;
	close(fd);
	if (--depth == 0)
		pthread_sigmask(SIG_SETMASK, &before, NULL);
}
