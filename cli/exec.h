/* SPDX-License-Identifier: Apache-2.0 */
/* cli/exec.h - a command in a VM, its output here; for cli/ */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "cli/cli.h"

struct buf;

struct exec_opts {
	const char *vm; /* id */
	const char *user, *cwd;
	const char *command;        /* for sh -c */
	const struct cli_list *env; /* "NAME=value", or NULL */
	long long timeout_ms;       /* 0: none */
	bool no_stdin;
};
/*
 * Runs it to its end: its output on stdout and stderr, its stdin ours, signals passed on.
 * Its exit status (128 + signal), or our own after an error message. With --json an object at the
 * end.
 */
int cli_exec(struct cli *c, const struct exec_opts *o);
/* Words as one command line for sh: one word is taken as it is, several are quoted. Caller frees.
 */
char *exec_command(const char *const *words, size_t n);
/* "NAME=value" list as an object, "NAME" takes it from our environment; NULL after an error
 * message. */
json_t *exec_env(const struct cli_list *env);
/* Output as a JSON string: bytes that are not UTF-8 become U+FFFD. */
json_t *cli_output_text(const struct buf *b);
/* Writes all of it; false if the reader is gone. */
bool exec_write(int fd, const void *p, size_t n);
