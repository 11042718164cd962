/* SPDX-License-Identifier: Apache-2.0 */
/*
 * priv/vpcwg.c - the WireGuard tunnel of a VPC
 *
 * Theory of operation: the interface is created in the host's namespace, so that its
 * UDP port is the host's, and then moved into the VPC's: packets from the
 * tunnel arrive there and nowhere else. The kernel's WireGuard is used if available,
 * else wireguard-go, which ends when its control socket is removed. Keys and
 * peers are passed to wg(8) on its standard input, never on a command line,
 * and never logged. A VPC without peers has no interface.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "base/proc.h"
#include "priv/instance.h"
#include "priv/netplan.h"
#include "priv/nl.h"
#include "priv/slotnet.h"
#include "priv/vpcnet.h"

#define WG_DEADLINE_MS 8000 /* pandod waits for ten seconds */
#define WG_MTU 1420u
#define WG_SOCKETS "/var/run/wireguard"

/* Unique on the host, like wireguard-go's control sockets. */
static void link_name(const struct instance *in, uint32_t idx, char ret[IFNAMSIZ])
{
	snprintf(ret, IFNAMSIZ, NET_WG_PREFIX "%.8s-%u", in->tag, idx & (PRIV_VPCS_LIMIT - 1));
}

static void base64(const uint8_t *p, size_t n, char *out)
{
	static const char abc[] =
	        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

	for (size_t i = 0; i < n; i += 3) {
		uint32_t v = (uint32_t)p[i] << 16 | (i + 1 < n ? (uint32_t)p[i + 1] << 8 : 0) |
		             (i + 2 < n ? p[i + 2] : 0);

		*out++ = abc[v >> 18];
		*out++ = abc[v >> 12 & 63];
		*out++ = (char)(i + 1 < n ? abc[v >> 6 & 63] : '=');
		*out++ = (char)(i + 2 < n ? abc[v & 63] : '=');
	}
	*out = '\0';
}

static int run(const char *const *argv, const char *input, struct err *err)
{
	struct proc_run_opts o = {
		.argv = argv, .stdin_text = input, .deadline_ms = WG_DEADLINE_MS, .max_output = 4096
	};
	autofree char *out = NULL;
	autofree char *why = NULL;
	int r = proc_run(&o, &out, &why, err);

	if (r > 0)
		return err_set(err, -EIO, "%s: %.200s", argv[0], why && *why ? why : "failed");
	return r;
}

/* In the host's namespace: a link of that name. */
static int make_link(const struct slotnet_env *env, const char *name, struct err *err)
{
	/* Silent: its output would go to our pipe, which closes when it has gone to the
	 * background. */
	const char *const argv[] = { "env", "LOG_LEVEL=silent", "wireguard-go", name, NULL };
	const char *const ready[] = { "wg", "show", name, "listen-port", NULL };
	int r = nl_link_add_kind(env->host_nl, name, "wireguard", err);

	if (r == 0 || r == -EEXIST)
		return 0;
	if (r != -EOPNOTSUPP)
		return r;
	/* Its background half looks up the link here and answers when it has: the link must not be
	 * moved before. */
	r = run(argv, NULL, err);
	return r < 0 ? r : run(ready, NULL, err);
}

static int bring_in(const struct slotnet_env *env, int ns, int nl, const char *name,
                    const struct priv_wg *wg, struct err *err)
{
	struct nl_link l;
	int r;

	if ((r = make_link(env, name, err)) < 0 ||
	    (r = nl_link_get(env->host_nl, name, &l, err)) < 0 ||
	    (r = nl_link_move(env->host_nl, l.ifindex, ns, err)) < 0 ||
	    (r = nl_link_get(nl, name, &l, err)) < 0 ||
	    (r = nl_link_mtu(nl, l.ifindex, WG_MTU, err)) < 0 ||
	    (r = nl_addr_add(nl, l.ifindex, htonl(wg->server_ip), 32, err)) < 0)
		return r;
	return 0;
}

static int configure(const struct slotnet_env *env, int ns, const char *name,
                     const struct priv_wg *wg, struct err *err)
{
	const char *const argv[] = { "wg", "syncconf", name, "/dev/stdin", NULL };
	autobuf struct buf b = { 0 };
	autofree char *text = NULL;
	char key[48], ip[16];
	int r;

	base64(wg->key, sizeof(wg->key), key);
	buf_printf(&b, "[Interface]\nPrivateKey = %s\nListenPort = %u\n", key, wg->port);
	for (uint32_t i = 0; i < wg->n_peers; i++) {
		base64(wg->peers[i].key, sizeof(wg->peers[i].key), key);
		buf_printf(&b, "[Peer]\nPublicKey = %s\nAllowedIPs = %s/32\n", key,
		           net_ip_text(wg->peers[i].ip, ip));
	}
	text = buf_take_str(&b);
	if (!text)
		return err_set(err, -ENOMEM, "tunnel: out of memory");
	r = slotnet_enter(ns, err);
	if (r == 0) {
		r = run(argv, text, err);
		slotnet_leave(env);
	}
	explicit_bzero(text, strlen(text));
	explicit_bzero(key, sizeof(key));
	return r;
}

int vpcnet_wg(const struct slotnet_env *env, const struct instance *in, const struct priv_vpc *v,
              const struct priv_wg *wg, struct err *err)
{
	autofd int ns = vpcnet_open(env, in, v, err);
	autofd int nl = ns < 0 ? -1 : vpcnet_nl(env, ns, err);
	char name[IFNAMSIZ];
	struct nl_link l;
	int r;

	if (ns < 0 || nl < 0)
		return ns < 0 ? ns : nl;
	link_name(in, v->idx, name);
	r = nl_link_get(nl, name, &l, err);
	if (!wg->n_peers) {
		if (r == 0)
			nl_link_del(nl, name, NULL);
		vpcnet_wg_remove(in, v->idx);
		return 0;
	}
	if (r == -ENODEV)
		r = bring_in(env, ns, nl, name, wg, err);
	if (r < 0 || (r = configure(env, ns, name, wg, err)) < 0 ||
	    (r = nl_link_get(nl, name, &l, err)) < 0 ||
	    (r = nl_link_up(nl, l.ifindex, /* up= */ true, err)) < 0 ||
	    (r = nl_route_set(nl,
	                      &(struct nl_route){ .dst = htonl(PRIV_WG_NET),
	                                          .prefix = PRIV_WG_PREFIX,
	                                          .oif = l.ifindex },
	                      err)) < 0)
		return err_wrap(err, r, "tunnel of VPC %u", v->idx);
	return 0;
}

/* wireguard-go ends when its socket is removed; the kernel's interface ends with the namespace. */
void vpcnet_wg_remove(const struct instance *in, uint32_t idx)
{
	char name[IFNAMSIZ], path[128];

	link_name(in, idx, name);
	snprintf(path, sizeof(path), WG_SOCKETS "/%s.sock", name);
	if (unlink(path) < 0 && errno != ENOENT)
		log_warn("remove '%s': %s, ignoring", path, err_name(errno));
}
