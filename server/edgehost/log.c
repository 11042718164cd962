/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log.c - lines of the access log, from pando-edge
 *
 * Theory of operation: a line names the host that was asked for and the place where it led then. It
 * counts if the host leads there now: whoever got the name since is not shown requests that were
 * for another VM. Lines come in runs of the same host, so the last answer is kept for one packet.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/auto.h"
#include "edgehost/host_internal.h"

struct led {
	bool known;
	char host[EDGEW_HOST_SIZE];
	char vm[ID_SIZE], place[ID_SIZE]; /* "": nowhere */
};

static void lead(struct edgehost *h, const char *host, struct led *ret)
{
	struct edgehost_way w = { .kind = EDGE_NOWHERE };
	struct edgew_way as;

	if (ret->known && strcmp(ret->host, host) == 0)
		return;
	*ret = (struct led){ .known = true };
	snprintf(ret->host, sizeof(ret->host), "%s", host);
	h->ops.way(h->ops.ctx, host, &w);
	if (w.kind != EDGE_VM)
		return;
	host_way(h, &w, &as);
	memcpy(ret->vm, w.vm, sizeof(ret->vm));
	memcpy(ret->place, as.place, sizeof(ret->place));
}

static void pass(struct edgehost *h, const char *vm, const struct edgew_line *w)
{
	struct edge_line l = { .at_ms = (int64_t)MIN(w->at_ms, (uint64_t)INT64_MAX),
		               .host = w->host,
		               .vm = vm,
		               .method = w->method,
		               .path = w->path,
		               .client = w->client,
		               .in = w->in,
		               .out = w->out,
		               .ms = w->ms,
		               .status = w->status,
		               .proto = w->proto,
		               .code = w->tag,
		               .tls = w->flags & EDGEW_LINE_TLS,
		               .woke = w->flags & EDGEW_LINE_WOKE,
		               .guest = w->flags & EDGEW_LINE_GUEST,
		               .left = w->flags & EDGEW_LINE_LEFT,
		               .cut = w->flags & EDGEW_LINE_CUT };

	h->ops.line(h->ops.ctx, vm, &l);
}

int host_lines(struct edgehost *h, struct err *err)
{
	static _Thread_local uint8_t packet[EDGEW_LINES_MAX + 64];
	struct edgew_line line;
	struct led led = { 0 };
	struct edgew_msg m;
	ssize_t n = recv(h->log_fd, packet, sizeof(packet), MSG_DONTWAIT | MSG_TRUNC);
	int r;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n <= 0 || n > (ssize_t)sizeof(packet))
		return err_set(err, -EBADMSG, "%zd bytes of the access log", n);
	if ((r = edgew_decode(packet, (size_t)n, EDGEW_EDGE_LOG, &m, err)) < 0)
		return r;
	while ((r = edgew_line_next(&m.lines.v, &line)) > 0) {
		if (!h->ops.line)
			continue;
		lead(h, line.host, &led);
		if (*led.place && strcmp(led.place, line.place) == 0)
			pass(h, led.vm, &line);
	}
	if (r < 0)
		return err_set(err, r, "a line of the access log is malformed");
	if (!m.lines.lost)
		return 0;
	LOCK_SCOPE(&h->lock);
	h->lines_lost += m.lines.lost;
	return 0;
}
