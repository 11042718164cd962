/* SPDX-License-Identifier: Apache-2.0 */
/*
 * write.c - writes to a channel of the client, working around a bug of the library
 *
 * A client announces how large a packet of a channel may be. libssh subtracts 10 bytes from that
 * for headers, so for a client that announces 10 it sends empty packets for ever, and we cannot
 * query what the client announced. So the first write to a channel is one byte, with the library's
 * log turned on for this thread: one packet must be enough. If it logs far more than that, the log
 * function jumps out of the loop, at a point where the library holds no lock and changes nothing;
 * after that the session is only freed.
 */
#include <setjmp.h>

#include "base/auto.h"
#include "sshmain/sshmain.h"

#define PROBE_LINES 500 /* of the library's log; sending a packet logs a handful */

static _Thread_local struct {
	jmp_buf out;
	unsigned lines;
} probe;

static void on_log(int priority, const char *function, const char *text, void *ctx)
{
	if (++probe.lines > PROBE_LINES)
		longjmp(probe.out, 1);
}

static int library_write(struct chan *x, bool to_stderr, const void *p, uint32_t n)
{
	return to_stderr ? ssh_channel_write_stderr(x->ch, p, n) : ssh_channel_write(x->ch, p, n);
}

/* Like the library's write, for one byte; -1 and c->broken if it does not fit into one packet.
 */
static int first_byte(struct chan *x, bool to_stderr, const void *p)
{
	int r;

	probe.lines = 0;
	ssh_set_log_callback(on_log);
	ssh_set_log_level(SSH_LOG_PACKET);
	if (setjmp(probe.out) == 0) {
		r = library_write(x, to_stderr, p, 1);
	} else {
		r = -1;
		x->c->broken = true;
		conn_end(x->c, "the client's maximum packet size is too small");
	}
	ssh_set_log_level(SSH_LOG_NONE);
	ssh_set_log_callback(NULL);
	if (r > 0)
		x->probed = true;
	return r;
}

int chan_write(struct chan *x, bool to_stderr, const void *p, uint32_t n)
{
	if (x->c->broken)
		return -1;
	return x->probed ? library_write(x, to_stderr, p, n) : first_byte(x, to_stderr, p);
}
