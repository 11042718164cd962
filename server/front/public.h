/* SPDX-License-Identifier: Apache-2.0 */
/* front/public.h - the addresses at which the world finds this server; for front/ */
#pragma once

#include <netinet/in.h>

struct public_addrs {
	char ipv4[INET_ADDRSTRLEN], ipv6[INET6_ADDRSTRLEN]; /* "": none */
};

/* setting: PANDO_PUBLIC_ADDRESS, checked. Without one: what listen_fd is bound to, or the address
 * of the default route if that is every address; -1: no listener. */
void public_find(const char *setting, int listen_fd, struct public_addrs *ret);
