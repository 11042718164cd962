/* SPDX-License-Identifier: Apache-2.0 */
/*
 * main.c - pando-ssh: speaks SSH with one client, in a process that holds nothing else
 *
 * Started by pandod with one socket. It reads the host keys from it, puts its walls up and waits
 * for a client there; when that is gone, or pandod says so, it ends. Exit status: 0 the connection
 * ended, 1 anything else.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/log.h"
#include "base/seclude.h"
#include "sshmain/sshmain.h"

static int prepare(struct conn *c, struct err *err)
{
	struct sshw_msg ready = { .kind = SSHW_READY, .version = SSHW_VERSION };
	static struct sshw_msg start;
	int r;

	if (ssh_init() != SSH_OK || !(c->bind = ssh_bind_new()))
		return err_set(err, -ENOMEM, "out of memory");
	seclude_begin();
	link_start(c, &start);
	log_init("pando-ssh", (enum log_level)MIN(start.log_level, (uint32_t)LOG_LV_ERROR));
	if ((r = offer(c->bind, &start, err)) < 0 || (r = walls_close(err)) < 0)
		return r;
	explicit_bzero(c->packet, sizeof(c->packet));
	link_tell(c, &ready);
	link_connect(c);
	return 0;
}

int main(int argc, char **argv)
{
	static struct conn c = { .sock = SSHW_FD, .fd = -1 };
	struct err err = { 0 };

	signal(SIGPIPE, SIG_IGN);
	log_init("pando-ssh", LOG_LV_INFO);
	if (argc > 1) {
		printf("pando-ssh: speaks SSH with one client of Pando's; started by pandod, not "
		       "by hand\n");
		return strcmp(argv[1], "--help") == 0 ? 0 : 1;
	}
	if (prepare(&c, &err) < 0) {
		log_error("%s", err.msg);
		return 1;
	}
	conn_run(&c);
	ssh_bind_free(c.bind);
	ssh_finalize();
	return 0;
}
