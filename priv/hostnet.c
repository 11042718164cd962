/* SPDX-License-Identifier: Apache-2.0 */
/*
 * priv/hostnet.c - claim addresses, set up forwarding, keep the host's table
 *
 * Theory of operation: RUN_DIR/net/<n> names the tag that has block n of the
 * pool; RUN_DIR/net/lock is held while claims change. A claim outlives its
 * process, because running VMs do; it is void when the directory of its tag is
 * gone, and it is reassigned when no other block is left and nothing runs under
 * it. A new claim avoids blocks that overlap an address or route of the host.
 * ip_forward is one setting for the whole host: the first instance that turns it
 * on saves the old value in RUN_DIR/net/ip_forward.<netns>, the last one restores
 * it.
 * Foreign nft tables are never touched; if one of them drops what we forward
 * (Docker sets policy drop on FORWARD), we log it, with the command to allow it.
 */
#include "priv/hostnet.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/rtnetlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/io.h"
#include "base/log.h"
#include "priv/instance.h"
#include "priv/nft.h"
#include "priv/nl.h"

#define NET_DIR RUN_DIR "/net"
#define IP_FORWARD "/proc/sys/net/ipv4/ip_forward"
#define MTU_DEFAULT 1500u
#define OVERLAP_MIN_PREFIX 12 /* a wider route (VPN, 10/8) may well contain our block */

static int net_lock(int *ret_fd, struct err *err)
{
	autofd int fd = -1;
	int r = io_mkdirs(NET_DIR, 0755, err);

	if (r < 0)
		return r;
	fd = open(NET_DIR "/lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0 || flock(fd, LOCK_EX) < 0) /* held for microseconds */
		return err_sys(err, -errno, "lock '" NET_DIR "/lock'");
	*ret_fd = TAKE_FD(fd);
	return 0;
}

/* A claim: "tag netns". Forwarding is per network namespace, blocks are per host. */
struct claim {
	char tag[16]; /* "": unclaimed */
	unsigned long netns;
};

/* Malformed claims, and those whose tag has no directory, are removed. */
static struct claim claim_read(unsigned n)
{
	struct claim c = { 0 };
	autofree char *text = NULL;
	char path[96];

	snprintf(path, sizeof(path), NET_DIR "/%u", n);
	if (io_read_file(AT_FDCWD, path, 64, &text, NULL) < 0)
		return c;
	if (sscanf(text, "%8[0-9a-f] %lu", c.tag, &c.netns) == 2) {
		char data[96];

		snprintf(data, sizeof(data), RUN_DIR "/%s/data", c.tag);
		if (access(data, F_OK) == 0)
			return c;
	}
	unlink(path);
	return (struct claim){ 0 };
}

static int claim_write(unsigned n, const struct hostnet *h, struct err *err)
{
	char path[96], text[64];
	int k = snprintf(text, sizeof(text), "%s %lu\n", h->tag, h->netns);

	snprintf(path, sizeof(path), NET_DIR "/%u", n);
	return io_write_file(AT_FDCWD, path, text, (size_t)k, 0644, err);
}

/*
 * No process has the instance and no VM of it is recorded, so nothing needs
 * the block. Never called for our own tag: closing the file would drop our lock.
 */
static bool claim_abandoned(const char *tag)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	char path[96];
	autofd int fd = -1;
	autodir DIR *d = NULL;
	struct dirent *de;

	snprintf(path, sizeof(path), RUN_DIR "/%s/lock", tag);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0 || fcntl(fd, F_GETLK, &lock) < 0 || lock.l_type != F_UNLCK)
		return false;
	snprintf(path, sizeof(path), RUN_DIR "/%s/vm", tag);
	d = opendir(path);
	while (d && (de = readdir(d)))
		if (de->d_name[0] != '.')
			return false;
	return d != NULL;
}

struct overlap {
	uint32_t pool;
	bool taken[NET_BLOCKS];
};

static void on_net(const struct nl_net *n, void *ctx)
{
	struct overlap *o = ctx;
	uint32_t mask, dst = ntohl(n->dst);

	if (n->prefix < OVERLAP_MIN_PREFIX || n->prefix > 32)
		return;
	mask = 0xffffffffu << (32 - n->prefix);
	for (unsigned i = 0; i < NET_BLOCKS; i++) {
		uint32_t first = o->pool + (i << (32 - NET_BLOCK_PREFIX));
		uint32_t last = first | ((1u << (32 - NET_BLOCK_PREFIX)) - 1);

		if ((dst & mask) <= last && (dst | ~mask) >= first)
			o->taken[i] = true;
	}
}

static int claim(struct hostnet *h, uint32_t pool, struct err *err)
{
	struct overlap o = { .pool = pool };
	autofd int lock = -1;
	int r = net_lock(&lock, err);
	unsigned found = NET_BLOCKS;

	if (r < 0 || (r = nl_nets(h->nl, on_net, &o, err)) < 0)
		return r;
	for (unsigned i = 0; i < NET_BLOCKS; i++) {
		struct claim c = claim_read(i);

		if (!strcmp(c.tag, h->tag)) {
			found = i; /* already ours: our own links overlap it */
			break;
		}
		if (!c.tag[0] && !o.taken[i] && found == NET_BLOCKS)
			found = i;
	}
	for (unsigned i = 0; i < NET_BLOCKS && found == NET_BLOCKS; i++) {
		struct claim c = claim_read(i);

		if (!o.taken[i] && c.tag[0] && claim_abandoned(c.tag))
			found = i;
	}
	if (found == NET_BLOCKS)
		return err_set(err, -EADDRINUSE,
		               "all %u address blocks for VMs are in use by other instances or "
		               "by routes of this host: choose another pool with --net, or remove "
		               "unused instances with pando-priv --data DIR --clean",
		               NET_BLOCKS);
	h->block_n = found;
	h->block = pool + (found << (32 - NET_BLOCK_PREFIX));
	return claim_write(found, h, err);
}

static int write_forward(const char *v)
{
	autofd int fd = open(IP_FORWARD, O_WRONLY | O_CLOEXEC);

	return fd < 0 ? -errno : io_write_all(fd, v, strlen(v));
}

static void forward_file(const struct hostnet *h, char ret[96])
{
	snprintf(ret, 96, NET_DIR "/ip_forward.%lu", h->netns);
}

static int forward_on(const struct hostnet *h, struct err *err)
{
	char path[96];
	autofree char *old = NULL;
	autofd int lock = -1;
	int r = net_lock(&lock, err);

	if (r < 0 || (r = io_read_file(AT_FDCWD, IP_FORWARD, 16, &old, err)) < 0)
		return r;
	if (old[0] == '1')
		return 0;
	forward_file(h, path);
	if ((r = io_write_file(AT_FDCWD, path, "0\n", 2, 0644, err)) < 0)
		return r;
	r = write_forward("1\n");
	return r < 0 ? err_sys(err, r, "turn on " IP_FORWARD) : 0;
}

/* With the lock held and our claim removed: the last instance restores the old value. */
static void forward_restore(const struct hostnet *h)
{
	char path[96];

	for (unsigned i = 0; i < NET_BLOCKS; i++) {
		struct claim c = claim_read(i);

		if (c.tag[0] && c.netns == h->netns)
			return;
	}
	forward_file(h, path);
	if (unlink(path) == 0 && write_forward("0\n") < 0)
		log_warn("cannot turn off " IP_FORWARD " again, ignoring");
}

/* ---- uplinks ---- */

struct uplinks {
	unsigned ifindex[NET_UPLINKS_MAX];
	size_t n;
};

static void on_default(const struct nl_net *n, void *ctx)
{
	struct uplinks *u = ctx;

	if (!n->is_route || n->prefix != 0 || !n->oif || u->n == NET_UPLINKS_MAX)
		return;
	for (size_t i = 0; i < u->n; i++)
		if (u->ifindex[i] == n->oif)
			return;
	u->ifindex[u->n++] = n->oif;
}

/* A link name goes into an nft text, so links with odd names are skipped. */
static bool link_name_plain(const char *s)
{
	size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-@");

	return n > 0 && n < IFNAMSIZ && s[n] == '\0';
}

static int find_uplinks(struct hostnet *h, struct net_host *ret, struct err *err)
{
	struct uplinks u = { 0 };
	int r = nl_nets(h->nl, on_default, &u, err);

	if (r < 0)
		return r;
	*ret = (struct net_host){ .tag = h->tag, .block = h->block };
	for (size_t i = 0; i < u.n; i++) {
		char name[IFNAMSIZ] = "";

		if (if_indextoname(u.ifindex[i], name) && link_name_plain(name))
			memcpy(ret->uplinks[ret->n_uplinks++], name, sizeof(name));
	}
	return 0;
}

static int apply(struct hostnet *h, const struct net_host *plan, struct err *err)
{
	autobuf struct buf b = { 0 };
	autofree char *text = NULL;
	struct nl_link link;
	int r;

	net_host_rules(plan, &b);
	text = buf_take_str(&b);
	if (!text)
		return err_set(err, -ENOMEM, "host rules: out of memory");
	r = nft_run(text, err);
	if (r < 0)
		return err_wrap(err, r, "host rules");
	memcpy(h->uplinks, plan->uplinks, sizeof(h->uplinks));
	h->n_uplinks = plan->n_uplinks;
	h->mtu = MTU_DEFAULT;
	if (h->n_uplinks && nl_link_get(h->nl, h->uplinks[0], &link, NULL) == 0 &&
	    link.mtu >= 576 && link.mtu < MTU_DEFAULT)
		h->mtu = link.mtu;
	if (!h->n_uplinks)
		log_warn("this host has no default route: VMs have no internet access until it has "
		         "one");
	return 0;
}

/* Our own slots create routes all the time; only default routes matter. */
static bool default_changed(int routes_fd)
{
	_Alignas(8) char buf[16384];
	bool changed = false;

	for (;;) {
		ssize_t n = recv(routes_fd, buf, sizeof(buf), MSG_DONTWAIT);
		size_t left = n > 0 ? (size_t)n : 0;

		if (n < 0 && errno == ENOBUFS)
			changed = true; /* some were lost */
		else if (n <= 0)
			return changed;
		for (struct nlmsghdr *m = (struct nlmsghdr *)buf; NLMSG_OK(m, left);
		     m = NLMSG_NEXT(m, left))
			if (m->nlmsg_len >= NLMSG_LENGTH(sizeof(struct rtmsg)) &&
			    ((struct rtmsg *)NLMSG_DATA(m))->rtm_dst_len == 0)
				changed = true;
	}
}

int hostnet_refresh(struct hostnet *h, struct err *err)
{
	struct net_host plan;
	int r;

	if (!default_changed(h->routes_fd))
		return 0;
	r = find_uplinks(h, &plan, err);
	if (r < 0)
		return r;
	if (plan.n_uplinks == h->n_uplinks && !memcmp(plan.uplinks, h->uplinks, sizeof(h->uplinks)))
		return 0;
	return apply(h, &plan, err);
}

static int routes_open(struct err *err)
{
	struct sockaddr_nl sa = { .nl_family = AF_NETLINK, .nl_groups = RTMGRP_IPV4_ROUTE };
	autofd int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);

	if (fd < 0 || bind(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0)
		return err_sys(err, -errno, "monitor the host's routes");
	return TAKE_FD(fd);
}

/* Our accept cannot override a drop in another table: we can only warn. */
static void warn_foreign_drop(const char *tag)
{
	autofree char *text = NULL;
	const char *policy;

	if (nft_list("list chain ip filter FORWARD", &text, NULL) < 0)
		return;
	policy = strstr(text, "policy drop");
	if (policy && !strstr(text, "\"pn"))
		log_warn(
		        "another firewall on this host (Docker does this) drops forwarded packets: "
		        "VMs will have no network until you allow them, with: "
		        "iptables -I FORWARD -i pn%s-+ -j ACCEPT; "
		        "iptables -I FORWARD -o pn%s-+ -j ACCEPT",
		        tag, tag);
}

int hostnet_open(const struct instance *in, const char *pool, struct hostnet *ret, struct err *err)
{
	struct hostnet h = HOSTNET_NONE;
	struct net_host plan;
	struct in_addr pool_addr;
	struct stat st;
	int r;

	if (inet_pton(AF_INET, pool, &pool_addr) != 1 || (ntohl(pool_addr.s_addr) & 0xffff))
		return err_set(err, -EINVAL, "--net %s: must be the first address of a /16", pool);
	snprintf(h.tag, sizeof(h.tag), "%s", in->tag);
	if (stat("/proc/self/ns/net", &st) < 0)
		return err_sys(err, -errno, "/proc/self/ns/net");
	h.netns = (unsigned long)st.st_ino;
	r = h.nl = nl_open(err);
	if (r >= 0)
		r = h.routes_fd = routes_open(err);
	if (r < 0 || (r = claim(&h, ntohl(pool_addr.s_addr), err)) < 0 ||
	    (r = find_uplinks(&h, &plan, err)) < 0 || (r = apply(&h, &plan, err)) < 0 ||
	    (r = forward_on(&h, err)) < 0) {
		hostnet_close(&h, /* remove= */ false);
		return r;
	}
	warn_foreign_drop(h.tag);
	*ret = h;
	return 0;
}

void hostnet_close(struct hostnet *h, bool remove)
{
	autobuf struct buf b = { 0 };
	autofree char *text = NULL;
	struct err err = { 0 };

	if (remove) {
		autofd int lock = -1;
		char path[96];

		net_host_remove_rules(h->tag, &b);
		text = buf_take_str(&b);
		if (text && nft_run(text, &err) < 0)
			log_warn("%s, ignoring", err.msg);
		snprintf(path, sizeof(path), NET_DIR "/%u", h->block_n);
		if (net_lock(&lock, &err) < 0)
			log_warn("%s, ignoring", err.msg);
		unlink(path);
		forward_restore(h);
	}
	if (h->nl >= 0)
		close(h->nl);
	if (h->routes_fd >= 0)
		close(h->routes_fd);
	*h = HOSTNET_NONE;
}
