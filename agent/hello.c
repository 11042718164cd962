/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hello.c - the host's greeting, which starts a connection, and the agent's announcement
 *
 * A HELLO with a new nonce ends the previous connection: its streams lose their listener, its
 * queued output is dropped (even half a frame: the host is hunting, so that does no harm), the
 * identity steps are done, and HELLO_ACK answers. The same nonce again is a retransmission and gets
 * the same answer, without doing anything twice.
 *
 * Every thaw waits for the answer. So it leaves before self_apply(), unless that opens or closes
 * the socket of self access: programs of the guest may ask as soon as the host says it runs. No
 * request is taken before either is done.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "agent/agent.h"
#include "agent/ready.h"
#include "base/auto.h"
#include "base/err.h"
#include "base/io.h"
#include "base/log.h"

void hello_ready(struct agent *a, uint8_t why)
{
	autobuf struct buf b = { 0 };

	agent_ready_put(&b, why);
	if (!b.failed)
		port_send(a, AGENT_F_READY, 0, 0, b.p, b.len);
}

/* The highest version both support, 0 if there is none. */
static uint16_t pick_version(const struct agent_hello *h)
{
	uint16_t v = MIN(h->version_max, AGENT_VERSION_MAX);

	return v >= h->version_min && v >= AGENT_VERSION_MIN ? v : 0;
}

static void refuse(struct agent_hello_ack *ack, uint16_t step, int err_no)
{
	ack->failed_step = step;
	ack->failed_errno = (uint32_t)err_no;
}

static void begin(struct agent *a, struct agent_hello *h)
{
	struct agent_hello_ack ack = { .failed_step = AGENT_STEP_NONE };
	const struct agent_who *who;

	a->greeted = false;
	stream_orphan_all(a);
	port_drop_queue(a);
	pty_on_hello(a, h);
	who = self_greeted(a, h);
	memcpy(ack.nonce, h->nonce, sizeof(ack.nonce));
	snprintf(ack.agent_version, sizeof(ack.agent_version), "%s", PANDO_VERSION);
	snprintf(ack.boot_id, sizeof(ack.boot_id), "%s", a->boot_id);
	ack.version = pick_version(h);
	if (!ack.version) {
		refuse(&ack, AGENT_STEP_NONE, EPROTONOSUPPORT);
	} else if (h->reason == AGENT_RECONNECT) {
		if (!a->has_generation || a->generation != h->generation)
			refuse(&ack, AGENT_STEP_NONE, ESTALE);
	} else {
		a->has_generation = false; /* an incomplete identity is a failure */
		identity_remember(a);
		identity_apply(a, h, who, &ack);
		if (!ack.failed_errno) {
			a->generation = h->generation;
			a->has_generation = true;
			identity_remember(a);
			code_identity(a);
			ready_plan(a, READY_THAW_MS);
		}
	}
	ack.generation = a->has_generation ? a->generation : 0;
	a->greeted = !ack.failed_errno;
	if (a->greeted && who)
		ack.steps_done |= 1u << AGENT_KNOWS_WHO;
	if (ack.failed_errno)
		log_error("rejected the host's greeting: step %s: %s",
		          agent_step_name(ack.failed_step), err_name((int)ack.failed_errno));
	memcpy(a->nonce, h->nonce, sizeof(a->nonce));
	a->has_nonce = true;
	buf_reset(&a->ack);
	agent_hello_ack_put(&a->ack, &ack);
}

bool hello_receive(struct agent *a, const struct agent_frame *f)
{
	struct agent_hello h;
	bool first, late;

	if (agent_hello_get(f->payload, f->len, &h) < 0)
		return false;
	first = !a->has_nonce || memcmp(a->nonce, h.nonce, sizeof(h.nonce)) != 0;
	if (first)
		begin(a, &h);
	late = first && a->greeted && self_can_wait(a);
	if (first && a->greeted && !late)
		self_apply(a);
	explicit_bzero(&h, sizeof(h));
	explicit_bzero((void *)(uintptr_t)f->payload, f->len); /* entropy must not stay in memory */
	if (!a->ack.failed)
		port_send(a, AGENT_F_HELLO_ACK, 0, 0, a->ack.p, a->ack.len);
	if (late) {
		port_flush(a);
		self_apply(a);
	}
	return true;
}
