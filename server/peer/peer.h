/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peer/peer.h - connections between the nodes of a cluster; for api/, front/ and main
 *
 * Every node listens on PANDO_NODE_ADDRESS. Both ends show a certificate of the cluster's CA with
 * the id of their node in it, and both look whether that node is a living member. A connection
 * carries either HTTP requests that another node passes on, one after the other, or the bytes of
 * one socket of a VM.
 *
 * There is one struct peers in a pandod that is a node, and none in any other: NULL is fine for
 * place_of_vm(), place_of_node(), peers_counts() and what ends it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/id.h"
#include "store/store_node.h"

struct err;
struct node;
struct peer;
struct peers;
struct store;
struct vmm;

struct peers_conf {
	const char *address; /* "192.0.2.1:8790" */
	struct node *node;   /* weak, these three */
	struct store *store;
	struct vmm *vmm;
	unsigned cert_s; /* how long a certificate is valid; 0: the default. Tests shorten it */
};
/* Listens, and has a certificate; nobody is answered before peers_begin(). */
int peers_open(const struct peers_conf *c, struct peers **ret, struct err *err);

/* A socket of a VM that another node asks for. */
#define PEER_NAME_SIZE 260
struct peer_socket {
	uint32_t fresh_ms; /* as vm_socket.fresh_ms */
};
struct peers_hooks {
	void *ctx;
	/* A stream of HTTP requests of that node. Takes the socket in any case. */
	int (*requests)(void *ctx, int fd_consume, const char *node, struct err *err);
};
int peers_begin(struct peers *p, const struct peers_hooks *h, struct err *err);
/* Connects to where a name of the edge leads; may take long. NULL: there is no edge any more, and
 * nobody calls the one before. */
void peers_on_open(struct peers *p,
                   int (*open)(void *ctx, const char *name, struct peer_socket *ret, int *ret_fd,
                               struct err *err),
                   void *ctx);
/* What a connection is for, as named in its first message (ALPN). The last two begin with a record
 * of the asking side, which peer_tell() answers. */
enum peer_use { PEER_REQUESTS, PEER_SOCKET, PEER_SSH, PEER_PORT, PEER_USE_MAX };
/* Who serves those of the last two kinds, each on a thread of its own; fn may be called until
 * peers_end() has returned. NULL for p is fine. */
void peers_serve(struct peers *p, enum peer_use use, void (*fn)(void *ctx, struct peer *c),
                 void *ctx);
/* Nothing new; all connections end soon. Waits for those that others have made. */
void peers_end(struct peers *p);
/* Once nobody uses any connection. */
struct peers *peers_free(struct peers *p);

/* ---- where is it: place.c ---- */

enum place_kind {
	PLACE_HERE, /* or nowhere: whoever looks for it here will say so */
	PLACE_NODE, /* another node has it, and lives */
	PLACE_GONE, /* another node has it, and does not: *err says so */
};
struct place {
	enum place_kind kind;
	char node[ID_SIZE]; /* PLACE_NODE */
};
/* The one function that decides where requests about a VM go. */
struct place place_of_vm(struct peers *p, const char *vm, struct err *err);
/* Something that the node with that id has; "": this one, or none. */
struct place place_of_node(struct peers *p, const char *node, struct err *err);
/* For something new of files that it has: that node, as long as it lives and takes new VMs; else
 * here, where what is in the object store can be used, too. */
struct place place_of_files(struct peers *p, const char *node);
struct place place_of_repo(struct peers *p, const char *repo, struct err *err);
/* Another node for something new, with so much free memory; false: there is none. */
bool place_for_new(struct peers *p, uint32_t min_mb, struct place *ret);

/* ---- connections that this node makes: peers.c, socket.c, tls.c ---- */

/* For one request after the other. An idle one if there is one (*ret_used), unless fresh is set. */
int peer_get(struct peers *p, const char *node, bool fresh, struct peer **ret, bool *ret_used,
             struct err *err);
/* The last exchange was complete: it may be used again. */
void peer_put(struct peer *c);
/* It ends here, and the other side sees it. NULL is fine. */
struct peer *peer_drop(struct peer *c);
/* Where a name leads on that node, as a socket of this one, which may take until the VM is awake.
 * Its bytes are carried by a thread. */
int peer_open(struct peers *p, const char *node, const char *name, struct peer_socket *ret,
              int *ret_fd, struct err *err);

/* For anything but requests and sockets of names. */
int peer_dial(struct peers *p, const char *node, enum peer_use use, struct peer **ret,
              struct err *err);
/* Sends a record of n bytes, and reads what peer_tell() says at the other end: 0 and a number, or
 * its error. */
int peer_ask(struct peer *c, const void *record, size_t n, uint32_t *ret_value, struct err *err);
/* Reads such a record, which comes at once. */
int peer_hear(struct peer *c, void *record, size_t n, struct err *err);
/* r: 0 or -errno, with e. */
int peer_tell(struct peer *c, int r, const struct err *e, uint32_t value);
/* What comes and goes on it is carried by a thread, to one end of a pair of sockets of that type;
 * the other one is returned. SOCK_STREAM: bytes; SOCK_SEQPACKET: packets, without descriptors.
 * Takes the connection in any case. */
int peer_hand_over(struct peer *c_consume, int type, int *ret_fd, struct err *err);

/* All of it. -EHOSTUNREACH with NODE_UNAVAILABLE: the node is gone, or does not take it. */
int peer_write(struct peer *c, const void *p, size_t n, struct err *err);
/* What is there now: 0 for nothing yet, -ENODATA at the proper end. */
ssize_t peer_read(struct peer *c, void *p, size_t n, struct err *err);
/* What it takes now, or 0. */
ssize_t peer_write_some(struct peer *c, const void *p, size_t n, struct err *err);
/* Nothing more is written; what comes can still be read. */
void peer_finish(struct peer *c);
/* Readable when peer_read() may have something, if it had nothing before. */
int peer_fd(const struct peer *c);
/* Is its node alive, and this one not about to end? To be asked while one waits. */
bool peer_alive(const struct peer *c, struct err *err);
/* Copies bytes between it and the socket until both ends are done. */
void peer_relay(struct peer *c, int fd);

/* packets.c: a socket of packets (SOCK_SEQPACKET), and streams of such packets. */
#define PEER_PACKET_MAX (136u << 10)
#define PEER_CARRY_ALSO 2
struct peer_carry {
	bool opens; /* a descriptor that comes with a packet of the socket is the end of a stream */
	bool takes; /* the other side does that: one is made, and passed on with its packet */
	unsigned stuck_ms; /* for whoever is at the other end of the socket to take a packet; 0:
	                      any time */
	/* Called at every turn, and when one of these can be read (-1: none); false: it is over.
	 * NULL: nothing else is looked at. */
	bool (*turn)(void *ctx);
	/* How it ended, before its streams do; or NULL. */
	void (*over)(void *ctx, int r, const struct err *err);
	void *ctx;
	int also[PEER_CARRY_ALSO];
};
/* 0: the socket has ended; -ENODATA: the other side did, in the order of things; -ECANCELED: turn()
 * said so; else it failed. */
int peer_carry(struct peer *c, int sock, const struct peer_carry *how, struct err *err);
/* Before that: a packet as if it had come from the socket. */
int peer_carry_packet(struct peer *c, const void *p, size_t n, struct err *err);

struct peers_counts {
	unsigned in, out,
	        idle; /* connections of others; those made here, and unused ones of these */
	uint64_t made, refused; /* connections made here; those of others that were refused */
	int64_t cert_until_s;   /* wall clock */
};
void peers_counts(struct peers *p, struct peers_counts *ret);
