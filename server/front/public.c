/* SPDX-License-Identifier: Apache-2.0 */
/* public.c - PANDO_PUBLIC_ADDRESS, or what can be found out without asking anybody */
#include "front/public.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/sock.h"

#define BIND_MS 2000 /* for the edge of a pandod that was killed to let go of the address */

static void put(int family, const void *addr, struct public_addrs *ret)
{
	if (family == AF_INET)
		inet_ntop(AF_INET, addr, ret->ipv4, sizeof(ret->ipv4));
	else
		inet_ntop(AF_INET6, addr, ret->ipv6, sizeof(ret->ipv6));
}

static void from_setting(const char *text, struct public_addrs *ret)
{
	char copy[128], *at = NULL;
	unsigned char addr[16];

	snprintf(copy, sizeof(copy), "%s", text);
	for (char *w = strtok_r(copy, " ", &at); w; w = strtok_r(NULL, " ", &at))
		for (int i = 0; i < 2; i++)
			if (inet_pton(i ? AF_INET6 : AF_INET, w, addr) == 1)
				put(i ? AF_INET6 : AF_INET, addr, ret);
}

void public_find(const char *setting, int listen_fd, struct public_addrs *ret)
{
	struct sockaddr_storage sa = { 0 };
	const struct sockaddr_in *in = (const struct sockaddr_in *)&sa;
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&sa;
	socklen_t len = sizeof(sa);

	*ret = (struct public_addrs){ 0 };
	if (*setting) {
		from_setting(setting, ret);
		return;
	}
	if (listen_fd < 0 || getsockname(listen_fd, (struct sockaddr *)&sa, &len) < 0)
		return;
	if (sa.ss_family == AF_INET && in->sin_addr.s_addr != htonl(INADDR_ANY)) {
		put(AF_INET, &in->sin_addr, ret);
		return;
	}
	if (sa.ss_family == AF_INET6 && !IN6_IS_ADDR_UNSPECIFIED(&in6->sin6_addr)) {
		put(AF_INET6, &in6->sin6_addr, ret);
		return;
	}
	sock_own_ipv4(ret->ipv4);
}

int public_listen(const char *text, int *ret_fd, char ret_at[64], struct err *err)
{
	struct sockaddr_storage sa = { 0 };
	socklen_t len = sizeof(sa);
	char addr[INET6_ADDRSTRLEN] = "", port[8] = "";
	uint64_t until = deadline_in(BIND_MS);
	int fd;

	*ret_fd = -1;
	if (strcmp(text, "none") == 0)
		return 0;
	while ((fd = sock_tcp_listen(text, err)) == -EADDRINUSE && clock_ms() < until)
		usleep(20000);
	if (fd < 0)
		return err_wrap(err, fd, "edge");
	if (getsockname(fd, (struct sockaddr *)&sa, &len) == 0 &&
	    getnameinfo((struct sockaddr *)&sa, len, addr, sizeof(addr), port, sizeof(port),
	                NI_NUMERICHOST | NI_NUMERICSERV) == 0)
		snprintf(ret_at, 64, sa.ss_family == AF_INET6 ? "[%s]:%s" : "%s:%s", addr, port);
	*ret_fd = fd;
	return 0;
}
