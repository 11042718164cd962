/* SPDX-License-Identifier: Apache-2.0 */
/* front/front_internal.h - for front/ only */
#pragma once

#include <stdatomic.h>
#include <sys/socket.h>

#include "conf.h"
#include "edgehost/edgehost.h"
#include "front/public.h"

#define EDGE_FIELD "X-Pando-Edge: "

struct front {
	const struct conf *conf; /* weak, these five */
	struct store *store;
	struct vmm *vmm;
	struct gates *gates;
	struct access *access;
	struct ports *ports;           /* weak; NULL: none */
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

/* ask.c: what the edge asks. */
void ask_ops(struct front *f, struct edgehost_ops *ret);
/* Names of the server itself, below the base domain. */
extern const char *const front_own_words[];
extern const size_t front_n_own_words;
