/* SPDX-License-Identifier: Apache-2.0 */
/* visit.c - what pando-edge says of a request becomes a line of the access log; nothing of it is
 * trusted */
#include "front/visit.h"

#include <stdio.h>

#include "base/err.h"
#include "edge/edge.h"
#include "events/access.h"

/* Printable, without spaces. */
static void copy(char *dst, size_t size, const char *text)
{
	char clean[ACCESS_PATH_SIZE];

	access_path(text, clean);
	snprintf(dst, size, "%s", clean);
}

void visit_line(const char *vm, const struct edge_line *l, struct access_line *ret)
{
	*ret = (struct access_line){ .at_ms = l->at_ms,
		                     .in = l->in,
		                     .out = l->out,
		                     .ms = l->ms,
		                     .status = (uint16_t)l->status,
		                     .proto = (uint8_t)l->proto,
		                     .tls = l->tls,
		                     .woke = l->woke,
		                     .guest = l->guest };
	snprintf(ret->host, sizeof(ret->host), "%s", l->host + (*l->host == EDGE_INSIDE));
	snprintf(ret->vm, sizeof(ret->vm), "%s", vm);
	copy(ret->method, sizeof(ret->method), l->method);
	copy(ret->client, sizeof(ret->client), l->client);
	copy(ret->path, sizeof(ret->path), l->path);
	snprintf(ret->error, sizeof(ret->error), "%s",
	         l->left   ? "CLIENT_LEFT"
	         : l->code ? err_code_name((enum err_code)l->code)
	         : l->cut  ? "RESPONSE_CUT"
	                   : "");
}
