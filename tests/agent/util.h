/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/agent/util.h - the real agent on a socketpair, and a temporary directory
 *
 * The agent always gets --test-root: it never touches this machine's clock,
 * names or power. Every wait has a deadline; what a test started it ends.
 */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <cmocka.h>

#include "guest/guest.h"

#define TEST_DEADLINE_MS 60000

struct rig {
	char dir[96];           /* test root, removed at the end */
	pid_t agent;            /* 0: not running */
	struct guest *g;        /* NULL: not connected */
	int fd;                 /* our end while there is no guest; -1 */
	const char *pty_retain; /* of the next agent; NULL: the usual */
	bool accounts;          /* the next agent sees dir/passwd and dir/group as /etc's */
};

/* cmocka setup and teardown; *state is a struct rig. */
int rig_new(void **state);   /* agent started, nothing said */
int rig_ready(void **state); /* and greeted, as booted, generation 1 */
int rig_done(void **state);

void rig_spawn(struct rig *r); /* starts an agent; rig->fd is the channel */
void rig_stop(struct rig *r);  /* ends it and reaps it */
void rig_attach(struct rig *r);
int rig_hello(struct rig *r, enum guest_reason reason, uint64_t generation, struct guest_info *info,
              struct err *err);
/* With PANDO_READY, the agent's --ready: waits for the shell it loads ahead; its pid. */
pid_t rig_await_shell(struct rig *r);
/* File below the test root as text; "" when it is not there. Caller frees. */
char *rig_text(struct rig *r, const char *name);
void rig_write(struct rig *r, const char *name, const char *text, mode_t mode);
long rss_kb(pid_t pid); /* VmHWM: the most it ever had */
unsigned count_fds(pid_t pid);

/* Runs a command as guest_exec() does with no options. */
int run(struct rig *r, const char *command, struct guest_exec_result *ret, struct err *err);
#define run_ok(r, command, ret)                                \
	do {                                                   \
		struct err e_ = { 0 };                         \
		if (run((r), (command), (ret), &e_) < 0)       \
			fail_msg("%s: %s", (command), e_.msg); \
	} while (0)
