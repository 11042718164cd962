/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ssh/ssh_internal.h - shared by the files of ssh/; not for other modules
 *
 * A connection is one thread, which owns all of its libssh objects. The
 * library is used without callbacks and without blocking: client requests come out of
 * ssh_message_get(), and one loop (conn.c) moves bytes between channels and flows and waits
 * in one poll. So the code runs in the order it is written, and nothing is re-entered.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

/* The library expects callbacks for these; we need to answer later. */
#define SSH_SUPPRESS_DEPRECATED
#include <libssh/callbacks.h>
#include <libssh/libssh.h>
#include <libssh/server.h>

#include "auth/auth.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/lock.h"
#include "base/log.h"
#include "git/git.h"
#include "guest/guest.h"
#include "guest/guest_login.h"
#include "ssh/name.h"
#include "ssh/ssh.h"
#include "vm/vm.h"

#define SSHD_CONNS_MAX 256     /* of the whole server: each is a thread */
#define SSHD_CONNS_ACCOUNT 64  /* of one account */
#define SSHD_STRANGERS_MAX 64  /* connections before login, of the whole server */
#define SSHD_STRANGERS_FROM 24 /* ditto, from one address */
#define SSHD_GRACE_MS 60000    /* from the connection to the login */
#define SSHD_TRIES_MAX 6       /* wrong credentials per connection */
#define SSHD_REFUSE_MS 300     /* every failure is reported this long after the attempt */
#define SSHD_CHANNELS_MAX 64   /* per connection, including those being opened */
#define SSHD_FORWARDS_MAX 16   /* forwarded ports of the guest per connection */
#define SSHD_ENV_MAX 64        /* variables a client may set per session */
#define SSHD_ENV_BYTES 4096    /* of one of them, with name */
#define SSHD_HOST_MAX 254      /* bytes with NUL of a name to connect to */
#define SSHD_ADDRS_MAX 4       /* addresses of a name that are tried */
#define SSHD_CHUNK (32u << 10) /* bytes moved at once */
#define SSHD_HELD_MAX \
	(8u << 20) /* bytes of a client that the guest has not accepted; then reading stops */
#define SSHD_OPEN_MS 30000   /* for a connection from or to the guest to be established */
#define SSHD_LISTEN_MS 10000 /* for the guest to listen on a port */
#define SSHD_LOOK_MS 1000    /* how often permissions, VM and deadlines are checked */
#define SSHD_DEAD_MS                                                                \
	60000 /* after this long without an acknowledgement a client counts as gone \
	       */

#define SSHD_TALKS_ACCOUNT 24     /* fetches and pushes of one account at a time */
#define SSHD_TALK_STALL_MS 300000 /* after this long without progress it is ended */

struct conn;
struct talk;

/*
 * enum chan_state - of one channel
 * @CHAN_NEW: a session without a request yet.
 * @CHAN_RESOLVING: direct: the guest resolves the name; f is that command.
 * @CHAN_DIALING: direct: f is connecting; the client waits for its answer.
 * @CHAN_KNOCKING: reverse: f is connected, the client has been asked to accept it.
 * @CHAN_OPEN: bytes are moved.
 * @CHAN_LAST: the contents of out are sent, then the exit status; the client has been told "yes".
 * @CHAN_OVER: nothing is left to do; freed at the end of the turn.
 */
enum chan_state {
	CHAN_NEW,
	CHAN_RESOLVING,
	CHAN_DIALING,
	CHAN_KNOCKING,
	CHAN_OPEN,
	CHAN_LAST,
	CHAN_OVER
};

struct chan {
	struct conn *c; /* weak */
	enum chan_state state;
	ssh_channel ch;          /* owned; NULL while the client waits for an answer */
	ssh_message asked;       /* owned; direct: to be answered */
	struct guest_flow *f;    /* owned; NULL: none yet */
	struct talk *talk;       /* owned; instead of f: of a repository */
	struct repo_drain drain; /* of its client, */
	size_t given;            /* bytes for it since that was looked at */
	bool push;               /* a talk in which the client gives */
	bool program;            /* f is a login, or it is a talk: it ends with an exit status */
	int status;              /* LAST: the exit status */
	uint64_t deadline;       /* RESOLVING, DIALING, KNOCKING; for a talk: to make progress */

	/* a session before its program starts */
	bool has_pty;
	unsigned cols, rows;
	char *env[SSHD_ENV_MAX + 3]; /* owned */
	size_t n_env;
	struct ssh_channel_callbacks_struct *cb; /* owned; signals are only delivered this way */

	/* where a connection goes, or comes from */
	char host[SSHD_HOST_MAX];
	uint16_t port;
	char addr[SSHD_ADDRS_MAX][GUEST_ADDR_SIZE];
	size_t n_addrs, next_addr;
	struct buf answer;          /* RESOLVING: output of the lookup */
	char from[GUEST_ADDR_SIZE]; /* KNOCKING */
	uint16_t from_port;

	/* bytes in transit */
	struct buf in, out;
	size_t in_off, out_off;
	int out_chan; /* of guest_flow_read(): where out came from */
	bool probed;  /* one byte was sent: see write.c */
	bool in_eof;  /* the client's end of file was passed on */
	bool out_eof; /* ditto the guest's */
};

struct forward {                   /* a port of the guest whose connections go to the client */
	char bound[SSHD_HOST_MAX]; /* as the client named it, for the reply */
	uint16_t port;
	struct guest_flow *listener, *next; /* owned; next: the pending accept */
};

struct conn {
	struct sshd *d;
	struct conn *next;
	int fd; /* owned by the session once it has it */
	struct sockaddr_storage peer;
	char remote[48];
	uint16_t remote_port;
	uint64_t began;
	ssh_session s; /* owned */

	bool in;     /* logged in; d->lock */
	bool leave;  /* to be ended for the reason below */
	bool broken; /* the session can only be freed */
	char why[160];
	char asked_as[SSHD_NAME_MAX + 1]; /* user name of a keyboard-interactive exchange */
	unsigned tries;
	struct sshd_name name;        /* without the secret */
	char secret[SSHD_SECRET_MAX]; /* of a login to a repository: returned to git-lfs */
	unsigned n_talks;             /* d->lock */
	struct auth_who who;          /* d->lock for its account */
	struct auth_lease lease;

	struct guest *g;                       /* ref'd; the machine it is connected to */
	struct chan *chans[SSHD_CHANNELS_MAX]; /* owned */
	size_t n_chans;
	unsigned turn;                               /* whose bytes are moved first */
	struct forward *forwards[SSHD_FORWARDS_MAX]; /* owned */
	size_t n_forwards;
	uint64_t look_at;
	bool moved;     /* bytes moved since the last check */
	size_t held;    /* client bytes waiting in the library */
	uint8_t *chunk; /* owned; SSHD_CHUNK */
};

struct sshd {
	struct sshd_deps deps;
	char data_dir[256];
	char address[64];
	ssh_bind bind; /* owned; keys; lock */
	int listen_fd; /* owned */
	int stop_fd;   /* owned; readable at shutdown: every connection polls it */
	pthread_t door;
	bool door_runs;
	struct mutex lock;
	struct cond left; /* a connection ended */
	struct conn *conns GUARDED_BY(lock);
	unsigned n_conns GUARDED_BY(lock), n_strangers GUARDED_BY(lock);
	bool stopping GUARDED_BY(lock);
	_Atomic unsigned n_channels;
};

#define conn_log(c, lv, ...) log_obj((lv), "ssh", (c)->remote, __VA_ARGS__)

/* hostkey.c: the server's host keys, created if missing. */
int hostkey_load(ssh_bind bind, const char *data_dir, struct err *err);

/* door.c: false when there are too many of that account. */
bool sshd_door_login(struct conn *c);
void sshd_door_leave(struct conn *c); /* frees it */
/* Is there room for another fetch or push of that account? Then it counts. */
bool sshd_door_talk(struct conn *c);
void sshd_door_talk_over(struct conn *c);

/* conn.c */
void *conn_main(void *arg);
/* Bytes are waiting for the client: add no more. */
bool conn_write_waits(const struct conn *c);
void conn_end(struct conn *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* login.c: true once the client is logged in. */
bool login_message(struct conn *c, ssh_message m);
void conn_audit(struct conn *c, const char *route, unsigned status, enum err_code code);

/* session.c: handles one message of a logged-in client; takes it. */
void session_message(struct conn *c, ssh_message m_consume);

const char *signal_name(int number); /* as SSH calls it, or NULL */

/* chan.c */
struct chan *chan_new(struct conn *c);
void chan_free(struct chan *x);
int chan_fd(const struct chan *x); /* of its flow or talk */
/* One turn of everything this channel can do; true: bytes moved. */
bool chan_turn(struct chan *x);
/* A message for the user. */
void chan_say(struct chan *x, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void chan_over(struct chan *x);

/* repo.c: logins to a repository; true: the client's request succeeds */
bool repo_exec(struct chan *x, const char *command);
bool repo_session(struct chan *x); /* a shell, a subsystem: rejected with an error message */
void repo_refuse(struct chan *x);
void repo_look(struct chan *x, bool moved);

/* write.c: bytes accepted; 0 or SSH_AGAIN: none now; other negative values: it accepts no more. */
int chan_write(struct chan *x, bool to_stderr, const void *p, uint32_t n);

/* direct.c: connections of the client into the guest's network */
void direct_open(struct conn *c, ssh_message m_consume);
void direct_turn(struct chan *x); /* RESOLVING, DIALING */

/* forward.c: connections from the guest to the client */
void forward_request(struct conn *c, ssh_message m);
void forward_turn(struct conn *c);
void forward_knock(struct chan *x); /* KNOCKING */
void forward_free(struct forward *w);
