/* SPDX-License-Identifier: Apache-2.0 */
/*
 * s3.c - one request to the object store
 *
 * libcurl signs (SigV4), and does it right only if a few things hold. x-amz-content-sha256 is
 * always there, because some servers insist and others compare it: that is the checksum of what is
 * put. Query parameters come sorted and percent-encoded. Keys have only characters that nobody
 * encodes. "Expect:" is not taken away, since the signature would cover a header that is not sent.
 *
 * A request that failed in passing (no connection, cut, too slow, 5xx, 429) is tried again after a
 * pause that grows and is never the same for two clients. Each request may be repeated safely: keys
 * are written with one content only. Redirects are not followed: they would take the signature
 * elsewhere.
 */
#include <ctype.h>
#include <errno.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/id.h"
#include "metrics/metrics.h"
#include "objects/objects_internal.h"

#define ATTEMPTS 4
#define CONNECT_MS 5000L
#define SLOW_BYTES 16384L     /* a second: less, for the time of a stall, is given up */
#define STALLS_MAX 8L         /* a request may take so many times the time of a stall */
#define AGAIN_MS 60000u       /* a new attempt begins before that only */
#define ERROR_MAX (64u << 10) /* bytes of an answer that is an error */

struct attempt {
	struct s3 *s;
	const struct s3_req *q;
	struct buf *body;
	size_t sent;
	bool too_long;
	char date[64]; /* the server's clock */
	long status;
};

static size_t take_body(char *p, size_t size, size_t n, void *ctx)
{
	struct attempt *a = ctx;
	size_t len = size * n;

	if (a->body->len + len > MAX(a->q->max, (size_t)ERROR_MAX)) {
		a->too_long = true;
		return 0;
	}
	buf_put(a->body, p, len);
	return a->body->failed ? 0 : len;
}

static size_t give_body(char *p, size_t size, size_t n, void *ctx)
{
	struct attempt *a = ctx;
	size_t len = MIN(size * n, a->q->n - a->sent);

	memcpy(p, (const char *)a->q->body + a->sent, len);
	a->sent += len;
	return len;
}

static int seek_body(void *ctx, curl_off_t off, int origin)
{
	struct attempt *a = ctx;

	if (origin != SEEK_SET || off < 0 || (size_t)off > a->q->n)
		return CURL_SEEKFUNC_CANTSEEK;
	a->sent = (size_t)off;
	return CURL_SEEKFUNC_OK;
}

static size_t take_header(char *p, size_t size, size_t n, void *ctx)
{
	struct attempt *a = ctx;
	size_t len = size * n;

	if (len > 6 && strncasecmp(p, "Date: ", 6) == 0) {
		snprintf(a->date, sizeof(a->date), "%.*s", (int)(len - 6), p + 6);
		a->date[strcspn(a->date, "\r\n")] = '\0';
	}
	return len;
}

static int look_up(void *ctx, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
	const struct attempt *t = ctx;

	(void)a, (void)b, (void)c, (void)d;
	return atomic_load(&t->s->ending);
}

void s3_encode(struct buf *b, const char *text)
{
	for (const char *p = text; *p; p++)
		if (isalnum((unsigned char)*p) || strchr("-._~", *p))
			buf_put_u8(b, (uint8_t)*p);
		else
			buf_printf(b, "%%%02X", (unsigned char)*p);
}

static int set_url(CURL *c, const struct s3 *s, const struct s3_req *q)
{
	autobuf struct buf b = { 0 };

	buf_printf(&b, "%s%s", q->method == S3_LIST ? s->at.list : s->at.base,
	           q->method == S3_LIST ? "" : q->key);
	if (q->query)
		buf_printf(&b, "?%s", q->query);
	buf_put_u8(&b, 0);
	return b.failed || curl_easy_setopt(c, CURLOPT_URL, b.p) != CURLE_OK ? -ENOMEM : 0;
}

static struct curl_slist *sum_header(const struct s3_req *q)
{
	static const char name[] = "x-amz-content-sha256: ";
	char text[sizeof(name) + 64];
	unsigned char md[32];
	unsigned n = 0;

	if (EVP_Digest(q->n ? q->body : "", q->n, md, &n, EVP_sha256(), NULL) != 1)
		return NULL;
	memcpy(text, name, sizeof(name));
	hex_encode(md, sizeof(md), text + sizeof(name) - 1);
	return curl_slist_append(NULL, text);
}

static void set_up(CURL *c, struct attempt *a)
{
	const struct s3 *s = a->s;
	char sign[64];

	snprintf(sign, sizeof(sign), "aws:amz:%s:s3", s->at.region);
	curl_easy_setopt(c, CURLOPT_AWS_SIGV4, sign);
	curl_easy_setopt(c, CURLOPT_USERPWD, s->at.login);
	curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(c, CURLOPT_PROXY, "");
	curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 0L);
	curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(c, CURLOPT_TCP_NODELAY, 1L);
	curl_easy_setopt(c, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(c, CURLOPT_USERAGENT, "pando");
	curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS);
	curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, (long)s->stall_ms * STALLS_MAX);
	curl_easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, SLOW_BYTES);
	curl_easy_setopt(c, CURLOPT_LOW_SPEED_TIME, (long)MAX(s->stall_ms / 1000, 1));
	if (*s->at.ca)
		curl_easy_setopt(c, CURLOPT_CAINFO, s->at.ca);
	curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, take_body);
	curl_easy_setopt(c, CURLOPT_WRITEDATA, a);
	curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, take_header);
	curl_easy_setopt(c, CURLOPT_HEADERDATA, a);
	curl_easy_setopt(c, CURLOPT_NOPROGRESS, 0L);
	curl_easy_setopt(c, CURLOPT_XFERINFOFUNCTION, look_up);
	curl_easy_setopt(c, CURLOPT_XFERINFODATA, a);
	switch (a->q->method) {
	case S3_PUT:
		curl_easy_setopt(c, CURLOPT_UPLOAD, 1L);
		curl_easy_setopt(c, CURLOPT_READFUNCTION, give_body);
		curl_easy_setopt(c, CURLOPT_READDATA, a);
		curl_easy_setopt(c, CURLOPT_SEEKFUNCTION, seek_body);
		curl_easy_setopt(c, CURLOPT_SEEKDATA, a);
		curl_easy_setopt(c, CURLOPT_INFILESIZE_LARGE, (curl_off_t)a->q->n);
		break;
	case S3_DELETE:
		curl_easy_setopt(c, CURLOPT_CUSTOMREQUEST, "DELETE");
		break;
	case S3_HEAD:
		curl_easy_setopt(c, CURLOPT_NOBODY, 1L);
		break;
	case S3_GET:
	case S3_LIST:
		curl_easy_setopt(c, CURLOPT_HTTPGET, 1L);
		break;
	}
}

/* ---- what an answer means ---- */

static int skewed(const struct attempt *a, struct err *err)
{
	char ours[CLOCK_RFC3339_LEN];

	return err_set(err, -ETIME,
	               "the clocks are apart: this machine has %s, the object store '%s'; let both "
	               "follow a time server",
	               clock_rfc3339(clock_wall_ms(), ours), a->date);
}

static int denied(const struct attempt *a, const struct s3_error *e, struct err *err)
{
	if (strcmp(e->code, "RequestTimeTooSkewed") == 0)
		return skewed(a, err);
	if (strcmp(e->code, "AuthorizationHeaderMalformed") == 0)
		return err_set(err, -EINVAL,
		               "the object store wants another region (%s): set region= in "
		               "PANDO_OBJECTS",
		               e->message);
	if (strcmp(e->code, "AccessDenied") == 0 || !*e->code)
		return err_set(err, -EACCES,
		               "the object store does not let these credentials %s in the bucket "
		               "%s: they need to read, write, delete and list (s3:GetObject, "
		               "s3:PutObject, s3:DeleteObject, s3:ListBucket)",
		               a->q->method == S3_LIST     ? "list"
		               : a->q->method == S3_PUT    ? "write"
		               : a->q->method == S3_DELETE ? "delete"
		                                           : "read",
		               a->s->at.where);
	return err_set(err, -EACCES,
	               "the object store refuses the credentials (%s): see "
	               "PANDO_OBJECTS_CREDENTIALS",
	               e->code);
}

/* 0: it worked. */
static int judge(const struct attempt *a, bool *ret_again, struct err *err)
{
	struct s3_error e;

	if (a->status >= 200 && a->status < 300)
		return 0;
	s3_error_parse(a->body->p, a->body->len, &e);
	*ret_again = a->status >= 500 || a->status == 429 || a->status == 408 ||
	             strcmp(e.code, "RequestTimeout") == 0;
	if (strcmp(e.code, "NoSuchBucket") == 0)
		return err_set(err, -ENODEV,
		               "there is no bucket %s: create it, or set PANDO_OBJECTS to one that "
		               "is there",
		               a->s->at.where);
	if (a->status == 404)
		return err_set(err, -ENOENT, "there is no object '%s'", a->q->key ? a->q->key : "");
	if (a->status == 401 || a->status == 403 ||
	    strcmp(e.code, "AuthorizationHeaderMalformed") == 0 ||
	    strcmp(e.code, "RequestTimeTooSkewed") == 0)
		return denied(a, &e, err);
	if (a->status >= 300 && a->status < 400)
		return err_set(err, -EINVAL,
		               "the endpoint %s answers with a redirect (%ld): set the endpoint "
		               "that has the bucket",
		               a->s->at.where, a->status);
	return err_set(err, -EHOSTUNREACH, "the object store answered %ld%s%s%s%s", a->status,
	               *e.code ? " " : "", e.code, *e.message ? ": " : "", e.message);
}

static int try_once(struct attempt *a, CURL *c, bool *ret_again, struct err *err)
{
	struct curl_slist *headers = sum_header(a->q);
	char why[CURL_ERROR_SIZE] = "";
	CURLcode rc = CURLE_OUT_OF_MEMORY;

	a->sent = 0;
	a->status = 0;
	*a->date = '\0';
	buf_reset(a->body);
	curl_easy_reset(c); /* options only: the connection stays */
	if (headers && set_url(c, a->s, a->q) == 0) {
		set_up(c, a);
		curl_easy_setopt(c, CURLOPT_HTTPHEADER, headers);
		curl_easy_setopt(c, CURLOPT_ERRORBUFFER, why);
		rc = curl_easy_perform(c);
		curl_easy_setopt(c, CURLOPT_ERRORBUFFER, NULL);
		curl_easy_setopt(c, CURLOPT_HTTPHEADER, NULL);
		curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &a->status);
	}
	curl_slist_free_all(headers);
	metrics_add(METRIC_OBJECT_BYTES, LABEL_IN, a->body->len);
	metrics_add(METRIC_OBJECT_BYTES, LABEL_OUT, a->sent);
	if (atomic_load(&a->s->ending))
		return err_set(err, -ECANCELED, "the server is shutting down");
	if (rc == CURLE_OUT_OF_MEMORY || a->body->failed)
		return err_set(err, -ENOMEM, "out of memory for a request to the object store");
	if (a->too_long)
		return err_set(err, -EBADMSG, "the object '%s' is longer than any of ours",
		               a->q->key ? a->q->key : "");
	if (rc == CURLE_OK)
		return judge(a, ret_again, err);
	*ret_again = true;
	return err_set(err, -EHOSTUNREACH, "the object store %s cannot be reached: %s",
	               a->s->at.where, *why ? why : curl_easy_strerror(rc));
}

/* Between half of it and all of it, looked at often enough to end soon. */
static void rest(struct s3 *s, unsigned ms)
{
	uint32_t random;
	uint64_t until;

	random_bytes(&random, sizeof(random));
	until = deadline_in(ms / 2 + random % (ms / 2 + 1));
	while (!atomic_load(&s->ending) && deadline_left(until) > 0) {
		struct timespec t = { .tv_nsec = MIN(deadline_left(until), 50) * 1000000L };

		nanosleep(&t, NULL);
	}
}

int s3_do(struct s3 *s, CURL *c, const struct s3_req *q, struct buf *ret_body, struct err *err)
{
	struct attempt a = { .s = s, .q = q, .body = ret_body };
	uint64_t until = deadline_in(AGAIN_MS);
	unsigned pause = s->pause_ms;
	int r = 0;

	for (unsigned n = 1;; n++, pause *= 4) {
		bool again = false;

		r = try_once(&a, c, &again, err);
		if (r >= 0 || !again || n == ATTEMPTS || deadline_left(until) == 0)
			break;
		metrics_add(METRIC_OBJECT_REQUESTS, LABEL_OBJECT_RETRIED, 1);
		rest(s, pause);
	}
	metrics_add(METRIC_OBJECT_REQUESTS,
	            r < 0 && r != -ENOENT ? LABEL_OBJECT_FAILED : LABEL_OBJECT_OK, 1);
	return r;
}
