/* SPDX-License-Identifier: Apache-2.0 */
/* tree.c - the tree: show it, rewind a VM, compare */
#include "api/vms/shared.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "base/auto.h"
#include "guest/guest.h"
#include "vm/tree.h"

#define DIFF_LIMIT_DEFAULT 1000

static const char *const ignore_default[] = { "/proc", "/sys", "/dev", "/run", "/tmp" };

/* ---- the tree ---- */

static json_t *shape_size(const struct tree_size *z)
{
	return json_pack("{s:I, s:I}", "ownBytes", (json_int_t)z->own, "sharedBytes",
	                 (json_int_t)z->shared);
}

static json_t *shape_snaps(const struct vm_tree *t, const struct tree_node *n)
{
	json_t *a = json_array();

	for (size_t i = 0; i < n->n_snaps; i++) {
		const struct tree_snap *s = &t->snaps[n->snap_at + i];

		json_array_append_new(a, json_pack("{s:s, s:o, s:o}", "snapshotId", s->id, "name",
		                                   shape_text(s->name), "createdAt",
		                                   shape_time(s->created_ms)));
	}
	return a;
}

static json_t *shape_node(const struct vm_tree *t, const struct tree_node *n)
{
	bool vm = n->kind == TREE_VM;
	json_t *j =
	        json_pack("{s:s, s:s, s:s, s:o, s:o, s:o, s:b, s:{s:I, s:I, s:I}, s:o, s:o}", "id",
	                  n->id, "type", vm ? "vm" : "point", "kind", tree_kind_name(n->kind),
	                  "parent", shape_text(n->parent), "name", shape_text(n->name), "createdAt",
	                  shape_time(n->created_ms), "shared", n->kind == TREE_TEMPLATE, "sizing",
	                  "vcpuCount", (json_int_t)n->vcpus, "memSizeMib", (json_int_t)n->mem_mb,
	                  "rootfsSizeMb", (json_int_t)n->disk_mb, "memory", shape_size(&n->mem),
	                  "disk", shape_size(&n->disk));

	if (vm) {
		json_object_set_new(j, "state", json_string(vm_state_name(n->state)));
		json_object_set_new(j, "parentVmId", shape_text(n->parent_vm));
		json_object_set_new(j, "privateBytes", json_integer((json_int_t)n->private_bytes));
		return j;
	}
	json_object_set_new(j, "sourceVmId", shape_text(n->source_vm));
	json_object_set_new(j, "snapshotId",
	                    n->n_snaps ? json_string(t->snaps[n->snap_at].id) : json_null());
	json_object_set_new(j, "snapshots", shape_snaps(t, n));
	return j;
}

static int reply_tree(struct request *req, const char *vm_id, struct reply *res, struct err *err)
{
	AUTO(vm_tree_done) struct vm_tree t = { 0 };
	autojson json_t *nodes = json_array(), *roots = json_array();
	int r = vmm_tree(deps_of(req)->vmm, who_of(req)->account, vm_id, &t, err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < t.n; i++) {
		if (json_array_append_new(nodes, shape_node(&t, &t.nodes[i])) < 0 ||
		    (!t.nodes[i].parent[0] &&
		     json_array_append_new(roots, json_string(t.nodes[i].id)) < 0))
			return err_set(err, -ENOMEM, "out of memory");
	}
	return reply_json(res,
	                  json_pack("{s:O, s:O, s:{s:I, s:I}}", "roots", roots, "nodes", nodes,
	                            "totals", "memoryBytes", (json_int_t)t.mem_bytes, "diskBytes",
	                            (json_int_t)t.disk_bytes),
	                  err);
}

int api_tree(struct request *req, struct reply *res, struct err *err)
{
	return reply_tree(req, NULL, res, err);
}

int api_vm_tree(struct request *req, struct reply *res, struct err *err)
{
	const char *id;
	int r = request_vm_id(req, 0, &id, err);

	return r < 0 ? r : reply_tree(req, id, res, err);
}

/* ---- rewind ---- */

struct rewind_body {
	char snapshot_id[ID_SIZE + 16];
	bool keep;
};
static const struct json_field rewind_fields[] = {
	JSON_FIELD_STR(rewind_body, snapshot_id, "snapshotId", JSON_REQUIRED | JSON_NULLABLE),
	JSON_FIELD(JSON_WANT_BOOL, rewind_body, keep, "keep", JSON_NULLABLE, 0, 0),
};
JSON_TABLE(Rewind, rewind_fields);

int rewind_vm(struct request *req, struct reply *res, const char *id, struct err *err)
{
	struct rewind_body b = { .keep = true };
	struct vm_rewind w;
	int r;

	if ((r = request_fields(req, ERR_BAD_REQUEST, rewind_fields, ARRAY_SIZE(rewind_fields), &b,
	                        err)) < 0)
		return r;
	reply_extra(res, "snapshotId",
	            *b.snapshot_id ? shape_output(b.snapshot_id, strlen(b.snapshot_id))
	                           : json_null());
	if (*b.snapshot_id && !id_valid("sc-", b.snapshot_id))
		return err_tag(err, -EINVAL, ERR_INVALID_SNAPSHOT_ID,
		               "'snapshotId' must be 'sc-' and 20 letters and digits");
	r = vmm_rewind(deps_of(req)->vmm, who_of(req)->account, id,
	               *b.snapshot_id ? b.snapshot_id : NULL, b.keep, &w, err);
	if (r < 0)
		return r;
	return reply_json(res,
	                  json_pack("{s:s, s:o, s:s, s:o, s:o, s:I}", "id", w.vm.id, "snapshotId",
	                            shape_text(b.snapshot_id), "state", vm_state_name(w.vm.state),
	                            "previousSnapshotId", shape_text(w.previous), "vmInstanceId",
	                            shape_text(w.vm.instance), "generation",
	                            (json_int_t)w.vm.generation),
	                  err);
}

int api_vm_rewind(struct request *req, struct reply *res, struct err *err)
{
	const char *id;
	int r = request_vm_id(req, 0, &id, err);

	return r < 0 ? r : rewind_vm(req, res, id, err);
}

/* ---- diff ---- */

struct diff_query {
	char *with, *path, *ignore, *cursor;
	char after[PATH_MAX], root[PATH_MAX];
	uint32_t limit;
};

static void diff_query_done(struct diff_query *q)
{
	free(q->with);
	free(q->path);
	free(q->ignore);
	free(q->cursor);
}

static int hex_digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* A cursor is the last path in hex: names may be any bytes. */
static int read_cursor(const char *hex, char ret[PATH_MAX])
{
	size_t n = strlen(hex);

	if (n % 2 || n / 2 >= PATH_MAX || n == 0)
		return -EINVAL;
	for (size_t i = 0; i < n / 2; i++) {
		int hi = hex_digit(hex[2 * i]), lo = hex_digit(hex[2 * i + 1]);

		if (hi < 0 || lo < 0 || (hi == 0 && lo == 0))
			return -EINVAL;
		ret[i] = (char)(hi * 16 + lo);
	}
	ret[n / 2] = '\0';
	return ret[0] == '/' ? 0 : -EINVAL;
}

/* "/a/b/" and "/a//b" are "/a/b"; "." and ".." are rejected. */
static int clean_path(const char *s, char ret[PATH_MAX])
{
	size_t n = 0;

	if (s[0] != '/')
		return -EINVAL;
	while (*s) {
		size_t len;

		s += strspn(s, "/");
		len = strcspn(s, "/");
		if (!len)
			break;
		if (n + 1 + len >= PATH_MAX || (len == 1 && s[0] == '.') ||
		    (len == 2 && s[0] == '.' && s[1] == '.'))
			return -EINVAL;
		ret[n++] = '/';
		memcpy(ret + n, s, len);
		n += len;
		s += len;
	}
	if (n == 0)
		ret[n++] = '/';
	ret[n] = '\0';
	return 0;
}

/* Is root inside (or the same as) tree? Then the caller named it explicitly. */
static bool inside(const char *root, const char *tree)
{
	size_t n = strlen(tree);

	return !strncmp(root, tree, n) && (root[n] == '/' || root[n] == '\0');
}

/* "ignore=/a,/b" instead of the default; the pieces stay in q->ignore. */
static int read_ignore(struct diff_query *q, struct vm_diff_opts *o, struct err *err)
{
	char *rest = q->ignore, *piece;

	for (size_t i = 0; !rest && i < ARRAY_SIZE(ignore_default); i++)
		if (!inside(q->root, ignore_default[i]))
			o->ignore[o->n_ignore++] = ignore_default[i];
	while (rest && (piece = strsep(&rest, ","))) {
		size_t n = strlen(piece);

		if (!n)
			continue;
		if (piece[0] != '/' || n < 2 || n >= PATH_MAX || piece[n - 1] == '/' ||
		    o->n_ignore == DIFF_IGNORE_MAX)
			return err_tag(
			        err, -EINVAL, ERR_INVALID_PARAMETERS,
			        "'ignore' must be up to %d absolute paths separated by commas",
			        DIFF_IGNORE_MAX);
		o->ignore[o->n_ignore++] = piece;
	}
	return 0;
}

static int diff_query_read(struct request *req, struct diff_query *q, struct vm_diff_opts *o,
                           struct err *err)
{
	int r;

	if ((r = request_query(req, "with", &q->with, err)) < 0 ||
	    (r = request_query(req, "path", &q->path, err)) < 0 ||
	    (r = request_query(req, "ignore", &q->ignore, err)) < 0 ||
	    (r = request_query(req, "cursor", &q->cursor, err)) < 0 ||
	    (r = request_query_u32(req, "limit", DIFF_LIMIT_MAX, &q->limit, err)) < 0)
		return r;
	if (!q->with ||
	    (!id_valid("sc-", q->with) &&
	     (!*q->with || q->with[strspn(q->with, "abcdefghijklmnopqrstuvwxyz0123456789")] ||
	      strlen(q->with) >= ID_SIZE)))
		return err_tag(err, -EINVAL, ERR_INVALID_PARAMETERS,
		               "'with' must be the id of a VM or a snapshot");
	if (clean_path(q->path && *q->path ? q->path : "/", q->root) < 0)
		return err_tag(err, -EINVAL, ERR_INVALID_PARAMETERS,
		               "'path' must be an absolute path without dots");
	if (q->cursor && *q->cursor && read_cursor(q->cursor, q->after) < 0)
		return err_tag(err, -EINVAL, ERR_INVALID_PARAMETERS,
		               "'cursor' must come from an earlier reply");
	o->with = q->with;
	o->root = q->root;
	o->after = q->after[0] ? q->after : NULL;
	o->limit = q->limit ? q->limit : DIFF_LIMIT_DEFAULT;
	return read_ignore(q, o, err);
}

static json_t *shape_change(const struct vm_change *c)
{
	static const char *const kinds[] = { [GUEST_FILE] = "file",
		                             [GUEST_DIR] = "directory",
		                             [GUEST_SYMLINK] = "symlink",
		                             [GUEST_OTHER] = "other" };

	return json_pack("{s:o, s:s, s:s, s:o, s:o, s:o}", "path",
	                 shape_output(c->path, strlen(c->path)), "change", change_name(c->change),
	                 "kind", kinds[c->kind], "size",
	                 c->here ? json_integer((json_int_t)c->size) : json_null(), "otherSize",
	                 c->there ? json_integer((json_int_t)c->other_size) : json_null(), "mtime",
	                 shape_time(c->mtime_ms));
}

int api_vm_diff(struct request *req, struct reply *res, struct err *err)
{
	AUTO(diff_query_done) struct diff_query q = { 0 };
	AUTO(vm_diff_done) struct vm_diff d = { 0 };
	autojson json_t *changes = json_array();
	struct vm_diff_opts o = { 0 };
	char hex[2 * PATH_MAX + 1] = "";
	const char *id;
	int r;

	if ((r = request_vm_id(req, 0, &id, err)) < 0 ||
	    (r = diff_query_read(req, &q, &o, err)) < 0 ||
	    (r = vmm_diff(deps_of(req)->vmm, who_of(req)->account, id, &o, &d, err)) < 0)
		return guest_call_error(r, err);
	for (size_t i = 0; i < d.n; i++)
		if (json_array_append_new(changes, shape_change(&d.v[i])) < 0)
			return err_set(err, -ENOMEM, "out of memory");
	if (d.cursor && strlen(d.cursor) < PATH_MAX)
		hex_encode(d.cursor, strlen(d.cursor), hex);
	return reply_json(res,
	                  json_pack("{s:s, s:s, s:O, s:o}", "vmId", id, "with", q.with, "changes",
	                            changes, "cursor", shape_text(hex)),
	                  err);
}
