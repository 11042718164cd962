/* SPDX-License-Identifier: Apache-2.0 */
/* ports/ports_internal.h - the table, connections; for ports/ only */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "base/lock.h"
#include "base/sock.h"
#include "peer/peer.h"
#include "ports/ports.h"

#define CONNS_MAX 512 /* at a time */
#define CONNS_PER_ACCOUNT 128
#define CONNS_PER_ADDRESS 64 /* of clients */

struct budget;
struct rate;

struct entry {
	struct store_port row;
	int fd; /* listening, owned; -1: none */
	char error[128];
};

struct port_conn {
	struct ports *p;
	struct port_conn *next, **ref;
	struct store_port row; /* as it was when the client came */
	char address[SOCK_NET_SIZE];
	int client, up; /* owned; up -1: not yet */
	/* Of datagrams: client is one end of a pair, and whoever receives puts into the other what
	 * came from `from`; back is the socket by which it is answered. Else -1.
	 * What another node carries here has neither. */
	int feed, back; /* owned; feed: p->lock */
	struct sockaddr_storage from;
	socklen_t from_len;
	char instance[ID_SIZE]; /* of the machine that up leads to; p->lock */
	bool cut;               /* p->lock */
	bool far;               /* up leads to the VM's node */
};

struct ports {
	char listen[64];
	char range[16];
	uint32_t first, last; /* 0, 0: none */
	unsigned wait_ms, idle_ms;
	struct store *store; /* weak */
	struct vmm *vmm;     /* weak */
	struct peers *peers; /* weak; or NULL */
	void (*name_fn)(void *ctx);
	void *name_ctx;
	struct budget *by_account, *by_address; /* owned */
	struct rate *rate;                      /* owned: new connections of an address */
	struct mutex change;                    /* one change of store and table at a time */
	struct mutex lock;
	struct cond quiet;                      /* a connection is over */
	struct entry *entries GUARDED_BY(lock); /* owned */
	size_t n GUARDED_BY(lock);
	struct port_conn *conns GUARDED_BY(lock); /* owned by their threads */
	int wake_fd;                              /* eventfd: the table changed */
	atomic_bool dirty, ending;
	pthread_t thread;
	bool has_thread;
};

static inline bool port_is_udp(const struct store_port *row)
{
	return row->protocol[0] == 'u';
}

/* relay.c: a client came. Takes c and its descriptors, or closes them if that is too much. */
void port_conn_begin(struct ports *p, struct port_conn *c_consume);
/* A new one with nothing open; NULL: no memory. */
struct port_conn *port_conn_new(const struct store_port *row, const struct sockaddr_storage *from,
                                socklen_t len);
void port_conn_free(struct port_conn *c); /* closes what it has */

/* far.c: to the node that has the VM. -EAGAIN: it has moved on. */
int port_far_open(struct port_conn *c, const char *node, struct err *err);
/* For peers_serve(): a client of another node. */
void port_far_come(void *ctx, struct peer *peer);

/* udp.c: what has come to a socket for datagrams, up to a few of them. p->lock held: the rest of
 * conns is found there; one that is new is returned, for port_conn_begin() without the lock. */
struct port_conn *udp_take(struct ports *p, const struct entry *e) REQUIRES(&p->lock);
void udp_relay(struct port_conn *c, char *mem, size_t size);
/* p->lock held: both ends are closed for the one who serves it to see. */
void port_conn_cut(struct port_conn *c);
