/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cross_start.c - a start of a VM on another node, as part of a client's request
 *
 * The request is the one that the client could send there, with its own credentials, which that
 * node checks. Calls of several threads for one client: all that is read of its request is read
 * before.
 */
#include <errno.h>

#include "api/cross.h"
#include "base/auto.h"

void cross_credentials(struct request *req, struct buf *out)
{
	static const char *const names[] = { "Authorization", "X-Freestyle-Identity-Access-Token",
		                             "Cookie", "Origin" };
	struct request *outer = req->outer ? req->outer : req;
	char remote[HTTP_ORIGIN_SIZE];

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		const char *v = request_header(outer, names[i]);

		if (v && h1_value(v, strlen(v)))
			buf_printf(out, "%s: %s\r\n", names[i], v);
	}
	request_remote_text(outer, remote, sizeof(remote));
	if (strncmp(remote, "vm:", 3) == 0)
		buf_printf(out, NODE_VM ": %s\r\n", remote + 3);
	else
		buf_printf(out, NODE_CLIENT ": %s\r\n", remote);
	buf_printf(out, NODE_TRACE ": %s\r\n", req->trace);
	buf_put_u8(out, 0);
}

int cross_start(struct request *req, const char *credentials, const char *node, const char *vm,
                struct err *err)
{
	AUTO(cross_freep) struct cross *f = calloc(1, sizeof(*f));
	autobuf struct buf head = { 0 };
	int r;

	if (!f)
		return err_set(err, -ENOMEM, "out of memory");
	f->req = req;
	f->left = true; /* nobody looks whether the client is still there */
	snprintf(f->node, sizeof(f->node), "%s", node);
	buf_printf(&head,
	           "POST /v1/vms/%s/start HTTP/1.1\r\nHost: node\r\n%sContent-Length: 0\r\n\r\n",
	           vm, credentials);
	if (head.failed)
		return err_set(err, -ENOMEM, "out of memory");
	if ((r = peer_get(deps_of(req)->peers, node, /* fresh= */ true, &f->c, &f->used, err)) <
	            0 ||
	    (r = peer_write(f->c, head.p, head.len, err)) < 0 || (r = cross_head(f, err)) < 0)
		return r;
	return f->head.status / 100 == 2 ? 0
	                                 : err_tag(err, -EHOSTUNREACH, ERR_NODE_UNAVAILABLE,
	                                           "node %s did not start VM %s: status %u", node,
	                                           vm, f->head.status);
}
