/* SPDX-License-Identifier: Apache-2.0 */
/*
 * walls/walls.h - what pandod takes away from itself and from the programs it starts
 *
 * pandod parses what strangers send. Should someone take it over through that, the walls decide
 * what they have: not a new program, no file outside the data and cache directories, no mount, no
 * other process's memory. In order: a starter is forked (base/starter.h), without walls; modules
 * are started; walls_raise() is called, for good, before anything listens to strangers.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/seccomp.h"
#include "base/starter.h"

struct err;

/* calls.c */
extern const struct sysfilter_rule walls_program_calls[], walls_pandod_calls[];
extern const size_t walls_program_n, walls_pandod_n;

enum walls_mode { WALLS_OFF, WALLS_LOG, WALLS_ON };
enum walls_mode walls_parse(const char *text); /* "off", "log", else on */

#define WALLS_DIRS 8
struct walls_conf {
	enum walls_mode mode;
	const char *write[WALLS_DIRS]; /* directories, below which may be written; NULL: no more */
};

/* What is in force, for the log and /v1/health. */
struct walls_state {
	bool no_new_privs, seccomp;
	int landlock; /* ABI in force; 0: none, and why is in the text */
	char text[200];
};

/*
 * For all threads of the process, and for good. Without Landlock in the kernel, or with too old a
 * one, the rest is put up and the text says so; everything else that fails is an error.
 */
int walls_raise(const struct walls_conf *c, struct walls_state *ret, struct err *err);

/* ---- landlock.c ---- */

/* The kernel's ABI; 0: it has none, or it is switched off; ret_why has a word on that. */
int landlock_abi(const char **ret_why);
/*
 * A rule set under which files can be written below `write` only, and programs executed only if
 * `execute`. -errno; -ENOTSUP if the kernel's ABI is too old. The descriptor is the caller's.
 */
int landlock_rules(const char *const *write, bool execute, struct err *err);
/* For the calling thread and what it starts; system calls only. Needs no_new_privs. -errno. */
int landlock_restrict(int rules);

/* ---- program.c: other programs than Git's, for proc_run() ---- */

struct program_rules {
	const char *const *write; /* as in walls_conf */
	enum walls_mode mode;
	const char *qemu; /* asked for its version, nothing else */
};
extern const struct starter_kind program_kind;
/* Before starter_open(). */
int program_kind_init(const struct program_rules *r, struct err *err);
