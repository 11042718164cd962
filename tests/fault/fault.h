/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/fault/fault.h - makes the n-th call into something fail; for tests only
 *
 * A plan says which kinds of calls count, which one of them fails, and how. Every injector asks
 * fault_hit() before it does what it stands in for; the answer is 0 (do it) or an errno (fail
 * with that). So a test runs a verb again and again with nth = 1, 2, 3, ... until fault_fired()
 * says that the verb made fewer calls than that.
 *
 *	struct fault_plan p = { .kinds = FAULT_BIT(FAULT_STORE), .nth = n, .error = ENOSPC };
 *
 *	fault_set(&p);
 *	fault_arm();
 *	r = vmm_suspend(m, account, id, &err);
 *	fault_disarm();
 *	if (!fault_fired())
 *		break;
 *
 * Injectors here: the store (a SQLite VFS over the usual one), the agent channel (a thread between
 * the two ends that knows where messages begin), files and memory (calls of libc, redirected by the
 * linker in programs that use fault_wrap_dep). A fake of something else counts its own calls with
 * fault_hit() as well.
 *
 * The linker redirects calls of our own objects only, never those of libc, SQLite or jansson. Calls
 * of the test itself and of fakes are kept out with FAULT_QUIET. A process that was forked is
 *quiet. All of this may be called from any thread; the count is one for the whole process.
 */
#pragma once

#include <stdbool.h>

struct err;
struct fault_agent;

enum fault_kind {
	FAULT_STORE,        /* SQLite reads, writes, syncs, opens, truncates a file */
	FAULT_STORE_MEMORY, /* SQLite allocates */
	FAULT_AGENT,        /* a message on the agent channel, either way */
	FAULT_FILE,   /* open, read, write, sync, rename, mkdir, link, ... of a regular file */
	FAULT_REMOVE, /* unlink: separate, because callers may have to ignore it
	               */
	FAULT_MEMORY, /* malloc and the like */
	FAULT_ENGINE, /* of the fake engine */
	FAULT_HELPER, /* of the fake root helper */
	FAULT_KINDS,
};
#define FAULT_BIT(kind) (1u << (kind))

/* What becomes of a message on the agent channel; any other error hangs up, too. */
#define FAULT_HANG_UP EPIPE   /* both ends see the end of the channel */
#define FAULT_SWALLOW ENOMSG  /* this message is lost, later ones pass */
#define FAULT_STALL ETIMEDOUT /* nothing passes from now on, and nobody hangs up */

struct fault_plan {
	unsigned kinds;    /* FAULT_BIT() of those that count */
	unsigned long nth; /* the call that fails, from 1; 0: none, only count */
	int error;         /* errno; 0: what is usual for that kind (EIO, ENOMEM, FAULT_HANG_UP) */
	bool stays;        /* all later counted calls fail too */
};

/* A new plan, disarmed, nothing counted. NULL: none. */
void fault_set(const struct fault_plan *p);
void fault_arm(void);
void fault_disarm(void);
bool fault_fired(void);
unsigned long fault_count(void); /* calls counted since fault_set(), up to now */
/* The call that failed, as "store: xSync pando.db-wal"; "" when none did. Static storage. */
const char *fault_what(void);
const char *fault_kind_name(enum fault_kind kind);

/*
 * For injectors: 0, or the errno to fail with. what names the call, for fault_what(). With the
 * environment variable PANDO_FAULT_TRACE set, the call that fails prints its stack.
 */
int fault_hit(enum fault_kind kind, const char *what, const char *object);

/*
 * Called for every call that is not quiet, armed or not, before the plan is checked; if it returns
 * an errno, the call fails with it. It is quiet itself and may sleep, so a thread scheduler can
 * live here. NULL: none.
 */
typedef int fault_hook(enum fault_kind kind, const char *what, void *arg);
void fault_on_call(fault_hook *fn, void *arg);

/* Calls of this thread neither count nor fail until the end of the scope; nests. */
void fault_quiet_begin(void);
void fault_quiet_end(void);
bool fault_is_quiet(void);
static inline void fault_quiet_scope_(const int *unused)
{
	(void)unused;
	fault_quiet_end();
}
#define FAULT_QUIET                                                             \
	__attribute__((cleanup(fault_quiet_scope_), unused)) int fault_quiet_ = \
	        (fault_quiet_begin(), 0)

/*
 * Store: from now on databases are opened through the injector, with memory also allocated
 * through it. Before the first use of SQLite in the program. ENOSPC is SQLITE_FULL, ENOMEM
 * SQLITE_NOMEM, anything else SQLITE_IOERR.
 */
int fault_store_install(bool memory);

/*
 * Agent: a thread between agent_fd (consumed) and *ret_host_fd (the caller's). It ends when either
 * end does. what is "host OPEN", "guest RESULT", ...
 */
int fault_agent_start(int agent_fd_consume, int *ret_host_fd, struct fault_agent **ret,
                      struct err *err);
/* Hangs up, waits for the thread. NULL is fine; returns NULL. */
struct fault_agent *fault_agent_stop(struct fault_agent *a);
