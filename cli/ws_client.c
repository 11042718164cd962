/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ws_client.c - wslay on a connection of curl's
 *
 * curl makes the connection (names, proxies, TLS) and hands it over; the upgrade is written and
 * checked here, and what the server says instead of it is read to its end, because it is an error
 * with a message. Then wslay knows the frames. Everything is nonblocking but the handshake, which
 * has a deadline.
 */
#include "cli/ws_client.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>

#include <curl/curl.h>
#include <openssl/evp.h>
#include <wslay/wslay.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/io.h"
#include "cli/cli.h"
#include "cli/stream.h"

#define CONNECT_S 10L
#define HANDSHAKE_MS 330000 /* an attach may wake the VM, on a busy host */
#define GOODBYE_MS 1000
#define HEAD_MAX (64u << 10)
#define MESSAGE_MAX (64u << 20) /* a picture of 10,000 lines is the largest */
#define WS_GUID "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

struct wsc {
	CURL *easy;
	curl_socket_t fd;
	wslay_event_context_ptr ctx;
	struct buf early; /* came behind the head */
	size_t early_off;
	wsc_fn fn;
	void *owner;
	bool over;
};

/* ---- handshake ---- */

static bool send_all(struct wsc *w, const char *p, size_t n, uint64_t deadline)
{
	while (n) {
		size_t k = 0;
		CURLcode rc = curl_easy_send(w->easy, p, n, &k);

		if (rc == CURLE_AGAIN && io_wait(w->fd, POLLOUT, deadline) > 0)
			continue;
		if (rc != CURLE_OK)
			return false;
		p += k;
		n -= k;
	}
	return true;
}

/* More bytes of the answer; false at its end. */
static bool recv_more(struct wsc *w, struct buf *b, uint64_t deadline)
{
	uint8_t *room = buf_reserve(b, 4096);
	size_t k = 0;
	CURLcode rc;

	if (!room)
		cli_oom();
	while ((rc = curl_easy_recv(w->easy, room, 4096, &k)) == CURLE_AGAIN)
		if (io_wait(w->fd, POLLIN, deadline) <= 0)
			return false;
	b->len += k;
	return rc == CURLE_OK && k;
}

/* The value of a header in a head, or NULL; caller frees. */
static char *header_value(const char *head, const char *name)
{
	size_t n = strlen(name);

	for (const char *p = strstr(head, "\r\n"); p && *(p += 2); p = strstr(p, "\r\n"))
		if (strncasecmp(p, name, n) == 0 && p[n] == ':') {
			p += n + 1;
			p += strspn(p, " ");
			return strndup(p, strcspn(p, "\r"));
		}
	return NULL;
}

static void expected_accept(const char *key, char dst[32])
{
	unsigned char sum[EVP_MAX_MD_SIZE];
	unsigned n = 0;
	char text[96];

	snprintf(text, sizeof(text), "%s%s", key, WS_GUID);
	EVP_Digest(text, strlen(text), sum, &n, EVP_sha1(), NULL);
	EVP_EncodeBlock((unsigned char *)dst, sum, (int)n);
}

static int refused(struct cli *c, struct wsc *w, struct buf *in, const char *head, long status,
                   uint64_t deadline, bool quiet)
{
	autofree char *length = header_value(head, "Content-Length");
	size_t want = length ? strtoul(length, NULL, 10) : HEAD_MAX;
	autojson json_t *reply = NULL;

	while (in->len < MIN(want, HEAD_MAX) && recv_more(w, in, deadline))
		;
	if (quiet)
		return CLI_REFUSED;
	reply = json_loadb((const char *)in->p, in->len, 0, NULL);
	return cli_refused(c, status, reply);
}

/* Host and path of the request, from the server's address. */
static bool request_line(struct cli *c, const char *path, struct buf *b)
{
	CURLU *u = curl_url();
	char *host = NULL, *port = NULL, *base = NULL;
	bool ok = u && curl_url_set(u, CURLUPART_URL, cli_url(c), 0) == CURLUE_OK &&
	          curl_url_get(u, CURLUPART_HOST, &host, 0) == CURLUE_OK &&
	          curl_url_get(u, CURLUPART_PATH, &base, 0) == CURLUE_OK;

	if (ok) {
		curl_url_get(u, CURLUPART_PORT, &port, 0);
		buf_printf(b, "GET %s%s HTTP/1.1\r\nHost: %s%s%s\r\n",
		           strcmp(base, "/") == 0 ? "" : base, path, host, port ? ":" : "",
		           port ? port : "");
	}
	curl_free(host);
	curl_free(port);
	curl_free(base);
	curl_url_cleanup(u);
	return ok;
}

static int handshake(struct cli *c, struct wsc *w, const char *user, const char *path, bool quiet,
                     long *ret_http)
{
	uint64_t deadline = deadline_in(HANDSHAKE_MS);
	autobuf struct buf out = { 0 }, in = { 0 };
	autofree char *key = NULL, *head = NULL, *accept = NULL;
	unsigned char random[16];
	char expected[32];
	char *end = NULL;

	if (getrandom(random, sizeof(random), 0) != sizeof(random) || !request_line(c, path, &out))
		return cli_fail(CLI_UNREACHABLE, "'%s' is not a server address", cli_url(c));
	key = base64_encode(random, sizeof(random));
	buf_printf(
	        &out,
	        "%s\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
	        "Sec-WebSocket-Key: %s\r\n%s%s%s\r\n",
	        cli_auth_header(c), key, user ? "X-Freestyle-Vm-Linux-User-Id: " : "",
	        user ? user : "", user ? "\r\n" : "");
	if (out.failed)
		cli_oom();
	if (!send_all(w, (const char *)out.p, out.len, deadline))
		return quiet ? CLI_UNREACHABLE
		             : cli_fail(CLI_UNREACHABLE, "%s: the connection was lost", cli_url(c));
	while (!(end = in.len ? memmem(in.p, in.len, "\r\n\r\n", 4) : NULL))
		if (in.len > HEAD_MAX || !recv_more(w, &in, deadline))
			return quiet ? CLI_UNREACHABLE
			             : cli_fail(CLI_UNREACHABLE, "%s: no answer", cli_url(c));
	head = strndup((char *)in.p, (size_t)(end - (char *)in.p));
	if (!head)
		cli_oom();
	buf_put(&w->early, end + 4, in.len - (size_t)(end + 4 - (char *)in.p));
	if (sscanf(head, "HTTP/1.%*d %ld", ret_http) != 1)
		return cli_fail(CLI_UNREACHABLE, "%s does not speak HTTP", cli_url(c));
	if (*ret_http != 101)
		return refused(c, w, &w->early, head, *ret_http, deadline, quiet);
	accept = header_value(head, "Sec-WebSocket-Accept");
	expected_accept(key, expected);
	if (!accept || strcmp(accept, expected) != 0)
		return cli_fail(CLI_UNREACHABLE, "%s: not a WebSocket", cli_url(c));
	return CLI_OK;
}

/* ---- frames ---- */

static ssize_t on_recv(wslay_event_context_ptr ctx, uint8_t *p, size_t n, int flags, void *user)
{
	struct wsc *w = user;
	size_t early = w->early.len - w->early_off, k = 0;
	CURLcode rc;

	if (early) {
		n = MIN(n, early);
		memcpy(p, w->early.p + w->early_off, n);
		w->early_off += n;
		return (ssize_t)n;
	}
	rc = curl_easy_recv(w->easy, p, n, &k);
	if (rc == CURLE_OK && k)
		return (ssize_t)k;
	w->over |= rc != CURLE_AGAIN;
	wslay_event_set_error(ctx, rc == CURLE_AGAIN ? WSLAY_ERR_WOULDBLOCK
	                                             : WSLAY_ERR_CALLBACK_FAILURE);
	return -1;
}

static ssize_t on_send(wslay_event_context_ptr ctx, const uint8_t *p, size_t n, int flags,
                       void *user)
{
	struct wsc *w = user;
	size_t k = 0;
	CURLcode rc = curl_easy_send(w->easy, p, n, &k);

	if (rc == CURLE_OK)
		return (ssize_t)k;
	w->over |= rc != CURLE_AGAIN;
	wslay_event_set_error(ctx, rc == CURLE_AGAIN ? WSLAY_ERR_WOULDBLOCK
	                                             : WSLAY_ERR_CALLBACK_FAILURE);
	return -1;
}

static int on_mask(wslay_event_context_ptr ctx, uint8_t *p, size_t n, void *user)
{
	return getrandom(p, n, 0) == (ssize_t)n ? 0 : -1;
}

static void on_message(wslay_event_context_ptr ctx, const struct wslay_event_on_msg_recv_arg *m,
                       void *user)
{
	struct wsc *w = user;

	if (m->opcode == WSLAY_TEXT_FRAME || m->opcode == WSLAY_BINARY_FRAME)
		w->fn(w->owner, m->opcode == WSLAY_TEXT_FRAME, m->msg, m->msg_length);
}

static bool connect_to(struct cli *c, struct wsc *w)
{
	w->easy = curl_easy_init();
	if (!w->easy)
		cli_oom();
	curl_easy_setopt(w->easy, CURLOPT_URL, cli_url(c));
	curl_easy_setopt(w->easy, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(w->easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(w->easy, CURLOPT_CONNECT_ONLY, 1L);
	curl_easy_setopt(w->easy, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(w->easy, CURLOPT_TCP_NODELAY, 1L);
	curl_easy_setopt(w->easy, CURLOPT_CONNECTTIMEOUT, CONNECT_S);
	return curl_easy_perform(w->easy) == CURLE_OK &&
	       curl_easy_getinfo(w->easy, CURLINFO_ACTIVESOCKET, &w->fd) == CURLE_OK;
}

int wsc_open(struct cli *c, const char *user, const char *path, wsc_fn fn, void *ctx, bool quiet,
             struct wsc **ret, long *ret_http)
{
	static const struct wslay_event_callbacks calls = {
		.recv_callback = on_recv,
		.send_callback = on_send,
		.genmask_callback = on_mask,
		.on_msg_recv_callback = on_message,
	};
	struct wsc *w = calloc(1, sizeof(*w));
	int r;

	if (!w)
		cli_oom();
	w->fn = fn;
	w->owner = ctx;
	*ret_http = 0;
	if (!connect_to(c, w)) {
		wsc_free(w);
		return quiet ? CLI_UNREACHABLE
		             : cli_fail(CLI_UNREACHABLE, "no server at %s", cli_url(c));
	}
	r = handshake(c, w, user, path, quiet, ret_http);
	if (r == CLI_OK && wslay_event_context_client_init(&w->ctx, &calls, w) != 0)
		cli_oom();
	if (r != CLI_OK) {
		wsc_free(w);
		return r;
	}
	wslay_event_config_set_max_recv_msg_length(w->ctx, MESSAGE_MAX);
	*ret = w;
	return CLI_OK;
}

struct wsc *wsc_free(struct wsc *w)
{
	if (!w)
		return NULL;
	if (w->ctx)
		wslay_event_context_free(w->ctx);
	curl_easy_cleanup(w->easy);
	buf_done(&w->early);
	free(w);
	return NULL;
}

int wsc_fd(const struct wsc *w)
{
	return w->fd;
}

short wsc_events(const struct wsc *w)
{
	return (short)(POLLIN | (wslay_event_want_write(w->ctx) ? POLLOUT : 0));
}

bool wsc_run(struct wsc *w)
{
	if (!w->over && wslay_event_want_read(w->ctx) && wslay_event_recv(w->ctx) != 0)
		w->over = true;
	if (!w->over && wslay_event_want_write(w->ctx) && wslay_event_send(w->ctx) != 0)
		w->over = true;
	if (!wslay_event_want_read(w->ctx) && !wslay_event_want_write(w->ctx))
		w->over = true;
	return !w->over;
}

void wsc_send(struct wsc *w, bool text, const void *p, size_t n)
{
	struct wslay_event_msg m = { .opcode = text ? WSLAY_TEXT_FRAME : WSLAY_BINARY_FRAME,
		                     .msg = p,
		                     .msg_length = n };

	if (!w->over)
		wslay_event_queue_msg(w->ctx, &m);
}

size_t wsc_queued(const struct wsc *w)
{
	return wslay_event_get_queued_msg_length(w->ctx);
}

void wsc_close(struct wsc *w)
{
	uint64_t deadline = deadline_in(GOODBYE_MS);

	if (w->over || wslay_event_queue_close(w->ctx, WSLAY_CODE_NORMAL_CLOSURE, NULL, 0) != 0)
		return;
	while (wsc_run(w) && io_wait(w->fd, wsc_events(w), deadline) > 0)
		;
}
