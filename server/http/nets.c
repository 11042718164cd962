/* SPDX-License-Identifier: Apache-2.0 */
/* nets.c - addresses and networks as text: whose word about a client is believed, and that word */
#include "http/http_internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The address as 16 bytes, IPv4 as ::ffff:a.b.c.d. */
bool net_bytes(const struct sockaddr *sa, uint8_t ret[16])
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
	if (parse_address(text, &sa) < 0 || !net_bytes((struct sockaddr *)&sa, ret->addr))
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

bool net_has(const struct http_net *net, const uint8_t addr[16])
{
	unsigned whole = net->bits / 8, rest = net->bits % 8;

	return memcmp(addr, net->addr, whole) == 0 &&
	       (!rest || (addr[whole] ^ net->addr[whole]) >> (8 - rest) == 0);
}

int net_forwarded(const char *value, struct sockaddr_storage *ret)
{
	const char *comma = strrchr(value, ','), *last = comma ? comma + 1 : value;
	char text[64];

	last += strspn(last, " \t");
	snprintf(text, sizeof(text), "%.*s", (int)strcspn(last, " \t"), last);
	return parse_address(text, ret);
}
