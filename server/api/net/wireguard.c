/* SPDX-License-Identifier: Apache-2.0 */
/* wireguard.c - tunnels into private networks */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "api/net/shared.h"
#include "base/auto.h"
#include "base/buf.h"
#include "base/clock.h"
#include "vm/network.h"

#define LINK_NAME "wg0" /* a name for the client's end; any name works */
#define KEEPALIVE_S 25

static const char *addr_text(uint32_t addr, char ret[INET_ADDRSTRLEN])
{
	struct in_addr a = { .s_addr = htonl(addr) };

	return inet_ntop(AF_INET, &a, ret, INET_ADDRSTRLEN);
}

/* A file for wg-quick(8); the caller frees. */
static char *config_text(const struct tunnel *t, const char *cidr)
{
	struct buf b = { 0 };
	char ip[INET_ADDRSTRLEN];

	buf_printf(&b,
	           "[Interface]\nAddress = %s/32\nPrivateKey = %s\n\n[Peer]\nPublicKey = %s\n"
	           "AllowedIPs = %s\nEndpoint = %s:%u\nPersistentKeepalive = %d\n",
	           addr_text(t->client_ip, ip),
	           *t->client_private ? t->client_private : "REPLACE_WITH_YOUR_PRIVATE_KEY",
	           t->server_public, cidr, t->host, t->port, KEEPALIVE_S);
	return buf_take_str(&b);
}

/* Members of both kinds of tunnels. */
static json_t *shape_tunnel(const struct tunnel *t)
{
	char cidr[48], server[INET_ADDRSTRLEN], client[INET_ADDRSTRLEN], ip[INET_ADDRSTRLEN];
	autofree char *config = NULL;
	json_t *j;

	snprintf(cidr, sizeof(cidr), "%s/%u", addr_text(t->net, ip), t->prefix);
	config = config_text(t, cidr);
	if (!config)
		return NULL;
	j = json_pack("{s:s, s:s, s:i, s:i, s:s, s:s, s:s, s:s, s:s, s:s, s:[s], s:s}", "vpcId",
	              t->vpc, "endpointHost", t->host, "endpointPort", (int)t->port, "listenPort",
	              (int)t->port, "interfaceName", LINK_NAME, "serverPublicKey", t->server_public,
	              "clientPublicKey", t->client_public, "serverTunnelIp",
	              addr_text(t->server_ip, server), "clientTunnelIp",
	              addr_text(t->client_ip, client), "vpcCidr", cidr, "clientAllowedIps", cidr,
	              "clientConfig", config);
	explicit_bzero(config, strlen(config));
	return j;
}

int api_wg_ephemeral(struct request *req, struct reply *res, struct err *err)
{
	char at[CLOCK_RFC3339_LEN], ip[INET_ADDRSTRLEN];
	struct tunnel t;
	json_t *j;
	int r = vmm_tunnel_open(deps_of(req)->vmm, who_of(req)->account, req->match.arg[0], &t,
	                        err);

	if (r < 0)
		return r;
	j = shape_tunnel(&t);
	json_object_set_new(j, "sessionId", json_string(t.id));
	json_object_set_new(j, "clientPrivateKey", json_string(t.client_private));
	json_object_set_new(j, "vpcIp", json_string(addr_text(t.client_ip, ip)));
	json_object_set_new(j, "expiresAt", json_string(clock_rfc3339(t.expires_ms, at)));
	explicit_bzero(&t, sizeof(t));
	return reply_json(res, j, err);
}

static json_t *shape_open(const struct tunnel_info *t)
{
	char server[INET_ADDRSTRLEN], client[INET_ADDRSTRLEN];

	return json_pack("{s:s, s:s, s:o, s:s, s:s, s:i, s:o, s:o, s:o, s:o, s:o}", "sessionId",
	                 t->id, "clientPublicKey", t->client_public, "gatewayVmId",
	                 shape_text(t->gateway_vm), "clientTunnelIp",
	                 addr_text(t->client_ip, client), "serverTunnelIp",
	                 addr_text(t->server_ip, server), "listenPort", (int)t->port, "createdAt",
	                 shape_time(t->created_ms), "expiresAt", shape_time(t->expires_ms),
	                 "lastHandshakeAt", shape_time(t->handshake_s * 1000), "rxBytes",
	                 t->seen ? json_integer((json_int_t)t->rx_bytes) : json_null(), "txBytes",
	                 t->seen ? json_integer((json_int_t)t->tx_bytes) : json_null());
}

int api_wg_list(struct request *req, struct reply *res, struct err *err)
{
	autofree struct tunnel_info *t = NULL;
	autojson json_t *list = json_array();
	size_t n = 0;
	int r = vmm_tunnel_list(deps_of(req)->vmm, who_of(req)->account, req->match.arg[0], &t, &n,
	                        err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < n; i++)
		if (json_array_append_new(list, shape_open(&t[i])) < 0)
			return err_set(err, -ENOMEM, "out of memory");
	return reply_json(
	        res, json_pack("{s:s, s:O}", "vpcId", req->match.arg[0], "sessions", list), err);
}

struct close_body {
	char session[ID_SIZE];
};
static const struct json_field close_fields[] = {
	JSON_FIELD_STR(close_body, session, "sessionId", JSON_REQUIRED),
};
JSON_TABLE(WireguardClose, close_fields);

int api_wg_close(struct request *req, struct reply *res, struct err *err)
{
	struct close_body b = { 0 };
	int r;

	if ((r = request_fields(req, ERR_BAD_REQUEST, close_fields, ARRAY_SIZE(close_fields), &b,
	                        err)) < 0 ||
	    (r = vmm_tunnel_close(deps_of(req)->vmm, who_of(req)->account, req->match.arg[0],
	                          b.session, err)) < 0)
		return r;
	return reply_json(res, json_pack("{s:s}", "sessionId", b.session), err);
}

struct peer_body {
	char vm[ID_SIZE];
	char key[48];
};
static const struct json_field peer_fields[] = {
	JSON_FIELD_STR(peer_body, vm, "gatewayVmId", JSON_REQUIRED),
	JSON_FIELD_STR(peer_body, key, "clientPublicKey", JSON_REQUIRED),
};
JSON_TABLE(WireguardPeerNew, peer_fields);

int api_wg_peer(struct request *req, struct reply *res, struct err *err)
{
	struct peer_body b = { 0 };
	struct tunnel t;
	json_t *j;
	int r;

	if ((r = request_fields(req, ERR_BAD_REQUEST, peer_fields, ARRAY_SIZE(peer_fields), &b,
	                        err)) < 0 ||
	    (r = vmm_tunnel_peer(deps_of(req)->vmm, who_of(req)->account, req->match.arg[0], b.vm,
	                         b.key, &t, err)) < 0)
		return r;
	j = shape_tunnel(&t);
	json_object_set_new(j, "gatewayVmId", json_string(b.vm));
	json_object_set_new(j, "sessionId", json_string(t.id));
	return reply_json(res, j, err);
}
