/* SPDX-License-Identifier: Apache-2.0 */
#include "base/sock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"

#define SOCK_BACKLOG 512 /* connections that wait to be accepted; a burst of a client is one */

/*
 * sun_path holds 107 characters, and data directories may be deeper: then the address
 * names the directory by descriptor. *ret_dirfd must stay open meanwhile.
 */
static int unix_addr(const char *path, struct sockaddr_un *ret, int *ret_dirfd, struct err *err)
{
	char dir[PATH_MAX], base[PATH_MAX];

	*ret = (struct sockaddr_un){ .sun_family = AF_UNIX };
	*ret_dirfd = -1;
	if (strlen(path) < sizeof(ret->sun_path)) {
		snprintf(ret->sun_path, sizeof(ret->sun_path), "%s", path);
		return 0;
	}
	snprintf(dir, sizeof(dir), "%s", path);
	snprintf(base, sizeof(base), "%s", path);
	*ret_dirfd = open(dirname(dir), O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (*ret_dirfd < 0)
		return err_sys(err, -errno, "open the directory of socket '%s'", path);
	if ((size_t)snprintf(ret->sun_path, sizeof(ret->sun_path), "/proc/self/fd/%d/%s",
	                     *ret_dirfd, basename(base)) >= sizeof(ret->sun_path))
		return err_set(err, -ENAMETOOLONG, "socket path '%s' is too long", path);
	return 0;
}

int sock_unix_listen(const char *path, int type, struct err *err)
{
	autofd int dirfd = -1;
	autofd int fd = -1;
	struct sockaddr_un sa;
	int r = unix_addr(path, &sa, &dirfd, err);

	if (r < 0)
		return r;
	fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return err_sys(err, -errno, "socket for '%s'", path);
	unlink(path);
	if (bind(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0 || listen(fd, SOCK_BACKLOG) < 0)
		return err_sys(err, -errno, "listen on '%s'", path);
	return TAKE_FD(fd);
}

int sock_unix_connect(const char *path, int type, uint64_t deadline_ms, struct err *err)
{
	autofd int dirfd = -1;
	autofd int fd = -1;
	struct sockaddr_un sa;
	int r = unix_addr(path, &sa, &dirfd, err);

	if (r < 0)
		return r;
	fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return err_sys(err, -errno, "socket for '%s'", path);
	/* A unix connect blocks only while the backlog is full, which does not happen with our own
	 * sockets. */
	(void)deadline_ms;
	while (connect(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0) {
		if (errno == EINTR)
			continue;
		return err_sys(err, -errno, "connect to '%s'", path);
	}
	return TAKE_FD(fd);
}

ssize_t sock_send_fds(int sock, const void *p, size_t n, const int *fds, size_t n_fds)
{
	union {
		char buf[CMSG_SPACE(sizeof(int) * SOCK_FDS_MAX)];
		struct cmsghdr align;
	} u;
	struct iovec iov = { .iov_base = (void *)p, .iov_len = n };
	struct msghdr mh = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (n_fds > SOCK_FDS_MAX)
		return -EMSGSIZE;
	if (n_fds) {
		struct cmsghdr *c;

		memset(&u, 0, sizeof(u));
		mh.msg_control = u.buf;
		mh.msg_controllen = CMSG_SPACE(sizeof(int) * n_fds);
		c = CMSG_FIRSTHDR(&mh);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int) * n_fds);
		memcpy(CMSG_DATA(c), fds, sizeof(int) * n_fds);
	}
	for (;;) {
		ssize_t k = sendmsg(sock, &mh, MSG_NOSIGNAL);

		if (k < 0 && errno == EINTR)
			continue;
		return k < 0 ? -errno : k;
	}
}

ssize_t sock_recv_fds(int sock, void *p, size_t n, int *fds, size_t max_fds, size_t *ret_fds)
{
	union {
		char buf[CMSG_SPACE(sizeof(int) * SOCK_FDS_MAX)];
		struct cmsghdr align;
	} u;
	struct iovec iov = { .iov_base = p, .iov_len = n };
	struct msghdr mh = { .msg_iov = &iov,
		             .msg_iovlen = 1,
		             .msg_control = u.buf,
		             .msg_controllen = sizeof(u.buf) };
	size_t got = 0;
	bool over = false;
	ssize_t k;

	do {
		k = recvmsg(sock, &mh, MSG_CMSG_CLOEXEC);
	} while (k < 0 && errno == EINTR);
	if (k < 0)
		return -errno;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&mh); c; c = CMSG_NXTHDR(&mh, c)) {
		size_t cnt;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		cnt = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < cnt; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
			if (got < max_fds) {
				fds[got++] = fd;
			} else {
				close(fd);
				over = true;
			}
		}
	}
	if (over || (mh.msg_flags & (MSG_CTRUNC | MSG_TRUNC))) {
		while (got)
			close(fds[--got]);
		return -EMSGSIZE;
	}
	if (ret_fds)
		*ret_fds = got;
	return k;
}

int sock_parse(const char *text, struct sockaddr_storage *ret, socklen_t *ret_len, struct err *err)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)ret;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)ret;
	const char *colon = strrchr(text, ':');
	char host[64], *end;
	unsigned long port;
	size_t n;

	memset(ret, 0, sizeof(*ret));
	if (!colon || colon == text || !colon[1])
		return err_set(err, -EINVAL, "'%s' is not an address like 127.0.0.1:8787", text);
	errno = 0;
	port = strtoul(colon + 1, &end, 10);
	if (*end || errno || port > 65535)
		return err_set(err, -EINVAL, "'%s': the port must be 0 to 65535", text);
	n = (size_t)(colon - text);
	if (text[0] == '[' && text[n - 1] == ']') {
		text++;
		n -= 2;
	}
	if (n >= sizeof(host))
		return err_set(err, -EINVAL, "'%s' is not an address like 127.0.0.1:8787", text);
	memcpy(host, text, n);
	host[n] = '\0';
	if (!strcmp(host, "localhost"))
		snprintf(host, sizeof(host), "127.0.0.1");
	if (inet_pton(AF_INET, host, &v4->sin_addr) == 1) {
		v4->sin_family = AF_INET;
		v4->sin_port = htons((uint16_t)port);
		*ret_len = sizeof(*v4);
		return 0;
	}
	if (inet_pton(AF_INET6, host, &v6->sin6_addr) == 1) {
		v6->sin6_family = AF_INET6;
		v6->sin6_port = htons((uint16_t)port);
		*ret_len = sizeof(*v6);
		return 0;
	}
	return err_set(err, -EINVAL, "'%s': the host must be a numeric address", text);
}

/* A socket bound to that address, not listening yet. */
static int bound(const char *text, int type, struct err *err)
{
	struct sockaddr_storage sa;
	socklen_t len;
	autofd int fd = -1;
	int r = sock_parse(text, &sa, &len, err);

	if (r < 0)
		return r;
	fd = socket(sa.ss_family, type | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return err_sys(err, -errno, "socket for %s", text);
	if (type == SOCK_STREAM)
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){ 1 }, sizeof(int));
	if (bind(fd, (struct sockaddr *)&sa, len) < 0) {
		if (errno == EADDRINUSE)
			return err_set(
			        err, -EADDRINUSE,
			        "%s is in use by another program; stop it or set another address",
			        text);
		return err_sys(err, -errno, "bind %s", text);
	}
	return TAKE_FD(fd);
}

int sock_tcp_listen(const char *text, struct err *err)
{
	autofd int fd = bound(text, SOCK_STREAM, err);

	if (fd < 0)
		return fd;
	if (listen(fd, SOCK_BACKLOG) < 0)
		return err_sys(err, -errno, "listen on %s", text);
	return TAKE_FD(fd);
}

int sock_udp_bind(const char *text, struct err *err)
{
	return bound(text, SOCK_DGRAM, err);
}

const char *sock_net_text(const struct sockaddr *sa, char ret[SOCK_NET_SIZE])
{
	struct in6_addr net = { 0 };
	char text[INET6_ADDRSTRLEN];

	snprintf(ret, SOCK_NET_SIZE, "unknown");
	if (sa && sa->sa_family == AF_INET) {
		inet_ntop(AF_INET, &((const struct sockaddr_in *)(const void *)sa)->sin_addr, ret,
		          SOCK_NET_SIZE);
	} else if (sa && sa->sa_family == AF_INET6) {
		const struct in6_addr *a =
		        &((const struct sockaddr_in6 *)(const void *)sa)->sin6_addr;

		if (IN6_IS_ADDR_V4MAPPED(a)) {
			inet_ntop(AF_INET, &a->s6_addr[12], ret, SOCK_NET_SIZE);
		} else {
			memcpy(&net, a, 8);
			inet_ntop(AF_INET6, &net, text, sizeof(text));
			snprintf(ret, SOCK_NET_SIZE, "%s/64", text);
		}
	}
	return ret;
}

int sock_connect_soon(int fd, const struct sockaddr *sa, socklen_t len, unsigned ms)
{
	int fl = fcntl(fd, F_GETFL), error = 0;
	socklen_t n = sizeof(error);

	if (fl < 0 || fcntl(fd, F_SETFL, fl | O_NONBLOCK) < 0)
		return -errno;
	if (connect(fd, sa, len) == 0)
		return 0;
	if (errno != EINPROGRESS)
		return -errno;
	if (io_wait(fd, POLLOUT, deadline_in(ms)) <= 0)
		return 0;
	return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &n) < 0 ? -errno : -error;
}

void sock_own_ipv4(char ret[INET_ADDRSTRLEN])
{
	struct sockaddr_in sa = { .sin_family = AF_INET,
		                  .sin_port = htons(9),
		                  .sin_addr.s_addr = htonl(0xc0000201) }; /* 192.0.2.1 */
	socklen_t len = sizeof(sa);
	autofd int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || connect(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0 ||
	    getsockname(fd, (struct sockaddr *)&sa, &len) < 0 ||
	    !inet_ntop(AF_INET, &sa.sin_addr, ret, INET_ADDRSTRLEN))
		ret[0] = '\0';
}

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

bool sock_is_internal(const struct sockaddr *sa)
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
