/* SPDX-License-Identifier: Apache-2.0 */
/*
 * drain.c - clients that take what they asked for too slowly
 *
 * Only the time counts in which there is something for the client and it does not take it: what
 * Git needs to find and to pack is nobody's fault.
 */
#include <errno.h>

#include "base/clock.h"
#include "base/err.h"
#include "git/git_internal.h"

#define SLOW_S 60

unsigned repos_slow_ms(const struct repos *g)
{
	return (g->conf.slow_s ? g->conf.slow_s : SLOW_S) * 1000;
}

int drain_look(const struct repos *g, struct repo_drain *d, bool waits, size_t taken,
               struct err *err)
{
	uint64_t now = clock_ms();

	if (d->since_ms)
		d->waited_ms += now - d->since_ms;
	d->since_ms = waits ? now : 0;
	d->bytes += taken;
	if (d->waited_ms < repos_slow_ms(g))
		return 0;
	if (d->bytes < REPO_SLOW_BYTES)
		return err_set(err, -ETIMEDOUT,
		               "the client took %llu bytes in %u s, less than the %u that it must",
		               (unsigned long long)d->bytes, repos_slow_ms(g) / 1000,
		               REPO_SLOW_BYTES);
	d->waited_ms = d->bytes = 0;
	return 0;
}
