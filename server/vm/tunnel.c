/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tunnel.c - WireGuard tunnels into VPCs
 *
 * The store says which tunnels there are; a change is a row and then all peers of
 * that VPC told to pando-priv anew, so a call that failed half way is mended by
 * the next, by the keeper or by the next start. The server's private key is in
 * the VPC's row; a client's is made here, given to the caller once, and not
 * kept. Tunnels end in the VPC's namespace: nothing but its range is reachable
 * through them.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/sock.h"
#include "net/wgkey.h"
#include "store/store_net.h"
#include "vm/network.h"
#include "vm/vm_internal.h"
#include "vm/vpc.h"

#define SERVER_IP (PRIV_WG_NET + 1)
#define FIRST_IP (PRIV_WG_NET + 2)
#define LAST_IP (PRIV_WG_NET + 0xfffe)
#define TUNNEL_TAG ERR_BAD_REQUEST

static bool over(const struct store_peer *p, int64_t now)
{
	return p->expires_ms && p->expires_ms <= now;
}

static uint16_t port_of(const struct vmm *m, const struct store_vpc *v)
{
	return (uint16_t)(m->conf.wg_port + v->idx);
}

/* m->tunnels held: what the store says, to the kernel. */
static int sync_locked(struct vmm *m, const struct store_vpc *v, struct err *err)
{
	autofree struct store_peer *peers = NULL;
	autofree struct priv_wg *wg = calloc(1, sizeof(*wg));
	struct priv_vpc plan = vpc_plan(v);
	int64_t now = clock_wall_ms();
	size_t n = 0;
	int r;

	if (!wg)
		return err_set(err, -ENOMEM, "out of memory");
	r = store_peer_list(m->store, v->id, &peers, &n, err);
	if (r < 0)
		return r;
	*wg = (struct priv_wg){ .port = port_of(m, v), .server_ip = SERVER_IP };
	if (wgkey_bytes(v->wg_key, wg->key) < 0)
		return err_set(err, -EIO, "the key of VPC %s cannot be read", v->id);
	for (size_t i = 0; i < n && wg->n_peers < PRIV_WG_PEERS_MAX; i++) {
		struct priv_wg_peer *to = &wg->peers[wg->n_peers];

		if (over(&peers[i], now) || wgkey_bytes(peers[i].public_key, to->key) < 0)
			continue;
		to->ip = peers[i].tunnel_ip;
		wg->n_peers++;
	}
	knock_make_way(m, v->id, &plan);
	r = privc_vpc_wg(m->priv, &plan, wg, err);
	explicit_bzero(wg->key, sizeof(wg->key));
	if (r == 0 && wg->n_peers)
		knock_open(m, v->id, &plan);
	return r;
}

void tunnels_sync(struct vmm *m, const char *vpc)
{
	struct err err = { 0 };
	autovpc v = { 0 };
	LOCK_SCOPE(&m->tunnels);

	if (store_vpc_get(m->store, vpc, &v, &err) < 0)
		return;
	if (sync_locked(m, &v, &err) < 0)
		log_warn("tunnels of VPC %s: %s", vpc, err.msg);
}

/* Lowest that is free; -ENOSPC. m->tunnels held. */
static int free_ip(struct vmm *m, const char *vpc, uint32_t *ret, struct err *err)
{
	autofree struct store_peer *p = NULL;
	size_t n = 0, here = 0;
	int r = store_peer_list(m->store, NULL, &p, &n, err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < n; i++)
		here += !strcmp(p[i].vpc, vpc);
	if (here >= PRIV_WG_PEERS_MAX)
		return err_tag(err, -ENOSPC, TUNNEL_TAG,
		               "VPC %s already has %u tunnels, the maximum", vpc,
		               PRIV_WG_PEERS_MAX);
	for (uint32_t ip = FIRST_IP; ip <= LAST_IP; ip++) {
		bool taken = false;

		for (size_t i = 0; i < n && !taken; i++)
			taken = p[i].tunnel_ip == ip;
		if (!taken) {
			*ret = ip;
			return 0;
		}
	}
	return err_tag(err, -ENOSPC, TUNNEL_TAG, "no free address for another tunnel");
}

/* The address of this host that the world sees, as far as it knows itself. */
static void host_name(const struct vmm *m, char ret[256])
{
	char found[INET_ADDRSTRLEN];

	snprintf(ret, 256, "%s", m->conf.wg_host);
	if (*ret)
		return;
	sock_own_ipv4(found);
	snprintf(ret, 256, "%s", *found ? found : "127.0.0.1");
}

static int fill(struct vmm *m, const struct store_vpc *v, const struct store_peer *p,
                struct tunnel *ret, struct err *err)
{
	*ret = (struct tunnel){ .port = port_of(m, v),
		                .server_ip = SERVER_IP,
		                .client_ip = p->tunnel_ip,
		                .net = v->net,
		                .prefix = (uint8_t)v->prefix,
		                .expires_ms = p->expires_ms };
	snprintf(ret->id, sizeof(ret->id), "%s", p->id);
	snprintf(ret->vpc, sizeof(ret->vpc), "%s", v->id);
	snprintf(ret->client_public, sizeof(ret->client_public), "%s", p->public_key);
	host_name(m, ret->host);
	return wgkey_public(v->wg_key, ret->server_public, err);
}

/* A row and its peer, or neither. */
static int add(struct vmm *m, const struct store_vpc *v, struct store_peer *p, struct tunnel *ret,
               struct err *err)
{
	int r;
	LOCK_SCOPE(&m->tunnels);

	id_make("wg-", p->id);
	snprintf(p->vpc, sizeof(p->vpc), "%s", v->id);
	p->created_ms = clock_wall_ms();
	if ((r = free_ip(m, v->id, &p->tunnel_ip, err)) < 0)
		return r;
	r = store_peer_add(m->store, p, err);
	if (r == -EEXIST)
		return err_tag(err, r, ERR_CONFLICT, "VPC %s already has a tunnel with that key",
		               v->id);
	if (r < 0)
		return r;
	r = sync_locked(m, v, err);
	if (r == 0)
		r = fill(m, v, p, ret, err);
	if (r < 0) {
		store_peer_delete(m->store, v->id, p->id, NULL);
		sync_locked(m, v, NULL);
	}
	return r;
}

int vmm_tunnel_open(struct vmm *m, const char *account, const char *vpc, struct tunnel *ret,
                    struct err *err)
{
	struct store_peer p = { .expires_ms =
		                        clock_wall_ms() + (int64_t)m->conf.wg_session_s * 1000 };
	char private[WGKEY_TEXT];
	autovpc v = { 0 };
	int r;

	if ((r = vpc_find(m, account, vpc, &v, err)) < 0 ||
	    (r = wgkey_make(private, p.public_key, err)) < 0)
		return r;
	r = add(m, &v, &p, ret, err);
	if (r == 0)
		memcpy(ret->client_private, private, sizeof(private));
	explicit_bzero(private, sizeof(private));
	return r;
}

int vmm_tunnel_peer(struct vmm *m, const char *account, const char *vpc, const char *gateway_vm,
                    const char *public_key, struct tunnel *ret, struct err *err)
{
	struct store_peer p = { 0 };
	uint8_t raw[WGKEY_LEN];
	autovpc v = { 0 };
	char in[ID_SIZE];
	uint32_t addr;
	int r;

	if ((r = vpc_find(m, account, vpc, &v, err)) < 0 ||
	    (r = vmm_vm_address(m, account, gateway_vm, in, &addr, err)) < 0)
		return r;
	if (strcmp(in, vpc) != 0)
		return err_tag(err, -EINVAL, TUNNEL_TAG, "VM %s is not in VPC %s", gateway_vm, vpc);
	if (wgkey_bytes(public_key, raw) < 0)
		return err_tag(err, -EINVAL, TUNNEL_TAG,
		               "'clientPublicKey' must be a WireGuard public key");
	snprintf(p.gateway_vm, sizeof(p.gateway_vm), "%s", gateway_vm);
	snprintf(p.public_key, sizeof(p.public_key), "%s", public_key);
	r = add(m, &v, &p, ret, err);
	return r;
}

int vmm_tunnel_close(struct vmm *m, const char *account, const char *vpc, const char *id,
                     struct err *err)
{
	autovpc v = { 0 };
	int r = vpc_find(m, account, vpc, &v, err);
	LOCK_SCOPE(&m->tunnels);

	if (r < 0 || (r = store_peer_delete(m->store, vpc, id, err)) < 0)
		return r;
	return sync_locked(m, &v, err);
}

/* What the tunnel's interface says; those it does not know are not seen. */
static void look_at_peers(struct vmm *m, const struct store_vpc *v, struct tunnel_info *t, size_t n)
{
	autofree struct priv_wg_seen *seen = NULL;
	struct priv_vpc plan = vpc_plan(v);
	struct err err = { 0 };
	uint8_t key[WGKEY_LEN];
	size_t k = 0;

	if (privc_vpc_peers(m->priv, &plan, &seen, &k, &err) < 0) {
		log_debug("tunnels of VPC %s: %s", v->id, err.msg);
		return;
	}
	for (size_t i = 0; i < n; i++)
		for (size_t j = 0; j < k && wgkey_bytes(t[i].client_public, key) == 0; j++)
			if (memcmp(key, seen[j].key, sizeof(key)) == 0) {
				t[i].seen = true;
				t[i].handshake_s = (int64_t)seen[j].handshake_s;
				t[i].rx_bytes = seen[j].rx_bytes;
				t[i].tx_bytes = seen[j].tx_bytes;
			}
}

int vmm_tunnel_list(struct vmm *m, const char *account, const char *vpc, struct tunnel_info **ret,
                    size_t *ret_n, struct err *err)
{
	autofree struct store_peer *p = NULL;
	autofree struct tunnel_info *t = NULL;
	int64_t now = clock_wall_ms();
	autovpc v = { 0 };
	size_t n = 0, k = 0;
	int r;

	if ((r = vpc_find(m, account, vpc, &v, err)) < 0 ||
	    (r = store_peer_list(m->store, vpc, &p, &n, err)) < 0)
		return r;
	t = calloc(n ? n : 1, sizeof(*t));
	if (!t)
		return err_set(err, -ENOMEM, "out of memory");
	for (size_t i = 0; i < n; i++) {
		if (over(&p[i], now))
			continue;
		t[k] = (struct tunnel_info){ .server_ip = SERVER_IP,
			                     .client_ip = p[i].tunnel_ip,
			                     .port = port_of(m, &v),
			                     .created_ms = p[i].created_ms,
			                     .expires_ms = p[i].expires_ms };
		snprintf(t[k].id, sizeof(t[k].id), "%s", p[i].id);
		snprintf(t[k].gateway_vm, sizeof(t[k].gateway_vm), "%s", p[i].gateway_vm);
		snprintf(t[k].client_public, sizeof(t[k].client_public), "%s", p[i].public_key);
		k++;
	}
	if (k)
		look_at_peers(m, &v, t, k);
	*ret = TAKE_PTR(t);
	*ret_n = k;
	return 0;
}

/* Keeper, and at start: rows whose time is over go, and their peers with them. */
void tunnels_expire(struct vmm *m, bool all)
{
	autofree struct store_peer *p = NULL;
	int64_t now = clock_wall_ms();
	char last[ID_SIZE] = "";
	size_t n = 0;

	if (store_peer_list(m->store, NULL, &p, &n, NULL) < 0)
		return;
	for (size_t i = 0; i < n; i++) {
		bool gone = over(&p[i], now);

		if (gone)
			store_peer_delete(m->store, p[i].vpc, p[i].id, NULL);
		if ((gone || all) && strcmp(last, p[i].vpc) != 0) {
			snprintf(last, sizeof(last), "%s", p[i].vpc); /* the list is by VPC */
			tunnels_sync(m, last);
		}
	}
}
