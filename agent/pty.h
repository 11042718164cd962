/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent/pty.h - terminal sessions; shared by pty*.c alone
 *
 * A session is a program on its own terminal and a struct vt that processes
 * its output. It belongs to the agent: connections come and go, and a thaw or a fork
 * keeps it in memory. A client is one stream that is attached to it.
 */
#pragma once

#include "agent/agent.h"
#include "wire/agent_pty.h"

#define PTY_EXPIRED_MAX 64u        /* ids of expired sessions, for SESSION_EXPIRED */
#define PTY_READ_MAX (16u << 10)   /* bytes of one session per turn, since others wait meanwhile */
#define PTY_READ_MORE 2048u        /* after a read of this size there is probably more */
#define PTY_QUEUE_MAX (128u << 10) /* bytes of output waiting for one client */
#define PTY_PICTURES_MAX \
	(32u << 20) /* bytes waiting for all clients; above that pictures have no history */
#define PTY_PATIENCE_MS 1000       /* how long a client may delay the program and the others */
#define PTY_PATIENCE_ALONE_MS 5000 /* and the program, if it is the only client */
#define PTY_SLOW_MS 10000          /* then it is not waited for during this time */
#define PTY_SETTLE_MS                                                                            \
	200               /* of silence, if other processes hold the tty after the program's end \
	                   */
#define PTY_CLOSE_MS 3000 /* for a killed program to end */

struct pty {
	struct pty *next;
	uint32_t serial;
	char id[AGENT_PTY_ID], user[AGENT_USER_MAX], exec[AGENT_PTY_EXEC];
	uint16_t cols, rows;
	struct vt *vt; /* owned */
	int master;    /* owned; -1: the terminal is gone */
	bool readable;
	pid_t pid; /* 0: reaped */
	int pidfd; /* owned */
	bool exited, closing;
	uint32_t exit_code;
	int64_t created_wall, exited_wall;
	uint64_t exited_at; /* clock_ms(), as are the following */
	uint64_t settle_at; /* once exited: when to close the terminal */
	uint64_t close_by;  /* closing: when to answer the caller */
	unsigned clients;
};

struct pty_client {
	struct pty *p; /* weak */
	uint16_t cols, rows;
	struct buf q; /* pieces to be sent to the host */
	size_t q_off;
	size_t picture_end; /* in q: up to here it is a picture */
	bool behind;        /* output was left out: it gets a picture when q is empty */
	uint64_t full_since, slow_until;
};

/* pty.c */
struct pty *pty_find(struct agent *a, const char *id);
bool pty_over(const struct pty *p); /* ended, and all its output is in the vt */
void pty_fill(const struct pty *p, struct agent_pty *ret);
/* The smallest window of all clients, if there are any. */
void pty_fit(struct agent *a, struct pty *p);
void pty_refuse(struct agent *a, uint32_t id, uint32_t status, uint16_t tag, const char *fmt, ...)
        __attribute__((format(printf, 5, 6)));

/* pty_client.c */
void pty_attach(struct agent *a, uint32_t id, struct pty *p, uint16_t cols, uint16_t rows);
/* Passes output to all attached clients. */
void pty_spread(struct agent *a, struct pty *p, const uint8_t *bytes, size_t n);
/* May the program write more? *ret_when: when to check again if not. */
bool pty_room(const struct agent *a, const struct pty *p, uint64_t now, uint64_t *ret_when);
void pty_client_pump(struct agent *a, struct stream *s);
bool pty_client_idle(const struct agent *a, const struct stream *s);
/* Clients that were slow for too long are no longer waited for. */
void pty_client_tick(struct stream *s, uint64_t now);

/* pty_spawn.c: 0, or -errno with a tag and a message */
struct pty_failure {
	uint16_t tag;
	char msg[AGENT_MSG_MAX];
};
int pty_spawn(struct agent *a, struct pty *p, const struct agent_pty_open *m,
              struct pty_failure *ret);
void pty_set_size(struct pty *p, uint16_t cols, uint16_t rows);
