/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pty/pty.h - terminal sessions for clients; for api/
 *
 * The sessions live in the guests. This module has the attached clients, one thread each; the last
 * known sessions of VMs at rest; and the tickets for browsers, which cannot send a header.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "guest/guest_pty.h"

struct err;
struct hub;

#define PTY_ATTACHED_MAX 256 /* clients of the whole server; each has a thread */
#define PTY_NOTES_MAX 1024   /* VMs whose sessions are remembered */

int hub_new(struct hub **ret, struct err *err);
struct hub *hub_free(struct hub *h); /* call it when no client is attached any more */
/* Disconnects all clients, and accepts no more. */
void hub_stop(struct hub *h);

/* ---- attached clients: serve.c ---- */

struct pty_client {
	struct guest_pty *pty; /* owned */
	char vm_id[64];
	char session[GUEST_PTY_ID];
	/* Called now and then; false: the client has lost access. */
	bool (*still)(void *ctx);
	void *ctx;
};
/* Registers a client; -EAGAIN with UNAVAILABLE at the limit. pty_leave() undoes
 * it. */
int hub_enter(struct hub *h, struct err *err);
void hub_leave(struct hub *h);
/* Talks to the client on fd until either side ends it. Blocks. Detaches. */
void pty_serve(struct hub *h, struct pty_client *c, int fd, const void *early, size_t n_early);

/* ---- sessions of VMs at rest: hub.c ---- */
/* Stores the sessions of a VM; copied. */
void hub_note(struct hub *h, const char *vm_id, const struct guest_pty_info *list, size_t n);
/* One session started or changed. */
void hub_note_one(struct hub *h, const char *vm_id, const struct guest_pty_info *info);
void hub_note_end(struct hub *h, const char *vm_id, const char *session);
/* Caller frees. false: nothing is known about that VM. */
bool hub_noted(struct hub *h, const char *vm_id, struct guest_pty_info **ret, size_t *ret_n);

/* ---- tickets: ticket.c ---- */
#define TICKET_SIZE 51        /* "pandott_" and 42 letters and digits, NUL */
#define TICKETS_MAX 4096      /* unused, of the whole server */
#define TICKET_TTL_DEFAULT 60 /* seconds */
#define TICKET_TTL_MAX 600

struct ticket {
	char vm_id[64];
	char session[GUEST_PTY_ID]; /* "": opens a session; else attaches to that one */
	char user[64];              /* Linux user, or "" */
	char origin[256];           /* page that may use it, or "": any */
	uint8_t who[512];           /* the caller's data, returned when it is used */
};
int ticket_make(struct hub *h, const struct ticket *t, unsigned ttl_s, char ret[TICKET_SIZE],
                struct err *err);
/*
 * A ticket is valid once, within its lifetime, for its VM, session ("" for a new one) and origin:
 * 0 and *ret. Else -EACCES with UNAUTHORIZED; it is used up in any case.
 */
int ticket_use(struct hub *h, const char *text, const char *vm_id, const char *session,
               const char *origin, struct ticket *ret, struct err *err);
