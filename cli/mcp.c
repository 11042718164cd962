/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mcp.c - pando mcp: an MCP server on stdin and stdout, for programs that start one
 *
 * Only a bridge: each line from stdin is a message that goes to /mcp of the server,
 * each message that comes back is a line on stdout; tools, limits and permissions are the
 * server's. Messages are sent concurrently (one thread, curl's multi interface), so that a
 * call can be cancelled while it runs. Only initialize is waited for, because it returns the
 * session's name. If the server does not know the session any more (it was restarted), the bridge
 * initializes another one as the client did and sends the message again. A request always gets an
 * answer: failures become an error with its id. Everything else goes to stderr.
 */
#include "cli/cli.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/queue.h>
#include <unistd.h>

#include <curl/curl.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/clock.h"
#include "cli/stream.h"

#define CONNECT_S 10L
#define END_S 3L                    /* to tell the server that the session is over */
#define GRACE_MS 30000              /* for calls that run when stdin ends */
#define UNDER_WAY_MAX 64            /* messages in progress; more wait in the pipe */
#define LINE_MAX_BYTES (8u << 20)   /* the server's limit */
#define REPLY_MAX_BYTES (64u << 20) /* one message from the server */
#define VALUE_MAX 128               /* bytes of a header's value */
#define BRIDGE_ERROR (-32000)       /* JSON-RPC: the server's side of the bridge failed */

struct bridge;

/* A message under way. */
struct transfer {
	LIST_ENTRY(transfer) link;
	struct bridge *b; /* weak */
	CURL *easy;       /* owned, as are the following */
	struct curl_slist *headers;
	char *text;
	json_t *id; /* of a request; else NULL */
	bool initialize, again, answered, cancelled;
	bool events;             /* the reply is a stream of them */
	char session[VALUE_MAX]; /* sent with the message */
	char opened[VALUE_MAX];  /* named by the reply */
	struct buf in;           /* the reply, if it is one piece */
	struct sse_reader sse;   /* or a stream of events */
};

struct bridge {
	struct cli *cli; /* weak */
	CURLM *multi;    /* owned */
	LIST_HEAD(, transfer) transfers;
	unsigned n;
	bool initializing;
	bool broken; /* stdout can no longer be written */
	char session[VALUE_MAX], version[VALUE_MAX];
	char *initialize; /* owned; what the client sent */
	struct buf in;    /* from stdin: incomplete lines */
	bool skipping;    /* the rest of a line that is too long */
	bool ended;       /* stdin */
};

/* ---- to the client ---- */

static void put_line(struct bridge *b, const char *p, size_t n)
{
	if (fwrite(p, 1, n, stdout) != n || putchar('\n') == EOF || fflush(stdout) != 0)
		b->broken = true;
}

static void put_error(struct bridge *b, json_t *id, const char *fmt, ...)
        __attribute__((format(printf, 3, 4)));
static void put_error(struct bridge *b, json_t *id, const char *fmt, ...)
{
	autofree char *line = NULL, *text = NULL;
	autojson json_t *j = NULL;
	va_list ap;

	va_start(ap, fmt);
	if (vasprintf(&text, fmt, ap) < 0)
		text = NULL;
	va_end(ap);
	if (!id) {
		fprintf(stderr, "pando: %s\n", text ? text : "out of memory");
		return;
	}
	j = json_pack("{s:s, s:O, s:{s:i, s:s}}", "jsonrpc", "2.0", "id", id, "error", "code",
	              BRIDGE_ERROR, "message", text ? text : "out of memory");
	line = j ? json_dumps(j, JSON_COMPACT) : NULL;
	if (line)
		put_line(b, line, strlen(line));
}

/* A message from the server; we also note its protocol version. */
static void put_message(struct transfer *t, const json_t *j)
{
	autofree char *text =
	        j ? json_dumps(j, JSON_COMPACT) : NULL; /* on one line, however it arrived */
	const char *v =
	        json_string_value(json_object_get(json_object_get(j, "result"), "protocolVersion"));

	if (!text)
		return;
	if (!json_object_get(j, "method"))
		t->answered = true;
	if (t->initialize && v)
		snprintf(t->b->version, sizeof(t->b->version), "%s", v);
	put_line(t->b, text, strlen(text));
}

/* ---- from the server ---- */

static bool header_is(const char *p, size_t n, const char *name, char value[VALUE_MAX])
{
	size_t k = strlen(name);

	if (n <= k || strncasecmp(p, name, k) != 0 || p[k] != ':')
		return false;
	for (p += k + 1, n -= k + 1; n && (*p == ' ' || *p == '\t'); p++)
		n--;
	while (n && strchr(" \t\r\n", p[n - 1]))
		n--;
	snprintf(value, VALUE_MAX, "%.*s", (int)MIN(n, (size_t)VALUE_MAX - 1), p);
	return true;
}

static size_t on_header(char *p, size_t size, size_t n, void *ctx)
{
	struct transfer *t = ctx;
	char value[VALUE_MAX];

	n *= size;
	if (header_is(p, n, "Content-Type", value))
		t->events = strncasecmp(value, "text/event-stream", 17) == 0;
	else if (header_is(p, n, "Mcp-Session-Id", value))
		snprintf(t->opened, sizeof(t->opened), "%s", value);
	return n;
}

static int on_event(void *ctx, const char *event, const json_t *data)
{
	struct transfer *t = ctx;

	put_message(t, data);
	return t->b->broken ? CLI_UNREACHABLE : 0;
}

static size_t on_data(char *p, size_t size, size_t n, void *ctx)
{
	struct transfer *t = ctx;

	n *= size;
	if (t->events)
		return sse_feed(&t->sse, p, n) == 0 ? n : 0;
	if (t->in.len + n > REPLY_MAX_BYTES)
		return 0;
	buf_put(&t->in, p, n);
	return t->in.failed ? 0 : n;
}

/* ---- one message ---- */

static void transfer_free(struct transfer *t)
{
	curl_easy_cleanup(t->easy);
	curl_slist_free_all(t->headers);
	free(t->text);
	json_decref(t->id);
	buf_done(&t->in);
	sse_done(&t->sse);
	free(t);
}

static struct curl_slist *add_header(struct curl_slist *l, const char *name, const char *value)
{
	char line[VALUE_MAX * 2];

	if (!*value)
		return l;
	snprintf(line, sizeof(line), "%s: %s", name, value);
	return curl_slist_append(l, line);
}

/* Method, address and headers; text NULL: no body. */
static void prepare(struct transfer *t, const char *method, const char *text)
{
	struct bridge *b = t->b;
	char url[1024];

	snprintf(url, sizeof(url), "%s/mcp", cli_url(b->cli));
	curl_slist_free_all(t->headers);
	t->headers = curl_slist_append(NULL, cli_auth_header(b->cli));
	t->headers = curl_slist_append(t->headers, "Content-Type: application/json");
	t->headers = curl_slist_append(t->headers, "Accept: application/json, text/event-stream");
	if (!t->initialize) {
		t->headers = add_header(t->headers, "Mcp-Session-Id", b->session);
		t->headers = add_header(t->headers, "MCP-Protocol-Version", b->version);
		snprintf(t->session, sizeof(t->session), "%s", b->session);
	}
	curl_easy_reset(t->easy);
	curl_easy_setopt(t->easy, CURLOPT_URL, url);
	curl_easy_setopt(t->easy, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(t->easy, CURLOPT_CUSTOMREQUEST, method);
	curl_easy_setopt(t->easy, CURLOPT_HTTPHEADER, t->headers);
	curl_easy_setopt(t->easy, CURLOPT_USERAGENT, "pando/" PANDO_VERSION);
	curl_easy_setopt(t->easy, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(t->easy, CURLOPT_CONNECTTIMEOUT, CONNECT_S);
	curl_easy_setopt(t->easy, CURLOPT_TCP_KEEPALIVE, 1L);
	curl_easy_setopt(t->easy, CURLOPT_HEADERFUNCTION, on_header);
	curl_easy_setopt(t->easy, CURLOPT_HEADERDATA, t);
	curl_easy_setopt(t->easy, CURLOPT_WRITEFUNCTION, on_data);
	curl_easy_setopt(t->easy, CURLOPT_WRITEDATA, t);
	curl_easy_setopt(t->easy, CURLOPT_PRIVATE, t);
	if (text) {
		curl_easy_setopt(t->easy, CURLOPT_POSTFIELDSIZE, (long)strlen(text));
		curl_easy_setopt(t->easy, CURLOPT_POSTFIELDS, text);
	}
}

static struct transfer *transfer_new(struct bridge *b)
{
	struct transfer *t = calloc(1, sizeof(*t));

	if (!t || !(t->easy = curl_easy_init()))
		cli_oom();
	t->b = b;
	t->sse = (struct sse_reader){ .fn = on_event, .ctx = t };
	return t;
}

static void start(struct transfer *t)
{
	prepare(t, "POST", t->text);
	LIST_INSERT_HEAD(&t->b->transfers, t, link);
	t->b->n++;
	t->b->initializing |= t->initialize;
	curl_multi_add_handle(t->b->multi, t->easy);
}

/* A request of our own, whose reply is not passed on. The status, or 0. */
static long quietly(struct bridge *b, const char *method, const char *text, bool initialize)
{
	struct transfer *t = transfer_new(b);
	long status = 0;

	t->initialize = initialize;
	prepare(t, method, text);
	curl_easy_setopt(t->easy, CURLOPT_TIMEOUT, initialize ? CONNECT_S : END_S);
	if (curl_easy_perform(t->easy) == CURLE_OK)
		curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
	if (initialize && status == 200)
		snprintf(b->session, sizeof(b->session), "%s", t->opened);
	transfer_free(t);
	return status;
}

/* ---- the end of a message ---- */

/* The server does not know the session any more: opens another one and sends the message again. */
static bool send_again(struct transfer *t, long status)
{
	struct bridge *b = t->b;

	if (status != 404 || !*t->session || t->again || !b->initialize)
		return false;
	if (strcmp(t->session, b->session) == 0) { /* it has not been renewed meanwhile */
		if (quietly(b, "POST", b->initialize, /* initialize= */ true) != 200)
			return false;
		quietly(b, "POST", "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}",
		        /* initialize= */ false);
	}
	t->again = true;
	t->events = false;
	buf_reset(&t->in);
	buf_reset(&t->sse.line);
	buf_reset(&t->sse.data);
	start(t);
	return true;
}

static void explain(struct transfer *t, CURLcode rc, long status)
{
	autojson json_t *j = json_loadb((const char *)t->in.p, t->in.len, 0, NULL);
	const char *code = json_string_value(json_object_get(j, "code"));
	const char *text = json_string_value(json_object_get(j, "message"));
	struct bridge *b = t->b;

	if (rc == CURLE_COULDNT_CONNECT)
		put_error(b, t->id,
		          "no server at %s: start it, or set its address with PANDO_API_URL",
		          cli_url(b->cli));
	else if (rc != CURLE_OK)
		put_error(b, t->id, "%s: %s", cli_url(b->cli), curl_easy_strerror(rc));
	else if (code)
		put_error(b, t->id, "%s: %s", code, text ? text : "");
	else if (status < 200 || status > 299)
		put_error(b, t->id, "%s answered %ld: is it a Pando server?", cli_url(b->cli),
		          status);
	else if (t->id)
		put_error(b, t->id, "the server ended the call without a reply");
}

static void finished(struct transfer *t, CURLcode rc)
{
	struct bridge *b = t->b;
	long status = 0;

	curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
	curl_multi_remove_handle(b->multi, t->easy);
	LIST_REMOVE(t, link);
	b->n--;
	if (t->initialize)
		b->initializing = false;
	if (rc == CURLE_OK && send_again(t, status))
		return;
	if (t->initialize && status == 200)
		snprintf(b->session, sizeof(b->session), "%s", t->opened);
	if (rc == CURLE_OK && !t->events && t->in.len) {
		autojson json_t *j = json_loadb((const char *)t->in.p, t->in.len, 0, NULL);

		if (json_is_array(j) || json_object_get(j, "jsonrpc"))
			put_message(t, j);
	}
	if (!t->answered && !t->cancelled &&
	    (t->id || rc != CURLE_OK || status < 200 || status > 299))
		explain(t, rc, status);
	transfer_free(t);
}

/* ---- from the client ---- */

static void mark_cancelled(struct bridge *b, const json_t *id)
{
	struct transfer *t;

	LIST_FOREACH(t, &b->transfers, link)
	{
		if (t->id && json_equal(t->id, id))
			t->cancelled = true;
	}
}

static void take_message(struct bridge *b, const char *p, size_t n)
{
	autojson json_t *j = json_loadb(p, n, 0, NULL);
	const char *method = json_string_value(json_object_get(j, "method"));
	struct transfer *t;

	if (n == 0 || strspn(p, " \t\r") >= n)
		return;
	t = transfer_new(b);
	t->text = strndup(p, n);
	t->id = method ? json_incref(json_object_get(j, "id")) : NULL;
	t->initialize = method && strcmp(method, "initialize") == 0;
	if (!t->text) {
		transfer_free(t);
		put_error(b, NULL, "out of memory");
		return;
	}
	if (t->initialize) {
		free(b->initialize);
		b->initialize = strdup(t->text);
	}
	if (method && strcmp(method, "notifications/cancelled") == 0)
		mark_cancelled(b, json_object_get(json_object_get(j, "params"), "requestId"));
	start(t);
}

static bool may_read(const struct bridge *b)
{
	return !b->initializing && b->n < UNDER_WAY_MAX;
}

/* Sends complete lines, as many as may be in progress; true if there was one. */
static bool take_lines(struct bridge *b)
{
	bool took = false;
	char *nl;

	while (b->in.len && may_read(b) && (nl = memchr(b->in.p, '\n', b->in.len))) {
		size_t n = (size_t)(nl - (char *)b->in.p);

		if (!b->skipping)
			take_message(b, (const char *)b->in.p, n);
		b->skipping = false;
		memmove(b->in.p, nl + 1, b->in.len - n - 1);
		b->in.len -= n + 1;
		took = true;
	}
	return took;
}

static void read_stdin(struct bridge *b)
{
	uint8_t *p = buf_reserve(&b->in, 64 << 10);
	ssize_t k = p ? read(STDIN_FILENO, p, 64 << 10) : -1;

	if (k < 0 && p && errno == EINTR)
		return;
	if (k <= 0) {
		b->ended = true;
		if (b->in.len && !b->skipping)
			buf_put(&b->in, "\n", 1); /* a last line without a newline counts too */
		return;
	}
	b->in.len += (size_t)k;
	if (b->in.len > LINE_MAX_BYTES && !memchr(b->in.p, '\n', b->in.len)) {
		if (!b->skipping)
			put_error(b, NULL, "dropped a message longer than %u bytes",
			          LINE_MAX_BYTES);
		b->skipping = true;
		buf_reset(&b->in);
	}
}

static void collect(struct bridge *b)
{
	CURLMsg *m;
	int left;

	while ((m = curl_multi_info_read(b->multi, &left))) {
		struct transfer *t = NULL;

		if (m->msg != CURLMSG_DONE)
			continue;
		curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)&t);
		finished(t, m->data.result);
	}
}

static void serve(struct bridge *b)
{
	uint64_t deadline = UINT64_MAX;
	int running;

	while (!b->broken) {
		struct curl_waitfd in = { .fd = STDIN_FILENO, .events = CURL_WAIT_POLLIN };
		bool want = !b->ended && may_read(b);

		curl_multi_perform(b->multi, &running);
		collect(b);
		if (take_lines(b))
			continue;
		if (b->ended && b->n == 0)
			return;
		if (b->ended && deadline == UINT64_MAX)
			deadline = deadline_in(GRACE_MS);
		if (b->ended && deadline_left(deadline) == 0)
			return;
		curl_multi_poll(b->multi, &in, want ? 1 : 0, 1000, NULL);
		if (want && in.revents)
			read_stdin(b);
	}
}

static int mcp(struct cli *c, const struct cli_args *a)
{
	struct bridge b = { .cli = c, .multi = curl_multi_init() };
	struct transfer *t;

	if (!b.multi)
		return cli_fail(CLI_UNREACHABLE, "out of memory");
	signal(SIGPIPE, SIG_IGN); /* a client that is gone shows up as an error of write() */
	LIST_INIT(&b.transfers);
	serve(&b);
	while ((t = LIST_FIRST(&b.transfers))) { /* this ends their work in the server */
		curl_multi_remove_handle(b.multi, t->easy);
		LIST_REMOVE(t, link);
		transfer_free(t);
	}
	if (*b.session)
		quietly(&b, "DELETE", NULL, /* initialize= */ false);
	curl_multi_cleanup(b.multi);
	free(b.initialize);
	buf_done(&b.in);
	return CLI_OK;
}

static const struct cli_verb verbs[] = {
	{ NULL,
	  "",
	  "run an MCP server on stdin and stdout, for agents that start one",
	  mcp,
	  { { 0 } },
	  .about = "Speaks the Model Context Protocol, one message per line, and forwards it to "
	           "/mcp of the server. Tools create VMs, run commands and code in them, read and "
	           "write files, fork, snapshot, suspend and delete.",
	  .examples = "pando mcp <messages >replies # by hand; agents start it themselves" },
};
const struct cli_noun cli_mcp = { "mcp", "the Model Context Protocol", verbs, ARRAY_SIZE(verbs) };
