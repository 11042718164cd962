/* SPDX-License-Identifier: Apache-2.0 */
/* pty/pty_internal.h - shared by the files of pty/; not for other modules */
#pragma once

#include "base/lock.h"

#include "pty/pty.h"

#define TICKET_HASH 32 /* SHA-256 */

struct seat { /* an attached client */
	struct seat *next;
	int wake; /* eventfd, of its thread */
};

struct note {
	struct note *next; /* latest first */
	char vm_id[64];
	struct guest_pty_info *list; /* owned */
	size_t n;
};

struct ticket_row {
	uint8_t hash[TICKET_HASH];
	uint64_t until_ms; /* clock_ms(); 0: free */
	struct ticket t;
};

struct hub {
	struct mutex lock;
	bool stopping GUARDED_BY(lock);
	unsigned attached GUARDED_BY(lock);
	struct seat *seats GUARDED_BY(lock); /* weak, each is on its thread's stack */
	struct note *notes GUARDED_BY(lock); /* owned */
	unsigned n_notes GUARDED_BY(lock);
	struct ticket_row *tickets GUARDED_BY(lock); /* owned; n_tickets rows, some free */
	size_t n_tickets GUARDED_BY(lock);
};

/* false: the server is shutting down, do not start. */
bool seat_take(struct hub *h, struct seat *s);
void seat_leave(struct hub *h, struct seat *s);
