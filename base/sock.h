/* SPDX-License-Identifier: Apache-2.0 */
/* base/sock.h - unix sockets, descriptors in messages, "host:port" */
#pragma once

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

struct err;

#define SOCK_FDS_MAX 64 /* descriptors in one message of ours */

/* type: SOCK_STREAM or SOCK_SEQPACKET; path may be longer than sun_path (goes through
 * /proc/self/fd). */
int sock_unix_listen(const char *path, int type, struct err *err);
int sock_unix_connect(const char *path, int type, uint64_t deadline_ms, struct err *err);
/* One message with n_fds descriptors; bytes sent or -errno. */
ssize_t sock_send_fds(int sock, const void *p, size_t n, const int *fds, size_t n_fds);
/*
 * One message; fds[] receives up to max_fds close-on-exec descriptors, more are
 * an error (-EMSGSIZE, all closed). Bytes received, 0 at the end, -errno.
 */
ssize_t sock_recv_fds(int sock, void *p, size_t n, int *fds, size_t max_fds, size_t *ret_fds);
/* "127.0.0.1:8787", "[::1]:0" -> address. Numeric hosts only. */
int sock_parse(const char *text, struct sockaddr_storage *ret, socklen_t *ret_len, struct err *err);
int sock_tcp_listen(const char *text, struct err *err);
/* A bound socket for datagrams. */
int sock_udp_bind(const char *text, struct err *err);
/*
 * The name under which limits count an address: "192.0.2.7", or of IPv6 the network of 64 bits,
 * "2001:db8:1:2::/64", because one customer has all of its addresses. "unknown" for others.
 */
#define SOCK_NET_SIZE 52
const char *sock_net_text(const struct sockaddr *sa, char ret[SOCK_NET_SIZE]);
/* The address of this host on its default route, as text; "" without one. Sends nothing. */
void sock_own_ipv4(char ret[INET_ADDRSTRLEN]);
/*
 * Connects without blocking, and waits so long for the result: 0 if it is connected or still
 * trying, -errno if that failed. The socket does not block from here on.
 */
int sock_connect_soon(int fd, const struct sockaddr *sa, socklen_t len, unsigned ms);
/* Is it private, loopback, link-local or otherwise no address of the internet? */
bool sock_is_internal(const struct sockaddr *sa);
