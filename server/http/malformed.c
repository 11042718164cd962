/* SPDX-License-Identifier: Apache-2.0 */
/*
 * malformed.c - requests that libmicrohttpd rejects by itself still get JSON
 *
 * The library answers what it cannot parse (request line, headers, lengths, chunks, versions) with
 * a page of HTML and has no option for it. It queues that page with its own public function
 * MHD_queue_response(), called through the dynamic linker; so does every user of it. We define
 * that symbol: our own replies go to the library's function directly (queue_reply()), so whatever
 * arrives here is the library's own. For an error we write our reply to the socket and have the
 * library close it. Should a build of the library ever bind the call internally, clients see HTML
 * again and tests/unit/test_api_http.c fails.
 *
 * What the library accepts but two parsers could read in two ways is rejected by framing_check().
 */
#include "http/http_internal.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "base/auto.h"
#include "base/id.h"
#include "base/log.h"

#define DRAIN_MAX                                                                       \
	KIB(256) /* of what was sent already: closing over unread bytes kills the reply \
	          */
#define HEADERS_MAX 100

typedef enum MHD_Result (*queue_fn)(struct MHD_Connection *, unsigned, struct MHD_Response *);
static queue_fn library_queue; /* written once, before the first connection */

static const struct {
	unsigned status;
	enum err_code code;
	const char *message;
} refusals[] = {
	{ 400, ERR_INVALID_REQUEST, "this is not a well-formed HTTP request" },
	{ 411, ERR_INVALID_REQUEST, "the request has no Content-Length" },
	{ 413, ERR_INVALID_REQUEST,
	  "the request is too large: its line and headers may have 32 KiB together" },
	{ 414, ERR_INVALID_REQUEST, "the path is too long" },
	{ 431, ERR_INVALID_REQUEST, "the headers are too large: they may have 32 KiB together" },
	{ 501, ERR_INVALID_REQUEST, "this transfer encoding is not supported" },
	{ 505, ERR_INVALID_REQUEST, "only HTTP/1.0 and HTTP/1.1 are supported" },
	{ 0, ERR_INTERNAL_ERROR, "the server could not answer" },
};

int malformed_init(struct err *err)
{
	*(void **)&library_queue = dlsym(RTLD_NEXT, "MHD_queue_response");
	return library_queue ? 0 : err_set(err, -ENOSYS, "libmicrohttpd cannot queue replies");
}

enum MHD_Result queue_reply(struct MHD_Connection *conn, unsigned status, struct MHD_Response *m)
{
	return library_queue(conn, status, m);
}

static void drain(int fd)
{
	char b[4096];

	for (size_t n = 0; n < DRAIN_MAX; n += sizeof(b))
		if (recv(fd, b, sizeof(b), MSG_DONTWAIT) <= 0)
			break;
}

/* The whole reply at once: it is small, and nothing else is on its way to this client. */
static void send_refusal(int fd, unsigned status, const char *code, const char *message)
{
	char body[320], text[1024], trace[33];
	uint8_t random[16];
	int n, k;

	random_bytes(random, sizeof(random));
	hex_encode(random, sizeof(random), trace);
	n = snprintf(body, sizeof(body),
	             "{\"code\":\"%s\",\"error\":\"%s\",\"message\":\"%s\",\"description\":\"%s\"}",
	             code, code, message, message);
	k = snprintf(
	        text, sizeof(text),
	        "HTTP/1.1 %u %s\r\nConnection: close\r\nContent-Type: application/json\r\n"
	        "Content-Length: %d\r\nX-Freestyle-Trace-Id: %s\r\nCache-Control: no-store\r\n"
	        "X-Content-Type-Options: nosniff\r\nAccess-Control-Allow-Origin: *\r\n%s\r\n%s",
	        status, MHD_get_reason_phrase_for(status), n, trace,
	        status == MHD_HTTP_SERVICE_UNAVAILABLE ? "Retry-After: 1\r\n" : "", body);
	log_obj(LOG_LV_DEBUG, "request", trace, "%u %s", status, message);
	if (send(fd, text, (size_t)k, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		log_obj(LOG_LV_DEBUG, "request", trace, "the client did not wait for it");
}

void refuse_unheard(int fd)
{
	send_refusal(fd, MHD_HTTP_SERVICE_UNAVAILABLE, err_code_name(ERR_UNAVAILABLE),
	             "too many connections have not sent a whole request yet: try again");
}

/*
 * The library's name; called by the library itself. What it wants to say about a broken
 * request we say ourselves, and let it close: where headers are at fault it would go on to send
 * its reply twice.
 */
enum MHD_Result MHD_queue_response(struct MHD_Connection *conn, unsigned status,
                                   struct MHD_Response *theirs)
{
	const union MHD_ConnectionInfo *ci =
	        MHD_get_connection_info(conn, MHD_CONNECTION_INFO_CONNECTION_FD);
	size_t i = 0;

	if (status < 400 || !ci)
		return library_queue(conn, status, theirs);
	while (refusals[i].status && refusals[i].status != status)
		i++;
	send_refusal(ci->connect_fd, status, err_code_name(refusals[i].code), refusals[i].message);
	shutdown(ci->connect_fd, SHUT_WR);
	drain(ci->connect_fd);
	return MHD_NO;
}

struct framing {
	unsigned headers, lengths, encodings, hosts;
	bool chunked;
};

static enum MHD_Result on_header(void *ctx, enum MHD_ValueKind kind, const char *name,
                                 size_t name_n, const char *value, size_t value_n)
{
	struct framing *f = ctx;

	f->headers++;
	switch (name_n) { /* most names differ in length already */
	case 4:
		f->hosts += strcasecmp(name, "Host") == 0;
		break;
	case 14:
		f->lengths += strcasecmp(name, "Content-Length") == 0;
		break;
	case 17:
		if (strcasecmp(name, "Transfer-Encoding") != 0)
			break;
		f->encodings++;
		f->chunked = value && strcasecmp(value, "chunked") == 0;
		break;
	default:
		break;
	}
	return MHD_YES;
}

int framing_check(struct request *req, const char *version, struct err *err)
{
	struct framing f = { 0 };
	const char *why = NULL;

	MHD_get_connection_values_n(req->conn, MHD_HEADER_KIND, on_header, &f);
	if (f.headers > HEADERS_MAX)
		why = "the request has too many headers";
	else if (f.lengths > 1)
		why = "the request has more than one Content-Length";
	else if (f.encodings > 1 || (f.encodings && !f.chunked))
		why = "the only supported transfer encoding is chunked";
	else if (f.encodings && f.lengths)
		why = "the request has both Content-Length and Transfer-Encoding";
	else if (f.hosts > 1)
		why = "the request has more than one Host";
	else if (!f.hosts && strcmp(version, MHD_HTTP_VERSION_1_1) == 0)
		why = "the request has no Host";
	return why ? err_tag(err, -EINVAL, ERR_INVALID_REQUEST, "%s", why) : 0;
}
