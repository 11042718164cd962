/* SPDX-License-Identifier: Apache-2.0 */
/*
 * remote.c - where a request comes from
 *
 * The address of the connection, unless a proxy that we believe has passed it on and says in
 * X-Forwarded-For for whom: our own edge, which proves itself with a secret, or one at an address
 * that the operator has named. A proxy adds the address that it saw to the end of what its client
 * had sent, in the same header or in one more; so the last address is the true one.
 */
#include "http/http_internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include <openssl/crypto.h>

#include "base/auto.h"

/* The address as 16 bytes, IPv4 as ::ffff:a.b.c.d. */
static bool bytes_of(const struct sockaddr *sa, uint8_t ret[16])
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	if (sa && sa->sa_family == AF_INET) {
		memcpy(ret, mapped, 12);
		memcpy(ret + 12, &((const struct sockaddr_in *)(const void *)sa)->sin_addr, 4);
	} else if (sa && sa->sa_family == AF_INET6) {
		memcpy(ret, &((const struct sockaddr_in6 *)(const void *)sa)->sin6_addr, 16);
	} else {
		return false;
	}
	return true;
}

static int parse_address(const char *text, struct sockaddr_storage *ret)
{
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)(void *)ret;
	struct sockaddr_in *v4 = (struct sockaddr_in *)(void *)ret;

	memset(ret, 0, sizeof(*ret));
	if (inet_pton(AF_INET, text, &v4->sin_addr) == 1)
		v4->sin_family = AF_INET;
	else if (inet_pton(AF_INET6, text, &v6->sin6_addr) == 1)
		v6->sin6_family = AF_INET6;
	else
		return -EINVAL;
	return 0;
}

/* "192.0.2.0/24" or "2001:db8::1" */
static int parse_net(const char *p, size_t n, struct http_net *ret)
{
	struct sockaddr_storage sa;
	char text[64], *slash, *end = NULL;
	unsigned long bits, max;

	if (n >= sizeof(text))
		return -EINVAL;
	snprintf(text, sizeof(text), "%.*s", (int)n, p);
	slash = strchr(text, '/');
	if (slash)
		*slash++ = '\0';
	if (parse_address(text, &sa) < 0 || !bytes_of((struct sockaddr *)&sa, ret->addr))
		return -EINVAL;
	max = sa.ss_family == AF_INET ? 32 : 128;
	bits = slash ? strtoul(slash, &end, 10) : max;
	if (bits > max || (slash && (!*slash || *end)))
		return -EINVAL;
	ret->bits = (unsigned)(bits + 128 - max);
	return 0;
}

int http_nets_parse(const char *text, struct http_net *ret, size_t max, size_t *ret_n)
{
	size_t n = 0;

	for (const char *p = text + strspn(text, " "); *p; p += strspn(p, " ")) {
		size_t len = strcspn(p, " ");

		if (n == max || parse_net(p, len, &ret[n]) < 0)
			return -EINVAL;
		n++;
		p += len;
	}
	*ret_n = n;
	return 0;
}

static bool is_within(const uint8_t addr[16], const struct http_net *net)
{
	unsigned whole = net->bits / 8, rest = net->bits % 8;

	return memcmp(addr, net->addr, whole) == 0 &&
	       (!rest || (addr[whole] ^ net->addr[whole]) >> (8 - rest) == 0);
}

static bool is_proxy(const struct http *h, const struct sockaddr *sa)
{
	uint8_t addr[16];

	if (!bytes_of(sa, addr))
		return false;
	for (size_t i = 0; i < h->conf.limits.n_proxies; i++)
		if (is_within(addr, &h->conf.limits.proxies[i]))
			return true;
	return false;
}

bool remote_is_trusted(const struct http *h, const struct sockaddr *sa)
{
	static const struct http_net loopback[] = {
		{ { [10] = 0xff, [11] = 0xff, [12] = 127 }, 96 + 8 },
		{ { [15] = 1 }, 128 },
	};
	uint8_t addr[16];

	return bytes_of(sa, addr) &&
	       (is_within(addr, &loopback[0]) || is_within(addr, &loopback[1]) || is_proxy(h, sa));
}

/* Passed on by our own edge, which alone knows the secret and drops what its clients say of this.
 */
static bool by_edge(struct request *req)
{
	const char *secret = req->http->conf.edge_secret;
	const char *given = secret ? request_header(req, "X-Pando-Edge") : NULL;

	return given && strlen(given) == strlen(secret) &&
	       CRYPTO_memcmp(given, secret, strlen(secret)) == 0;
}

static enum MHD_Result find_last(void *ctx, enum MHD_ValueKind kind, const char *name,
                                 const char *value)
{
	const char **last = ctx;

	if (strcasecmp(name, "X-Forwarded-For") == 0 && value)
		*last = value;
	return MHD_YES;
}

/* The last address of the last X-Forwarded-For; false: there is none. */
static bool forwarded_for(struct request *req)
{
	const char *last = NULL, *comma;
	char text[64];

	MHD_get_connection_values(req->conn, MHD_HEADER_KIND, find_last, (void *)&last);
	if (!last)
		return false;
	comma = strrchr(last, ',');
	last = comma ? comma + 1 : last;
	last += strspn(last, " \t");
	snprintf(text, sizeof(text), "%.*s", (int)strcspn(last, " \t"), last);
	return parse_address(text, &req->peer) == 0;
}

const struct sockaddr *request_remote(struct request *req)
{
	const union MHD_ConnectionInfo *ci;

	if (req->outer)
		return request_remote(req->outer);
	if (!req->conn)
		return NULL;
	ci = MHD_get_connection_info(req->conn, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
	if ((by_edge(req) || (ci && is_proxy(req->http, ci->client_addr))) && forwarded_for(req))
		return (const struct sockaddr *)&req->peer;
	return ci ? ci->client_addr : NULL;
}

const char *request_caller(struct request *req)
{
	if (req->outer)
		return request_caller(req->outer);
	return by_edge(req) ? request_header(req, "X-Pando-Vm") : NULL;
}
