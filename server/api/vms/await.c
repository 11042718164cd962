/* SPDX-License-Identifier: Apache-2.0 */
/*
 * await.c - POST /v1/vms/{id}/await: the reply comes when the VM's machine ends
 *
 * Clients give up when they see no byte for about 300 s. So the headers go out at once and spaces
 * follow now and then, which JSON allows before its value; the object comes at the end. A server
 * that shuts down suspends its VMs, so the wait ends with the real reason.
 */
#include "api/vms/shared.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/auto.h"

struct await {
	struct vm_wait *w; /* owned */
	char id[ID_SIZE];
	bool said;
};

static void await_free(void *ctx)
{
	struct await *a = ctx;

	vmm_wait_free(a->w);
	free(a);
}

static int await_fd(void *ctx)
{
	struct await *a = ctx;

	return vmm_wait_fd(a->w);
}

static ssize_t await_next(void *ctx, char *p, size_t max, struct err *err)
{
	struct await *a = ctx;
	char status[VM_EXIT_MAX];
	int n;

	if (a->said)
		return -ENODATA;
	if (!vmm_wait_over(a->w, status))
		return 0;
	n = snprintf(p, max, "{\"id\":\"%s\",\"exitStatus\":\"%s\"}", a->id, status);
	if (n < 0 || (size_t)n >= max)
		return err_set(err, -ENOBUFS, "no room for the reply");
	a->said = true;
	return n;
}

static const struct outflow_ops await_ops = {
	.next = await_next, .fd = await_fd, .free = await_free, .beat = " "
};

int api_vm_await(struct request *req, struct reply *res, struct err *err)
{
	struct await *a;
	const char *id;
	int r;

	if ((r = request_vm_id(req, 0, &id, err)) < 0)
		return r;
	a = calloc(1, sizeof(*a));
	if (!a)
		return err_set(err, -ENOMEM, "out of memory");
	snprintf(a->id, sizeof(a->id), "%s", id);
	r = vmm_wait_new(deps_of(req)->vmm, who_of(req)->account, id, &a->w, err);
	if (r < 0) {
		free(a);
		return r;
	}
	return reply_flow(req, res, &await_ops, a, OUTFLOW_UNKNOWN, "application/json", err);
}
