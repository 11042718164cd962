/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net/dns.h - DNS forwarder at the gateway address of every slot; for vm/
 *
 * Guests must not reach the host's resolver, which is often in a private range.
 * They ask their gateway instead; the sockets there were made by pando-priv and
 * are served by one thread of pandod, which asks the upstream resolver on their
 * behalf. All functions may be called from any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dns;
struct dns_edns;
struct dns_query;
struct err;

/* What to do with a query. */
enum dns_verdict {
	DNS_FORWARD,
	DNS_FORWARD_PIN, /* and report its addresses before the guest gets them */
	DNS_REFUSE,
	DNS_UNKNOWN, /* there is no such name */
	DNS_LOCAL,   /* answered by us, with an address */
	DNS_HERE,    /* the same for addresses; other types are forwarded */
};

struct dns_hooks {
	void *ctx;
	/* Must not block. name NULL: it is not a host name. */
	enum dns_verdict (*query)(void *ctx, uint32_t key, const char *name, uint32_t *ret_addr);
	/* Called on a separate thread: may block. */
	void (*answer)(void *ctx, uint32_t key, const char *name, const uint32_t *addrs, size_t n,
	               uint32_t ttl_s);
	/* Answers everything itself: nothing is forwarded, and `query` is not called. Must not
	 * block. Returns the answer's length; 0: none. */
	size_t (*serve)(void *ctx, const struct dns_query *q, const struct dns_edns *e, bool tcp,
	                uint8_t *ret, size_t max);
};

/*
 * upstream: "10.0.0.53" or "10.0.0.53:53"; NULL: the first nameserver of
 * /etc/resolv.conf, read again when that file changes.
 */
int dns_start(struct dns **ret, const char *upstream, struct err *err);
/* Call it before the first dns_add(); without it, everything is forwarded. hooks is copied. */
void dns_set_hooks(struct dns *d, const struct dns_hooks *hooks);
/*
 * Serves the sockets of one slot under a key chosen by the caller; both are closed at the end. A
 * key that already exists is replaced. holder: whose guest it is, an account; its guests together
 * get their share of the forwarder. NULL: strangers ask, and each address counts for itself.
 */
int dns_add(struct dns *d, uint32_t key, const char *holder, int udp_fd_consume,
            int tcp_fd_consume);
/* Returns when the slot's sockets are closed. An unknown key is ignored. */
void dns_remove(struct dns *d, uint32_t key);
struct dns *dns_stop(struct dns *d); /* NULL is fine */

struct dns_stats {
	uint64_t queries, answers, dropped, failed;
};
void dns_stats(struct dns *d, struct dns_stats *ret);
