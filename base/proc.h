/* SPDX-License-Identifier: Apache-2.0 */
/* base/proc.h - processes, referred to by pidfd; the pid is for the log */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct err;

struct proc {
	pid_t pid;
	int pidfd; /* owned; -1: none */
};
#define PROC_NONE ((struct proc){ .pid = -1, .pidfd = -1 })

int proc_open(pid_t pid, struct proc *ret, struct err *err);
void proc_close(struct proc *p);
int proc_kill(const struct proc *p, int sig);
/* 1 if it ended before the deadline, 0 if not, -errno. Does not reap. */
int proc_wait_end(const struct proc *p, uint64_t deadline_ms);
bool proc_alive(const struct proc *p);
/* Start time in clock ticks since boot (field 22 of stat): tells a reused pid apart. */
int proc_start_time(pid_t pid, uint64_t *ret_ticks);

struct proc_run_opts {
	const char *const *argv; /* argv[0] is an absolute path or looked up in PATH */
	const char *stdin_text;  /* NULL: /dev/null */
	unsigned deadline_ms;
	size_t max_output; /* bytes kept of stdout and of stderr */
};
/* The starter's kind of child for this (base/starter.h); without one, proc_run() forks itself. */
#define PROC_KIND "program"
/* Runs a helper program to its end. Exit status (0-255, 128+signal), or -errno. Caller frees the
 * texts. */
int proc_run(const struct proc_run_opts *o, char **ret_out, char **ret_errout, struct err *err);
