/* SPDX-License-Identifier: Apache-2.0 */
/*
 * files.c - files and directories inside a VM
 *
 * A file is one JSON document, including its content. Up to BODY_MEM_MAX it is text if it is UTF-8;
 * larger ones are spooled to an unnamed file and sent as base64 that is encoded on the
 * fly, so memory stays small whatever the size. Reads are repeated once if the VM was suspended
 * during them; writes are not.
 */
#include "api/vms/shared.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include <openssl/evp.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/utf8.h"
#include "guest/guest.h"

#define TAG FILES_TAG
#define FILE_MAX MIB(256)
#define FILE_MS 280000 /* for one file: clients give up after 300 s */

static const char stream_head[] = "{\"content\":\"";
static const char stream_tail[] = "\",\"encoding\":\"base64\"}";

int request_path(struct request *req, char ret[PATH_MAX], struct err *err)
{
	const char *p = req->match.arg[1];
	struct vm_info v = { 0 };
	int r;

	if (p[0] != '/' &&
	    (r = vmm_get(deps_of(req)->vmm, who_of(req)->account, req->match.arg[0], &v, err)) < 0)
		return r;
	if ((size_t)snprintf(ret, PATH_MAX, "%s%s%s", v.workdir, p[0] == '/' ? "" : "/", p) >=
	    PATH_MAX)
		return err_tag(err, -EINVAL, TAG, "the path is longer than %d bytes", PATH_MAX - 1);
	return 0;
}

/* The errno comes from the guest. */
int file_error(int r, const char *path, struct err *err)
{
	static const int callers_fault[] = { -EISDIR,  -EACCES,   -EPERM,  -EROFS,        -ENOSPC,
		                             -EINVAL,  -ELOOP,    -EFBIG,  -ENAMETOOLONG, -EDQUOT,
		                             -ETXTBSY, -EBUSY,    -EEXIST, -ENXIO,        -ENODEV,
		                             -ENOTSUP, -ENOTEMPTY };

	r = guest_call_error(r, err);
	if (err_code_status(err->tag))
		return r;
	if (r == -ENOENT || r == -ENOTDIR)
		return err_tag(err, r, ERR_FILE_NOT_FOUND, "'%.300s' does not exist in the VM",
		               path);
	for (size_t i = 0; i < ARRAY_SIZE(callers_fault); i++)
		if (r == callers_fault[i])
			return err_tag(err, r, TAG, "'%.250s': %s", path, err_name(r));
	return r;
}

static int file_failed(struct reply *res, int r, const char *path, struct err *err)
{
	if (r != -ECONNRESET && r != -ENOTCONN && !err_code_status(err->tag))
		reply_extra(res, "path", shape_output(path, strlen(path)));
	return file_error(r, path, err);
}

/* ---- read ---- */

struct sink {
	struct body body; /* owned */
	struct err err;
};

static void sink_done(struct sink *s)
{
	body_done(&s->body);
}

static int on_file_data(void *ctx, const uint8_t *p, size_t n)
{
	struct sink *s = ctx;

	if (s->body.len + n > FILE_MAX)
		return err_tag(&s->err, -EFBIG, TAG, "the file is larger than %llu MiB",
		               (unsigned long long)(FILE_MAX >> 20));
	return body_add(&s->body, p, n, &s->err);
}

/* A body that is being sent as base64. */
struct stream {
	struct body body; /* owned */
	const uint8_t *p;
	uint64_t n, text_n; /* bytes, and characters of base64 */
	uint64_t at;        /* position in the reply */
};

static void stream_free(void *cls)
{
	struct stream *s = cls;

	body_done(&s->body);
	free(s);
}

/* Encodes characters of the base64 text from `at` on, at most max. */
static size_t stream_base64(const struct stream *s, uint64_t at, char *out, size_t max)
{
	unsigned char text[4096 + 1];
	uint64_t from = at / 4 * 3;     /* the group of three that `at` is in */
	size_t skip = (size_t)(at % 4); /* of its four characters */
	size_t room = MIN(MAX(max, 4u), sizeof(text) - 1) / 4 * 3;
	size_t n = (size_t)MIN(s->n - from, (uint64_t)room);
	size_t made = (size_t)EVP_EncodeBlock(text, s->p + from, (int)n);

	made = MIN(made - skip, max);
	memcpy(out, text + skip, made);
	return made;
}

static size_t stream_make(const struct stream *s, char *out, size_t max)
{
	const size_t head = sizeof(stream_head) - 1, tail = sizeof(stream_tail) - 1;
	uint64_t pos = s->at;
	size_t n;

	if (pos < head) {
		n = MIN(head - (size_t)pos, max);
		memcpy(out, stream_head + pos, n);
		return n;
	}
	pos -= head;
	if (pos < s->text_n) {
		for (n = 0; n < max && pos + n < s->text_n;)
			n += stream_base64(s, pos + n, out + n, max - n);
		return n;
	}
	pos -= s->text_n;
	n = MIN(tail - (size_t)pos, max);
	memcpy(out, stream_tail + pos, n);
	return n;
}

static ssize_t stream_next(void *ctx, char *p, size_t max, struct err *err)
{
	struct stream *s = ctx;
	size_t n = stream_make(s, p, max);

	s->at += n;
	return n ? (ssize_t)n : -ENODATA;
}

static const struct outflow_ops stream_ops = { .next = stream_next, .free = stream_free };

static int reply_stream(struct request *req, struct reply *res, struct sink *file, const char *p,
                        size_t n, struct err *err)
{
	struct stream *s = calloc(1, sizeof(*s));

	if (!s)
		return err_set(err, -ENOMEM, "out of memory");
	s->body = TAKE(file->body, BODY_EMPTY);
	s->p = (const uint8_t *)p;
	s->n = n;
	s->text_n = (s->n + 2) / 3 * 4;
	return reply_flow(req, res, &stream_ops, s,
	                  sizeof(stream_head) - 1 + s->text_n + sizeof(stream_tail) - 1,
	                  "application/json", err);
}

static int reply_content(struct request *req, struct reply *res, struct sink *file, struct err *err)
{
	const char *p;
	size_t n;
	int r = body_view(&file->body, &p, &n, err);

	if (r < 0)
		return r;
	if (n <= BODY_MEM_MAX && !memchr(p, 0, n) && utf8_valid(p, n))
		return reply_json(
		        res, json_pack("{s:s%, s:s}", "content", p, n, "encoding", "utf8"), err);
	return reply_stream(req, res, file, p, n, err);
}

static int reply_dir(struct guest *g, struct reply *res, const char *user, const char *path,
                     struct err *err)
{
	autojson json_t *files = json_array();
	struct guest_dirent *d = NULL;
	size_t n = 0;
	int r = guest_list_dir(g, user, path, &d, &n, err);

	if (r < 0)
		return r;
	for (size_t i = 0; r == 0 && i < n; i++) {
		json_t *name = shape_output(d[i].name, strlen(d[i].name));

		r = json_array_append_new(files,
		                          json_pack("{s:o, s:s}", "name", name, "kind",
		                                    d[i].kind == GUEST_DIR ? "directory" : "file"));
	}
	guest_dirents_free(d, n);
	if (r < 0)
		return err_set(err, -ENOMEM, "out of memory");
	return reply_json(res, json_pack("{s:O}", "files", files), err);
}

static int get_once(struct request *req, struct reply *res, struct guest *g, const char *user,
                    const char *path, struct err *err)
{
	AUTO(sink_done) struct sink file = { .body = BODY_EMPTY };
	struct guest_stat st;
	int r = guest_stat(g, user, path, &st, err);

	if (r < 0)
		return r;
	body_begin(req, &file.body);
	if (st.kind == GUEST_DIR)
		return reply_dir(g, res, user, path, err);
	if (st.kind == GUEST_OTHER)
		return err_tag(err, -EINVAL, TAG, "'%.250s' is not a file or directory", path);
	r = guest_read_file(g, user, path, 0, 0, on_file_data, &file, deadline_in(FILE_MS), err);
	if (r == -EISDIR) /* a link to one */
		return reply_dir(g, res, user, path, err);
	if (r < 0 && file.err.code < 0) { /* an error of the server, not of the guest */
		*err = file.err;
		return err->code;
	}
	return r < 0 ? r : reply_content(req, res, &file, err);
}

int file_get(struct request *req, struct reply *res, file_get_fn get, file_failed_fn failed,
             struct err *err)
{
	char path[PATH_MAX];
	const char *id, *user;
	int r;

	if ((r = request_vm_id(req, 0, &id, err)) < 0 ||
	    (r = request_user(req, TAG, &user, err)) < 0 || (r = request_path(req, path, err)) < 0)
		return r;
	for (int attempt = 0;; attempt++) {
		AUTO(guest_unrefp) struct guest *g = NULL;

		if ((r = vmm_guest(deps_of(req)->vmm, who_of(req)->account, id, &g, err)) < 0)
			return r;
		r = get(req, res, g, user, path, err);
		if ((r != -ECONNRESET && r != -ENOTCONN) || attempt == 1)
			break;
	}
	return r < 0 ? failed(res, r, path, err) : 0;
}

int api_file_get(struct request *req, struct reply *res, struct err *err)
{
	return file_get(req, res, get_once, file_failed, err);
}

/* ---- write ---- */

struct source {
	struct content_reader *reader; /* owned */
	uint64_t n;
	struct err err;
};

static void source_done(struct source *s)
{
	content_close(s->reader);
}

static ssize_t on_file_room(void *ctx, uint8_t *p, size_t n)
{
	struct source *s = ctx;
	ssize_t k = content_read(s->reader, p, n, &s->err);

	if (k > 0) {
		s->n += (uint64_t)k;
		if (s->n > FILE_MAX)
			return err_tag(&s->err, -EFBIG, TAG, "the file is larger than %llu MiB",
			               (unsigned long long)(FILE_MAX >> 20));
	}
	return k;
}

/* Does all of it decode? Checked before the VM is woken and a byte is written. */
static int check_content(const struct content *c, struct err *err)
{
	AUTO(source_done) struct source s = { 0 };
	uint8_t scratch[4096];
	ssize_t k;
	int r = content_open(c, &s.reader, err);

	if (r < 0)
		return r;
	while ((k = on_file_room(&s, scratch, sizeof(scratch))) > 0)
		;
	if (k < 0)
		*err = s.err;
	return (int)k;
}

int api_file_put(struct request *req, struct reply *res, struct err *err)
{
	AUTO(guest_unrefp) struct guest *g = NULL;
	AUTO(source_done) struct source src = { 0 };
	struct content c;
	char path[PATH_MAX];
	const char *id, *user, *text;
	size_t n;
	int r;

	if ((r = request_vm_id(req, 0, &id, err)) < 0 ||
	    (r = request_user(req, TAG, &user, err)) < 0 ||
	    (r = request_path(req, path, err)) < 0 ||
	    (r = body_view(&req->body, &text, &n, err)) < 0 ||
	    (r = content_find(text, n, &c, err)) < 0 || (r = check_content(&c, err)) < 0 ||
	    (r = content_open(&c, &src.reader, err)) < 0 ||
	    (r = vmm_guest(deps_of(req)->vmm, who_of(req)->account, id, &g, err)) < 0)
		return r;
	r = guest_write_file(g, user, path, /* mode= */ 0, on_file_room, &src, deadline_in(FILE_MS),
	                     err); /* 0: a script stays executable, a new file gets 0644 */
	if (r < 0)
		return file_failed(res, r, path, err);
	return reply_json(res, json_object(), err);
}
