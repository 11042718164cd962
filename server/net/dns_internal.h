/* SPDX-License-Identifier: Apache-2.0 */
/* net/dns_internal.h - between dns.c, dns_udp.c and dns_tcp.c only */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/budget.h"
#include "base/lock.h"

#include "net/dns.h"
#include "net/dns_msg.h"

#define SLOTS_MAX 1024u      /* as many as pando-priv has */
#define PENDING_MAX 512u     /* pending queries, shared by accounts: one descriptor each */
#define SLOT_PENDING_MAX 48u /* pending queries of one guest */
#define TCP_MAX 64u          /* connections, shared by accounts: 128 KiB each */
#define SLOT_TCP_MAX 4u      /* connections of one guest */
#define QUERY_TIMEOUT_MS 5000
#define RESEND_MS 1500       /* a datagram may be lost: ask once more */
#define TCP_IDLE_MS 10000    /* for each step of a connection */
#define TCP_QUERIES_MAX 200u /* on one connection, one after the other */
#define BURST_MAX 32         /* datagrams of one guest before it is the others' turn */

/*
 * epoll's event data: kind, index into the table of that kind, and the
 * generation of the entry. An entry that was closed in the meantime has another
 * generation, so a stale event matches nothing.
 */
enum dns_kind { DNS_WAKE, DNS_SLOT_UDP, DNS_SLOT_TCP, DNS_PENDING, DNS_TCP_DOWN, DNS_TCP_UP };

struct dns_slot {
	bool used;
	uint32_t gen, key;
	int udp, tcp; /* owned */
	unsigned n_pending, n_tcp;
	char holder[BUDGET_HOLDER_SIZE]; /* "": each address that asks */
};

struct dns_pending {
	bool used;
	uint32_t gen;
	uint32_t slot, slot_gen;
	char holder[BUDGET_HOLDER_SIZE]; /* has one of d->share_pending */
	int fd;                          /* owned: connected to the resolver, from a random port */
	uint16_t id;                     /* random */
	struct sockaddr_storage from;
	socklen_t from_len;
	struct dns_query query;
	uint8_t *packet; /* owned: to send it again */
	size_t packet_len;
	bool resent;
	bool pin;        /* the answer's addresses are reported first */
	uint8_t *answer; /* owned: waits for that; NULL: none yet */
	size_t answer_len;
	uint64_t resend_at, deadline;
};

enum tcp_state { TCP_READ_QUERY, TCP_ASK, TCP_READ_ANSWER, TCP_PIN, TCP_WRITE_ANSWER };

struct dns_conn {
	bool used;
	uint32_t gen;
	uint32_t slot, slot_gen;
	char holder[BUDGET_HOLDER_SIZE]; /* has one of d->share_tcp */
	enum tcp_state state;
	int down, up; /* owned: guest, resolver */
	struct dns_query query;
	uint16_t id;
	bool pin;
	uint8_t *buf;   /* owned: length prefix and message */
	size_t len, at; /* bytes of buf to move in this state, and moved */
	unsigned queries;
	uint64_t deadline;
};

struct dns {
	pthread_t thread;
	int epoll, wake;                          /* owned */
	struct budget *share_pending, *share_tcp; /* owned; of pending[] and conn[], by account */
	struct mutex lock;                        /* not held while waiting */
	bool stop GUARDED_BY(lock);
	bool fixed GUARDED_BY(lock);                 /* the resolver was configured */
	struct sockaddr_storage up GUARDED_BY(lock); /* the resolver; up_len 0: none */
	socklen_t up_len GUARDED_BY(lock);
	uint64_t up_checked GUARDED_BY(lock); /* clock_ms() of the last check of resolv.conf */
	int64_t up_mtime_ns GUARDED_BY(lock);
	uint32_t next_gen GUARDED_BY(lock);
	struct dns_stats stats GUARDED_BY(lock);
	struct dns_hooks hooks GUARDED_BY(lock);
	pthread_t pin_thread;
	struct cond pin_work;
	struct dns_pin *pins GUARDED_BY(lock),
	        **pins_end GUARDED_BY(lock); /* to be reported, in order */
	struct dns_slot slot[SLOTS_MAX] GUARDED_BY(lock);
	struct dns_pending pending[PENDING_MAX] GUARDED_BY(lock);
	struct dns_conn conn[TCP_MAX] GUARDED_BY(lock);
};

/* dns.c */
int dns_poll(struct dns *d, int fd, enum dns_kind kind, uint32_t idx, uint32_t gen, uint32_t events,
             bool add);
struct dns_slot *dns_slot_of(struct dns *d, uint32_t idx, uint32_t gen); /* NULL: gone */
/* The resolver; false: there is none. */
bool dns_upstream(struct dns *d) REQUIRES(&d->lock);

/* dns_pin.c; all but the thread with the lock held */
struct dns_pin;
/* Decides what to do with the query; fills ret with the answer unless it is forwarded. */
enum dns_verdict dns_judge(struct dns *d, uint32_t slot, const struct dns_query *q,
                           uint8_t ret[DNS_LOCAL_MAX], size_t *ret_len) REQUIRES(&d->lock);
/* Reports the addresses of an answer, then calls dns_pending_pinned() or dns_conn_pinned(). */
int dns_pin_later(struct dns *d, const struct dns_query *q, uint32_t slot, const void *answer,
                  size_t n, bool tcp, uint32_t idx, uint32_t gen) REQUIRES(&d->lock);
void *dns_pin_main(void *arg);
void dns_pin_drop(struct dns *d);

/* dns_udp.c; all with the lock held */
void dns_on_slot_udp(struct dns *d, uint32_t idx) REQUIRES(&d->lock);
void dns_on_pending(struct dns *d, uint32_t idx) REQUIRES(&d->lock);
void dns_pending_close(struct dns *d, struct dns_pending *q) REQUIRES(&d->lock);
void dns_pending_pinned(struct dns *d, uint32_t idx) REQUIRES(&d->lock);
void dns_pending_tick(struct dns *d, uint64_t now) REQUIRES(&d->lock);

/* dns_tcp.c; all with the lock held */
void dns_on_slot_tcp(struct dns *d, uint32_t idx) REQUIRES(&d->lock);
void dns_on_conn(struct dns *d, uint32_t idx, uint32_t events, bool up) REQUIRES(&d->lock);
void dns_conn_close(struct dns *d, struct dns_conn *c) REQUIRES(&d->lock);
void dns_conn_pinned(struct dns *d, uint32_t idx) REQUIRES(&d->lock);
void dns_conn_tick(struct dns *d, uint64_t now) REQUIRES(&d->lock);
