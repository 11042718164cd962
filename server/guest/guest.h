/* SPDX-License-Identifier: Apache-2.0 */
/*
 * guest/guest.h - host end of the agent channel; for vm/ and api/
 *
 * A guest is one connection to one agent: it owns the socket and a reader
 * thread. Calls block on the caller's thread until the agent replies, the
 * deadline passes, or the connection ends; several threads may call at once.
 * Nothing the other side sends can block or crash us: a protocol violation
 * ends the connection, and every pending call fails with -ECONNRESET.
 * The wire format is docs/PROTOCOL.agent.md.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct agent_who;
struct err;
struct guest;

enum guest_reason {
	GUEST_BOOT,      /* cold boot: set clock, names, entropy */
	GUEST_THAW,      /* resumed or forked: the full identity event */
	GUEST_RECONNECT, /* same machine, new connection: no identity change */
};

struct guest_identity {
	enum guest_reason reason;
	uint64_t generation; /* grows with every thaw of this machine */
	uint64_t wall_ns;    /* filled in by guest_hello() when it is sent */
	uint8_t entropy[64]; /* filled in by guest_hello() */
	char machine_id[33]; /* 32 lower-case hex digits */
	char hostname[64];
	const struct agent_who *who; /* weak; or NULL. Its nonce is filled in (guest_self.h) */
};

struct guest_info {
	uint32_t version; /* protocol version of the agent */
	char agent_version[32];
	char boot_id[40];    /* of the guest kernel */
	uint64_t generation; /* as confirmed */
};

/* Takes the connected stream socket; starts no traffic yet. */
int guest_new(const char *vm_id, int fd_consume, struct guest **ret, struct err *err);
/* Ends the connection; pending calls fail with -ECONNRESET. Waits for no one's call to return. */
void guest_close(struct guest *g);
/* It is about to be ended on purpose: what calls say that this cuts off; "": not any more. */
void guest_expect_end(struct guest *g, const char *why);
struct guest *guest_ref(struct guest *g);
void guest_unref(struct guest *g);                /* NULL is fine */
static inline void guest_unrefp(struct guest **g) /* for AUTO() */
{
	guest_unref(*g);
}
bool guest_alive(struct guest *g); /* hello done and connection open */

/*
 * A guest that stops answering without hanging up: when a call gets no answer in time the agent is
 * pinged, and if no frame at all comes within ms, the connection ends. Before guest_hello().
 */
void guest_silence(struct guest *g, unsigned ms);
/* The machine stands still, or runs again: until it does nobody expects an answer. */
void guest_pause(struct guest *g, bool paused);

/*
 * Resynchronises the channel and delivers the identity event. Until it has
 * returned 0 every other call fails with -ENOTCONN. Fails closed: a step that the agent could not
 * do is an error. Call it once. Retransmits as the protocol says while the guest is still booting.
 */
int guest_hello(struct guest *g, struct guest_identity *id, uint64_t deadline_ms,
                struct guest_info *ret_info, struct err *err);

/* Called with output as it arrives; return < 0 to cancel. chan: 1 stdout, 2 stderr. */
typedef int (*guest_output_fn)(void *ctx, int chan, const uint8_t *p, size_t n);

struct guest_exec_req {
	const char *command;    /* run by /bin/sh -c */
	const char *user;       /* NULL: root */
	const char *cwd;        /* NULL: "/" */
	const char *terminal;   /* its output is also kept under this name; NULL: not */
	const char *const *env; /* NULL-terminated "K=V" list, added to the base environment */
	unsigned timeout_ms;    /* 0: none. Enforced in the guest, which kills the process group; a
	                           guest that does not is given up on here */
	size_t max_output;      /* bytes kept per stream when collecting; 0: GUEST_OUTPUT_DEFAULT */
	const uint8_t *stdin_data; /* NULL: /dev/null */
	size_t stdin_len;
	guest_output_fn on_output; /* NULL: collected into the result */
	void *ctx;
};
#define GUEST_OUTPUT_DEFAULT (16u << 20)

struct guest_exec_result {
	int exit_code;      /* 0-255; 128+signal when killed by one */
	int signal;         /* 0 or the signal */
	bool timed_out;     /* output is what there was until then */
	bool truncated[3];  /* [1] stdout, [2] stderr: more came than max_output */
	char *out, *errout; /* owned, NUL-terminated; may contain NULs: use the lengths */
	size_t out_len, errout_len;
};
void guest_exec_result_done(struct guest_exec_result *r);
/* 0 whenever the command ran, even if it failed or timed out. */
int guest_exec(struct guest *g, const struct guest_exec_req *req, struct guest_exec_result *ret,
               struct err *err);

enum guest_file_kind { GUEST_FILE, GUEST_DIR, GUEST_SYMLINK, GUEST_OTHER };
struct guest_stat {
	enum guest_file_kind kind;
	uint64_t size;
	uint32_t mode, uid, gid;
	int64_t mtime_ns;
};
struct guest_dirent {
	char *name; /* owned */
	enum guest_file_kind kind;
};
/*
 * Paths are absolute. user: act as that account (NULL: root). Errors are the
 * guest's errno: -ENOENT, -EISDIR, -EACCES, ...
 */
int guest_stat(struct guest *g, const char *user, const char *path, struct guest_stat *ret,
               struct err *err);
/* Streams the file; sink returns < 0 to cancel. Bounded memory whatever the size. off/len: range,
 * len 0 = to the end. */
typedef int (*guest_sink_fn)(void *ctx, const uint8_t *p, size_t n);
int guest_read_file(struct guest *g, const char *user, const char *path, uint64_t off, uint64_t len,
                    guest_sink_fn sink, void *ctx, uint64_t deadline_ms, struct err *err);
/* source fills up to n bytes: count, 0 at the end, < 0 to cancel. Written to a temp file, renamed
 * at the end. */
typedef ssize_t (*guest_source_fn)(void *ctx, uint8_t *p, size_t n);
struct guest_bytes { /* borrowed bytes in memory; a source consumes them */
	const void *p;
	size_t left;
};
ssize_t guest_bytes_source(void *ctx, uint8_t *p, size_t n); /* ctx: struct guest_bytes */
int guest_write_file(struct guest *g, const char *user, const char *path, uint32_t mode,
                     guest_source_fn source, void *ctx, uint64_t deadline_ms, struct err *err);
int guest_list_dir(struct guest *g, const char *user, const char *path, struct guest_dirent **ret,
                   size_t *ret_n, struct err *err);
void guest_dirents_free(struct guest_dirent *d, size_t n);
int guest_remove(struct guest *g, const char *user, const char *path, bool recursive,
                 struct err *err);
int guest_mkdir(struct guest *g, const char *user, const char *path, uint32_t mode, bool parents,
                uint64_t deadline_ms, struct err *err);

/* ---- streams: requests whose bytes are moved at the caller's pace ---- */

/*
 * A flow is an open request. One thread uses it at a time. What the caller does
 * not take the guest may not send, beyond a window of 256 KiB per channel. Closing it
 * before its end cancels the request: a command is killed with its session, an
 * upload is undone.
 */
struct guest_flow;
int guest_flow_fd(const struct guest_flow *f); /* POLLIN: look again */
/* Bytes taken; 0: none now; -ENODATA: complete, see guest_flow_result(); or -errno.
 */
ssize_t guest_flow_read(struct guest_flow *f, int *ret_chan, uint8_t *p, size_t n, struct err *err);
/* Bytes taken by the guest; 0: no credit now, or it ended. */
ssize_t guest_flow_feed(struct guest_flow *f, const uint8_t *p, size_t n, struct err *err);
int guest_flow_feed_eof(struct guest_flow *f, struct err *err);
/* All of it; -ENODATA when the guest's answer came before it was taken. */
int guest_flow_write(struct guest_flow *f, const uint8_t *p, size_t n, uint64_t deadline_ms,
                     struct err *err);
/* The end of what we send, and the guest's answer to it. */
int guest_flow_finish(struct guest_flow *f, uint64_t deadline_ms, struct err *err);
/* After -ENODATA: 0, or the guest's errno with its message. */
int guest_flow_result(struct guest_flow *f, struct err *err);
void guest_flow_close(struct guest_flow *f); /* NULL is fine */

/* A command with a number, attached: its output is the flow's. Returns when it runs. */
struct guest_started {
	uint32_t proc, pid;
};
int guest_run(struct guest *g, const struct guest_exec_req *req, bool with_stdin,
              struct guest_flow **ret, struct guest_started *ret_started, struct err *err);
/* After -ENODATA; fills exit_code, signal and timed_out only. */
int guest_run_result(struct guest_flow *f, struct guest_exec_result *ret, struct err *err);

/* Detached processes live in the guest; -ENOENT: no such number. */
struct guest_proc {
	uint32_t proc, pid;
	int64_t started_ms; /* wall clock */
	uint64_t duration_ms;
	bool running, attached, timed_out, stdin_open, command_cut;
	int exit_code, signal;
	uint64_t first[3], end[3]; /* [1] stdout, [2] stderr: offsets kept and reached */
	char user[64], command[1024];
};
int guest_start(struct guest *g, const struct guest_exec_req *req, bool with_stdin,
                struct guest_started *ret, struct err *err);
/* Oldest first. Caller frees. */
int guest_procs(struct guest *g, struct guest_proc **ret, size_t *ret_n, struct err *err);
int guest_proc(struct guest *g, uint32_t proc, struct guest_proc *ret, struct err *err);
int guest_proc_signal(struct guest *g, uint32_t proc, unsigned sig, struct err *err);
int guest_proc_forget(struct guest *g, uint32_t proc, struct err *err); /* -EBUSY: it runs */
/* Bytes for its stdin; last: the end of file follows them. */
int guest_proc_stdin(struct guest *g, uint32_t proc, bool last, struct guest_flow **ret,
                     struct err *err);
/* Its output from the offset; chans: 2 stdout, 4 stderr, 6 both. */
int guest_output(struct guest *g, uint32_t proc, unsigned chans, uint64_t off, bool follow,
                 struct guest_flow **ret, struct err *err);
/* As guest_flow_read(), with the offset of the first byte. */
ssize_t guest_output_read(struct guest_flow *f, int *ret_chan, uint64_t *ret_off, uint8_t *p,
                          size_t n, struct err *err);
/* After -ENODATA: the process as it is now. */
int guest_output_result(struct guest_flow *f, struct guest_proc *ret, struct err *err);

enum guest_range { GUEST_RANGE_ALL, GUEST_RANGE_FROM, GUEST_RANGE_LAST };
struct guest_get {
	enum guest_range range; /* FROM: off, len (0: to the end); LAST: len */
	uint64_t off, len;
	struct guest_stat st; /* out, as all that follows: of the very file that is read */
	bool satisfiable;
	uint64_t got_off, got_len; /* the bytes that the flow brings */
};
int guest_get_file(struct guest *g, const char *user, const char *path, struct guest_get *get,
                   struct guest_flow **ret, struct err *err);
/* guest_flow_write() it, then guest_flow_finish(): only then the file is there. */
int guest_put_file(struct guest *g, const char *user, const char *path, uint32_t mode,
                   struct guest_flow **ret, struct err *err);
int guest_tar(struct guest *g, const char *user, const char *path, bool gzip,
              struct guest_flow **ret, struct err *err);
/* owners: as root, the archive's numbers; else everything belongs to the user. */
int guest_untar(struct guest *g, const char *user, const char *path, bool gzip, bool owners,
                struct guest_flow **ret, struct err *err);

/* Changes below path; NULL: all but the system's directories. Returns when all watches are set up.
 */
int guest_watch(struct guest *g, const char *user, const char *path, struct guest_flow **ret,
                struct err *err);
#define GUEST_PATH_MAX 4096
struct guest_change {
	const char *type;          /* "create", "modify", "delete", "rename", "overflow", "error" */
	char path[GUEST_PATH_MAX]; /* "error": a sentence */
};
/* 1: *ret is one; 0: none now; or -errno as guest_flow_read(). */
int guest_watch_next(struct guest_flow *f, struct guest_change *ret, struct err *err);

/*
 * A whole tree on one file system, as root: a directory before what is in it, names by their bytes.
 * Bounded memory at both ends. The order is checked: a guest that breaks it ends the walk.
 */
#define GUEST_WALK_IGNORE 32 /* trees to leave out */
struct guest_walk;
struct guest_walk_req {
	const char *root;
	const char *after; /* only what comes behind this path; NULL: all */
	const char *const *ignore;
	size_t n_ignore;
};
struct guest_walk_rec {
	enum guest_file_kind kind;
	uint32_t mode, uid, gid; /* mode with the bits of the type */
	uint64_t size;           /* of a file; of a device its number */
	int64_t mtime_ns, ctime_ns;
	uint64_t ino;
	const char *path, *link; /* until the next call; link "": none */
};
int guest_walk_open(struct guest *g, const struct guest_walk_req *req, uint64_t deadline_ms,
                    struct guest_walk **ret, struct err *err);
/* 1: a record, 0: that was all. */
int guest_walk_next(struct guest_walk *w, struct guest_walk_rec *ret, struct err *err);
void guest_walk_close(struct guest_walk *w);      /* NULL is fine */
int guest_path_cmp(const char *a, const char *b); /* the order of the walk */

/* What is in up to GUEST_HASH_MAX files; ok false: that one cannot be read. */
#define GUEST_HASH_MAX 128
struct guest_hash {
	uint8_t bytes[16];
	bool ok;
};
int guest_hash_files(struct guest *g, const char *const *paths, size_t n, struct guest_hash *ret,
                     uint64_t deadline_ms, struct err *err);

/* Terminals: the latest output of commands with guest_exec_req.terminal. */
struct guest_term {
	char name[65], user[64];
	unsigned running; /* commands that write to it now */
	int64_t created_ms, changed_ms;
};
struct guest_term_log {
	char *text; /* owned; may contain NULs */
	size_t len;
	uint64_t start; /* bytes before it that are lost */
	struct guest_term_mark {
		uint64_t at; /* offset from the very first byte */
		int64_t wall_ms;
	} * marks; /* owned; ascending: what begins there came at that time */
	size_t n_marks;
};
int guest_term_list(struct guest *g, struct guest_term **ret, size_t *ret_n, struct err *err);
/* user NULL: of any user. -ENOENT if there is none. */
int guest_term_read(struct guest *g, const char *user, const char *name, struct guest_term_log *ret,
                    struct err *err);
void guest_term_log_done(struct guest_term_log *l);

/* Is a call in progress? ret_marks grows with every call. */
bool guest_activity(struct guest *g, uint64_t *ret_marks);

/*
 * For a freeze: once this has returned 0 no byte is on its way to the guest, and none
 * is sent before guest_resume() (callers that want to send wait). So the guest
 * stops between two frames, and QEMU does not write into a stopped guest's
 * memory. Output may still arrive. guest_close() ends this as well.
 */
int guest_quiesce(struct guest *g, uint64_t deadline_ms, struct err *err);
void guest_resume(struct guest *g);

/* Variables of the whole VM, in place of those it had; NULL-terminated, at most GUEST_ENV_MAX. */
#define GUEST_ENV_MAX 64
int guest_set_env(struct guest *g, const char *const *env, struct err *err);
/*
 * Likewise the variables of the site, at most GUEST_SITE_ENV_MAX, which the VM's own win over.
 * stamp names the site's settings; "": there are none. 0: the guest has them already; -ESTALE: it
 * has these variables now, and its files are to be made; -EOPNOTSUPP: the agent is too old.
 */
#define GUEST_SITE_ENV_MAX 16
int guest_set_site(struct guest *g, const char *stamp, const char *const *env, uint64_t deadline_ms,
                   struct err *err);

/* Sets the clock of a guest that was paused to ours, ahead of anything that is sent later. */
int guest_set_clock(struct guest *g, uint64_t deadline_ms, struct err *err);
/* systemd poweroff; returns when the agent accepted it. */
struct guest_ca {
	const char *name; /* of its file; what was trusted under it before is trusted no more */
	const char *hash; /* as OpenSSL's directories want it */
	const char *pem;
	const char *domain; /* of this server if it is below "localhost", else "": then names below
	                       it are looked up by DNS */
};
/* Makes the guest trust a certificate authority. -EOPNOTSUPP: the agent is too old. */
int guest_trust(struct guest *g, const struct guest_ca *ca, uint64_t deadline_ms, struct err *err);
int guest_shutdown(struct guest *g, uint64_t deadline_ms, struct err *err);
int guest_ping(struct guest *g, uint64_t deadline_ms, struct err *err);
/* The machine will be frozen: the agent loads what the next command needs. */
void guest_settle(struct guest *g, uint64_t deadline_ms);
