/* SPDX-License-Identifier: Apache-2.0 */
/* http_client.h - one HTTP request on its own connection, with full control of the bytes; for tests
 * only */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct http_reply {
	int status; /* 0: the server closed without a reply */
	char *head; /* owned; status line and headers */
	char *body; /* owned, NUL-terminated */
	size_t body_n;
	json_t *json; /* owned; NULL when the body is not JSON */
};
void http_reply_done(struct http_reply *r);

/* A connected socket with a receive timeout of ms. */
int http_connect(unsigned port, unsigned timeout_ms);
bool http_send(int fd, const void *p, size_t n);
/* Reads one reply; -1 if no valid reply came in time. */
int http_receive(int fd, struct http_reply *ret);
/* The whole thing. headers: lines with \r\n, or NULL. body NULL: none. */
int http_call(unsigned port, const char *method, const char *path, const char *headers,
              const void *body, size_t n, struct http_reply *ret);
/* Value of a header in r->head, or NULL; static storage. */
const char *http_header(const struct http_reply *r, const char *name);
