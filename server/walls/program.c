/* SPDX-License-Identifier: Apache-2.0 */
/*
 * walls/program.c - uacme, and QEMU when it is asked for its version: programs without a jail
 *
 * They run with the server's environment as it was at the start, change files in the same places as
 * pandod does, and have the filter of Git's programs. uacme runs a hook of ours, so it may execute.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/proc.h"
#include "walls/walls.h"

static struct {
	char qemu[300], write[WALLS_DIRS][512];
	struct sysfilter filter; /* empty: none */
	bool confined;           /* may they change files only where pandod may? */
	int landlock;            /* of the starter; -1: none */
} rules = { .landlock = -1 };

/* The rules for files are made by the starter, which has closed all other descriptors. */
static int begin(void)
{
	const char *write[WALLS_DIRS + 1] = { NULL };
	int fd;

	for (size_t i = 0; i < WALLS_DIRS && *rules.write[i]; i++)
		write[i] = rules.write[i];
	fd = rules.confined ? landlock_rules(write, /* execute= */ true, NULL) : -ENOTSUP;
	if (fd < 0 && fd != -ENOTSUP)
		return fd;
	rules.landlock = fd < 0 ? -1 : fd;
	return 0;
}

static const char *check(const struct starter_job *j, uint64_t *ret_flags)
{
	bool version = j->argv[1] && strcmp(j->argv[1], "--version") == 0 && !j->argv[2];

	*ret_flags = 0;
	if (j->n_fds != 3)
		return "descriptors are missing";
	if (strcmp(j->argv[0], "uacme") == 0 || (strcmp(j->argv[0], rules.qemu) == 0 && version))
		return NULL;
	return "this program must not be started";
}

static const char *run(struct starter_job *j)
{
	int r = 0;

	starter_reset_signals();
	starter_oom_score("500");
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || starter_arrange_fds(j) < 0 ||
	    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return "prepare it";
	if (rules.landlock >= 0)
		r = landlock_restrict(rules.landlock);
	if (r == 0 && rules.filter.prog.len)
		r = sysfilter_install(&rules.filter, /* threads= */ false);
	if (r < 0) {
		errno = -r;
		return "put up its walls";
	}
	execvp(j->argv[0], (char *const *)j->argv);
	return "run it";
}

const struct starter_kind program_kind = { PROC_KIND, begin, check, run };

int program_kind_init(const struct program_rules *r, struct err *err)
{
	snprintf(rules.qemu, sizeof(rules.qemu), "%s", r->qemu);
	if (r->mode == WALLS_OFF)
		return 0;
	rules.confined = r->mode == WALLS_ON;
	for (size_t i = 0; i < WALLS_DIRS && r->write[i]; i++)
		snprintf(rules.write[i], sizeof(rules.write[i]), "%s", r->write[i]);
	return sysfilter_build(walls_program_calls, walls_program_n,
	                       r->mode == WALLS_LOG ? SYSFILTER_LOG : SYSFILTER_EPERM,
	                       &rules.filter, err);
}
