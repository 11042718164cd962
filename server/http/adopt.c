/* SPDX-License-Identifier: Apache-2.0 */
/*
 * adopt.c - connections that were not accepted here: the application knows where they come from
 *
 * The HTTP library takes a socket of ours like one that it accepted. Where it comes from is noted
 * by its number until the library shows us the connection, and is then a property of the
 * connection, which nothing in its bytes can change. It has one request: whoever passes its bytes
 * on would have to wait for the next one. Its address is one of a range that nobody has
 * (fd53:50../64), made from its origin, so that limits by address are limits by origin.
 *
 * Other nodes of a cluster are different (http_adopt_node()): they send one request after the
 * other, and limits are those of the clients that they name.
 */
#include "http/http_internal.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/crc32c.h"
#include "base/id.h"

struct adopted {
	struct adopted *next;
	int fd; /* weak */
	char origin[HTTP_ORIGIN_SIZE], node[HTTP_ORIGIN_SIZE];
};

/* Addresses of nodes are of a range that was drawn by lot, so that no client has one. */
void adopted_init(struct http *h)
{
	h->nodes.bits = 96;
	random_bytes(h->nodes.addr, sizeof(h->nodes.addr));
	h->nodes.addr[0] = 0xfd;
	h->nodes.addr[1] = 0x53;
}

static void make_node_address(const struct http *h, const char *node, struct sockaddr_in6 *ret)
{
	uint32_t hash = crc32c(0, node, strlen(node));

	*ret = (struct sockaddr_in6){ .sin6_family = AF_INET6, .sin6_port = htons(1) };
	memcpy(ret->sin6_addr.s6_addr, h->nodes.addr, 12);
	memcpy(&ret->sin6_addr.s6_addr[12], &hash, sizeof(hash));
}

static void make_address(const char *origin, struct sockaddr_in6 *ret)
{
	size_t n = strcspn(origin, "/");
	uint32_t hash = crc32c(0, origin, n), more = crc32c(hash ^ 0x5045u, origin, n);

	*ret = (struct sockaddr_in6){ .sin6_family = AF_INET6, .sin6_port = htons(1) };
	ret->sin6_addr.s6_addr[0] = 0xfd;
	ret->sin6_addr.s6_addr[1] = 0x53;
	memcpy(&ret->sin6_addr.s6_addr[2], &hash, sizeof(hash));
	memcpy(&ret->sin6_addr.s6_addr[6], &more, 2);
	ret->sin6_addr.s6_addr[15] = 1;
}

bool adopted_take(struct http *h, int fd, char ret[HTTP_ORIGIN_SIZE],
                  char ret_node[HTTP_ORIGIN_SIZE])
{
	LOCK_SCOPE(&h->lock);

	for (struct adopted **p = &h->adopted; *p; p = &(*p)->next) {
		struct adopted *a = *p;

		if (a->fd != fd)
			continue;
		*p = a->next;
		snprintf(ret, HTTP_ORIGIN_SIZE, "%s", a->origin);
		snprintf(ret_node, HTTP_ORIGIN_SIZE, "%s", a->node);
		free(a);
		return true;
	}
	return false;
}

/* One of the two is "". */
static int adopt(struct http *h, int fd_consume, const char *origin, const char *node,
                 struct err *err)
{
	autofree struct adopted *a = calloc(1, sizeof(*a));
	autofd int fd = fd_consume;
	char unused[HTTP_ORIGIN_SIZE], unused_node[HTTP_ORIGIN_SIZE];
	struct sockaddr_in6 sa;
	int number = fd;

	if (!a)
		return err_set(err, -ENOMEM, "out of memory");
	if (h->draining)
		return err_tag(err, -ESHUTDOWN, ERR_UNAVAILABLE, "the server is shutting down");
	a->fd = fd;
	snprintf(a->origin, sizeof(a->origin), "%s", origin);
	snprintf(a->node, sizeof(a->node), "%s", node);
	if (*node)
		make_node_address(h, node, &sa);
	else
		make_address(origin, &sa);
	mutex_lock(&h->lock);
	a->next = h->adopted;
	h->adopted = TAKE_PTR(a);
	mutex_unlock(&h->lock);
	/* The library closes it, also when it refuses it. */
	if (MHD_add_connection(h->daemon, TAKE_FD(fd), (struct sockaddr *)&sa, sizeof(sa)) ==
	    MHD_YES)
		return 0;
	adopted_take(h, number, unused, unused_node);
	return err_tag(err, -EAGAIN, ERR_UNAVAILABLE, "too many connections: try again later");
}

int http_adopt(struct http *h, int fd_consume, const char *origin, struct err *err)
{
	return adopt(h, fd_consume, origin, "", err);
}

int http_adopt_node(struct http *h, int fd_consume, const char *node, struct err *err)
{
	return adopt(h, fd_consume, "", node, err);
}

const char *request_origin(const struct request *req)
{
	return req->outer ? request_origin(req->outer) : *req->origin ? req->origin : NULL;
}
