/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sshmain/sshmain.h - shared by the files of pando-ssh, which speaks SSH with one client
 *
 * One thread, which owns all libssh objects. The library is used without callbacks and without
 * blocking: client requests come out of ssh_message_get(), and one loop (conn.c) moves bytes
 * between channels and their streams and waits in one poll. Everything a client may have is asked
 * of pandod (link.c, wire/ssh.h).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* The library expects callbacks for these; we need to answer later. */
#define SSH_SUPPRESS_DEPRECATED
#include <libssh/callbacks.h>
#include <libssh/libssh.h>
#include <libssh/server.h>

#include "base/buf.h"
#include "base/err.h"
#include "wire/ssh.h"

#define HELD_MAX (8u << 20) /* bytes of a client that pandod has not taken; then reading stops */
#define OTHER_TRIES 12      /* logins by methods that there are not */
#define KNOCK_MS 30000      /* for the client to accept a connection from the guest */
#define MEMORY_MB 64        /* of its own */

/*
 * enum chan_state - of one channel
 * @CHAN_NEW: a session without a program yet.
 * @CHAN_DIALING: direct: pandod was asked; the client waits for its answer.
 * @CHAN_DIALED: direct: the stream is there, the client is not told yet.
 * @CHAN_KNOCKING: reverse: the client has been asked to accept it.
 * @CHAN_OPEN: bytes are moved.
 * @CHAN_OVER: nothing is left to do; freed at the end of the turn.
 */
enum chan_state { CHAN_NEW, CHAN_DIALING, CHAN_DIALED, CHAN_KNOCKING, CHAN_OPEN, CHAN_OVER };

struct conn;

struct chan {
	struct conn *c; /* weak */
	uint32_t id;
	enum chan_state state;
	ssh_channel ch;    /* owned; NULL while the client waits for an answer */
	ssh_message asked; /* owned; direct: to be answered */
	int sock;          /* owned; our end of its stream; -1: none */
	bool program, has_pty;
	uint64_t deadline;                       /* KNOCKING */
	struct ssh_channel_callbacks_struct *cb; /* owned; signals are only delivered this way */
	char host[SSHW_HOST_SIZE], from[SSHW_ADDR_SIZE]; /* KNOCKING */
	uint16_t port, from_port;

	/* bytes in transit */
	struct buf in;  /* a frame for pandod */
	struct buf out; /* for the client */
	size_t out_off;
	bool out_err; /* out is of stderr */
	bool probed;  /* one byte was sent: see write.c */
	bool in_eof, out_eof;
};

struct conn {
	int sock; /* to pandod */
	int fd;   /* owned by the session once it has it */
	ssh_bind bind;
	ssh_session s;
	struct ssh_counter_struct seen; /* packets of the client */
	bool leave;                     /* to be ended for the reason below */
	bool broken;                    /* the session can only be freed */
	bool over;                      /* pandod is told nothing more */
	char why[SSHW_TEXT_SIZE];
	char asked_as[SSHW_USER_SIZE]; /* user name of a keyboard-interactive exchange */
	unsigned tries;
	uint32_t next_id;
	struct chan *chans[SSHW_CHANNELS_MAX]; /* owned */
	size_t n_chans;
	unsigned turn; /* whose bytes are moved first */
	size_t held;   /* client bytes waiting in the library */
	uint8_t chunk[SSHW_FRAME_MAX];
	uint8_t packet[SSHW_MSG_MAX];
};

/* offer.c: algorithms, host keys. */
int offer(ssh_bind bind, const struct sshw_msg *start, struct err *err);

/* walls.c: no call but those of this program from here on. */
int walls_close(struct err *err);

/* link.c: START, then CONNECT, whose descriptor is c->fd. Whatever goes wrong with pandod ends us.
 */
void link_start(struct conn *c, struct sshw_msg *ret);
void link_connect(struct conn *c);
void link_tell(struct conn *c, const struct sshw_msg *m);
/* Waits for the answer; false: no, or the connection is to be ended. */
bool link_ask(struct conn *c, const struct sshw_msg *m, uint16_t *ret_port, int *ret_fd);
/* Takes what is there: LEAVE, DIALED, KNOCK. */
void link_hear(struct conn *c);

/* conn.c */
void conn_run(struct conn *c);
/* Bytes are waiting for the client: add no more. */
bool conn_write_waits(const struct conn *c);
void conn_end(struct conn *c, const char *why);

/* login.c: true once the client is logged in. */
bool login_message(struct conn *c, ssh_message m);

/* session.c: handles one message of a logged-in client; takes it. */
void session_message(struct conn *c, ssh_message m_consume);

/* chan.c */
struct chan *chan_new(struct conn *c, uint32_t id);
struct chan *chan_find(struct conn *c, uint32_t id);
void chan_free(struct chan *x);
bool chan_turn(struct chan *x);
void chan_over(struct chan *x);
short chan_events(const struct chan *x); /* what is waited for on its stream; 0: nothing */
/* A message for the user. */
void chan_say(struct chan *x, const char *text);

/* forward.c: connections into the guest and from it */
void direct_open(struct conn *c, ssh_message m_consume);
void direct_dialed(struct conn *c, uint32_t id, int fd_consume);
void direct_turn(struct chan *x);
void forward_request(struct conn *c, ssh_message m);
void forward_knock(struct conn *c, const struct sshw_msg *m, int fd_consume);
void forward_turn(struct chan *x);

/* write.c: bytes accepted; 0 or SSH_AGAIN: none now; other negative values: it accepts no more. */
int chan_write(struct chan *x, bool to_stderr, const void *p, uint32_t n);
