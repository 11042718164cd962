/* SPDX-License-Identifier: Apache-2.0 */
#include "walls/walls.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"

enum walls_mode walls_parse(const char *text)
{
	return strcmp(text, "off") == 0   ? WALLS_OFF
	       : strcmp(text, "log") == 0 ? WALLS_LOG
	                                  : WALLS_ON;
}

/* Sets st->landlock, and *ret_why if there is none. */
static int raise_landlock(const struct walls_conf *c, struct walls_state *st, const char **ret_why,
                          struct err *err)
{
	autofd int rules = -1;
	int abi = landlock_abi(ret_why), r;

	if (*ret_why)
		return 0;
	rules = landlock_rules(c->write, /* execute= */ false, err);
	if (rules < 0)
		return rules;
	r = landlock_restrict(rules);
	if (r < 0)
		return err_sys(err, r, "Landlock");
	st->landlock = abi;
	return 0;
}

static int raise_filter(const struct walls_conf *c, struct err *err)
{
	struct sysfilter f = SYSFILTER_NONE;
	int r;

	if (!sysfilter_available())
		return err_set(err, -ENOTSUP,
		               "this kernel has no seccomp filters; PANDO_WALLS=off runs without");
	r = sysfilter_build(walls_pandod_calls, walls_pandod_n,
	                    c->mode == WALLS_LOG ? SYSFILTER_LOG : SYSFILTER_TRAP, &f, err);
	if (r == 0 && (r = sysfilter_report("pandod", STDERR_FILENO)) < 0)
		err_sys(err, r, "handle SIGSYS");
	if (r == 0 && (r = sysfilter_install(&f, /* threads= */ true)) < 0)
		err_sys(err, r, "filter system calls");
	sysfilter_free(&f);
	return r;
}

int walls_raise(const struct walls_conf *c, struct walls_state *ret, struct err *err)
{
	const char *why = "PANDO_WALLS=log";
	int r;

	*ret = (struct walls_state){ .no_new_privs = true };
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_sys(err, -errno, "set no_new_privs");
	if (c->mode == WALLS_OFF) {
		snprintf(ret->text, sizeof(ret->text),
		         "no_new_privs; the rest is off (PANDO_WALLS)");
		return 0;
	}
	/* Landlock first: the filter allows none of its calls. */
	if (c->mode == WALLS_ON && (r = raise_landlock(c, ret, &why, err)) < 0)
		return r;
	if ((r = raise_filter(c, err)) < 0)
		return r;
	ret->seccomp = c->mode == WALLS_ON;
	if (ret->landlock)
		snprintf(ret->text, sizeof(ret->text), "no_new_privs, seccomp, Landlock (ABI %d)",
		         ret->landlock);
	else
		snprintf(ret->text, sizeof(ret->text), "no_new_privs, seccomp%s; no Landlock: %s",
		         c->mode == WALLS_LOG ? " (only logs)" : "", why);
	return 0;
}
