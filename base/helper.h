/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base/helper.h - programs of our own that pandod starts with one socket and nothing else
 *
 * For kinds of the starter (base/starter.h): where such a program is, and how it is executed. It
 * gets /dev/null as stdin and stdout, a pipe as stderr and its socket as descriptor 3; its
 * environment is empty, but for the settings of sanitizers in builds for tests. It ends with its
 * server.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct err;
struct proc;
struct starter_job;

#define HELPER_FD 3 /* its socket */

/* Beside this program, or where it is installed. */
int helper_find(const char *name, char *ret, size_t size, struct err *err);
/* Of a kind, for its check: NULL, or what is wrong. */
const char *helper_check(const struct starter_job *j, const char *path);
/* Of a kind, for its run: numbers[0] is RLIMIT_NOFILE. Returns what failed. */
const char *helper_exec(struct starter_job *j, const char *name);
/* Starts it: its ends of the socket and of the pipe. */
int helper_start(const char *kind, const char *path, unsigned nofile, int sock, int errs,
                 struct proc *ret, struct err *err);
