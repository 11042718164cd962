/* SPDX-License-Identifier: Apache-2.0 */
/*
 * file.c - the tools file_read, file_write and file_list
 *
 * A piece of a file is text when it is UTF-8, an image when its name says so, and bytes in base64
 * otherwise. Files too large for a model are read piece by piece.
 */
#include "api/vms/cell.h"
#include "mcp/mcp_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/utf8.h"
#include "guest/guest.h"

#define READ_DEFAULT (256 << 10) /* bytes */
#define READ_MAX (4 << 20)
#define WRITE_MAX (6 << 20) /* characters: a body has 8 MiB */
#define LIST_MAX 2000u      /* names */
#define FILE_MS 280000

struct place {
	struct guest *g; /* owned */
	const char *user;
	char path[PATH_MAX];
};

static void place_done(struct place *p)
{
	guest_unref(p->g);
}

static int find_place(struct request *req, struct place *p, struct err *err)
{
	const char *id;
	int r;

	if ((r = request_vm_id(req, 0, &id, err)) < 0 ||
	    (r = request_user(req, FILES_TAG, &p->user, err)) < 0 ||
	    (r = request_path(req, p->path, err)) < 0)
		return r;
	return vmm_guest(deps_of(req)->vmm, who_of(req)->account, id, &p->g, err);
}

/* ---- read ---- */

struct read_args {
	int64_t offset, max;
};
static const struct json_field read_fields[] = {
	JSON_FIELD(JSON_WANT_I64, read_args, offset, "offset", JSON_NULLABLE, 0, INT64_MAX),
	JSON_FIELD(JSON_WANT_I64, read_args, max, "maxBytes", JSON_NULLABLE, 1, READ_MAX),
};

struct sink {
	struct buf b;
	size_t max;
};

static void sink_done(struct sink *s)
{
	buf_done(&s->b);
}

static int on_data(void *ctx, const uint8_t *p, size_t n)
{
	struct sink *s = ctx;

	/* This many bytes were requested: anything more is dropped. */
	buf_put(&s->b, p, MIN(n, s->max - MIN(s->max, s->b.len)));
	return s->b.failed ? -ENOMEM : 0;
}

/* Number of bytes at the end that belong to an incomplete character. */
static size_t cut_character(const uint8_t *p, size_t n)
{
	for (size_t k = 1; k <= 3 && k < n; k++)
		if (p[n - k] >= 0xc0)
			return utf8_char_len(p + n - k, k) ? 0 : k;
	return 0;
}

static json_t *file_block(const struct place *at, const char *mime, const uint8_t *p, size_t n)
{
	autobuf struct buf uri = { 0 };
	autojson json_t *data = shape_base64(p, n);

	if (!data)
		return NULL;
	if (strncmp(mime, "image/", 6) == 0 && strcmp(mime, "image/svg+xml") != 0)
		return mcp_image(json_string_value(data), mime);
	buf_printf(&uri, "file://");
	for (const char *c = at->path; *c; c++) {
		if (strchr("%?# \"<>\\^`{|}", *c) || (unsigned char)*c <= 32 ||
		    (unsigned char)*c >= 127)
			buf_printf(&uri, "%%%02X", (unsigned char)*c);
		else
			buf_put(&uri, c, 1);
	}
	buf_put(&uri, "", 1);
	return uri.failed ? NULL
	                  : json_pack("{s:s, s:{s:s, s:s, s:O}}", "type", "resource", "resource",
	                              "uri", (char *)uri.p, "mimeType", mime, "blob", data);
}

static json_t *read_result(const struct place *at, const struct read_args *a, struct sink *s,
                           uint64_t size)
{
	const char *mime = mime_of_path(at->path);
	json_t *content = json_array();
	bool whole = (uint64_t)a->offset + s->b.len >= size;
	size_t n = s->b.len - (whole ? 0 : cut_character(s->b.p, s->b.len));
	char line[160];

	if (!memchr(s->b.p ? s->b.p : (uint8_t *)"", 0, n) && utf8_valid(s->b.p, n))
		json_array_append_new(content, mcp_text(s->b.p, n));
	else
		json_array_append_new(content, file_block(at, mime, s->b.p, n = s->b.len));
	if (!whole || a->offset) {
		snprintf(line, sizeof(line), "[from byte %" PRId64 "; %s %" PRIu64 "]", a->offset,
		         whole ? "the end is at" : "there is more, continue with offset",
		         (uint64_t)a->offset + n);
		json_array_append_new(content, mcp_text(line, strlen(line)));
	}
	return mcp_tool_result(content, NULL, /* failed= */ false);
}

int mcp_file_read(struct request *req, struct reply *res, struct err *err)
{
	AUTO(place_done) struct place at = { 0 };
	AUTO(sink_done) struct sink s = { 0 };
	struct read_args a = { .max = READ_DEFAULT };
	struct guest_stat st;
	int r;

	if ((r = request_fields(req, FILES_TAG, read_fields, ARRAY_SIZE(read_fields), &a, err)) <
	            0 ||
	    (r = find_place(req, &at, err)) < 0)
		return r;
	if ((r = guest_stat(at.g, at.user, at.path, &st, err)) < 0)
		return file_error(r, at.path, err);
	if (st.kind == GUEST_DIR)
		return err_tag(err, -EISDIR, FILES_TAG, "'%.250s' is a directory: use file_list",
		               at.path);
	if (st.kind == GUEST_OTHER)
		return err_tag(err, -EINVAL, FILES_TAG, "'%.250s' is not a file", at.path);
	s.max = (size_t)a.max;
	r = guest_read_file(at.g, at.user, at.path, (uint64_t)a.offset, (uint64_t)a.max, on_data,
	                    &s, deadline_in(FILE_MS), err);
	if (r < 0)
		return file_error(r, at.path, err);
	/* A link's own size is meaningless, and that of files in /proc is 0. */
	if (st.kind == GUEST_SYMLINK || st.size < (uint64_t)a.offset + s.b.len)
		st.size = (uint64_t)a.offset + s.b.len + (s.b.len == s.max);
	return reply_json(res, read_result(&at, &a, &s, st.size), err);
}

/* ---- write ---- */

struct write_args {
	const char *content, *encoding;
	int64_t mode;
};
static const struct json_field write_fields[] = {
	JSON_FIELD(JSON_WANT_STRREF, write_args, content, "content", JSON_REQUIRED, 0, WRITE_MAX),
	JSON_FIELD(JSON_WANT_STRREF, write_args, encoding, "encoding", JSON_NULLABLE, 0, 16),
	JSON_FIELD(JSON_WANT_I64, write_args, mode, "mode", JSON_NULLABLE, 0, 07777),
};

struct source {
	const uint8_t *p;
	size_t left;
};

static ssize_t on_room(void *ctx, uint8_t *p, size_t n)
{
	struct source *s = ctx;

	n = MIN(n, s->left);
	memcpy(p, s->p, n);
	s->p += n;
	s->left -= n;
	return (ssize_t)n;
}

int mcp_file_write(struct request *req, struct reply *res, struct err *err)
{
	AUTO(place_done) struct place at = { 0 };
	autofree uint8_t *bytes = NULL;
	struct write_args a = { 0 };
	struct source s;
	size_t n;
	int r;

	if ((r = request_fields(req, FILES_TAG, write_fields, ARRAY_SIZE(write_fields), &a, err)) <
	    0)
		return r;
	s = (struct source){ (const uint8_t *)a.content, strlen(a.content) };
	if (a.encoding && strcmp(a.encoding, "base64") == 0) {
		if ((r = parse_base64(a.content, s.left, "content", &bytes, &s.left, err)) < 0)
			return r;
		s.p = bytes;
	} else if (a.encoding && strcmp(a.encoding, "utf8") != 0) {
		return err_tag(err, -EINVAL, FILES_TAG, "'encoding' must be utf8 or base64");
	}
	if ((r = find_place(req, &at, err)) < 0)
		return r;
	n = s.left;
	r = guest_write_file(at.g, at.user, at.path, (uint32_t)a.mode, on_room, &s,
	                     deadline_in(FILE_MS), err);
	if (r < 0)
		return file_error(r, at.path, err);
	return reply_json(res,
	                  json_pack("{s:o, s:I}", "path", shape_output(at.path, strlen(at.path)),
	                            "bytes", (json_int_t)n),
	                  err);
}

/* ---- list ---- */

int mcp_file_list(struct request *req, struct reply *res, struct err *err)
{
	static const char *const kinds[] = { [GUEST_FILE] = "file",
		                             [GUEST_DIR] = "directory",
		                             [GUEST_SYMLINK] = "symlink",
		                             [GUEST_OTHER] = "other" };
	AUTO(place_done) struct place at = { 0 };
	autojson json_t *files = json_array();
	struct guest_dirent *d = NULL;
	size_t n = 0;
	int r = find_place(req, &at, err);

	if (r < 0)
		return r;
	if ((r = guest_list_dir(at.g, at.user, at.path, &d, &n, err)) < 0)
		return file_error(r, at.path, err);
	for (size_t i = 0; r == 0 && i < n && i < LIST_MAX; i++)
		r = json_array_append_new(files,
		                          json_pack("{s:o, s:s}", "name",
		                                    shape_output(d[i].name, strlen(d[i].name)),
		                                    "kind", kinds[d[i].kind]));
	guest_dirents_free(d, n);
	if (r < 0)
		return err_set(err, -ENOMEM, "out of memory");
	return reply_json(res,
	                  json_pack("{s:o, s:O, s:b}", "path",
	                            shape_output(at.path, strlen(at.path)), "files", files,
	                            "truncated", n > LIST_MAX),
	                  err);
}
