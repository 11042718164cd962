/* SPDX-License-Identifier: Apache-2.0 */
/* cluster.c - the nodes that share this server's database: what they are doing, drain, remove */
#include "api/call.h"

#include <errno.h>

#include "base/auto.h"
#include "node/node.h"

static json_t *shape_node(struct request *req, const struct node_seen *s)
{
	const struct store_node *n = &s->row;
	int vms = store_node_vms(deps_of(req)->store, n->id, NULL);

	return json_pack(
	        "{s:s, s:s, s:s, s:s, s:b, s:b, s:I, s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:s, "
	        "s:s, s:I}",
	        "id", n->id, "name", n->name, "address", n->address, "health",
	        node_health_name(s->health), "self",
	        strcmp(n->id, node_id(deps_of(req)->node)) == 0, "draining", n->draining,
	        "generation", (json_int_t)n->gen, "version", n->version, "vcpuCount", (int)n->vcpus,
	        "memoryMb", (int)n->mem_mb, "freeMemoryMb", (int)n->free_mb, "runningVms",
	        (int)n->running, "vms", MAX(vms, 0), "pendingUploads",
	        (int)MIN(n->pending, (uint32_t)INT32_MAX), "accelerator", n->accel, "qemuVersion",
	        n->qemu_version, "silentMs", (json_int_t)s->silent_ms);
}

int api_cluster(struct request *req, struct reply *res, struct err *err)
{
	struct node *node = deps_of(req)->node;
	autofree struct node_seen *v = NULL;
	autojson json_t *nodes = json_array();
	struct node_counts c = { 0 };
	size_t n = 0;
	int r = node ? node_list(node, &v, &n, err) : 0;

	if (r < 0)
		return r;
	for (size_t i = 0; i < n; i++)
		json_array_append_new(nodes, shape_node(req, &v[i]));
	if (node)
		node_counts(node, &c);
	return reply_json(res,
	                  json_pack("{s:b, s:O, s:{s:I, s:I, s:I}, s:{s:I, s:I}}", "shared", !!node,
	                            "nodes", nodes, "lease", "leftMs", (json_int_t)c.left_ms,
	                            "renewals", (json_int_t)c.renewals, "failed",
	                            (json_int_t)c.failed, "takenOver", "nodes",
	                            (json_int_t)c.reaped, "lostVms", (json_int_t)c.lost),
	                  err);
}

/* By id or name. */
static int find(struct request *req, struct store_node *ret, struct err *err)
{
	if (!deps_of(req)->node)
		return err_tag(err, -ENOENT, ERR_NODE_NOT_FOUND,
		               "no node '%.64s': this server does not share its database (%s)",
		               req->match.arg[0], "docs/CLUSTER.md");
	return store_node_find(deps_of(req)->store, req->match.arg[0], ret, err);
}

struct drain_body {
	bool drain;
};
static const struct json_field drain_fields[] = {
	JSON_FIELD(JSON_WANT_BOOL, drain_body, drain, "drain", 0, 0, 0),
};
JSON_TABLE(NodeDrain, drain_fields);

int api_node_drain(struct request *req, struct reply *res, struct err *err)
{
	struct drain_body b = { .drain = true };
	struct store_node n;
	int r = find(req, &n, err);

	if (r < 0 ||
	    (req->body.len && (r = request_fields(req, ERR_INVALID_REQUEST, drain_fields,
	                                          ARRAY_SIZE(drain_fields), &b, err)) < 0) ||
	    (r = store_node_drain(deps_of(req)->store, n.id, b.drain, err)) < 0)
		return r;
	return reply_json(res, json_pack("{s:s, s:b}", "id", n.id, "draining", b.drain), err);
}

int api_node_remove(struct request *req, struct reply *res, struct err *err)
{
	struct store_node n;
	bool lose = false;
	int r = request_query_bool(req, "lose", &lose, err);

	if (r < 0 || (r = find(req, &n, err)) < 0 ||
	    (r = store_node_remove(deps_of(req)->store, n.id, lose, err)) < 0)
		return r;
	return reply_json(res, json_pack("{s:s}", "id", n.id), err);
}
