/* SPDX-License-Identifier: Apache-2.0 */
/*
 * watch_files.c - changes to a VM's files as they happen, one JSON object per line
 *
 * {eventType, filename}; the file name is an absolute path. Without a path everything
 * is watched except the system's own directories. Blank lines keep the stream
 * alive. It ends regularly when the VM is suspended, stopped or deleted: the watch was in
 * its memory. A watch does not keep a VM awake.
 */
#include "api/vms/shared.h"

#include <errno.h>
#include <string.h>

#include "base/auto.h"
#include "guest/guest.h"

#define TAG FILES_TAG

struct lines {
	struct guest_flow *f; /* owned */
	struct sse out;       /* text that waits to be sent */
	bool ended;
};

static void lines_free(void *ctx)
{
	struct lines *x = ctx;

	guest_flow_close(x->f);
	buf_done(&x->out.out);
	free(x);
}

static int lines_fd(void *ctx)
{
	return guest_flow_fd(((struct lines *)ctx)->f);
}

static void add_line(struct lines *x, const struct guest_change *c)
{
	bool error = strcmp(c->type, "error") == 0;
	autojson json_t *j =
	        json_pack("{s:s, s:o}", "eventType", c->type, "filename",
	                  shape_output(error ? "" : c->path, error ? 0 : strlen(c->path)));
	autofree char *text = NULL;

	if (error)
		json_object_set_new(j, "message", shape_output(c->path, strlen(c->path)));
	text = j ? json_dumps(j, JSON_COMPACT) : NULL;
	if (!text) {
		x->out.out.failed = true;
		return;
	}
	buf_put(&x->out.out, text, strlen(text));
	buf_put_u8(&x->out.out, '\n');
}

static ssize_t lines_next(void *ctx, char *p, size_t max, struct err *err)
{
	struct lines *x = ctx;
	struct guest_change c;
	ssize_t k = sse_drain(&x->out, p, max);
	int r;

	while (k == 0 && !x->ended) {
		r = guest_watch_next(x->f, &c, err);
		if (r == 0)
			return 0;
		if (r > 0)
			add_line(x, &c);
		else if (r == -ECONNRESET || r == -ENODATA)
			x->ended = true; /* the VM was suspended, or the directory is gone */
		else
			return r;
		k = sse_drain(&x->out, p, max);
	}
	if (k < 0)
		return err_set(err, (int)k, "out of memory");
	return k ? k : -ENODATA;
}

static const struct outflow_ops lines_ops = { .next = lines_next,
	                                      .fd = lines_fd,
	                                      .free = lines_free,
	                                      .beat = "\n",
	                                      .endless = true,
	                                      .ends_well = true };

struct watch_body {
	const char *path;
};
static const struct json_field watch_fields[] = {
	JSON_FIELD(JSON_WANT_STRREF, watch_body, path, "path", JSON_NULLABLE, 1, PATH_MAX - 1),
};
JSON_TABLE(FileWatch, watch_fields);

int api_watch_files(struct request *req, struct reply *res, struct err *err)
{
	AUTO(guest_unrefp) struct guest *g = NULL;
	autofree char *query = NULL;
	struct watch_body b = { 0 };
	struct lines *x;
	const char *id, *user;
	int r;

	if ((r = request_vm_id(req, 0, &id, err)) < 0 ||
	    (r = request_user(req, TAG, &user, err)) < 0 ||
	    (r = request_fields(req, TAG, watch_fields, ARRAY_SIZE(watch_fields), &b, err)) < 0 ||
	    (r = request_query(req, "path", &query, err)) < 0)
		return r;
	if (query && *query)
		b.path = query;
	if (b.path && b.path[0] != '/')
		return err_tag(err, -EINVAL, TAG, "'path' must be absolute");
	if ((r = vmm_guest(deps_of(req)->vmm, who_of(req)->account, id, &g, err)) < 0)
		return r;
	x = calloc(1, sizeof(*x));
	if (!x)
		return err_set(err, -ENOMEM, "out of memory");
	r = guest_watch(g, user, b.path, &x->f, err);
	if (r < 0) {
		lines_free(x);
		return file_error(r, b.path ? b.path : "/", err);
	}
	buf_put_u8(&x->out.out, '\n'); /* so that the headers are sent at once */
	return reply_flow(req, res, &lines_ops, x, OUTFLOW_UNKNOWN, "application/x-ndjson", err);
}
