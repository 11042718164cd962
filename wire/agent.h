/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire/agent.h - the contract between server/guest/ (host) and agent/ (guest)
 *
 * Everything both ends must agree on is listed here once: limits, frame types,
 * operations, identity steps, error tags, and one encoder and one decoder per
 * message. docs/PROTOCOL.agent.md explains it. Numbers are
 * never reused.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct rd;

#define AGENT_PORT_NAME "pando.agent" /* name of the virtio-serial port */
#define AGENT_VERSION_MIN 1
#define AGENT_VERSION_MAX 1

#define AGENT_MAGIC 0x9f50414eu /* first byte is not ASCII: text never looks like a frame */
#define AGENT_HDR_LEN 20u
#define AGENT_TAIL_LEN 4u             /* after every payload; detects a spliced frame */
#define AGENT_PAYLOAD_MAX (64u << 10) /* bytes; checked before anything is read or allocated */
#define AGENT_FRAME_MAX (AGENT_HDR_LEN + AGENT_PAYLOAD_MAX + AGENT_TAIL_LEN)
#define AGENT_FLUSH_LEN AGENT_FRAME_MAX /* zero bytes that end any half frame */
#define AGENT_HELLO_MAX 1024u           /* bytes of a HELLO, HELLO_ACK or READY payload */
#define AGENT_RESULT_MAX 4096u          /* bytes of a RESULT payload: fits a pipe in one write */
#define AGENT_OPEN_MAX (256u << 10)     /* bytes of a request over all its OPEN frames */
#define AGENT_STREAMS_MAX 256u          /* open at once on one connection */
#define AGENT_WINDOW (256u << 10)       /* bytes of credit per stream and channel at the start */
#define AGENT_CREDIT_MAX (1u << 30)     /* bytes; more credit than this is a protocol violation */
#define AGENT_COMMAND_MAX (128u << 10)  /* bytes with NUL: the kernel's limit of one argument */
#define AGENT_PATH_MAX 4096u            /* bytes with NUL, as the kernel's PATH_MAX */
#define AGENT_USER_MAX 64u              /* bytes with NUL */
#define AGENT_ENV_MAX 512u              /* variables of one exec */
#define AGENT_VM_ENV_MAX 64u            /* variables of the whole VM */
#define AGENT_SITE_ENV_MAX 16u          /* variables of the site it runs at */
#define AGENT_SITE_STAMP 33u            /* bytes with NUL of the name of its settings */
#define AGENT_ENV_BYTES (64u << 10)     /* bytes with NUL of one variable */
#define AGENT_OPENED_MAX 64u            /* bytes of an OPENED payload */
#define AGENT_PROCS_MAX 64u             /* detached processes a guest remembers */
#define AGENT_PROC_RING (4u << 20)      /* bytes kept of each output of a detached process */
#define AGENT_PROC_COMMAND 1024u        /* bytes with NUL of a command in a list */
#define AGENT_WATCH_MAX 16384u          /* directories one fs.watch follows */
#define AGENT_MSG_MAX 300u              /* bytes with NUL of an error message */
#define AGENT_IGNORE_MAX 32u            /* trees that fs.walk leaves out */
#define AGENT_HASH_MAX 128u             /* files of one fs.hash */
#define AGENT_HASH_LEN 16u              /* bytes: XXH3, 128 bits */
#define AGENT_TERM_NAME 65u             /* bytes with NUL of a terminal's name */
#define AGENT_TERM_BYTES (256u << 10)   /* kept of one terminal's output */
#define AGENT_TERM_MARKS 1024u          /* times kept of one terminal */
#define AGENT_TERMS_MAX 32u
#define AGENT_CA_NAME 33u        /* bytes with NUL of a trusted authority's name */
#define AGENT_CA_MAX (16u << 10) /* bytes with NUL of its certificate as PEM */
#define AGENT_DOMAIN_MAX 256u    /* bytes with NUL of the server's domain */
#define AGENT_NONCE_LEN 16u
#define AGENT_ENTROPY_LEN 64u

/* number, NAME, wire name, minimum and maximum bytes of payload. H: host sends it, G: guest, B:
 * both. */
/* clang-format off */
#define AGENT_FRAMES(M)                                            \
	M(1,  HELLO,     "HELLO",     H, 1, AGENT_HELLO_MAX)       \
	M(2,  HELLO_ACK, "HELLO_ACK", G, 1, AGENT_HELLO_MAX)       \
	M(3,  READY,     "READY",     G, 1, AGENT_HELLO_MAX)       \
	M(4,  CLOCK,     "CLOCK",     H, 8, 8)                     \
	M(5,  OPEN,      "OPEN",      H, 0, AGENT_PAYLOAD_MAX)     \
	M(6,  OPENED,    "OPENED",    G, 0, AGENT_OPENED_MAX)      \
	M(7,  DATA,      "DATA",      B, 1, AGENT_PAYLOAD_MAX)     \
	M(8,  EOF,       "EOF",       B, 0, 0)                     \
	M(9,  CREDIT,    "CREDIT",    B, 4, 4)                     \
	M(10, RESULT,    "RESULT",    G, 1, AGENT_RESULT_MAX)      \
	M(11, CANCEL,    "CANCEL",    H, 0, 0)                     \
	M(12, SIGNAL,    "SIGNAL",    H, 4, 4)                     \
	M(13, RING,      "RING",      G, 0, 0)

/* number, NAME, wire name; 9 was sync, which was never used */
#define AGENT_OPS(M)                     \
	M(1,  EXEC,      "exec")         \
	M(2,  FS_READ,   "fs.read")      \
	M(3,  FS_WRITE,  "fs.write")     \
	M(4,  FS_LIST,   "fs.list")      \
	M(5,  FS_STAT,   "fs.stat")      \
	M(6,  FS_REMOVE, "fs.remove")    \
	M(7,  FS_MKDIR,  "fs.mkdir")     \
	M(8,  CONNECT,   "connect")      \
	M(10, SHUTDOWN,  "shutdown")     \
	M(11, PING,      "ping")         \
	M(12, FS_WATCH,  "fs.watch")     \
	M(13, SETTLE,    "settle")       \
	M(14, TRUST,     "trust")        \
	M(20, PROC_RUN,  "proc.run")     \
	M(21, PROC_START, "proc.start")  \
	M(22, PROC_LIST, "proc.list")    \
	M(23, PROC_OUTPUT, "proc.output") \
	M(24, PROC_SIGNAL, "proc.signal") \
	M(25, PROC_STDIN, "proc.stdin")  \
	M(26, PROC_FORGET, "proc.forget") \
	M(27, FS_GET,    "fs.get")       \
	M(28, FS_TAR,    "fs.tar")       \
	M(29, FS_UNTAR,  "fs.untar")     \
	M(30, FS_WALK,   "fs.walk")      \
	M(31, FS_HASH,   "fs.hash")      \
	M(32, TERM_EXEC, "term.exec")    \
	M(33, TERM_LIST, "term.list")    \
	M(34, TERM_READ, "term.read")     \
	M(40, PTY_OPEN,  "pty.open")     \
	M(41, PTY_ATTACH, "pty.attach")  \
	M(42, PTY_LIST,  "pty.list")     \
	M(43, PTY_CLOSE, "pty.close")    \
	M(44, PTY_RESIZE, "pty.resize")  \
	M(50, CODE_RUN,  "code.run")     \
	M(51, CODE_CREATE, "code.create") \
	M(52, CODE_LIST, "code.list")    \
	M(53, CODE_RESTART, "code.restart") \
	M(54, CODE_INTERRUPT, "code.interrupt") \
	M(55, CODE_DELETE, "code.delete") \
	M(60, LOGIN,     "login")        \
	M(61, DIAL,      "dial")         \
	M(62, LISTEN,    "listen")       \
	M(63, ACCEPT,    "accept")       \
	M(70, ENV_SET,   "env.set")      \
	M(71, SELF_TAKE, "self.take")    \
	M(72, SITE_SET,  "site.set")

/* Identity steps: bit number, NAME, wire name. Done in this order. */
#define AGENT_STEPS(M)                   \
	M(0, ENTROPY,    "entropy")      \
	M(1, CLOCK,      "clock")        \
	M(2, HOSTNAME,   "hostname")     \
	M(3, MACHINE_ID, "machine-id")   \
	M(4, HOOKS,      "hooks")

/* Why a request failed, where the errno is not enough: number, NAME. */
#define AGENT_TAGS(M)                                                                    \
	M(0, NONE)                                                                       \
	M(1, USER_NOT_FOUND)  /* no such account in the guest's /etc/passwd */           \
	M(2, CWD_FAILED)      /* the working directory cannot be entered */              \
	M(3, SPAWN_FAILED)    /* no process could be started */                          \
	M(4, GUEST_BUSY)      /* a limit of the agent is reached; try later */           \
	M(5, BAD_REQUEST)     /* the agent could not decode the request       */        \
	M(40, SESSION_NOT_FOUND)      /* terminal sessions: */                           \
	M(41, SESSION_EXPIRED)        /* it ended more than a minute ago   */           \
	M(42, SESSION_ALREADY_EXISTS)                                                    \
	M(43, SESSION_CAP_REACHED)                                                       \
	M(44, SESSION_USER_MISMATCH)  /* it belongs to another account of the guest */  \
	M(50, CONTEXT_NOT_FOUND) /* no such context of the code interpreter */           \
	M(51, CONTEXT_BUSY)   /* too many cells wait for it */
/* clang-format on */

#define AGENT_FRAME_ENUM(num, NAME, wire, dir, min, max) AGENT_F_##NAME = (num),
enum agent_frame_type { AGENT_FRAMES(AGENT_FRAME_ENUM) };
#define AGENT_OP_ENUM(num, NAME, wire) AGENT_OP_##NAME = (num),
enum agent_op { AGENT_OPS(AGENT_OP_ENUM) };
#define AGENT_STEP_ENUM(num, NAME, wire) AGENT_STEP_##NAME = (num),
enum agent_step { AGENT_STEPS(AGENT_STEP_ENUM) AGENT_STEP_END };
#define AGENT_TAG_ENUM(num, NAME) AGENT_TAG_##NAME = (num),
enum agent_tag { AGENT_TAGS(AGENT_TAG_ENUM) AGENT_TAG_END };

#define AGENT_STEPS_ALL ((1u << AGENT_STEP_END) - 1)
#define AGENT_STEP_NONE 0xffffu /* no step failed */

const char *agent_frame_name(unsigned type); /* "?" if there is none; never NULL, all three */
const char *agent_op_name(unsigned op);
const char *agent_step_name(unsigned step);

/* Channels of a stream (flags of DATA, EOF, CREDIT). */
enum agent_chan { AGENT_IN = 0, AGENT_OUT = 1, AGENT_ERR = 2, AGENT_CHANS = 3 };
#define AGENT_OPEN_MORE 1u /* flag of OPEN: the next frame continues with this request */

enum agent_reason { AGENT_BOOT = 1, AGENT_THAW = 2, AGENT_RECONNECT = 3 };
enum agent_ready_why { AGENT_READY_START = 1, AGENT_READY_LOST = 2 };
enum agent_kind { AGENT_FILE = 1, AGENT_DIR = 2, AGENT_SYMLINK = 3, AGENT_OTHER = 4 };

/* ---- frames (agent_frame.c) ---- */

struct agent_frame {
	uint16_t type, flags;
	uint32_t stream;
	uint32_t len;
	const uint8_t *payload; /* points into the receive buffer; NULL when len is 0 */
};

/* Fills hdr[20] and returns the value of the tail that must follow a payload. */
uint32_t agent_frame_head(uint8_t hdr[AGENT_HDR_LEN], uint16_t type, uint16_t flags,
                          uint32_t stream, uint32_t len);
/* Checks magic, checksum, type and length. 0 or -EBADMSG; *ret_tail as above. */
int agent_frame_parse(const uint8_t hdr[AGENT_HDR_LEN], struct agent_frame *ret,
                      uint32_t *ret_tail);
/* Appends a whole frame. */
void agent_frame_put(struct buf *b, uint16_t type, uint16_t flags, uint32_t stream, const void *p,
                     size_t n);

/*
 * Receiver of frames, the same at both ends. In sync, frames follow each other
 * and anything else is -EBADMSG. Hunting, bytes are skipped until a whole,
 * valid frame of a wanted type is found at any offset: the caller looks at it
 * and either accepts it (in sync again from its end) or asks for the next one.
 */
struct agent_rx {
	uint8_t *buf; /* owned; AGENT_RX_CAP bytes */
	size_t start, end;
	size_t hit_end;   /* hunting: end of the frame found last, else 0 */
	uint32_t wanted;  /* hunting: bit per frame type; 0: in sync */
	uint64_t skipped; /* bytes skipped by the last hunt */
};
#define AGENT_RX_CAP ((size_t)2 * AGENT_FRAME_MAX)

int agent_rx_init(struct agent_rx *rx); /* 0 or -ENOMEM; starts in sync */
void agent_rx_done(struct agent_rx *rx);
/* Where to receive the next bytes: at least one, after agent_rx_next() returned 0. */
uint8_t *agent_rx_space(struct agent_rx *rx, size_t *ret_room);
void agent_rx_added(struct agent_rx *rx, size_t n);
/* 1: *ret is a frame, valid until the next call; 0: more bytes needed; -EBADMSG: out of sync. */
int agent_rx_next(struct agent_rx *rx, struct agent_frame *ret);
void agent_rx_hunt(struct agent_rx *rx, uint32_t wanted);
void agent_rx_accept(struct agent_rx *rx);

/* ---- messages (agent_msg.c); decoders: 0 or -EBADMSG, texts point into the input ---- */

struct agent_hello {
	uint8_t nonce[AGENT_NONCE_LEN];
	uint16_t version_min, version_max;
	uint8_t reason; /* enum agent_reason */
	uint64_t generation, wall_ns;
	uint8_t entropy[AGENT_ENTROPY_LEN];
	char machine_id[33], hostname[65];
};
void agent_hello_put(struct buf *b, const struct agent_hello *m);
int agent_hello_get(const uint8_t *p, size_t n, struct agent_hello *ret);

struct agent_hello_ack {
	uint8_t nonce[AGENT_NONCE_LEN];
	uint16_t version; /* the one in use from now on; 0: none in the range */
	char agent_version[32], boot_id[40];
	uint64_t generation;
	uint32_t steps_done;  /* bit per enum agent_step */
	uint16_t failed_step; /* AGENT_STEP_NONE: none of those requested */
	uint32_t failed_errno;
};
void agent_hello_ack_put(struct buf *b, const struct agent_hello_ack *m);
int agent_hello_ack_get(const uint8_t *p, size_t n, struct agent_hello_ack *ret);

void agent_ready_put(struct buf *b, uint8_t why);

struct agent_exec_req {
	const char *command, *user, *cwd; /* user "": the agent's own; cwd "": "/" */
	uint32_t timeout_ms;              /* 0: none */
	bool with_stdin;                  /* false: /dev/null */
	uint16_t n_env;
	const char *env[AGENT_ENV_MAX];
};
void agent_exec_req_put(struct buf *b, const struct agent_exec_req *m);
int agent_exec_req_get(struct rd *c, struct agent_exec_req *ret);

/* One form for all fs.* requests; what an operation does not use is 0. */
struct agent_fs_req {
	const char *user, *path;
	uint64_t off, len; /* fs.read; len 0: to the end */
	uint32_t mode;     /* fs.write, fs.mkdir; 0: the default */
	bool deep;         /* fs.remove: recursive; fs.mkdir: parents too */
};
void agent_fs_req_put(struct buf *b, const struct agent_fs_req *m);
int agent_fs_req_get(struct rd *c, struct agent_fs_req *ret);

struct agent_result {
	uint32_t status; /* 0 or a Linux errno, positive */
	uint16_t tag;    /* enum agent_tag */
	const char *msg; /* one sentence if status is not 0 */
	const uint8_t *body;
	size_t body_len;
};
void agent_result_put(struct buf *b, const struct agent_result *m);
int agent_result_get(const uint8_t *p, size_t n, struct agent_result *ret);

struct agent_exec_result { /* body of an exec's RESULT */
	bool timed_out;
	uint32_t exit_code, signal;
};
void agent_exec_result_put(struct buf *b, const struct agent_exec_result *m);
int agent_exec_result_get(const uint8_t *p, size_t n, struct agent_exec_result *ret);

struct agent_stat {   /* body of an fs.stat's RESULT */
	uint8_t kind; /* enum agent_kind */
	uint64_t size;
	uint32_t mode, uid, gid;
	int64_t mtime_ns;
};
void agent_stat_put(struct buf *b, const struct agent_stat *m);
int agent_stat_get(const uint8_t *p, size_t n, struct agent_stat *ret);

/* ---- processes and streams beyond the first version (agent_proc.c) ---- */

/* Payload of OPENED for proc.run, body of RESULT for proc.start. */
struct agent_started {
	uint32_t proc, pid;
};
void agent_started_put(struct buf *b, const struct agent_started *m);
int agent_started_get(const uint8_t *p, size_t n, struct agent_started *ret);

/* proc.list, proc.signal, proc.stdin, proc.forget: a process and one number. */
struct agent_proc_req {
	uint32_t proc;
	uint32_t arg; /* list: 1 only this one, 0 from it on; signal: number; stdin: 1 ends it */
};
void agent_proc_req_put(struct buf *b, const struct agent_proc_req *m);
int agent_proc_req_get(struct rd *c, struct agent_proc_req *ret);

/* One process: an entry of proc.list's RESULT, body of proc.output's. */
struct agent_proc {
	uint32_t proc, pid;
	int64_t started_ns;   /* wall clock */
	uint64_t duration_ms; /* so far, or until it ended */
	bool running, attached, timed_out, stdin_open, command_cut;
	uint32_t exit_code, signal;
	uint64_t first[AGENT_CHANS], end[AGENT_CHANS]; /* [1], [2]: offsets kept and reached */
	const char *user, *command;
};
void agent_proc_put(struct buf *b, const struct agent_proc *m);
int agent_proc_get(struct rd *c, struct agent_proc *ret); /* no rd_end(): more may follow */

struct agent_output_req {
	uint32_t proc;
	uint8_t chans; /* bit per channel: 1 << AGENT_OUT, 1 << AGENT_ERR */
	uint64_t off;  /* of each channel asked for */
	bool follow;
};
void agent_output_req_put(struct buf *b, const struct agent_output_req *m);
int agent_output_req_get(struct rd *c, struct agent_output_req *ret);

/* Head of a piece of output on proc.output's channel; len bytes follow, at most AGENT_PIECE_MAX. */
struct agent_piece {
	uint8_t chan;
	uint64_t off;
	uint32_t len;
};
#define AGENT_PIECE_LEN 13u
#define AGENT_PIECE_MAX (32u << 10)
void agent_piece_put(uint8_t p[AGENT_PIECE_LEN], const struct agent_piece *m);
int agent_piece_get(const uint8_t p[AGENT_PIECE_LEN], struct agent_piece *ret);

/* fs.get: a part of a file, which may be counted from its end. */
enum agent_range { AGENT_RANGE_ALL = 0, AGENT_RANGE_FROM = 1, AGENT_RANGE_LAST = 2 };
struct agent_get_req {
	const char *user, *path;
	uint8_t range;     /* enum agent_range */
	uint64_t off, len; /* FROM: len 0 is to the end; LAST: the last len bytes */
};
void agent_get_req_put(struct buf *b, const struct agent_get_req *m);
int agent_get_req_get(struct rd *c, struct agent_get_req *ret);

/* Sent by fs.get before the bytes. */
struct agent_got {
	struct agent_stat st;
	bool satisfiable;
	uint64_t off, len; /* what follows */
};
#define AGENT_GOT_LEN 46u
void agent_got_put(struct buf *b, const struct agent_got *m);
int agent_got_get(const uint8_t *p, size_t n, struct agent_got *ret);

/*
 * fs.watch's channel: u8 kind, text path (absolute), one after the other. LIMIT has a message
 * instead of a path, OVERFLOW (events were lost) and READY (all watches are set up) have nothing.
 */
#define AGENT_CHANGES(M)           \
	M(1, CREATE, "create")     \
	M(2, MODIFY, "modify")     \
	M(3, DELETE, "delete")     \
	M(4, RENAME, "rename")     \
	M(5, OVERFLOW, "overflow") \
	M(6, LIMIT, "error")       \
	M(7, READY, "ready")
#define AGENT_CHANGE_ENUM(num, NAME, wire) AGENT_CHANGE_##NAME = (num),
enum agent_change { AGENT_CHANGES(AGENT_CHANGE_ENUM) AGENT_CHANGE_END };
const char *agent_change_name(unsigned change); /* "?" if there is none */

/* fs.walk: the request, and the records that come on channel 1, each a blob */
struct agent_walk_req {
	const char *root, *after; /* after "": all; else only what comes after it */
	uint16_t n_ignore;
	const char *ignore[AGENT_IGNORE_MAX];
};
void agent_walk_req_put(struct buf *b, const struct agent_walk_req *m);
int agent_walk_req_get(struct rd *c, struct agent_walk_req *ret);
struct agent_walk_rec {
	uint8_t kind;  /* enum agent_kind */
	uint32_t mode; /* with the bits of the type */
	uint32_t uid, gid;
	uint64_t size; /* of a file; of a device its number */
	int64_t mtime_ns, ctime_ns;
	uint64_t ino;
	const char *path, *link; /* link "": none */
};
#define AGENT_WALK_REC_MAX                                                     \
	(64u + 2u * AGENT_PATH_MAX) /* bytes of one record, without its length \
	                             */
void agent_walk_rec_put(struct buf *b, const struct agent_walk_rec *m);
int agent_walk_rec_get(const uint8_t *p, size_t n, struct agent_walk_rec *ret);
/*
 * Order of the walk: a directory before its contents, names by their bytes. So '/' sorts before
 * any other character.
 */
int agent_path_cmp(const char *a, const char *b);

/* fs.hash: u16 n, n texts; the answer on channel 1 is n times u8 errno (0: success) and the hash */
struct agent_hash_req {
	uint16_t n;
	const char *path[AGENT_HASH_MAX];
};
void agent_hash_req_put(struct buf *b, const struct agent_hash_req *m);
int agent_hash_req_get(struct rd *c, struct agent_hash_req *ret);

/* term.list: entries on channel 1, each a blob */
struct agent_term_entry {
	const char *name, *user;
	uint32_t running; /* commands that write to it now */
	uint64_t created_ms, changed_ms;
	uint64_t written; /* bytes ever */
};
void agent_term_entry_put(struct buf *b, const struct agent_term_entry *m);
int agent_term_entry_get(const uint8_t *p, size_t n, struct agent_term_entry *ret);

/* term.exec is text name + the body of exec; term.read is text name, text user ("": any) */
int agent_term_read_get(struct rd *c, const char **ret_name, const char **ret_user);

/* Text with its NUL on the wire, so that the decoder can point at it. */
void agent_text_put(struct buf *b, const char *s);
int agent_text_get(struct rd *c, size_t max_with_nul, const char **ret);
/* Variables K=V, at most max of them; K is not empty. */
void agent_env_put(struct buf *b, const char *const *env, uint16_t n);
int agent_env_get(struct rd *c, size_t max, const char **ret, uint16_t *ret_n);
