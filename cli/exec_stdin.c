/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exec_stdin.c - our stdin for a command in a VM
 *
 * Most input is a file or a short pipe: it is read first and sent with the command. What is
 * larger, or continues, is sent piece by piece while the command runs, by a thread that has a
 * connection of its own and dies with the program.
 */
#include "cli/exec_internal.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <curl/curl.h>

#include "base/auto.h"
#include "cli/stream.h"

#define FIRST_MAX (8u << 20) /* fits into a request in base64 */
#define PIECE (256u << 10)
#define QUIET_MS 150 /* after this long without data a pipe counts as open-ended */
#define CONNECT_S 10L

void exec_stdin_begin(struct exec_stdin *in, bool none)
{
	*in = (struct exec_stdin){ .whole = true };
	if (none || isatty(STDIN_FILENO))
		return;
	in->given = true;
	for (;;) {
		struct pollfd p = { .fd = STDIN_FILENO, .events = POLLIN };
		int k = poll(&p, 1, QUIET_MS);
		uint8_t *room;
		ssize_t n;

		if (k < 0 && errno == EINTR)
			continue;
		if (k == 0 || in->first.len >= FIRST_MAX) {
			in->whole = false;
			return;
		}
		room = buf_reserve(&in->first, PIECE);
		if (!room)
			cli_oom();
		n = k < 0 ? 0 : read(STDIN_FILENO, room, PIECE);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return; /* the end; a closed stdin is an empty one */
		in->first.len += (size_t)n;
	}
}

static size_t drop(char *p, size_t size, size_t n, void *ctx)
{
	return size * n;
}

/* One piece; false if the process no longer reads. */
static bool send_piece(struct exec_stdin *in, CURL *easy, const void *p, size_t n, bool eof)
{
	struct curl_slist *h = curl_slist_append(NULL, in->header);
	char url[1024];
	long status = 0;
	CURLcode rc;

	h = curl_slist_append(h, "Content-Type: application/octet-stream");
	h = curl_slist_append(h, "Expect:");
	if (in->user[0])
		h = curl_slist_append(h, in->user);
	snprintf(url, sizeof(url), "%s%s", in->url, eof ? "?eof=true" : "");
	curl_easy_setopt(easy, CURLOPT_URL, url);
	curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(easy, CURLOPT_HTTPHEADER, h);
	curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT, CONNECT_S);
	curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, drop);
	curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)n);
	curl_easy_setopt(easy, CURLOPT_POSTFIELDS, p);
	rc = curl_easy_perform(easy);
	curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
	curl_slist_free_all(h);
	return rc == CURLE_OK && status >= 200 && status < 300;
}

static void *pump(void *ctx)
{
	struct exec_stdin *in = ctx;
	CURL *easy = curl_easy_init();
	autofree char *piece = malloc(PIECE);
	bool ok = easy && piece;

	if (ok && in->first.len)
		ok = send_piece(in, easy, in->first.p, in->first.len, /* eof= */ false);
	while (ok) {
		ssize_t n = read(STDIN_FILENO, piece, PIECE);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			send_piece(in, easy, "", 0, /* eof= */ true);
			break;
		}
		ok = send_piece(in, easy, piece, (size_t)n, /* eof= */ false);
	}
	if (easy)
		curl_easy_cleanup(easy);
	return NULL;
}

int exec_stdin_pump(struct exec_stdin *in, struct cli *c, const char *user, const char *path)
{
	pthread_t t;
	int r;

	snprintf(in->url, sizeof(in->url), "%s%s", cli_url(c), path);
	snprintf(in->header, sizeof(in->header), "%s", cli_auth_header(c));
	if (user)
		snprintf(in->user, sizeof(in->user), "X-Freestyle-Vm-Linux-User-Id: %s", user);
	r = pthread_create(&t, NULL, pump, in);
	if (r == 0)
		pthread_detach(t);
	return r ? -r : 0;
}
