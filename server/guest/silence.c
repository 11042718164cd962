/* SPDX-License-Identifier: Apache-2.0 */
/*
 * silence.c - give up a connection whose guest has fallen silent without hanging up
 *
 * Theory of operation: a call gets no answer in time -> one ping is sent, and nobody waits for it
 * -> any frame from the guest settles the matter, whatever it belongs to -> if none has come after
 * silence_ms, the next one to look ends the connection: whoever opens a stream, waits for one, or
 * asks guest_alive(). The owner then connects again.
 *
 * Ending a connection is expensive: commands go on without a listener, terminals are detached, SSH
 * logins are hung up on. The agent answers a ping whatever its commands do, so only a guest that
 * gets no processor time at all is slow to answer; silence_ms is long enough for that. A machine
 * that is known to be paused is not waited for.
 */
#include <errno.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "guest/guest_internal.h"

/* One ping that nobody waits for; false: it could not be tried. */
static bool send_ping(struct guest *g)
{
	autobuf struct buf req = { 0 };
	struct stream *s = NULL;
	int r;

	/* Whoever has the turn for long is freezing the guest, or finds out that it does not read.
	 */
	if (guest_turn_take(g, clock_ms(), NULL) < 0)
		return false;
	buf_put_u16(&req, AGENT_OP_PING);
	r = stream_open(g, &req, STREAM_IN_TURN, clock_ms(), &s, NULL);
	guest_turn_give(g);
	if (r == 0)
		stream_abandon(s);
	return r == 0 || r == -ETIMEDOUT; /* not even reading is silence, too */
}

static bool begin(struct guest *g)
{
	LOCK_SCOPE(&g->lock);
	if (g->dead || !g->greeted || g->paused || g->silent_at)
		return false;
	g->silent_at = deadline_in(g->silence_ms);
	for (size_t i = 0; i < AGENT_STREAMS_MAX; i++)
		if (g->streams[i])
			stream_wake(g->streams[i]); /* they wait until then now */
	return true;
}

void silence_suspect(struct guest *g)
{
	if (begin(g) && !send_ping(g)) {
		LOCK_SCOPE(&g->lock);
		g->silent_at = 0;
	}
}

static bool is_silent(struct guest *g)
{
	LOCK_SCOPE(&g->lock);
	return !g->dead && g->silent_at && clock_ms() >= g->silent_at;
}

void silence_check(struct guest *g)
{
	if (is_silent(g))
		guest_end(g, LOG_LV_WARN,
		          "a call got no answer in time, nor did a ping within %u ms",
		          g->silence_ms);
}

void guest_silence(struct guest *g, unsigned ms)
{
	g->silence_ms = ms;
}

void guest_pause(struct guest *g, bool paused)
{
	LOCK_SCOPE(&g->lock);
	g->paused = paused;
	g->silent_at = 0; /* the next call that gets no answer asks again */
}
