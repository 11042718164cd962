/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/http_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/buf.h"

#define REPLY_MAX (512u << 20)
#define CALL_MS 20000

void http_reply_done(struct http_reply *r)
{
	free(r->head);
	free(r->body);
	json_decref(r->json);
	*r = (struct http_reply){ 0 };
}

int http_connect(unsigned port, unsigned timeout_ms)
{
	struct sockaddr_in sa = { .sin_family = AF_INET,
		                  .sin_port = htons((uint16_t)port),
		                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct timeval tv = { .tv_sec = timeout_ms / 1000,
		              .tv_usec = (suseconds_t)(timeout_ms % 1000) * 1000 };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv));
	if (connect(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0) {
		close(fd);
		return -1;
	}
	return fd;
}

bool http_send(int fd, const void *p, size_t n)
{
	const char *s = p;

	while (n) {
		ssize_t k = send(fd, s, n, MSG_NOSIGNAL);

		if (k <= 0)
			return false;
		s += k;
		n -= (size_t)k;
	}
	return true;
}

const char *http_header(const struct http_reply *r, const char *name)
{
	static __thread char value[512];
	size_t n = strlen(name);

	for (const char *p = r->head; p && (p = strstr(p, "\r\n"));) {
		p += 2;
		if (strncasecmp(p, name, n) == 0 && p[n] == ':') {
			p += n + 1;
			p += strspn(p, " ");
			snprintf(value, sizeof(value), "%.*s", (int)strcspn(p, "\r"), p);
			return value;
		}
	}
	return NULL;
}

int http_receive(int fd, struct http_reply *ret)
{
	struct buf b = { 0 };
	size_t head = 0, want = SIZE_MAX;

	*ret = (struct http_reply){ 0 };
	while (b.len < want && b.len < REPLY_MAX) {
		uint8_t *room = buf_reserve(&b, 65536);
		ssize_t k = room ? recv(fd, room, 65536, 0) : -1;

		if (k <= 0)
			break;
		b.len += (size_t)k;
		if (!head) {
			const char *end = memmem(b.p, b.len, "\r\n\r\n", 4);

			if (end) {
				const char *len;

				head = (size_t)(end - (const char *)b.p) + 4;
				ret->head = strndup((const char *)b.p, head);
				if (sscanf(ret->head, "HTTP/1.1 %d", &ret->status) != 1)
					break;
				len = http_header(ret, "Content-Length");
				want = head + (len ? strtoull(len, NULL, 10) : 0);
			}
		}
	}
	if (!head || b.len < want) {
		buf_done(&b);
		return -1;
	}
	ret->body_n = b.len - head;
	ret->body = malloc(ret->body_n + 1);
	memcpy(ret->body, b.p + head, ret->body_n);
	ret->body[ret->body_n] = '\0';
	ret->json = json_loadb(ret->body, ret->body_n, JSON_ALLOW_NUL, NULL);
	buf_done(&b);
	return 0;
}

int http_call(unsigned port, const char *method, const char *path, const char *headers,
              const void *body, size_t n, struct http_reply *ret)
{
	struct buf b = { 0 };
	int fd = http_connect(port, CALL_MS), r = -1;

	*ret = (struct http_reply){ 0 };
	if (fd < 0)
		return -1;
	buf_printf(&b, "%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n%s", method, path,
	           headers ? headers : "");
	if (body)
		buf_printf(&b, "Content-Length: %zu\r\n", n);
	buf_printf(&b, "\r\n");
	if (!b.failed && http_send(fd, b.p, b.len)) {
		if (body)
			(void)http_send(fd, body, n); /* refused early: the reply says so */
		r = http_receive(fd, ret);
	}
	buf_done(&b);
	close(fd);
	return r;
}
