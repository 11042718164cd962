/* SPDX-License-Identifier: Apache-2.0 */
#include "net/resolv.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/io.h"

#define RESOLV_CONF "/etc/resolv.conf"
#define RESOLV_CONF_MAX (64u << 10)

bool resolv_parse(const char *text, struct sockaddr_storage *ret, socklen_t *ret_len)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)ret;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)ret;

	memset(ret, 0, sizeof(*ret));
	if (inet_pton(AF_INET, text, &v4->sin_addr) == 1) {
		v4->sin_family = AF_INET;
		v4->sin_port = htons(53);
		*ret_len = sizeof(*v4);
		return true;
	}
	if (inet_pton(AF_INET6, text, &v6->sin6_addr) == 1) {
		v6->sin6_family = AF_INET6;
		v6->sin6_port = htons(53);
		*ret_len = sizeof(*v6);
		return true;
	}
	return false;
}

int resolv_host(struct sockaddr_storage *ret, socklen_t *ret_len)
{
	autofree char *text = NULL;
	char *line, *save = NULL;

	if (io_read_file(AT_FDCWD, RESOLV_CONF, RESOLV_CONF_MAX, &text, NULL) < 0)
		return -ENOENT;
	for (line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		char addr[INET6_ADDRSTRLEN];

		if (sscanf(line, " nameserver %45s", addr) == 1 && resolv_parse(addr, ret, ret_len))
			return 0;
	}
	return -ENOENT;
}

int resolv_server(const char *text, struct sockaddr_storage *ret, socklen_t *ret_len)
{
	if (*text)
		return resolv_parse(text, ret, ret_len) ? 0 : -EINVAL;
	return resolv_host(ret, ret_len);
}
