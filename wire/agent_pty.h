/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire/agent_pty.h - terminal sessions in the agent protocol; for agent/ and server/guest/
 *
 * A session belongs to the agent; a stream of pty.open or pty.attach is one client of
 * it. Channel 0 is the input. Channel 1 carries pieces, each a small header and
 * bytes, so that everything stays in order: the description of the session, a picture
 * of its screen, the program's output. RESULT says how the program ended.
 * docs/PROTOCOL.agent.md explains it.
 */
#pragma once

#include "wire/agent.h"

#define AGENT_PTYS_MAX 128u           /* sessions, including ended ones that are still listed */
#define AGENT_PTY_ID 65u              /* bytes with NUL of an id: [a-zA-Z0-9._-]{1,64} */
#define AGENT_PTY_EXEC 512u           /* bytes with NUL of a command in a list */
#define AGENT_PTY_COLS_MAX 1000u      /* columns */
#define AGENT_PTY_ROWS_MAX 1000u      /* rows */
#define AGENT_PTY_CELLS_MAX 200000u   /* columns times rows: limits the memory of a screen */
#define AGENT_PIECE_HDR 5u            /* u8 kind, u32 length */
#define AGENT_PIECE_BYTES (64u << 10) /* of one piece */

enum agent_piece_kind {
	AGENT_PTY_INFO = 1,     /* struct agent_pty; the first piece, and only that */
	AGENT_PTY_PICTURE = 2,  /* bytes that draw the screen from nothing; more follow */
	AGENT_PTY_PICTURED = 3, /* the last of them, may be empty */
	AGENT_PTY_OUTPUT = 4,   /* what the program wrote */
};

bool agent_pty_id_valid(const char *id);
bool agent_pty_size_valid(unsigned cols, unsigned rows);

struct agent_pty_open {         /* pty.open */
	const char *id;         /* "": the agent picks one */
	const char *user, *cwd; /* "": the agent's own; its home */
	const char *exec;       /* "": the login shell */
	uint16_t cols, rows;
	uint16_t n_env;
	const char *env[AGENT_ENV_MAX];
};
void agent_pty_open_put(struct buf *b, const struct agent_pty_open *m);
int agent_pty_open_get(struct rd *c, struct agent_pty_open *ret);

struct agent_pty_req {         /* pty.attach, pty.close */
	const char *id, *user; /* user "": of any user */
	uint16_t cols, rows;   /* pty.attach; 0 for pty.close */
};
void agent_pty_req_put(struct buf *b, const struct agent_pty_req *m);
int agent_pty_req_get(struct rd *c, struct agent_pty_req *ret);

struct agent_pty_resize { /* pty.resize */
	uint32_t stream;  /* of the client whose window it is */
	uint16_t cols, rows;
};
void agent_pty_resize_put(struct buf *b, const struct agent_pty_resize *m);
int agent_pty_resize_get(struct rd *c, struct agent_pty_resize *ret);

/* A session: piece INFO, and repeated in the body of pty.list's RESULT. */
struct agent_pty {
	uint32_t serial; /* increasing; pty.list continues after the last one seen */
	const char *id, *user, *exec;
	uint16_t cols, rows;
	bool running;
	uint32_t exit_code;             /* when not running */
	uint64_t created_ms, exited_ms; /* wall clock */
	uint16_t clients;
};
void agent_pty_put(struct buf *b, const struct agent_pty *m);
int agent_pty_get(struct rd *c, struct agent_pty *ret);

/* Body of a client's RESULT and of pty.close's. */
struct agent_pty_end {
	bool running; /* pty.close: it was killed, but has not ended yet */
	uint32_t exit_code;
};
void agent_pty_end_put(struct buf *b, const struct agent_pty_end *m);
int agent_pty_end_get(const uint8_t *p, size_t n, struct agent_pty_end *ret);

struct agent_piece_hdr {
	uint8_t kind; /* enum agent_piece_kind */
	uint32_t len;
};
void agent_piece_hdr_put(uint8_t p[AGENT_PIECE_HDR], const struct agent_piece_hdr *m);
int agent_piece_hdr_get(const uint8_t p[AGENT_PIECE_HDR], struct agent_piece_hdr *ret);
