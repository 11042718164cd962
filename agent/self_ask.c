/* SPDX-License-Identifier: Apache-2.0 */
/* self_ask.c - see self_ask.h: HTTP/1.0, so that the reply ends with the connection */
#include "agent/self_ask.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/self.h"
#include "agent/self_json.h"
#include "base/auto.h"

#define CHUNK 65536

void self_answer_done(struct answer *a)
{
	buf_done(&a->text);
}

int self_complain(const char *what, const char *why)
{
	fprintf(stderr, "pando self: %s: %s\n", what, why);
	return EXIT_REFUSED;
}

static int send_all(int fd, const void *data, size_t n)
{
	const char *p = data;

	while (n) {
		ssize_t k = send(fd, p, n, MSG_NOSIGNAL);

		if (k < 0 && errno != EINTR)
			return -errno;
		p += MAX(k, 0);
		n -= (size_t)MAX(k, 0);
	}
	return 0;
}

static int dial(const char *path)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	autofd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || strlen(path) >= sizeof(sa.sun_path))
		return -EINVAL;
	snprintf(sa.sun_path, sizeof(sa.sun_path), "%s", path);
	if (connect(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0)
		return -errno;
	return TAKE_FD(fd);
}

static int no_access(const char *path, int r)
{
	if (r == -EACCES || r == -EPERM)
		fprintf(stderr,
		        "pando self: %s: only root and members of the group '%s' may use it\n",
		        path, SELF_GROUP);
	else
		fprintf(stderr,
		        "pando self: this VM has no self access (%s: %s): create it with "
		        "selfAccess, or switch it on from outside: pando vm set VM --self-access\n",
		        path, strerror(-r));
	return EXIT_NO_ACCESS;
}

/* 0, or what the program ends with. */
static int read_answer(int fd, struct answer *ret)
{
	char *end;

	for (;;) {
		uint8_t *p = buf_reserve(&ret->text, CHUNK);
		ssize_t n = p ? read(fd, p, CHUNK) : -1;

		if (n < 0 && p && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		ret->text.len += (size_t)n;
		if (ret->text.len > REPLY_MAX)
			return self_complain("reply", "it is too large");
	}
	buf_put_u8(&ret->text, '\0');
	if (ret->text.failed)
		return self_complain("reply", "out of memory");
	end = strstr((char *)ret->text.p, "\r\n\r\n");
	if (!end || sscanf((char *)ret->text.p, "HTTP/1.%*d %d", &ret->status) != 1)
		return self_complain("request", "the connection ended without an answer");
	ret->body = end + 4;
	ret->n = ret->text.len - 1 - (size_t)(ret->body - (char *)ret->text.p);
	return 0;
}

/* The server's own words. */
static int refused(const struct answer *a)
{
	struct jval v = jval_of(a->body, a->n);
	char code[64];
	autobuf struct buf message = { 0 };

	jval_word(jval_get(v, "code"), code, sizeof(code));
	if (!jval_text(jval_get(v, "message"), &message))
		buf_printf(&message, "HTTP status %d", a->status);
	fprintf(stderr, "pando self: %.*s%s%s%s\n", (int)message.len, (char *)message.p,
	        *code ? " (" : "", code, *code ? ")" : "");
	return EXIT_REFUSED;
}

int self_ask(const struct self_dial *o, const char *method, const char *path, const char *body,
             size_t n, struct answer *ret)
{
	autobuf struct buf head = { 0 };
	int r;
	autofd int fd = dial(o->socket);

	if (fd < 0)
		return no_access(o->socket, fd);
	buf_printf(&head, "%s /v1/self%s HTTP/1.0\r\nHost: self\r\nContent-Length: %zu\r\n", method,
	           path, n);
	if (o->user)
		buf_printf(&head, "X-Freestyle-Vm-Linux-User-Id: %s\r\n", o->user);
	buf_printf(&head, "\r\n");
	if (head.failed)
		return self_complain("request", "out of memory");
	/* It may be refused before all of it is read: then the answer says why. */
	if (send_all(fd, head.p, head.len) == 0)
		send_all(fd, body, n);
	if ((r = read_answer(fd, ret)) != 0)
		return r;
	return ret->status >= 200 && ret->status < 300 ? 0 : refused(ret);
}
