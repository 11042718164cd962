/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent/agent.h - shared by the files of the agent; not for other modules
 *
 * One thread, one epoll, everything nonblocking. The port carries frames; a
 * stream is one request of the host. Work that may block or must run as another user happens in a
 * forked child, whose pipes the agent connects to the stream's channels. Memory is bounded: input
 * from the host by the windows we granted, output by TX_HIGH, since a pipe is only read when there
 * is room.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "agent/self.h"
#include "base/buf.h"
#include "wire/agent.h"

#define SLOTS_MAX 1024u       /* streams, including remains of ended ones */
#define TX_HIGH (128u << 10)  /* bytes queued: no more output is read from pipes */
#define TX_STOP (1u << 20)    /* bytes queued: no more requests are read from the port */
#define CHUNK_MAX (32u << 10) /* bytes of one DATA frame we send: fairness between streams */
#define GRACE_IDLE_MS 100     /* after the shell's end: silence that ends an open pipe */
#define GRACE_TOTAL_MS                                                                             \
	1000                 /* after the shell's end, since a background child may write for ever \
	                      */
#define HELPER_ABORT_MS 2000 /* for fs.write's helper to remove its temporary file */
#define AGENT_PTY_RETAIN_MS 60000
#define HOOKS_MS 5000                 /* for all of identity.d together */
#define GRANT_STEP (AGENT_WINDOW / 4) /* consumed bytes worth a CREDIT frame */

struct agent;

/* The target of an epoll event: a stale one resolves to nothing. */
enum ref_kind {
	REF_PORT,
	REF_PROC,
	REF_IN,
	REF_OUT,
	REF_ERR,
	REF_RESULT,
	REF_LISTEN,
	REF_CODE_PROC,
	REF_CODE_CTL,
	REF_CODE_OUT,
	REF_CODE_ERR,
	REF_CODE_ZYGOTE,
	REF_SELF = 62,  /* a connection to self.sock, by its number, or the socket itself */
	REF_READY = 63, /* there is only one, so it has no index */
	REF_PTY = 64,   /* these two refer to a terminal session, not to a stream */
	REF_PTY_PROC
};

struct out_chan {        /* guest to host */
	int fd;          /* owned; -1: ended or never opened */
	bool readable;   /* as last seen: cleared by EAGAIN */
	bool hup;        /* the other side is closed: only what is in the pipe is left */
	uint32_t credit; /* bytes the host accepts now */
	size_t owed;     /* bytes that were in the pipe when the process ended */
};

struct in_chan {       /* host to guest */
	int fd;        /* owned; -1: ended or never opened */
	bool writable; /* as last seen: cleared by EAGAIN */
	bool eof;      /* the host sent EOF: close when q is empty */
	bool broken;   /* the reader is gone: drop input */
	bool fed;      /* bytes came */
	struct buf q;  /* waiting; at most AGENT_WINDOW */
	size_t q_off;
	uint32_t window; /* bytes the host may still send */
	uint32_t unsaid; /* consumed, not yet granted again */
};

struct stream {
	uint32_t id; /* of the host; 0: orphan, output is dropped without a report */
	uint32_t slot, gen;
	uint16_t op;
	struct in_chan in;
	struct out_chan out[AGENT_CHANS]; /* [1], [2] */

	pid_t pid;     /* 0: no process, or reaped */
	int pidfd;     /* owned */
	int result_fd; /* owned; the child's encoded RESULT, if it wrote one */
	int commit_fd; /* owned; fs.write: a byte here makes the file final */
	bool exited, timed_out;
	int wstatus;
	uint64_t timeout_at;         /* clock_ms(); 0: never */
	uint64_t kill_at;            /* ditto: for a helper that was asked to stop */
	uint64_t idle_at, grace_end; /* ditto, once exited */

	struct term *term; /* counted; the terminal that keeps its output, or NULL */
	uint16_t port;     /* connect, dial */
	bool connecting, try_v6;
	bool dial_v6; /* dial: it is an IPv6 address */
	uint8_t dial_addr[16];
	bool tty;         /* login: on a terminal, whose master is in.fd and out[1].fd */
	int listen_fd[2]; /* owned; listen: 127.0.0.1 and ::1, -1: none */

	struct proc *proc; /* weak; proc.run, proc.start: the entry in the list of processes */
	uint32_t target;   /* proc.output: number of the process; accept: stream of the listen */
	uint8_t chans;     /* ditto: bit per requested channel */
	bool follow;       /* ditto */
	uint64_t at[AGENT_CHANS]; /* ditto: next offset to send */

	struct pty_client *pty; /* owned; pty.open, pty.attach */
	uint32_t pty_serial;    /* pty.close: the session to end */

	uint64_t self_number; /* self.take: of the connection */
	enum self_kind self_kind;
};

/* A bounded file with the newest bytes; offsets count all bytes ever written. */
struct ring {
	int fd; /* owned; -1: none */
	uint64_t first, end;
};

/* A process with a number: attached (proc.run) while it runs, detached until it is forgotten. */
struct proc {
	struct proc *next;
	uint32_t id;
	pid_t pid;
	struct stream *s; /* weak; while its pipes or the process exist, else NULL */
	bool attached, exited, timed_out;
	bool settled; /* it has ended, and all its output is in the rings */
	int in_fd;    /* owned; detached: its stdin, -1 when closed */
	int wstatus;
	int64_t started_ns; /* wall clock */
	uint64_t started_ms, ended_ms;
	struct ring ring[AGENT_CHANS]; /* detached: [1], [2] */
	char user[AGENT_USER_MAX];
	char command[AGENT_PROC_COMMAND];
	bool command_cut;
};

/* The shell preloaded for the next command. */
struct ready {
	pid_t pid;            /* 0: none */
	int fd;               /* owned; -1: none */
	int spent;            /* owned: the socket of the previous one, closed later; -1 */
	int out, err, result; /* owned: our ends of its pipes; -1: none */
	bool waits;           /* loaded */
	uint64_t spawn_at;    /* clock_ms(); 0: not planned */
	const char *lib;      /* NULL: no preloaded shells */
	struct timespec shell_ctime;
};

struct agent {
	int ep;            /* owned */
	int port;          /* owned */
	bool port_is_sock; /* tests: the end of file ends the agent */
	bool quit;
	bool readable, writable;
	bool awaits_room; /* the port was full: we are notified when it is not */
	struct agent_rx rx;
	struct buf tx;
	size_t tx_off;

	bool greeted; /* HELLO was answered without an error: requests are served */
	bool has_nonce;
	uint8_t nonce[AGENT_NONCE_LEN];
	struct buf ack; /* payload of our last HELLO_ACK, for retransmissions */
	bool has_generation;
	uint64_t generation;
	int urandom_fd, machine_id_fd, generation_fd; /* owned; see identity_open.c */
	char boot_id[40];

	struct buf open;  /* request that spans several OPEN frames */
	uint32_t open_id; /* 0: none */

	struct stream *slot[SLOTS_MAX]; /* owned; dense: [0, n_streams) */
	unsigned n_streams;
	uint32_t next_gen;
	struct proc *procs; /* owned list, oldest first */
	uint32_t next_proc;
	unsigned turn; /* round robin: the stream that is served first next time */

	struct pty *ptys; /* owned list, oldest first; see pty.h */
	uint32_t next_pty;
	unsigned pty_retain_ms; /* how long an ended session is kept */
	char machine_id[33]; /* of the last greeting: a different one means that this is a copy */

	struct code_ctx *code; /* owned list, oldest first; see code.h */
	uint32_t next_code, next_kernel;
	struct zygote *zygote; /* owned; NULL: none */
	uint64_t spare_at;     /* clock_ms(): when to start a spare kernel; see code_spare.c */
	int fan_fd;            /* owned; see code_files.c */
	uint64_t fan_off_at;   /* clock_ms(): when the watch ends; 0: a cell is running, or there is
	                          no watch */
	uint64_t oom_kills;    /* of the machine, at the last check */
	const char *kernels;   /* directory of the kernels; NULL: the default */

	struct term *terms[AGENT_TERMS_MAX]; /* owned */
	const char *test_root;               /* NULL: the real machine. Else see --help */
	uint64_t nofile_soft, nofile_hard;   /* limits to restore in children */
	struct ready ready;
	struct self self;
	bool reset_oom; /* the agent is protected from the OOM killer, its children are not */
};

/* port.c */
#define HUNTED (BIT(AGENT_F_HELLO) | BIT(AGENT_F_DATA)) /* DATA: WHO, which precedes HELLO */
int port_open(struct agent *a, const char *path);
int port_attach(struct agent *a, int fd_consume);
void port_on_event(struct agent *a, uint32_t events);
bool port_receive(struct agent *a); /* true: there may be more */
void port_flush(struct agent *a);
void port_send(struct agent *a, uint16_t type, uint16_t flags, uint32_t stream, const void *p,
               size_t n);
size_t port_queued(const struct agent *a);
void port_drop_queue(struct agent *a);

/* hello.c */
void hello_ready(struct agent *a, uint8_t why);
bool hello_receive(struct agent *a, const struct agent_frame *f); /* false: not a HELLO */

/* identity.c: all steps in order; the first failure ends it. */
void identity_apply(struct agent *a, const struct agent_hello *h, const struct agent_who *who,
                    struct agent_hello_ack *ack);
int identity_clock(struct agent *a, uint64_t wall_ns);
/* The generation outlives the agent, but not a boot: it is kept in /run. Logs if there is none.
 */
void identity_remember(struct agent *a);
/* identity_open.c: opens the files that the steps write to, and reads the saved generation, if any.
 */
void identity_open(struct agent *a);
void identity_close(struct agent *a);
/* test_root/steps: one line per step that was not applied to this machine. */
int identity_record(struct agent *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* identity_hooks.c; who: NULL if the host did not say */
int hooks_run(const char *dir, uint8_t reason, uint64_t generation, const struct agent_who *who);
/* The same for hooks of the user, beside everything else: nobody waits for them. */
void hooks_launch(struct agent *a, const char *dir, const struct agent_who *who);

/* stream.c */
struct stream *stream_new(struct agent *a, uint32_t id, uint16_t op);
void stream_free(struct agent *a, struct stream *s);
struct stream *stream_find(struct agent *a, uint32_t id);
struct stream *stream_resolve(struct agent *a, uint64_t ref, enum ref_kind *ret_kind);
int stream_poll(struct agent *a, struct stream *s, int fd, enum ref_kind kind, uint32_t events);
void stream_on_frame(struct agent *a, const struct agent_frame *f);
void stream_close_in(struct stream *s);
void stream_close_out(struct stream *s, int chan);
/* Sends RESULT on the stream; afterwards it is an orphan. status: positive errno or 0. */
void stream_result(struct agent *a, struct stream *s, uint32_t status, uint16_t tag,
                   const char *msg, const void *body, size_t body_len);
/* RESULT for a request that never became a stream. */
void stream_answer(struct agent *a, uint32_t id, uint32_t status, uint16_t tag, const char *msg);
void stream_answer_body(struct agent *a, uint32_t id, const void *body, size_t n);
/* The connection ended: all streams lose their listener. */
void stream_orphan_all(struct agent *a);
/* request.c */
void request_begin(struct agent *a, uint32_t id, const uint8_t *p, size_t n);

/* pump.c */
void pump_run(struct agent *a);
bool pump_idle(const struct agent *a); /* nothing to do before the next event */
void pump_in(struct agent *a, struct stream *s);

/* job.c: a child process and its pipes */
struct job_fds {
	int in, out, err, result, commit; /* of the child; -1: none */
};
enum job_pipes { JOB_IN = 1, JOB_OUT = 2, JOB_ERR = 4, JOB_COMMIT = 8 };
/* Both ends of a terminal instead of the first three pipes. The caller keeps ownership. */
struct job_tty {
	int master, slave;
};
/* In a child of the agent: starts a session, puts the descriptors in their places, closes
 * everything else. */
void child_setup(struct agent *a, struct job_fds *fds);
/* Both ends of each pipe, for in, out, err, result (always) and commit; -1: not requested. The
 * caller closes them even after an error. */
int job_pipes(unsigned pipes, const struct job_tty *tty, int p[5][2]);
/* 1 in the child, with its descriptors in *ret_fds; 0 in the agent; -errno: nothing was started. */
int job_fork(struct agent *a, struct stream *s, unsigned pipes, struct job_fds *ret_fds);
int job_fork_on(struct agent *a, struct stream *s, unsigned pipes, const struct job_tty *tty,
                struct job_fds *ret_fds);
/* The same with the preloaded shell, which gets the request unchanged; <0: none is ready. */
int job_hand_over(struct agent *a, struct stream *s, unsigned pipes, const void *req, size_t n);
void job_on_exit(struct agent *a, struct stream *s);
void job_cancel(struct agent *a, struct stream *s);
void job_orphan(struct agent *a, struct stream *s);
/* Handles timers and the end: the only place where a stream is freed. */
void job_tick(struct agent *a, struct stream *s, uint64_t now);
uint64_t job_next_timer(const struct stream *s);
/* child.c. In the child: reports the result and ends the process. err_no: positive or 0. */
void child_finish(const struct job_fds *fds, int err_no, uint16_t tag, const char *msg,
                  const void *body, size_t n) __attribute__((noreturn));
void child_fail(const struct job_fds *fds, int err_no, uint16_t tag, const char *fmt, ...)
        __attribute__((noreturn, format(printf, 4, 5)));
struct user;
/* In the child: becomes the user or ends the process; "": no change. */
void child_become(const struct job_fds *fds, const char *name, struct user *ret);

/* user.c */
#define USER_GROUPS_MAX 1024u /* groups of one account that are honoured */
struct user {
	uid_t uid;
	gid_t gid;
	char name[AGENT_USER_MAX], home[AGENT_PATH_MAX], shell[AGENT_PATH_MAX];
	gid_t groups[USER_GROUPS_MAX];
	size_t n_groups;
};
int user_find(const char *name, struct user *ret); /* 0, -ENOENT, ... */
int user_find_uid(uid_t uid, struct user *ret);
int user_become(const struct user *u);
/*
 * Whether that user can find the file: reach it, and read its directory or own it. As root, and
 * with one thread.
 */
struct stat;
bool user_finds(const struct user *u, const char *path, struct stat *ret);

/* The PATH for a user's commands. */
#define BASE_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

/* login.c, listen.c */
void login_begin(struct agent *a, uint32_t id, struct rd *c);
/* True if the stream is a login on a terminal: its window size is set. */
bool login_resize(struct stream *s, uint16_t cols, uint16_t rows);
void listen_begin(struct agent *a, uint32_t id, struct rd *c);
void accept_begin(struct agent *a, uint32_t id, struct rd *c);
/* Matches new connections with waiting accepts. */
void listen_serve(struct agent *a, struct stream *s);
void listen_end(struct agent *a, struct stream *s); /* its accepts end too */

/* node.c: the directory of nvm's default Node.js, or "" */
#define NODE_DIR_MAX 320u
void node_find(char ret[NODE_DIR_MAX]);

/* environ.c: variables of the whole VM */
void environ_load(const struct agent *a); /* from their file, at start */
void environ_begin(struct agent *a, uint32_t id, struct rd *c);
void environ_site(struct agent *a, uint32_t id, struct rd *c);
/* The first max of them, weak; how many. */
unsigned environ_list(const char **ret, unsigned max);
void environ_put(void); /* in a child: into its environment */
/* In front of the request's own; false: there are none. */
bool environ_merge(struct agent_exec_req *r);

/* exec_child.c, in the child: the account and its Node.js; then the rest, up to the start of the
 * shell */
#define EXEC_SHELL "/bin/sh"
/* Variables for programs that do not look where the system keeps its authorities. */
#define TRUST_ENV                                                        \
	"NODE_EXTRA_CA_CERTS=/etc/pando/ca.pem",                         \
	        "REQUESTS_CA_BUNDLE=/etc/ssl/certs/ca-certificates.crt", \
	        "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt"
#define TRUST_ENV_N 3
struct exec_image {
	char *argv[4];
	char *env[6 + TRUST_ENV_N + AGENT_ENV_MAX + 1];
	size_t n_env;
};
struct exec_account {
	struct user user;
	char node[NODE_DIR_MAX];
};
void exec_account(const struct job_fds *fds, const char *name, struct exec_account *ret);
void exec_prepare(const struct job_fds *fds, const struct agent_exec_req *r,
                  const struct exec_account *who, struct exec_image *ret);

/* ready.c */
bool ready_fits(const struct agent *a, const struct agent_exec_req *r, size_t n);
/* 0, the shell's pid and our ends of its pipes, or -errno: the caller starts one itself.
 * in: -1: none. */
int ready_give(struct agent *a, int in, const void *req, size_t n, pid_t *ret, int ret_ends[3]);
void ready_on_event(struct agent *a); /* it is loaded, or gone */
/* trust.c: a certificate authority */
void trust_begin(struct agent *a, uint32_t id, struct rd *c);

/* Before a freeze: answered when a shell is waiting, or soon. */
void ready_settle(struct agent *a, uint32_t id);
void ready_plan(struct agent *a,
                unsigned ms); /* plans the next one, not sooner than that from now */
void ready_tick(struct agent *a, uint64_t now);
uint64_t ready_next_timer(const struct agent *a);
void ready_close(struct agent *a);

/* exec.c, connect.c, power.c; op: exec, proc.run or proc.start */
void exec_begin(struct agent *a, uint32_t id, uint16_t op, struct rd *c);
void connect_begin(struct agent *a, uint32_t id, struct rd *c);
void dial_begin(struct agent *a, uint32_t id, struct rd *c);
/* in.fd is a connected socket: sends OPENED with these bytes and polls both directions. */
void connect_established(struct agent *a, struct stream *s, const void *opened, size_t n);
void connect_on_writable(struct agent *a, struct stream *s);
void power_off(struct agent *a);

/* proc.c: processes with a number */
static inline bool is_command(const struct stream *s)
{
	return s->op == AGENT_OP_EXEC || s->op == AGENT_OP_PROC_RUN ||
	       s->op == AGENT_OP_PROC_START || s->op == AGENT_OP_LOGIN;
}
/* Both directions are a connection. */
static inline bool is_socket(const struct stream *s)
{
	return s->op == AGENT_OP_CONNECT || s->op == AGENT_OP_DIAL || s->op == AGENT_OP_ACCEPT ||
	       s->op == AGENT_OP_SELF_TAKE;
}
/* Output goes to the rings, listener or not. */
static inline bool keeps_output(const struct stream *s)
{
	return s->proc && !s->proc->attached;
}
/* NULL with *ret_errno if the limit is reached. */
struct proc *proc_new(struct agent *a, const struct agent_exec_req *r, bool attached,
                      int *ret_errno);
void proc_free(struct agent *a, struct proc *p);
struct proc *proc_find(struct agent *a, uint32_t id);
void proc_fill(const struct proc *p, struct agent_proc *ret);
/* The child's result pipe shows whether the command was started. */
void proc_on_result(struct agent *a, struct stream *s);
void proc_on_exit(struct agent *a, struct stream *s);
/* The stream is about to be freed. */
void proc_detach(struct agent *a, struct stream *s);
void proc_call(struct agent *a, uint32_t id, uint16_t op, struct rd *c); /* list, signal, forget */

/* proc_output.c: output and stdin of a detached process */
void proc_output_begin(struct agent *a, uint32_t id, struct rd *c);
bool proc_output_ready(const struct agent *a, const struct stream *s);
void proc_output_pump(struct agent *a, struct stream *s);
void proc_stdin_begin(struct agent *a, uint32_t id, struct rd *c);
void proc_stdin_tick(struct agent *a, struct stream *s);

/* ring.c */
int ring_open(struct ring *r, const char *dir); /* 0 or -errno */
void ring_close(struct ring *r);
void ring_put(struct ring *r, const uint8_t *p, size_t n);
/* Up to n bytes from off, which is in [first, end]; 0: there are none yet or they are lost. */
size_t ring_get(const struct ring *r, uint64_t off, uint8_t *p, size_t n);

/* code*.c: the code interpreter */
void code_call(struct agent *a, uint32_t id, uint16_t op, struct rd *c);
/* The stream has lost its listener; cancelled: its cell is no longer wanted either. */
void code_orphan(struct agent *a, struct stream *s, bool cancelled);
bool code_on_event(struct agent *a, uint64_t ref, uint32_t events); /* false: not for a kernel */
void code_run(struct agent *a, uint64_t now);
bool code_idle(const struct agent *a);
uint64_t code_next_timer(const struct agent *a);
void code_identity(struct agent *a); /* this machine is now a copy: tells running cells */
void code_close(struct agent *a);

/* fs.c, fs_*.c: begin forks; the others run in the child and never return */
void fs_begin(struct agent *a, uint32_t id, uint16_t op, struct rd *c);
void fs_read(const struct job_fds *fds, const struct agent_fs_req *r) __attribute__((noreturn));
void fs_write(const struct job_fds *fds, const struct agent_fs_req *r) __attribute__((noreturn));
void fs_list(const struct job_fds *fds, const struct agent_fs_req *r) __attribute__((noreturn));
void fs_stat(const struct job_fds *fds, const struct agent_fs_req *r) __attribute__((noreturn));
void fs_remove(const struct job_fds *fds, const struct agent_fs_req *r) __attribute__((noreturn));
void fs_mkdir(const struct job_fds *fds, const struct agent_fs_req *r) __attribute__((noreturn));
void fs_get(const struct job_fds *fds, const struct agent_get_req *r) __attribute__((noreturn));
void fs_tar(const struct job_fds *fds, const struct agent_fs_req *r) __attribute__((noreturn));
void fs_untar(const struct job_fds *fds, const struct agent_fs_req *r) __attribute__((noreturn));
void fs_watch(const struct job_fds *fds, const struct agent_fs_req *r) __attribute__((noreturn));
/* untar.c: a tar stream into the current directory; 0, or a positive errno with a message. */
int untar(int fd, bool owners, char *msg, size_t size);
/* mkdir -p of path[0, len); 0 or a positive errno. */
int fs_make_parents(const char *path, size_t len);
uint8_t fs_kind(mode_t mode);
struct stat;
void fs_stat_of(const struct stat *st, struct agent_stat *ret);

/* fs_walk.c, fs_hash.c: as fs_begin */
void walk_begin(struct agent *a, uint32_t id, struct rd *c);
void hash_begin(struct agent *a, uint32_t id, struct rd *c);

/* term.c: the last output of commands under a name */
struct term;
void term_exec_begin(struct agent *a, uint32_t id, struct rd *c);
void term_list_begin(struct agent *a, uint32_t id, struct rd *c);
void term_read_begin(struct agent *a, uint32_t id, struct rd *c);
void term_write(struct term *t, const void *p, size_t n);
void term_leave(struct term *t); /* a stream that wrote to it has ended; NULL is fine */

/* job.c, in a child: signals, limits and OOM score as a program expects them */
void child_reset(const struct agent *a);

/* pty.c, pty_client.c: terminal sessions; more in pty.h */
void pty_begin(struct agent *a, uint32_t id, uint16_t op, struct rd *c);
void pty_on_event(struct agent *a, uint64_t ref, uint32_t events);
void pty_pump(struct agent *a);
bool pty_idle(const struct agent *a);
void pty_tick(struct agent *a, uint64_t now);
uint64_t pty_next_timer(const struct agent *a);
void pty_detach(struct agent *a, struct stream *s); /* the stream lost its listener */
void pty_signal(struct stream *s, int sig);
void pty_on_hello(struct agent *a, const struct agent_hello *h);
void pty_end_all(struct agent *a);
/* pty_spawn.c: both ends of a new terminal of that size; master is nonblocking. */
int pty_pair(uint16_t cols, uint16_t rows, int *ret_master, int *ret_slave);
/* In a child with the terminal as its stdin: makes it the controlling terminal, owned by that user.
 */
struct user;
int pty_take(const struct user *u);

/* session.c: SIGKILL for the process group and every process of the session */
void session_kill(pid_t leader);
