/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base/starter.h - a small process that starts programs for a large one
 *
 * A process that puts walls around itself (seccomp, Landlock) hands them on to its children, and a
 * large one copies its page tables with each. So it forks a starter first, while it is small, has
 * one thread and no walls. The starter is sent requests and clones the children as children of who
 * asked (CLONE_PARENT): waitpid(), pidfds and PR_SET_PDEATHSIG work as if it had done so itself.
 *
 * The starter trusts nobody: a request names one of the kinds of children it was made with, is
 * bounded, and is looked at by that kind's check. It ends with its maker. If it ends earlier,
 * nothing can be started any more: starter_fd() tells.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct err;
struct proc;

#define STARTER_KINDS 4
#define STARTER_NUMBERS 8
#define STARTER_TEXTS 8
#define STARTER_ARGS 128            /* arguments, and variables of the environment */
#define STARTER_FDS 5               /* descriptors: 0, 1, 2 and two more */
#define STARTER_MSG_MAX (60u << 10) /* bytes of a request */

/* A request, on both ends; what it means is a matter of its kind. */
struct starter_job {
	uint32_t kind;
	uint64_t numbers[STARTER_NUMBERS];
	const char *texts[STARTER_TEXTS];                           /* NULL and "" are the same */
	const char *argv[STARTER_ARGS + 1], *env[STARTER_ARGS + 1]; /* NULL at the end */
	int fds[STARTER_FDS];
	uint32_t n_fds;
	int line; /* in the child: to who asked; closed by execve() */
};

struct starter_kind {
	const char *name;
	/* Once in the starter, when it has closed all its maker's descriptors; 0, else it ends. Or
	 * NULL. */
	int (*begin)(void);
	/* In the starter: NULL, or why this must not be started. Sets flags of clone3():
	 * namespaces. */
	const char *(*check)(const struct starter_job *j, uint64_t *ret_flags);
	/* In the child, system calls only: executes the program, or returns what failed, with
	 * errno. */
	const char *(*run)(struct starter_job *j);
};

/* Forks the starter. One in a process; -EALREADY if there is one. The kinds are static. */
int starter_open(const struct starter_kind *const *kinds, size_t n, struct err *err);
/* Ends it; what it started goes on. */
void starter_close(void);
/* The number of the kind, or -ENOENT if there is no such kind or no starter. */
int starter_kind(const char *name);
/* Readable once the starter has ended: a pidfd, or -1 without a starter. */
int starter_fd(void);
/*
 * Starts a child and waits for its execve(). ret_fd: a descriptor that the child handed over with
 * starter_hand_over(), or -1. The caller reaps the child.
 */
int starter_run(const struct starter_job *j, struct proc *ret, int *ret_fd, struct err *err);
/* In the child: for ret_fd. System calls only; -errno. */
int starter_hand_over(const struct starter_job *j, int fd);

/* Parts of what a child does, system calls only: */
void starter_reset_signals(void);
/* j->fds become 0, 1, 2...; all others, and `line`, will be closed by execve(). 0 or -1 and errno.
 */
int starter_arrange_fds(struct starter_job *j);
/* For the kernel's choice when memory is short: 1000 is the first to go. Errors are ignored. */
void starter_oom_score(const char *text);
