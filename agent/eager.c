/* SPDX-License-Identifier: Apache-2.0 */
/*
 * eager.c - first in line after a thaw
 *
 * When a guest goes on it has much to do that nobody waits for: the step of its clock
 * wakes systemd, a new host name the journal, and on one emulated processor they
 * take turns with the agent. So from `settle` on, which comes right before a freeze,
 * the agent and the shell that is loaded ahead are real-time processes, and are
 * frozen and thawed as such. It is over when the first request has been taken up, or
 * after EAGER_TURNS. The shell gives it up before it runs anything of a user's;
 * children never inherit it.
 */
#include <sched.h>

#include "agent/agent.h"

#define EAGER_TURNS 64 /* of the loop: greeting and request take a handful */

static bool set(pid_t pid, bool first)
{
	const struct sched_param rt = { .sched_priority = 1 }, none = { 0 };

	return first ? sched_setscheduler(pid, SCHED_RR | SCHED_RESET_ON_FORK, &rt) == 0
	             : sched_setscheduler(pid, SCHED_OTHER, &none) == 0;
}

void eager_begin(struct agent *a)
{
	if (a->test_root || !set(0, true))
		return; /* a kernel that does not do that: no harm */
	if (a->ready.pid > 0)
		set(a->ready.pid, true);
	a->eager = EAGER_TURNS;
}

static void eager_end(struct agent *a)
{
	a->eager = 0;
	set(0, false);
	if (a->ready.pid > 0)
		set(a->ready.pid, false);
}

void eager_last(struct agent *a)
{
	if (a->eager)
		a->eager = 1;
}

void eager_turn(struct agent *a)
{
	if (a->eager == 1)
		eager_end(a);
	else if (a->eager)
		a->eager--;
}
