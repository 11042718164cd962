/* SPDX-License-Identifier: Apache-2.0 */
/*
 * guest/guest.h - host end of the agent channel; for vm/ and api/
 *
 * A guest is one connection to one agent: it owns the socket and a reader
 * thread. Calls block on the caller's thread until the agent replied, the
 * deadline is over, or the connection ended; several threads may call at once.
 * Nothing the other side sends can block or crash us: a protocol violation
 * ends the connection, and every pending call fails with -ECONNRESET.
 * The wire format is docs/PROTOCOL.agent.md.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

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
	uint64_t wall_ns;    /* filled in by guest_hello() at the moment of sending */
	uint8_t entropy[64]; /* filled in by guest_hello() */
	char machine_id[33]; /* 32 lower-case hex digits */
	char hostname[64];
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
struct guest *guest_ref(struct guest *g);
void guest_unref(struct guest *g); /* NULL is fine */
bool guest_alive(struct guest *g); /* hello done and connection open */

/*
 * Resynchronises the channel and delivers the identity event. Until it
 * returned 0 every other call fails with -ENOTCONN. Fails closed: an agent that
 * could not do a step says so, and that is an error. May be called once.
 * Retransmits as the protocol says while the guest is still booting.
 */
int guest_hello(struct guest *g, struct guest_identity *id, uint64_t deadline_ms,
                struct guest_info *ret_info, struct err *err);

/* Called with output as it arrives; return < 0 to cancel. chan: 1 stdout, 2 stderr. */
typedef int (*guest_output_fn)(void *ctx, int chan, const uint8_t *p, size_t n);

struct guest_exec_req {
	const char *command;    /* run by /bin/sh -c */
	const char *user;       /* NULL: root */
	const char *cwd;        /* NULL: "/" */
	const char *const *env; /* NULL-terminated "K=V" list, added to the base environment */
	unsigned timeout_ms; /* 0: none. Enforced in the guest (kills the process group) and backed
	                        here */
	size_t max_output;   /* bytes kept per stream when collecting; 0: GUEST_OUTPUT_DEFAULT */
	const uint8_t *stdin_data; /* NULL: /dev/null */
	size_t stdin_len;
	guest_output_fn on_output; /* NULL: collect into the result */
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
/* 0 whenever the command ran, also when it failed or timed out. */
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
int guest_write_file(struct guest *g, const char *user, const char *path, uint32_t mode,
                     guest_source_fn source, void *ctx, uint64_t deadline_ms, struct err *err);
int guest_list_dir(struct guest *g, const char *user, const char *path, struct guest_dirent **ret,
                   size_t *ret_n, struct err *err);
void guest_dirents_free(struct guest_dirent *d, size_t n);
int guest_remove(struct guest *g, const char *user, const char *path, bool recursive,
                 struct err *err);
int guest_mkdir(struct guest *g, const char *user, const char *path, uint32_t mode, bool parents,
                struct err *err);

/* A TCP stream to 127.0.0.1:port (or ::1) in the guest, as a connected socketpair end. Caller
 * closes. */
int guest_connect(struct guest *g, uint16_t port, uint64_t deadline_ms, int *ret_fd,
                  struct err *err);

/*
 * For a freeze: when this returned 0 no byte is on its way to the guest, and none
 * is sent before guest_resume() (callers that want to send wait). So the guest
 * stops between two frames, and QEMU does not write into a stopped guest's
 * memory. Output may still arrive. Ends by itself with guest_close().
 */
int guest_quiesce(struct guest *g, uint64_t deadline_ms, struct err *err);
void guest_resume(struct guest *g);

/* Sets the guest's clock to ours, before anything that is sent later: it stood still for a while.
 */
int guest_set_clock(struct guest *g, uint64_t deadline_ms, struct err *err);
/* sync(2) in the guest. */
int guest_sync(struct guest *g, uint64_t deadline_ms, struct err *err);
/* systemd poweroff; returns when the agent accepted it. */
int guest_shutdown(struct guest *g, uint64_t deadline_ms, struct err *err);
int guest_ping(struct guest *g, uint64_t deadline_ms, struct err *err);
