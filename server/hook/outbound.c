/* SPDX-License-Identifier: Apache-2.0 */
/*
 * outbound.c - requests to addresses chosen by users
 *
 * The user must not reach through us what only we can reach. A name proves nothing, so the address
 * is checked where a socket for it is created: it is what is connected to, whatever the name
 * resolved to a moment ago. Redirects are not followed, proxies of the environment not used.
 */
#include "hook/outbound.h"

#include <netinet/in.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/auto.h"
#include "base/buf.h"

#define CONNECT_MS 8000L
#define WHOLE_MS 15000L

static bool internal_v4(uint32_t a)
{
	static const struct {
		uint32_t net, mask;
	} nets[] = {
		{ 0x00000000, 0xff000000 }, { 0x0a000000, 0xff000000 }, { 0x64400000, 0xffc00000 },
		{ 0x7f000000, 0xff000000 }, { 0xa9fe0000, 0xffff0000 }, { 0xac100000, 0xfff00000 },
		{ 0xc0000000, 0xffffff00 }, { 0xc0000200, 0xffffff00 }, { 0xc0a80000, 0xffff0000 },
		{ 0xc6120000, 0xfffe0000 }, { 0xc6336400, 0xffffff00 }, { 0xcb007100, 0xffffff00 },
		{ 0xe0000000, 0xe0000000 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(nets); i++)
		if ((a & nets[i].mask) == nets[i].net)
			return true;
	return false;
}

bool addr_is_internal(const struct sockaddr *sa)
{
	const struct in6_addr *a;

	if (sa->sa_family == AF_INET)
		return internal_v4(
		        ntohl(((const struct sockaddr_in *)(const void *)sa)->sin_addr.s_addr));
	if (sa->sa_family != AF_INET6)
		return true;
	a = &((const struct sockaddr_in6 *)(const void *)sa)->sin6_addr;
	if (IN6_IS_ADDR_V4MAPPED(a) || IN6_IS_ADDR_V4COMPAT(a))
		return internal_v4(get_be32(a->s6_addr + 12));
	if (a->s6_addr[0] == 0x20 && a->s6_addr[1] == 0x02) /* 6to4 holds an IPv4 address */
		return internal_v4(get_be32(a->s6_addr + 2));
	if (get_be32(a->s6_addr) == 0x0064ff9b) /* so does NAT64 */
		return internal_v4(get_be32(a->s6_addr + 12));
	return (a->s6_addr[0] & 0xe0) != 0x20; /* global unicast is 2000::/3, nothing else is */
}

static curl_socket_t open_socket(void *ctx, curlsocktype purpose, struct curl_sockaddr *a)
{
	struct outbound *o = ctx;

	if (purpose != CURLSOCKTYPE_IPCXN || (!o->allow_private && addr_is_internal(&a->addr))) {
		o->refused = true;
		return CURL_SOCKET_BAD;
	}
	return socket(a->family, a->socktype | SOCK_CLOEXEC, a->protocol);
}

static int look_up(void *ctx, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
	const struct outbound *o = ctx;

	(void)a, (void)b, (void)c, (void)d;
	return o->ending && atomic_load(o->ending);
}

void outbound_set(CURL *c, const char *url, struct outbound *o)
{
	curl_easy_setopt(c, CURLOPT_URL, url);
	curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 0L);
	curl_easy_setopt(c, CURLOPT_PROXY, "");
	curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS);
	curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, WHOLE_MS);
	curl_easy_setopt(c, CURLOPT_OPENSOCKETFUNCTION, open_socket);
	curl_easy_setopt(c, CURLOPT_OPENSOCKETDATA, o);
	curl_easy_setopt(c, CURLOPT_NOPROGRESS, 0L);
	curl_easy_setopt(c, CURLOPT_XFERINFOFUNCTION, look_up);
	curl_easy_setopt(c, CURLOPT_XFERINFODATA, o);
}
