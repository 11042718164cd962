/* SPDX-License-Identifier: Apache-2.0 */
/* net/gate_internal.h - between the gate_*.c files only */
#pragma once

#include <openssl/ssl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/budget.h"
#include "base/lock.h"

#include "net/egress.h"
#include "net/gate.h"
#include "net/sniff.h"

#define GATES_MAX 1024u       /* as many as there are slots */
#define PINS_MAX 1024u        /* of one guest; the one that expires first makes room */
#define PIN_TTL_MIN 30u       /* seconds: between the answer and the connection */
#define PIN_TTL_MAX 3600u     /* so that old addresses of a name are forgotten */
#define PROXY_CONNS_MAX 1024u /* proxied connections, shared by accounts: one thread each */
#define PROXY_SLOT_MAX 128u   /* proxied connections of one guest */

struct gate_ca; /* gate_ca.c */

struct pin {
	uint64_t name; /* hash */
	uint32_t addr;
	uint64_t until; /* clock_ms() */
};

struct gate {
	bool used;
	uint32_t gen;
	char vm_id[ID_SIZE];
	char holder[BUDGET_HOLDER_SIZE];
	struct egress *policy; /* ref'd */
	struct gate_log *log;  /* ref'd */
	struct gate_ca *ca;    /* ref'd or NULL */
	char vpc[ID_SIZE];     /* or "" */
	uint32_t mark;
	char caller[GATE_CALLER_SIZE]; /* random */
	int listener;                  /* owned; -1: none */
	struct pin *pins;
	size_t n_pins;
};

/* One proxied connection; lives on its own thread and is listed so that it can be ended. */
struct proxied {
	struct proxied *next;
	struct gates *g;
	uint32_t slot, gen;
	char vm_id[ID_SIZE], holder[BUDGET_HOLDER_SIZE]; /* have one of the budgets' units each */
	struct egress *policy; /* ref'd, as of the gate when it was accepted */
	struct gate_log *log;  /* ref'd */
	struct gate_ca *ca;    /* ref'd or NULL */
	int down, up;          /* owned by the thread; shut down by others under g->lock */
	uint32_t addr;         /* where the guest wanted to go */
	uint16_t port;
	char name[SNIFF_NAME_MAX]; /* g->lock once it is known */
	bool pinned, injected;
	bool here; /* to this server */
	bool site; /* through the site's proxy, or to a mirror; addr is 0 for a name, and port the
	            * one that was asked for */
	char caller[GATE_CALLER_SIZE];
};

struct private_name {
	char vpc[ID_SIZE], owner[ID_SIZE];
	char name[64];
	uint32_t addr;
};

struct gates {
	struct privc *priv; /* weak */
	int epoll, wake;    /* owned */
	pthread_t thread;
	SSL_CTX *client;                  /* owned: to upstreams */
	struct budget *by_holder, *by_vm; /* owned: proxied connections */
	struct mutex apply;               /* held while kernel and table are updated together */
	struct mutex lock;                /* taken after apply */
	struct cond idle;                 /* a connection ended */
	bool stop GUARDED_BY(lock);
	uint32_t next_gen GUARDED_BY(lock);
	struct gate gate[GATES_MAX] GUARDED_BY(lock);
	struct proxied *conns GUARDED_BY(lock);
	unsigned n_conns GUARDED_BY(lock);
	struct gate_here here GUARDED_BY(lock);
	struct gate_site site GUARDED_BY(lock);
	struct private_name *names GUARDED_BY(lock); /* owned */
	size_t n_names GUARDED_BY(lock);
};

/* gate_log.c */
void gate_log_add(struct gate_log *l, const struct gate_blocked *b);

/* gate_ca.c */
struct gate_ca *gate_ca_load(const char *cert_pem, const char *key_pem, struct err *err);
struct gate_ca *gate_ca_ref(struct gate_ca *ca); /* NULL is fine, both */
void gate_ca_unref(struct gate_ca *ca);
/* The server side of a connection, with a certificate for that name. */
SSL *gate_ca_accept(struct gate_ca *ca, const char *name, int fd, struct err *err);
SSL_CTX *gate_ca_client(const char *ca_file, struct err *err);

/* gate.c */
bool gate_pinned(struct gates *g, uint32_t slot, uint32_t gen, const char *name, uint32_t addr);

/* gate_proxy.c */
int gate_proxy_limits(struct gates *g, struct err *err);
void *gate_proxy_main(void *arg);
/* g->lock held: ends those of the slot that the new policy does not allow; NULL: all. */
void gate_proxy_cut(struct gates *g, uint32_t slot, const struct egress *policy) REQUIRES(&g->lock);

/* gate_inject.c: terminates TLS and opens a new TLS connection; 0 or -errno */
int gate_inject(struct proxied *c, const struct egress_inject *in);

/* gate_site.c: a guest's request to PRIV_SITE_PORT; 0 or -errno */
int gate_site(struct proxied *c);
/* For gate_upstream(): as the guest would with CONNECT. */
int gate_site_upstream(struct proxied *c, struct err *err);
bool gate_site_allowed(const struct proxied *c, const struct egress *policy);

/* gate_relay.c */
struct relay_end {
	int fd;
	SSL *ssl; /* or NULL */
};
/* Copies bytes both ways until both ends are done or idle for too long; pre: sent to b first. */
int gate_relay(struct relay_end *a, struct relay_end *b, const void *pre, size_t n_pre);
/* One end with a deadline: bytes, 0 at the end, or -errno; 0 or -errno. */
ssize_t gate_read(struct relay_end *e, void *p, size_t n, uint64_t deadline_ms);
int gate_write(struct relay_end *e, const void *p, size_t n, uint64_t deadline_ms);
/* gate_upgrade.c: pre asks b for another protocol; once it agreed, rest and then bytes both ways.
 */
int gate_upgrade(struct relay_end *a, struct relay_end *b, const void *pre, size_t n_pre,
                 const void *rest, size_t n_rest);
/* One handshake, read or write with a deadline: as SSL_*, or -errno. */
int gate_tls_do(SSL *ssl, int (*op)(SSL *ssl), uint64_t deadline_ms);
int gate_tls_read(SSL *ssl, void *p, size_t n, uint64_t deadline_ms);
int gate_tls_write(SSL *ssl, const void *p, size_t n, uint64_t deadline_ms);
/* A socket connected from inside the slot to the guest's destination; or by the site's proxy. */
int gate_upstream(struct proxied *c, struct err *err);
