/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net/dns.h - name forwarder at the gateway address of every slot; for vm/
 *
 * Guests must not reach the host's resolver, which is often in a private range.
 * They ask their gateway instead; the sockets there were made by pando-priv and
 * are served by one thread of pandod, which asks the upstream resolver on their
 * behalf. All functions may be called from any thread.
 */
#pragma once

#include <stdint.h>

struct dns;
struct err;

/*
 * upstream: "10.0.0.53" or "10.0.0.53:53"; NULL: the first nameserver of
 * /etc/resolv.conf, read again when that file changes.
 */
int dns_start(struct dns **ret, const char *upstream, struct err *err);
/* Serves the sockets of one slot under a key of the caller's; both are closed at the end. A key
 * that is there already is replaced. */
int dns_add(struct dns *d, uint32_t key, int udp_fd_consume, int tcp_fd_consume);
/* Returns when the slot's sockets are closed. A key that is not there is fine. */
void dns_remove(struct dns *d, uint32_t key);
struct dns *dns_stop(struct dns *d); /* NULL is fine */

struct dns_stats {
	uint64_t queries, answers, dropped, failed;
};
void dns_stats(struct dns *d, struct dns_stats *ret);
