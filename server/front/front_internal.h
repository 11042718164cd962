/* SPDX-License-Identifier: Apache-2.0 */
/* front/front_internal.h - for front/ only */
#pragma once

#include <netinet/in.h>
#include <stdatomic.h>

#include "conf.h"
#include "edgehost/edgehost.h"
#include "front/front.h"
#include "front/public.h"
#include "peer/peer.h"

#define EDGE_FIELD "X-Pando-Edge: "

struct front {
	const struct conf *conf; /* weak, these five */
	struct store *store;
	struct vmm *vmm;
	struct gates *gates;
	struct access *access;
	struct ports *ports;           /* weak; NULL: none */
	struct peers *peers;           /* weak; NULL: no other nodes */
	struct serverless *serverless; /* weak; NULL: no deployments */
	struct zones *zones;           /* owned, as are the following */
	struct domains *domains;
	struct certs *certs;
	struct acme *acme;
	struct edgehost *_Atomic edge;
	int tls_fd, http_fd; /* until passed to the edge */
	char tls_at[64], http_at[64];
	struct public_addrs public;
	struct sockaddr_storage api_addr;
	socklen_t api_len;
	char field[sizeof(EDGE_FIELD) + 64 + 2]; /* authenticates the edge to the API */
	char secret[64 + 1];
};

/* ---- what the edge asks: ways.c; ctx is the front ---- */

#define WAYS_OWN_WORDS 3
extern const char *const ways_own_words[WAYS_OWN_WORDS]; /* below the base domain, "api." */

void ways_way(void *ctx, const char *host, struct edgehost_way *ret);
void ways_look(void *ctx, struct edgehost_way *w);
int ways_open(void *ctx, const char *host, struct edgehost_way *ret, int *ret_fd, struct err *err);
/* The connection to an instance of a deployment is over. */
void ways_done(void *ctx, uint64_t ticket);
/* For the edge of another node, which believes that the VM is here. */
int ways_open_for_node(void *ctx, const char *host, struct peer_socket *ret, int *ret_fd,
                       struct err *err);
int ways_cert(void *ctx, const char *name, struct buf *ret, uint64_t *ret_number, struct err *err);
int ways_challenge(void *ctx, const char *token, char ret[EDGE_ACME_TEXT_MAX]);
void ways_line(void *ctx, const char *vm, const struct edge_line *l);
