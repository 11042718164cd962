/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/vm/fakehost.h - requests to the program that starts fake machines (fakehost.c)
 *
 * One SOCK_SEQPACKET socket, descriptor 3 of the program; one request, one reply. When the socket
 * ends the program ends, and every machine with it.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

enum fakehost_op {
	FAKEHOST_SPAWN,  /* dir: its run directory, which must exist. Reply: pid, agent */
	FAKEHOST_KILL,   /* pid. Reply: status, when it is gone */
	FAKEHOST_STATUS, /* pid. Reply: status, or -EAGAIN while it runs */
};

struct fakehost_req {
	enum fakehost_op op;
	pid_t pid;
	char dir[256];
};

struct fakehost_rep {
	int code;         /* 0 or -errno */
	pid_t pid, agent; /* the machine's process, and the agent in it */
	int status;       /* as of waitpid(2) */
};
