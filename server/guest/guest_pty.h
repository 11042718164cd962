/* SPDX-License-Identifier: Apache-2.0 */
/*
 * guest/guest_pty.h - terminal sessions of a guest; for pty/ and api/
 *
 * A session lives in the guest; a guest_pty is one client that is attached to it, used by
 * one thread. Output comes as pieces; reading slowly holds up only this client. Errors carry the
 * contract's codes: SESSION_NOT_FOUND, SESSION_EXPIRED, SESSION_ALREADY_EXISTS,
 * SESSION_CAP_REACHED, SESSION_USER_MISMATCH, USER_NOT_FOUND.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct err;
struct guest;
struct guest_pty;

#define GUEST_PTY_ID 65             /* bytes with NUL */
#define GUEST_PTY_CHUNK (64u << 10) /* bytes of one piece */
#define GUEST_PTYS_MAX 128          /* sessions of one guest */

struct guest_pty_info {
	char id[GUEST_PTY_ID];
	char user[64];
	char exec[512]; /* "": the login shell; cut when longer */
	unsigned cols, rows, clients;
	bool running;
	int exit_code; /* when not running */
	int64_t created_ms, exited_ms;
};

struct guest_pty_req {
	const char *id;   /* open: NULL: the guest picks one */
	const char *user; /* NULL: root; attach: of any user */
	const char *exec; /* open; NULL: the login shell */
	unsigned cols, rows;
};
bool guest_pty_id_valid(const char *id);
bool guest_pty_size_valid(unsigned cols, unsigned rows);
/* Starts a session and attaches to it. */
int guest_pty_open(struct guest *g, const struct guest_pty_req *req, uint64_t deadline_ms,
                   struct guest_pty **ret, struct guest_pty_info *ret_info, struct err *err);
int guest_pty_attach(struct guest *g, const struct guest_pty_req *req, uint64_t deadline_ms,
                     struct guest_pty **ret, struct guest_pty_info *ret_info, struct err *err);
/* Detaches; the session continues. NULL is fine. */
void guest_pty_detach(struct guest_pty *t);
/* Readable when anything changed: then guest_pty_read() and guest_pty_write() are worth a try. */
int guest_pty_fd(const struct guest_pty *t);

enum guest_pty_piece {
	GUEST_PTY_PICTURE,  /* part of a picture: the screen drawn from nothing */
	GUEST_PTY_PICTURED, /* its last part, may be empty */
	GUEST_PTY_OUTPUT,
};
/*
 * The next piece, valid until the next call: its length. -EAGAIN: none yet. -ENODATA: the program
 * ended, see guest_pty_exit_code(). -ECONNRESET: the connection ended, the session may not have.
 */
ssize_t guest_pty_read(struct guest_pty *t, enum guest_pty_piece *ret_kind, const uint8_t **ret,
                       struct err *err);
int guest_pty_exit_code(struct guest_pty *t, struct err *err);
/* As much as the guest takes now. */
ssize_t guest_pty_write(struct guest_pty *t, const void *p, size_t n, struct err *err);
int guest_pty_resize(struct guest_pty *t, unsigned cols, unsigned rows, struct err *err);
/* To the program the session was started with. */
int guest_pty_signal(struct guest_pty *t, unsigned sig, struct err *err);

/* Caller frees. Oldest first. */
int guest_pty_list(struct guest *g, struct guest_pty_info **ret, size_t *ret_n, struct err *err);
/* Kills it and all its processes. *ret_exit: exit code, or -1 when it did not end yet. */
int guest_pty_close(struct guest *g, const char *id, const char *user, int *ret_exit,
                    struct err *err);
