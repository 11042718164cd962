/* SPDX-License-Identifier: Apache-2.0 */
/*
 * remote.c - where a request comes from
 *
 * The address of the connection, unless a proxy that we believe has passed it on and says in
 * X-Forwarded-For for whom: our own edge, which proves itself with a secret, or one at an address
 * that the operator has named. A proxy adds the address that it saw to the end of what its client
 * had sent, in the same header or in one more; so the last address is the true one. Of a request
 * that another node has passed on it is the address that this node saw, likewise.
 */
#include "http/http_internal.h"

#include <netinet/in.h>
#include <string.h>
#include <strings.h>

#include <openssl/crypto.h>

#include "base/auto.h"

static bool is_proxy(const struct http *h, const struct sockaddr *sa)
{
	uint8_t addr[16];

	if (!net_bytes(sa, addr))
		return false;
	for (size_t i = 0; i < h->conf.limits.n_proxies; i++)
		if (net_has(&h->conf.limits.proxies[i], addr))
			return true;
	return false;
}

bool remote_is_trusted(const struct http *h, const struct sockaddr *sa)
{
	static const struct http_net loopback[] = {
		{ { [10] = 0xff, [11] = 0xff, [12] = 127 }, 96 + 8 },
		{ { [15] = 1 }, 128 },
	};
	uint8_t addr[16];

	return net_bytes(sa, addr) &&
	       ((h->nodes.bits && net_has(&h->nodes, addr)) || net_has(&loopback[0], addr) ||
	        net_has(&loopback[1], addr) || is_proxy(h, sa));
}

/* Passed on by our own edge, which alone knows the secret and drops what its clients say of this.
 */
static bool by_edge(struct request *req)
{
	const char *secret = req->http->conf.edge_secret;
	const char *given = secret ? request_header(req, "X-Pando-Edge") : NULL;

	return given && strlen(given) == strlen(secret) &&
	       CRYPTO_memcmp(given, secret, strlen(secret)) == 0;
}

static enum MHD_Result find_last(void *ctx, enum MHD_ValueKind kind, const char *name,
                                 const char *value)
{
	const char **last = ctx;

	if (strcasecmp(name, "X-Forwarded-For") == 0 && value)
		*last = value;
	return MHD_YES;
}

/* The last address of the last X-Forwarded-For; false: there is none. */
static bool forwarded_for(struct request *req)
{
	const char *last = NULL;

	MHD_get_connection_values(req->conn, MHD_HEADER_KIND, find_last, (void *)&last);
	if (!last)
		return false;
	return net_forwarded(last, &req->peer) == 0;
}

const struct sockaddr *request_remote(struct request *req)
{
	const union MHD_ConnectionInfo *ci;

	if (req->outer)
		return request_remote(req->outer);
	if (!req->conn)
		return NULL;
	if (*req->node && req->peer.ss_family)
		return (const struct sockaddr *)&req->peer;
	ci = MHD_get_connection_info(req->conn, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
	if ((by_edge(req) || (ci && is_proxy(req->http, ci->client_addr))) && forwarded_for(req))
		return (const struct sockaddr *)&req->peer;
	return ci ? ci->client_addr : NULL;
}

const char *request_caller(struct request *req)
{
	if (req->outer)
		return request_caller(req->outer);
	return by_edge(req) ? request_header(req, "X-Pando-Vm") : NULL;
}
