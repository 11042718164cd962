/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stream.c - one request with a streamed body or reply
 *
 * curl's multi interface with one transfer, so that we can wait for a signal too: curl
 * alone would notice one only with the next byte. An error reply is kept and reported as by
 * cli_call(). Nothing is retried: only the caller knows whether that is safe.
 */
#include "cli/stream.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <curl/curl.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "cli/cli.h"

#define CONNECT_S 10L
#define WAIT_MS 1000
#define STALL_MS 660000 /* without a byte in either direction; event streams send keep-alives */
#define ERROR_MAX (8u << 20) /* a failed build's reply has logs in it */

struct run {
	struct cli *c;
	struct cli_stream *s;
	CURL *easy;
	struct buf kept;
	uint64_t moved_ms; /* when a byte last moved */
	int ended;         /* by a callback or a signal: the exit status */
};

static bool is_error(struct run *x)
{
	if (!x->s->status)
		curl_easy_getinfo(x->easy, CURLINFO_RESPONSE_CODE, &x->s->status);
	return x->s->status < 200 || x->s->status > 299;
}

static size_t on_reply(char *p, size_t size, size_t n, void *ctx)
{
	struct run *x = ctx;
	curl_off_t length = -1;

	n *= size;
	x->moved_ms = clock_ms();
	if (is_error(x) || x->s->keep) {
		if (x->kept.len + n > ERROR_MAX)
			return 0;
		buf_put(&x->kept, p, n);
		return x->kept.failed ? 0 : n;
	}
	curl_easy_getinfo(x->easy, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
	x->s->length = length;
	x->ended = x->s->data ? x->s->data(x->s->ctx, p, n) : 0;
	return x->ended ? 0 : n;
}

static size_t on_header(char *p, size_t size, size_t n, void *ctx)
{
	static const char name[] = "X-Pando-Mode:";
	struct run *x = ctx;

	n *= size;
	if (n > sizeof(name) && strncasecmp(p, name, sizeof(name) - 1) == 0) {
		p += sizeof(name) - 1;
		snprintf(x->s->mode, sizeof(x->s->mode), "%.*s",
		         (int)MIN(n - (sizeof(name) - 1), sizeof(x->s->mode) - 1),
		         p + strspn(p, " "));
		x->s->mode[strcspn(x->s->mode, "\r\n ")] = '\0';
	}
	return n;
}

static size_t on_upload(char *p, size_t size, size_t n, void *ctx)
{
	struct run *x = ctx;
	ssize_t k = x->s->read(x->s->ctx, p, size * n);

	x->moved_ms = clock_ms();
	return k < 0 ? CURL_READFUNC_ABORT : (size_t)k;
}

static struct curl_slist *make_headers(const struct run *x)
{
	struct curl_slist *h = curl_slist_append(NULL, cli_auth_header(x->c));
	char line[128];

	if (x->s->user) {
		snprintf(line, sizeof(line), "X-Freestyle-Vm-Linux-User-Id: %s", x->s->user);
		h = curl_slist_append(h, line);
	}
	for (size_t i = 0; i < ARRAY_SIZE(x->s->header); i++)
		if (x->s->header[i])
			h = curl_slist_append(h, x->s->header[i]);
	if (x->s->body)
		h = curl_slist_append(h, "Content-Type: application/json");
	if (x->s->read)
		h = curl_slist_append(h, "Expect:"); /* do not wait a second for a 100 */
	return h;
}

static void set_up(struct run *x, const char *url, const char *text, struct curl_slist *headers)
{
	curl_easy_setopt(x->easy, CURLOPT_URL, url);
	curl_easy_setopt(x->easy, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(x->easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(x->easy, CURLOPT_HTTPHEADER, headers);
	curl_easy_setopt(x->easy, CURLOPT_USERAGENT, "pando/" PANDO_VERSION);
	curl_easy_setopt(x->easy, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(x->easy, CURLOPT_CONNECTTIMEOUT, CONNECT_S);
	curl_easy_setopt(x->easy, CURLOPT_WRITEFUNCTION, on_reply);
	curl_easy_setopt(x->easy, CURLOPT_WRITEDATA, x);
	curl_easy_setopt(x->easy, CURLOPT_HEADERFUNCTION, on_header);
	curl_easy_setopt(x->easy, CURLOPT_HEADERDATA, x);
	if (text)
		curl_easy_setopt(x->easy, CURLOPT_POSTFIELDS, text);
	if (x->s->read) {
		curl_easy_setopt(x->easy, CURLOPT_UPLOAD, 1L);
		curl_easy_setopt(x->easy, CURLOPT_READFUNCTION, on_upload);
		curl_easy_setopt(x->easy, CURLOPT_READDATA, x);
		curl_easy_setopt(x->easy, CURLOPT_INFILESIZE_LARGE, (curl_off_t)x->s->size);
	}
	curl_easy_setopt(x->easy, CURLOPT_CUSTOMREQUEST, x->s->method);
}

static void take_signals(struct run *x, int fd)
{
	int sig;

	while (!x->ended && (sig = signals_take(fd))) {
		if (sig == SIGWINCH)
			continue;
		x->ended = x->s->signalled ? x->s->signalled(x->s->ctx, sig) : 128 + sig;
	}
}

/* Drives the transfer to its end. */
static CURLcode drive(struct run *x, CURLM *multi, int signals)
{
	struct curl_waitfd extra = { .fd = signals, .events = CURL_WAIT_POLLIN };
	CURLcode rc = CURLE_OK;
	int running = 1, left;
	CURLMsg *m;

	while (running && !x->ended) {
		CURLMcode mc = curl_multi_perform(multi, &running);

		if (mc == CURLM_OK && running && !x->ended)
			mc = curl_multi_poll(multi, signals >= 0 ? &extra : NULL, signals >= 0,
			                     WAIT_MS, NULL);
		if (mc != CURLM_OK)
			return CURLE_OUT_OF_MEMORY;
		if (signals >= 0)
			take_signals(x, signals);
		if (clock_ms() - x->moved_ms > STALL_MS)
			return CURLE_OPERATION_TIMEDOUT;
	}
	while ((m = curl_multi_info_read(multi, &left)))
		if (m->msg == CURLMSG_DONE)
			rc = m->data.result;
	return rc;
}

static int judge(struct run *x, CURLcode rc)
{
	if (x->ended)
		return x->ended;
	is_error(x);
	if (x->s->status && (x->s->keep || is_error(x)))
		x->s->reply = json_loadb((const char *)x->kept.p, x->kept.len, 0, NULL);
	/* A server that rejects an upload does not wait for the rest of it. */
	if (x->s->status && is_error(x) && x->s->reply)
		return x->s->keep ? CLI_OK : cli_refused(x->c, x->s->status, x->s->reply);
	if (rc == CURLE_ABORTED_BY_CALLBACK)
		return CLI_REFUSED; /* the reader has printed the reason */
	if (rc == CURLE_COULDNT_CONNECT)
		return cli_fail(CLI_UNREACHABLE,
		                "no server at %s: start it (make run), or set its address with "
		                "--url, PANDO_API_URL or 'pando login'",
		                cli_url(x->c));
	if (rc != CURLE_OK) {
		x->s->cut = x->s->status != 0;
		return cli_fail(CLI_UNREACHABLE, "%s: %s", cli_url(x->c), curl_easy_strerror(rc));
	}
	return is_error(x) ? cli_refused(x->c, x->s->status, NULL) : CLI_OK;
}

int cli_stream(struct cli *c, struct cli_stream *s)
{
	struct run x = { .c = c, .s = s, .easy = curl_easy_init(), .moved_ms = clock_ms() };
	autofree char *text = s->body ? json_dumps(s->body, JSON_COMPACT) : NULL;
	CURLM *multi = curl_multi_init();
	struct curl_slist *headers;
	autofree char *url = NULL;
	int signals, r;
	CURLcode rc;

	s->length = -1;
	s->status = 0;
	s->reply = NULL;
	if (!x.easy || !multi || (s->body && !text) ||
	    asprintf(&url, "%s%s", cli_url(c), s->path) < 0)
		cli_oom();
	headers = make_headers(&x);
	set_up(&x, url, text, headers);
	signals = signals_open();
	curl_multi_add_handle(multi, x.easy);
	rc = drive(&x, multi, signals);
	cli_show_warning(x.easy);
	r = judge(&x, rc);
	signals_close(signals);
	curl_multi_remove_handle(multi, x.easy);
	curl_easy_cleanup(x.easy);
	curl_multi_cleanup(multi);
	curl_slist_free_all(headers);
	buf_done(&x.kept);
	if (!s->keep) {
		json_decref(s->reply);
		s->reply = NULL;
	}
	return r;
}
