/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent/code.h - shared by the files of the code interpreter (agent/code*.c)
 *
 * A context is a kernel process with a queue of cells. The kernel has a socket
 * to us and two pipes for the output of its cells. Events of the running cell
 * are queued in outq and sent as the host grants credit; while something waits
 * there nothing more is read, so a slow host delays the cell but costs no memory.
 */
#pragma once

#include "agent/agent.h"
#include "base/buf.h"
#include "wire/agent_code.h"

#define CODE_START_MS \
	180000 /* for a kernel to be ready; when emulated and warming up this takes long */
#define CODE_IGNORE_MS 5000   /* for a cell to end after its interrupt, before it is killed */
#define CODE_CLOSED_MS 2000   /* for a kernel to end after its socket did */
#define CODE_NUDGES 10        /* at most, after an interrupt that has not ended the cell */
#define CODE_SAY_MS 50        /* a cell that ends before this is reported in one message */
#define CODE_DROP_PER_TURN 16 /* chunks of unwanted output per turn, for fairness */
#define CODE_KERNELS "/usr/lib/pando/kernels"
#define CODE_OOM_SCORE "500" /* of a kernel: greedy cells are killed first */
#define CODE_BASE_ENV 10u    /* variables every kernel has */

struct code_cell {
	struct code_cell *next;
	struct stream *s; /* weak; NULL: no listener */
	char *code;       /* owned */
	size_t len;
	uint32_t timeout_ms;
	bool warm;
	bool interrupted; /* before it began */
};

struct code_file {
	char *path; /* owned */
};

struct code_env {
	char *v[CODE_BASE_ENV + AGENT_CODE_ENV_MAX + 3]; /* weak; NULL after the last */
	size_t n;
	char home[AGENT_PATH_MAX + 8], user[AGENT_USER_MAX + 8], logname[AGENT_USER_MAX + 10];
};

struct code_ctx {
	struct code_ctx *next;
	uint32_t id;
	uint8_t lang;
	bool is_default, deleted;
	bool used;            /* somebody ran a cell in it */
	bool spare;           /* a kernel without a context yet (code_spare.c) */
	uint64_t spare_until; /* clock_ms(); 0: no limit */
	char user[AGENT_USER_MAX], cwd[AGENT_CODE_CWD_MAX];
	char *env[AGENT_CODE_ENV_MAX]; /* owned */
	unsigned n_env;
	int64_t created_ns;

	/* the kernel */
	enum agent_code_state state;
	uint32_t kernel;       /* number of this process among all kernels: used in epoll events */
	pid_t pid;             /* 0: none, or reaped */
	int pidfd, ctl;        /* owned */
	int pipe[AGENT_CHANS]; /* owned; [1], [2] */
	bool readable[AGENT_CHANS]; /* as last seen; [0]: the socket */
	bool lost;                  /* there was a kernel, and its variables are gone */
	bool exited, broken, killed;
	bool forking; /* the zygote was asked for it: its pid is not known yet */
	bool cold;    /* the zygote cannot fork it */
	bool warm;    /* it was told to import the usual libraries */
	bool move;    /* it must change to cwd before its first cell */
	int wstatus;
	struct buf rx, tx; /* from and to the kernel */
	size_t tx_off;
	bool awaits_room;   /* its socket was full */
	uint64_t ready_by;  /* clock_ms(), as are the following; 0: never */
	uint64_t closed_by; /* its socket is closed: it should be gone by then */
	uint32_t count;     /* cells it has run */

	/* the first of these runs when the state is BUSY */
	struct code_cell *cells;
	unsigned waiting;
	uint64_t started_ms, timeout_at, kill_at;
	uint64_t say_at;   /* when the host must be told that it began; 0: it was */
	uint64_t nudge_at; /* when to repeat an interrupt */
	unsigned nudges;   /* to go */
	bool signal_due;   /* SIGINT follows when all of tx is written */
	uint8_t how;
	bool done, fresh, asked; /* asked: an interrupt was requested */
	bool owing;              /* owed[] was counted for the next event from the socket */
	size_t owed[AGENT_CHANS];
	uint64_t bytes[AGENT_CHANS];
	struct buf outq;
	size_t outq_off;
	struct code_file files[AGENT_CODE_FILES_MAX];
	unsigned n_files;
	bool files_cut;
};

/* code.c */
void code_free(struct agent *a, struct code_ctx *x);
/* Default contexts that nobody ran a cell in: the next cell begins a new one. */
void code_drop_unused(struct agent *a);
void code_describe(const struct code_ctx *x, struct agent_code_context *ret);

/* code_kernel.c */
int code_start(struct agent *a, struct code_ctx *x, bool warm); /* 0 or -errno */
/* SIGKILL for the kernel and everything it started. */
void code_kill(struct code_ctx *x);
/* Interrupts the running cell, even if the kernel has not begun with it; the kernel continues. */
void code_interrupt(struct code_ctx *x);
/* The signal of an interrupt, once the kernel can find it in its socket. */
void code_interrupt_sent(struct code_ctx *x);
/* Once more, for a cell that was about to wait when the signal came. */
void code_nudge(struct code_ctx *x);
/* Kills and reaps it, at once: for one that has not run anything yet. */
void code_abandon(struct code_ctx *x);
/* The process has ended and was reaped: drops its state. */
void code_forget_kernel(struct code_ctx *x);
void code_on_exit(struct agent *a, struct code_ctx *x);
/* Whether to poll its socket for writing. */
void code_await_room(struct agent *a, struct code_ctx *x, bool await);
int code_adopt_pid(struct agent *a, struct code_ctx *x, pid_t pid);
/* The user of the kernel; 0 or -errno. */
int code_user(const struct code_ctx *x, struct user *ret);
/* Its environment; points into x and itself. */
void code_env_make(const struct code_ctx *x, const struct user *u, struct code_env *ret);
/* In a child: becomes the kernel of that language. */
void code_exec(const struct agent *a, uint8_t lang, struct code_env *env) __attribute__((noreturn));
/* Has the OOM killer killed anything since the last call? */
bool code_oom_happened(struct agent *a);

/* code_cell.c */
void code_enqueue(struct agent *a, struct code_ctx *x, struct code_cell *cell_consume);
void code_step(struct agent *a, struct code_ctx *x, uint64_t now); /* advances it */
bool code_can_move(const struct agent *a, const struct code_ctx *x);
/* Ends the first cell; how: enum agent_code_how. */
void code_end_cell(struct agent *a, struct code_ctx *x, uint8_t how);
void code_cell_free(struct code_cell *c);

/* code_zygote.c: a warm Python that forks kernels */
/* Sends the child's ends of socket and pipes to the zygote, which replies later; false: there is
 * none.
 */
bool zygote_ask(struct agent *a, struct code_ctx *x, const int fds[3], bool may_start);
void zygote_on_event(struct agent *a);
void zygote_tick(struct agent *a, uint64_t now);
uint64_t zygote_next_timer(const struct agent *a);
void zygote_close(struct agent *a);

/* code_spare.c: a warm Node.js that waits for a context */
struct code_ctx *spare_make(struct agent *a);
bool spare_take(struct agent *a, struct code_ctx *x); /* x has its kernel now */
void spare_tick(struct agent *a, uint64_t now);
uint64_t spare_next_timer(const struct agent *a);

/* code_files.c: which files change while cells run */
void code_files_begin(struct agent *a, struct code_ctx *x);
/* Puts an event for each file into outq. */
void code_files_end(struct agent *a, struct code_ctx *x);
void code_files_tick(struct agent *a, uint64_t now);
void code_files_close(struct agent *a);
