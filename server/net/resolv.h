/* SPDX-License-Identifier: Apache-2.0 */
/* net/resolv.h - the resolver's address */
#pragma once

#include <stdbool.h>
#include <sys/socket.h>

/* "192.0.2.53", port 53; false when it is not an address. */
bool resolv_parse(const char *text, struct sockaddr_storage *ret, socklen_t *ret_len);
/* The first one of /etc/resolv.conf; -ENOENT. */
int resolv_host(struct sockaddr_storage *ret, socklen_t *ret_len);
/* That address, or the host's if it is empty. */
int resolv_server(const char *text, struct sockaddr_storage *ret, socklen_t *ret_len);
