/* SPDX-License-Identifier: Apache-2.0 */
/* front/public.h - the addresses at which the world finds this server; for front/ */
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

struct err;

struct public_addrs {
	char ipv4[INET_ADDRSTRLEN], ipv6[INET6_ADDRSTRLEN]; /* "": none */
};

struct err;

/* A listening socket, and where it is; "none": -1. Waits a moment for a killed one to let go. */
int public_listen(const char *text, int *ret_fd, char ret_at[64], struct err *err);
/* setting: PANDO_PUBLIC_ADDRESS, checked. Without one: what listen_fd is bound to, or the address
 * of the default route if that is every address; -1: no listener. */
void public_find(const char *setting, int listen_fd, struct public_addrs *ret);
/* A listening socket, and where it is; "none": -1. */
int public_listen(const char *text, int *ret_fd, char ret_at[64], struct err *err);
/* A socket that is connected to the API, or about to be after so long. */
int public_connect(const struct sockaddr_storage *to, socklen_t len, unsigned ms, int *ret_fd,
                   struct err *err);
