/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ssh/ssh_internal.h - shared by the files of ssh/; not for other modules
 *
 * The SSH protocol itself is spoken by a process per connection, pando-ssh (sshmain/), which is
 * taken to be its client's. Here is what it asks for. A connection is one thread: it takes the
 * process's messages one by one (wire/ssh.h), moves bytes between streams and flows, and waits in
 * one poll (conn.c). So the code runs in the order it is written, and nothing is re-entered.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "auth/auth.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/proc.h"
#include "git/git.h"
#include "guest/guest.h"
#include "guest/guest_login.h"
#include "peer/peer.h"
#include "ssh/name.h"
#include "ssh/ssh.h"
#include "vm/vm.h"
#include "wire/ssh.h"

#define SSHD_CONNS_MAX 256     /* of the whole server: each is a thread */
#define SSHD_CONNS_ACCOUNT 64  /* of one account */
#define SSHD_STRANGERS_MAX 64  /* connections before login, of the whole server */
#define SSHD_STRANGERS_FROM 24 /* ditto, from one address */
#define SSHD_GRACE_MS 60000    /* from the connection to the login */
#define SSHD_TRIES_MAX 6       /* wrong credentials per connection */
#define SSHD_REFUSE_MS 300     /* every failure is reported this long after the attempt */
#define SSHD_CHANNELS_MAX SSHW_CHANNELS_MAX
#define SSHD_FORWARDS_MAX 16         /* forwarded ports of the guest per connection */
#define SSHD_ENV_MAX 64              /* variables a client may set per session */
#define SSHD_ENV_BYTES 4096          /* of one of them, with name */
#define SSHD_HOST_MAX SSHW_HOST_SIZE /* bytes with NUL of a name to connect to */
#define SSHD_ADDRS_MAX 4             /* addresses of a name that are tried */
#define SSHD_CHUNK SSHW_CHUNK        /* bytes moved at once */
#define SSHD_OPEN_MS 30000           /* for a connection from or to the guest to be established */
#define SSHD_LISTEN_MS 10000         /* for the guest to listen on a port */
#define SSHD_LOOK_MS 1000            /* how often permissions, VM and deadlines are checked */
#define SSHD_DEAD_MS                                                                \
	60000 /* after this long without an acknowledgement a client counts as gone \
	       */

#define SSHD_TALKS_ACCOUNT 24     /* fetches and pushes of one account at a time */
#define SSHD_TALK_STALL_MS 300000 /* after this long without progress it is ended */

#define SSHD_STUCK_MS 5000      /* for a process to read what it was sent */
#define SSHD_ASKS_WINDOW_MS 100 /* a process may ask this many things in that time; */
#define SSHD_ASKS_MAX 200       /* then it waits for the next window */
#define SSHD_LINES_MAX 20       /* of a process's log, per connection */
#define SSHD_NOFILE 128         /* descriptors of a process: a stream per channel, and its own */
#define SSHD_KEYS 2             /* host keys */

struct conn;
struct talk;

/* One pando-ssh, before and while it has a client. */
struct speaker {
	struct proc proc;
	int sock, errs; /* owned; -1: none */
	bool ready;     /* it said so */
};
#define SPEAKER_NONE ((struct speaker){ .proc = PROC_NONE, .sock = -1, .errs = -1 })

/*
 * enum chan_state - of one channel
 * @CHAN_NEW: a session without a program yet.
 * @CHAN_RESOLVING: direct: the guest resolves the name; f is that command.
 * @CHAN_DIALING: direct: f is connecting; the client waits for its answer.
 * @CHAN_OPEN: bytes are moved.
 * @CHAN_LAST: the frame in out is sent, then the one in end.
 * @CHAN_OVER: nothing is left to do; freed at the end of the turn.
 */
enum chan_state { CHAN_NEW, CHAN_RESOLVING, CHAN_DIALING, CHAN_OPEN, CHAN_LAST, CHAN_OVER };

struct chan {
	struct conn *c; /* weak */
	uint32_t id;
	enum chan_state state;
	int sock;                /* owned; our end of its stream; -1: none yet */
	struct guest_flow *f;    /* owned; NULL: none yet */
	struct talk *talk;       /* owned; instead of f: of a repository */
	struct repo_drain drain; /* of its client, */
	size_t given;            /* bytes for it since that was looked at */
	bool push;               /* a talk in which the client gives */
	bool program;            /* f is a login, or it is a talk: it ends with an exit status */
	uint64_t deadline;       /* RESOLVING, DIALING; for a talk: to make progress; once the
	                            client has closed a connection: to pass on the rest */

	/* a session before its program starts */
	bool has_pty;
	unsigned cols, rows;
	char *env[SSHD_ENV_MAX + 3]; /* owned */
	size_t n_env;

	/* where a connection goes */
	char host[SSHD_HOST_MAX];
	uint16_t port;
	char addr[SSHD_ADDRS_MAX][GUEST_ADDR_SIZE];
	size_t n_addrs, next_addr;
	struct buf answer; /* RESOLVING: output of the lookup */

	/* bytes in transit */
	struct buf in;  /* of the client, for the guest */
	struct buf out; /* a frame for the client, */
	struct buf end; /* the last frame */
	size_t in_off;
	bool in_eof;  /* the client's end of file was passed on */
	bool out_eof; /* ditto the guest's */
	bool closed;  /* by the client; what it sent before may still be waiting */
};

struct forward {                   /* a port of the guest whose connections go to the client */
	char bound[SSHD_HOST_MAX]; /* as the client named it, for the reply */
	uint16_t port;
	struct guest_flow *listener, *next; /* owned; next: the pending accept */
};

struct conn {
	struct sshd *d;
	struct conn *next;
	int fd; /* owned; the client's socket, which the process has as well; -1: of another node */
	struct peer *other;    /* owned; to the node that serves it; NULL: this one does */
	char unreachable[160]; /* why there is none */
	struct sockaddr_storage peer;
	char remote[48];
	uint16_t remote_port;
	uint64_t began;
	struct speaker speaker;
	uint8_t *packet; /* owned; SSHW_MSG_MAX */
	size_t packet_len;
	uint64_t asks_since;
	unsigned asks, lines;
	char line[256]; /* of the process's log */
	size_t line_len;

	bool in;    /* logged in; d->lock */
	bool leave; /* to be ended for the reason below */
	bool gone;  /* the process has ended, or is to be killed */
	char why[160];
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
	uint32_t next_knock;
	uint64_t look_at;
	bool moved;     /* bytes moved since the last check */
	uint8_t *chunk; /* owned; SSHW_FRAME_MAX */
};

struct sshd {
	struct sshd_deps deps;
	char data_dir[256];
	struct store *store; /* weak; or NULL */
	char address[64];
	char *keys[SSHD_KEYS]; /* owned; private keys, as text */
	int listen_fd;         /* owned */
	int stop_fd;           /* owned; readable at shutdown: every connection polls it */
	pthread_t door;
	bool door_runs;
	struct mutex lock;
	struct cond left; /* a connection ended */
	struct conn *conns GUARDED_BY(lock);
	unsigned n_conns GUARDED_BY(lock), n_strangers GUARDED_BY(lock);
	bool stopping GUARDED_BY(lock);
	struct speaker spare GUARDED_BY(lock); /* started, waits for a client */
	bool preparing GUARDED_BY(lock);       /* the next one is being started */
	unsigned ended_badly GUARDED_BY(lock);
	_Atomic unsigned n_channels;
};

#define conn_log(c, lv, ...) log_obj((lv), "ssh", (c)->remote, __VA_ARGS__)

/* hostkey.c: the server's host keys, created if missing. */
int hostkey_load(struct sshd *d, struct err *err);
void hostkey_free(struct sshd *d);

/* door.c: false when there are too many of that account. */
bool sshd_door_login(struct conn *c);
void sshd_door_leave(struct conn *c); /* frees it */
/* A client of another node, which speaks at the other end of that socket; takes that in any case.
 * It is served from sshd_door_run() on, which takes c in any case. */
int sshd_door_of_node(struct sshd *d, const struct sockaddr_storage *from, socklen_t len,
                      int sock_consume, struct conn **ret, struct err *err);
int sshd_door_run(struct conn *c, struct err *err);
/* Is there room for another fetch or push of that account? Then it counts. */
bool sshd_door_talk(struct conn *c);
void sshd_door_talk_over(struct conn *c);

/* spawn.c: the processes. Takes the spare one, or starts one. */
int speaker_take(struct sshd *d, struct speaker *ret, struct err *err);
/* Starts a spare one if there is none. */
void speaker_prepare(struct sshd *d);
/* Ends it: within ms by itself, else it is killed. How it ended, for the log; "": well. */
void speaker_end(struct speaker *p, unsigned ms, char how[64]);
/* The first one, at the start: until it is ready. */
int speaker_try(struct sshd *d, struct err *err);

/* link.c: its messages. 1: *ret is one; 0: none now; c->gone: it has ended, or must be. */
int link_hear(struct conn *c, struct sshw_msg *ret);
void link_send(struct conn *c, const struct sshw_msg *m, int fd);
void link_answer(struct conn *c, bool ok, uint16_t port, int fd);
/* It did what it must not: it is killed. */
void link_broken(struct conn *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* May it ask now? Else in so many ms. */
bool link_may_ask(struct conn *c, int *ret_ms);
void link_take_lines(struct conn *c);
void link_end(struct conn *c);

/* conn.c */
void *conn_main(void *arg);
void conn_turn(struct conn *c);
void conn_end(struct conn *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* login.c: true once the client is logged in. */
bool login_message(struct conn *c, const struct sshw_msg *m);
void conn_audit(struct conn *c, const char *route, unsigned status, enum err_code code);

/* other.c: does another node have what the client, whose login is the last message, asked for, and
 * take it? c->unreachable: it has it, but cannot be asked. */
bool other_has(struct conn *c);
void other_serve(struct conn *c);
/* For peers_serve(): a client of another node. */
void other_come(void *ctx, struct peer *p);

/* session.c: handles one message of a logged-in client. */
void session_message(struct conn *c, const struct sshw_msg *m);
const char *signal_name(int number); /* as SSH calls it, or NULL */

/* chan.c */
struct chan *chan_new(struct conn *c, uint32_t id);
struct chan *chan_find(struct conn *c, uint32_t id);
void chan_free(struct chan *x);
/* Makes its stream; the other end, which the caller passes on and closes, or -errno. */
int chan_stream(struct chan *x);
int chan_fd(const struct chan *x);       /* of its flow or talk */
short chan_events(const struct chan *x); /* what is waited for on its stream; 0: nothing */
void chan_hung_up(struct chan *x);       /* its stream was closed at the other end */
/* One turn of everything this channel can do; true: bytes moved. */
bool chan_turn(struct chan *x);
/* The channel's only output, and its end. */
void chan_last(struct chan *x, enum sshw_frame_kind to, uint8_t status, const char *text);
void chan_over(struct chan *x);

/* repo.c: logins to a repository; true: the client's request succeeds */
bool repo_exec(struct chan *x, const char *command);
bool repo_session(struct chan *x); /* a shell, a subsystem: rejected with an error message */
void repo_refuse(struct chan *x);
void repo_look(struct chan *x, bool moved);

/* direct.c: connections of the client into the guest's network */
void direct_open(struct conn *c, const struct sshw_msg *m);
void direct_turn(struct chan *x); /* RESOLVING, DIALING */

/* forward.c: connections from the guest to the client */
void forward_request(struct conn *c, const struct sshw_msg *m);
void forward_turn(struct conn *c);
void forward_free(struct forward *w);
