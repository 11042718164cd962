/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rebase.c - switches a running machine to a flattened disk chain
 *
 * Every live freeze leaves one more layer under a running machine. Once the
 * layers below one of them were flattened into a new layer, the machine uses
 * that as backing instead: its contents are the same, so the guest notices nothing and
 * is not stopped. Then the old block nodes and their descriptors are removed, and with
 * them the last users of the old files.
 *
 * QEMU swaps a backing file with blockdev-reopen, which needs all options of the
 * node again; they are the same as in block.c.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "engine/engine_internal.h"

static int cmd(struct machine *m, const char *name, json_t *args, struct err *err)
{
	return qmp_cmd(m->qmp, name, args, deadline_in(QMP_STEP_MS), NULL, err);
}

static const json_t *node_find(const json_t *nodes, const char *name)
{
	const json_t *n;
	size_t i;

	json_array_foreach((json_t *)(uintptr_t)nodes, i, n)
	{
		const char *s = json_string_value(json_object_get(n, "node-name"));

		if (s && !strcmp(s, name))
			return n;
	}
	return NULL;
}

static int swap_backing(struct machine *m, const json_t *nodes, const char *above, const char *to,
                        struct err *err)
{
	const json_t *n = node_find(nodes, above);
	char file_node[ID_SIZE + 8];

	if (!n)
		return err_set(err, -ENOENT, "the machine has no disk layer %s", above);
	snprintf(file_node, sizeof(file_node), "f-%s", above);
	return cmd(m, "blockdev-reopen",
	           json_pack("{s:[{s:s, s:s, s:b, s:s, s:s, s:s}]}", "options", "driver", "qcow2",
	                     "node-name", above, "read-only",
	                     json_is_true(json_object_get(n, "ro")), "discard", "unmap", "file",
	                     file_node, "backing", to),
	           err);
}

/* Removes an unused node, its file node and its descriptors. */
static void drop_node(struct machine *m, const json_t *nodes, const char *id)
{
	char file_node[ID_SIZE + 8];
	const json_t *f;
	const char *file;
	unsigned set;

	snprintf(file_node, sizeof(file_node), "f-%s", id);
	f = node_find(nodes, file_node);
	file = json_string_value(json_object_get(f, "file"));
	if (cmd(m, "blockdev-del", json_pack("{s:s}", "node-name", id), NULL) < 0)
		return;
	/* The file node was removed with it. */
	if (file && sscanf(file, "/dev/fdset/%u", &set) == 1)
		block_fdset_remove(m, set);
}

int qemu_rebase_disk(struct machine *m, const char *above, const struct engine_chain *old,
                     const struct engine_layer *to, struct err *err)
{
	json_t *nodes = NULL;
	int r;

	if (old->n < 2)
		return err_set(err, -EINVAL, "nothing to rebase");
	r = qmp_cmd(m->qmp, "query-named-block-nodes", json_pack("{s:b}", "flat", 1),
	            deadline_in(QMP_STEP_MS), &nodes, err);
	if (r < 0)
		return r;
	/* A machine that was thawed later, or has already switched, uses other layers: nothing to
	 * do. */
	if (!node_find(nodes, old->l[old->n - 1].id) || !node_find(nodes, old->l[0].id) ||
	    node_find(nodes, to->id)) {
		json_decref(nodes);
		return 0;
	}
	r = block_add_layer(m, to, old->l[0].id, err);
	if (r == 0) {
		r = swap_backing(m, nodes, above, to->id, err);
		if (r < 0)
			cmd(m, "blockdev-del", json_pack("{s:s}", "node-name", to->id), NULL);
	}
	for (size_t i = old->n; r == 0 && i-- > 1;)
		drop_node(m, nodes, old->l[i].id);
	json_decref(nodes);
	return r < 0 ? err_wrap(err, r, "rebase machine %s", m->instance) : 1;
}
