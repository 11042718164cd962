/* SPDX-License-Identifier: Apache-2.0 */
/*
 * raw_files.c - raw files of any size: no JSON, no base64, nothing spooled
 *
 * GET reports size, time and tag of the very file that it then sends, or a part of it. PUT passes
 * the body on while it arrives; the file is complete when the reply says so, and unchanged if the
 * upload was cut off. Reads are repeated once if the VM was suspended before the
 * first byte.
 */
#include "api/vms/shared.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/auto.h"
#include "base/clock.h"
#include "guest/guest.h"

#define GUEST_STALL_MS 120000 /* for the guest to accept a piece: its disk may be slow */
#define ETAG_SIZE 48

/* ---- read ---- */

static bool parse_u64(const char **p, uint64_t *ret)
{
	char *end;

	if (!isdigit((unsigned char)**p))
		return false;
	errno = 0;
	*ret = strtoull(*p, &end, 10);
	*p = end;
	return errno == 0 && *ret <= INT64_MAX;
}

/* One range of bytes; anything else is ignored, and the whole file is sent (RFC 9110). */
static void parse_range(const char *s, struct guest_get *ret)
{
	uint64_t from, to;

	if (!s || strncmp(s, "bytes=", 6) != 0)
		return;
	s += 6;
	if (*s == '-') {
		s++;
		if (parse_u64(&s, &to) && !*s) {
			ret->range = GUEST_RANGE_LAST;
			ret->len = to;
		}
		return;
	}
	if (!parse_u64(&s, &from) || *s++ != '-')
		return;
	if (*s && (!parse_u64(&s, &to) || *s || to < from))
		return;
	ret->range = GUEST_RANGE_FROM;
	ret->off = from;
	ret->len = s[-1] == '-' ? 0 : to - from + 1;
}

static void make_etag(const struct guest_stat *st, char ret[ETAG_SIZE])
{
	snprintf(ret, ETAG_SIZE, "\"%llx-%llx\"", (unsigned long long)st->size,
	         (unsigned long long)st->mtime_ns);
}

static void add_file_headers(struct reply *res, const struct guest_stat *st)
{
	time_t t = (time_t)(st->mtime_ns / 1000000000);
	char etag[ETAG_SIZE], date[64], mode[16];
	struct tm tm;

	make_etag(st, etag);
	reply_header(res, "ETag", etag);
	reply_header(res, "Accept-Ranges", "bytes");
	snprintf(mode, sizeof(mode), "%04o", st->mode & 07777);
	reply_header(res, "X-Pando-Mode", mode);
	if (gmtime_r(&t, &tm) && strftime(date, sizeof(date), "%a, %d %b %Y %H:%M:%S GMT", &tm))
		reply_header(res, "Last-Modified", date);
}

/* Without a body: HEAD is told the length, 304 and an empty file have none. */
static int reply_head(struct reply *res, const struct guest_get *get, unsigned status,
                      struct err *err)
{
	res->status = status;
	add_file_headers(res, &get->st);
	return reply_bytes(res, status == 304 ? NULL : "application/octet-stream", NULL, 0, err);
}

static int reply_part(struct request *req, struct reply *res, const struct guest_get *get,
                      struct guest_flow *flow_consume, struct err *err)
{
	bool part = get->range != GUEST_RANGE_ALL;
	char range[72];
	int r;

	if (!get->satisfiable) {
		guest_flow_close(flow_consume);
		res->status = 416;
		snprintf(range, sizeof(range), "bytes */%llu", (unsigned long long)get->st.size);
		reply_header(res, "Content-Range", range);
		return err_tag(err, -ERANGE, FILES_TAG, "the file has only %llu bytes",
		               (unsigned long long)get->st.size);
	}
	if (!get->got_len) {
		guest_flow_close(flow_consume);
		return reply_head(res, get, 200, err);
	}
	r = reply_flow(req, res, &guest_flow_ops, flow_consume, get->got_len,
	               "application/octet-stream", err);
	if (r < 0)
		return r;
	add_file_headers(res, &get->st);
	if (part) {
		res->status = 206;
		snprintf(range, sizeof(range), "bytes %llu-%llu/%llu",
		         (unsigned long long)get->got_off,
		         (unsigned long long)(get->got_off + get->got_len - 1),
		         (unsigned long long)get->st.size);
		reply_header(res, "Content-Range", range);
	}
	return 0;
}

/* If-Range: send the part only if the file has not changed. */
static bool range_holds(struct request *req, const struct guest_get *get)
{
	const char *s = request_header(req, "If-Range");
	char etag[ETAG_SIZE];

	make_etag(&get->st, etag);
	return get->range == GUEST_RANGE_ALL || !s || strcmp(s, etag) == 0;
}

static int get_once(struct request *req, struct reply *res, struct guest *g, const char *user,
                    const char *path, struct err *err)
{
	const char *known = request_header(req, "If-None-Match");
	struct guest_get get = { 0 };
	struct guest_flow *f;
	char etag[ETAG_SIZE];
	int r;

	parse_range(request_header(req, "Range"), &get);
	r = guest_get_file(g, user, path, &get, &f, err);
	if (r == 0 && !range_holds(req, &get)) {
		guest_flow_close(f);
		get = (struct guest_get){ 0 };
		r = guest_get_file(g, user, path, &get, &f, err);
	}
	if (r < 0)
		return r;
	make_etag(&get.st, etag);
	if (known && (strcmp(known, etag) == 0 || strcmp(known, "*") == 0)) {
		guest_flow_close(f);
		return reply_head(res, &get, 304, err);
	}
	return reply_part(req, res, &get, f, err);
}

static int get_failed(struct reply *res, int r, const char *path, struct err *err)
{
	return file_error(r, path, err);
}

int api_raw_get(struct request *req, struct reply *res, struct err *err)
{
	return file_get(req, res, get_once, get_failed, err);
}

/* ---- write ---- */

struct upload {
	struct guest_flow *f; /* owned */
	upload_error_fn explain;
	uint64_t n;
	char path[PATH_MAX];
};

void upload_drop(void *ctx)
{
	struct upload *u = ctx;

	guest_flow_close(u->f);
	free(u);
}

int upload_data(struct request *req, const void *p, size_t n, struct err *err)
{
	struct upload *u = req->intake;
	int r = guest_flow_write(u->f, p, n, deadline_in(GUEST_STALL_MS), err);

	u->n += n;
	if (r == -ENODATA) { /* the guest could not continue; its result says why */
		r = guest_flow_result(u->f, err);
		if (r == 0)
			r = err_set(err, -EPROTO, "the guest did not accept the whole upload");
	}
	return r < 0 ? u->explain(r, u->path, err) : 0;
}

int upload_open(struct request *req, upload_begin_fn begin, upload_error_fn explain,
                struct err *err)
{
	AUTO(guest_unrefp) struct guest *g = NULL;
	struct upload *u = calloc(1, sizeof(*u));
	const char *id, *user;
	int r;

	if (!u)
		return err_set(err, -ENOMEM, "out of memory");
	if ((r = request_vm_id(req, 0, &id, err)) == 0 &&
	    (r = request_user(req, FILES_TAG, &user, err)) == 0 &&
	    (r = request_path(req, u->path, err)) == 0 &&
	    (r = vmm_guest(deps_of(req)->vmm, who_of(req)->account, id, &g, err)) == 0) {
		r = begin(req, g, user, u->path, &u->f, err);
		if (r < 0)
			r = explain(r, u->path, err);
	}
	if (r < 0) {
		upload_drop(u);
		return r;
	}
	u->explain = explain;
	req->intake = u;
	return 0;
}

int upload_finish(struct request *req, struct reply *res, unsigned limit_ms, struct err *err)
{
	struct upload *u = req->intake;
	int r = guest_flow_finish(u->f, deadline_in(limit_ms), err);

	if (r < 0)
		return u->explain(r, u->path, err);
	return reply_json(res, json_pack("{s:I}", "bytes", (json_int_t)u->n), err);
}

static int put_begin(struct request *req, struct guest *g, const char *user, const char *path,
                     struct guest_flow **ret, struct err *err)
{
	autofree char *s = NULL;
	unsigned long mode = 0;
	char *end;
	int r = request_query(req, "mode", &s, err);

	if (r < 0)
		return r;
	if (s) {
		mode = strtoul(s, &end, 8);
		if (!isdigit((unsigned char)*s) || *end || mode > 07777)
			return err_tag(err, -EINVAL, ERR_INVALID_PARAMETERS,
			               "'mode' must be octal, such as 0644");
	}
	return guest_put_file(g, user, path, (uint32_t)mode, ret, err);
}

static int put_open(struct request *req, struct err *err)
{
	return upload_open(req, put_begin, file_error, err);
}

const struct intake api_raw_intake = { put_open, upload_data, upload_drop };

int api_raw_put(struct request *req, struct reply *res, struct err *err)
{
	return upload_finish(req, res, GUEST_STALL_MS, err);
}

int api_raw_delete(struct request *req, struct reply *res, struct err *err)
{
	AUTO(guest_unrefp) struct guest *g = NULL;
	bool recursive = false;
	char path[PATH_MAX];
	const char *id, *user;
	int r;

	if ((r = request_vm_id(req, 0, &id, err)) < 0 ||
	    (r = request_user(req, FILES_TAG, &user, err)) < 0 ||
	    (r = request_path(req, path, err)) < 0 ||
	    (r = request_query_bool(req, "recursive", &recursive, err)) < 0 ||
	    (r = vmm_guest(deps_of(req)->vmm, who_of(req)->account, id, &g, err)) < 0)
		return r;
	r = guest_remove(g, user, path, recursive, err);
	return r < 0 ? file_error(r, path, err) : reply_json(res, json_object(), err);
}
