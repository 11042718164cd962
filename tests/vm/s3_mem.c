/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/vm/s3_mem.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "tests/fault/fault.h"

#define HEAD_MAX 8192
#define BUCKET "/bucket"

struct conn {
	struct s3_mem *s;
	int fd;
};

static void say(int fd, unsigned status, const void *p, size_t n)
{
	char head[128];
	int k = snprintf(head, sizeof(head), "HTTP/1.1 %u X\r\nContent-Length: %zu\r\n\r\n", status,
	                 n);

	if (send(fd, head, (size_t)k, MSG_NOSIGNAL) == k && n)
		(void)!send(fd, p, n, MSG_NOSIGNAL);
}

static struct s3_mem_object *find(struct s3_mem *s, const char *key) REQUIRES(s->lock);
static struct s3_mem_object *find(struct s3_mem *s, const char *key)
{
	for (size_t i = 0; i < s->n; i++)
		if (strcmp(s->o[i].key, key) == 0)
			return &s->o[i];
	return NULL;
}

static void list(struct s3_mem *s, int fd, const char *query)
{
	autobuf struct buf b = { 0 };
	const char *at = strstr(query, "prefix=");
	char prefix[96] = "";
	size_t n = 0;

	for (at = at ? at + 7 : ""; *at && *at != '&' && *at != ' ' && n + 1 < sizeof(prefix); at++)
		if (strncmp(at, "%2F", 3) == 0) {
			prefix[n++] = '/';
			at += 2;
		} else {
			prefix[n++] = *at;
		}
	prefix[n] = '\0';
	buf_printf(&b, "<ListBucketResult><IsTruncated>false</IsTruncated>");
	mutex_lock(&s->lock);
	for (size_t i = 0; i < s->n; i++)
		if (s->o[i].p && strncmp(s->o[i].key, prefix, n) == 0)
			buf_printf(&b, "<Contents><Key>%s</Key></Contents>", s->o[i].key);
	mutex_unlock(&s->lock);
	buf_printf(&b, "</ListBucketResult>");
	say(fd, 200, b.p, b.len);
}

static void answer(struct s3_mem *s, int fd, const char *method, const char *key, uint8_t *body,
                   size_t n)
{
	struct s3_mem_object *o;
	LOCK_SCOPE(&s->lock);

	o = find(s, key);
	if (strcmp(method, "PUT") == 0) {
		if (!o && s->n < S3_MEM_OBJECTS) {
			o = &s->o[s->n++];
			*o = (struct s3_mem_object){ 0 };
			snprintf(o->key, sizeof(o->key), "%s", key);
		}
		if (!o) {
			say(fd, 507, NULL, 0);
			return;
		}
		free(o->p);
		o->p = body;
		o->n = n;
		say(fd, 200, NULL, 0);
		return;
	}
	free(body);
	if (!o || !o->p) {
		say(fd, strcmp(method, "DELETE") == 0 ? 204 : 404, NULL, 0);
	} else if (strcmp(method, "DELETE") == 0) {
		free(TAKE_PTR(o->p));
		say(fd, 204, NULL, 0);
	} else {
		o->got++;
		say(fd, 200, o->p, o->n);
	}
}

/* One request; false: the connection is over. */
static bool serve_one(struct s3_mem *s, int fd)
{
	char head[HEAD_MAX], method[8], path[256];
	uint8_t *body = NULL;
	size_t n = 0, want = 0, have;
	char *end = NULL, *at;

	while (!end) {
		ssize_t k = n < sizeof(head) - 1 ? recv(fd, head + n, sizeof(head) - 1 - n, 0) : 0;

		if (k <= 0 || atomic_load(&s->down))
			return false;
		n += (size_t)k;
		head[n] = '\0';
		end = strstr(head, "\r\n\r\n");
	}
	end += 4;
	if (strcasestr(head, "Expect: 100"))
		(void)!send(fd, "HTTP/1.1 100 Continue\r\n\r\n", 25, MSG_NOSIGNAL);
	at = strcasestr(head, "Content-Length: ");
	if (at && at < end)
		want = strtoul(at + 16, NULL, 10);
	have = MIN(want, n - (size_t)(end - head));
	body = malloc(want + 1);
	if (!body || sscanf(head, "%7s %255s", method, path) != 2)
		abort();
	memcpy(body, end, have);
	while (have < want) {
		ssize_t k = recv(fd, body + have, want - have, 0);

		if (k <= 0) {
			free(body);
			return false;
		}
		have += (size_t)k;
	}
	if (strncmp(path, BUCKET "?", strlen(BUCKET) + 1) == 0) {
		free(body);
		list(s, fd, path);
	} else {
		answer(s, fd, method, path + strlen(BUCKET) + 1, body, want);
	}
	return true;
}

static void *conn_main(void *arg)
{
	struct conn c = *(struct conn *)arg;
	FAULT_QUIET;

	free(arg);
	while (serve_one(c.s, c.fd))
		;
	close(c.fd);
	atomic_fetch_sub(&c.s->n_open, 1);
	return NULL;
}

static void *mem_main(void *arg)
{
	struct s3_mem *s = arg;
	FAULT_QUIET;

	for (;;) {
		int fd = accept4(s->fd, NULL, NULL, SOCK_CLOEXEC);
		struct conn *c;
		pthread_t t;

		if (fd < 0)
			return NULL;
		if (atomic_load(&s->down)) {
			close(fd);
			continue;
		}
		c = malloc(sizeof(*c));
		if (!c)
			abort();
		*c = (struct conn){ s, fd };
		atomic_fetch_add(&s->n_open, 1);
		if (pthread_create(&t, NULL, conn_main, c))
			abort();
		pthread_detach(t);
	}
}

void s3_mem_start(struct s3_mem *s)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(a);

	*s = (struct s3_mem){ 0 };
	mutex_init(&s->lock, "test s3");
	s->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (s->fd < 0 || bind(s->fd, (struct sockaddr *)&a, sizeof(a)) < 0 ||
	    listen(s->fd, 64) < 0 || getsockname(s->fd, (struct sockaddr *)&a, &len) < 0 ||
	    pthread_create(&s->thread, NULL, mem_main, s))
		abort();
	snprintf(s->url, sizeof(s->url), "s3://bucket?endpoint=http://127.0.0.1:%u",
	         ntohs(a.sin_port));
}

/* Its clients are closed by now, so the connections end. */
void s3_mem_stop(struct s3_mem *s)
{
	shutdown(s->fd, SHUT_RDWR);
	pthread_join(s->thread, NULL);
	close(s->fd);
	while (atomic_load(&s->n_open))
		poll(NULL, 0, 2);
	mutex_unshared(&s->lock);
	for (size_t i = 0; i < s->n; i++)
		free(s->o[i].p);
	mutex_destroy(&s->lock);
}

unsigned s3_mem_count(struct s3_mem *s, const char *prefix, unsigned *ret_got)
{
	unsigned n = 0, got = 0;
	LOCK_SCOPE(&s->lock);

	for (size_t i = 0; i < s->n; i++)
		if (s->o[i].p && strncmp(s->o[i].key, prefix, strlen(prefix)) == 0) {
			n++;
			got += s->o[i].got;
		}
	if (ret_got)
		*ret_got = got;
	return n;
}

void s3_mem_flip(struct s3_mem *s, const char *prefix)
{
	LOCK_SCOPE(&s->lock);

	for (size_t i = 0; i < s->n; i++)
		if (s->o[i].p && strncmp(s->o[i].key, prefix, strlen(prefix)) == 0)
			s->o[i].p[s->o[i].n / 2] ^= 1;
}
