/* SPDX-License-Identifier: Apache-2.0 */
/* peer/peer_internal.h - for peer/ only */
#pragma once

#include <openssl/ssl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "base/err.h"
#include "base/lock.h"
#include "peer/peer.h"

#define PEER_OUT_MAX 1024  /* connections that this node makes, */
#define PEER_IN_MAX 1024   /* and that it answers, */
#define PEER_NEW_MAX 64    /* of these without a certificate yet */
#define PEER_IDLE_MAX 64   /* kept for the next request, */
#define PEER_IDLE_MS 20000 /* for so long: an owner closes them after a minute */
#define CONNECT_MS 4000    /* to a node that lives */
#define HANDSHAKE_MS 5000
#define LOOK_MS 1000    /* between two looks whether the other node lives */
#define STALL_MS 300000 /* for the other node to take the next bytes */
#define RELAY_BYTES (32u << 10)
#define STACK_SIZE (256u << 10)

struct peer {
	struct peer *next; /* in the pool */
	struct peers *peers;
	SSL *ssl; /* owned */
	int fd;   /* owned */
	char node[ID_SIZE];
	enum peer_use use;
	bool ours;     /* made here: counted among those */
	bool finished; /* peer_finish() */
	uint64_t idle_since;
};

struct peers {
	struct peers_conf conf;
	char address[NODE_ADDRESS_SIZE];
	int listen_fd; /* owned */
	pthread_t thread;
	bool has_thread;
	struct mutex lock;
	struct cond changed; /* a connection of another node ended */
	struct peers_hooks hooks GUARDED_BY(lock);
	int (*open)(void *ctx, const char *name, struct peer_socket *ret, int *ret_fd,
	            struct err *err) GUARDED_BY(lock);
	void *open_ctx GUARDED_BY(lock);
	struct {
		void (*fn)(void *ctx, struct peer *c);
		void *ctx;
	} serve[PEER_USE_MAX] GUARDED_BY(lock); /* of PEER_SSH and PEER_PORT */
	unsigned opening GUARDED_BY(lock);      /* calls of open() */
	SSL_CTX *ctx GUARDED_BY(lock);          /* owned; with the certificate in use */
	time_t renew_at GUARDED_BY(lock), until GUARDED_BY(lock);
	struct peer *idle GUARDED_BY(lock); /* owned; used last first */
	unsigned n_idle GUARDED_BY(lock), n_in GUARDED_BY(lock), n_new GUARDED_BY(lock);
	unsigned n_carriers GUARDED_BY(lock); /* threads of peer_hand_over() */
	uint64_t made GUARDED_BY(lock), refused GUARDED_BY(lock);
	_Atomic unsigned n_out;
	_Atomic bool ending;
};

/* ---- cert.c ---- */
/* A new key and certificate of this node. */
int cert_make(struct peers *p, SSL_CTX **ret, time_t *ret_until, struct err *err);
/* The node in the other side's certificate. */
int cert_node(SSL *ssl, char ret[ID_SIZE]);

/* ---- peers.c ---- */
/* The context in use, ref'd. */
SSL_CTX *peers_ctx(struct peers *p);
/* Takes a thread that runs fn; false: it did not start. */
bool peers_thread(void *(*fn)(void *), void *arg);

/* ---- place.c ---- */
bool place_is_member(struct peers *p, const char *node);

/* ---- tls.c ---- */
/* The socket becomes one end; takes it in any case. */
int tls_begin(struct peers *p, int fd_consume, bool server, enum peer_use use, struct peer **ret,
              struct err *err);
/* n bytes, no fewer, by then. -ENODATA: the end came first. */
int tls_read_all(struct peer *c, void *p, size_t n, uint64_t deadline_ms, struct err *err);
const char *tls_why(char *dst, size_t size); /* of OpenSSL's last failure */
int peer_unavailable(const struct peer *c, struct err *err, const char *what);

/* ---- socket.c ---- */
/* A connection of another node that wants a socket of a VM. */
void socket_serve(struct peers *p, struct peer *c);
