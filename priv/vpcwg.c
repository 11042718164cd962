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
#define WG_OUTPUT_MAX 65536 /* a line of 100 bytes for each peer */
#define WG_SOCKETS "/var/run/wireguard"

/* Unique on the host, like wireguard-go's control sockets. */
static void link_name(const struct instance *in, uint32_t idx, char ret[IFNAMSIZ])
{
	snprintf(ret, IFNAMSIZ, NET_WG_PREFIX "%.8s-%u", in->tag, idx & (PRIV_VPCS_LIMIT - 1));
}

static const char base64_letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static void base64(const uint8_t *p, size_t n, char *out)
{
	const char *abc = base64_letters;

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

/* ret_out: what it printed, the caller's; or NULL. */
static int run_for(const char *const *argv, const char *input, char **ret_out, struct err *err)
{
	struct proc_run_opts o = { .argv = argv,
		                   .stdin_text = input,
		                   .deadline_ms = WG_DEADLINE_MS,
		                   .max_output = WG_OUTPUT_MAX };
	autofree char *out = NULL;
	autofree char *why = NULL;
	int r = proc_run(&o, &out, &why, err);

	if (r > 0)
		return err_set(err, -EIO, "%s: %.200s", argv[0], why && *why ? why : "failed");
	if (r == 0 && ret_out)
		*ret_out = TAKE_PTR(out);
	return r;
}

static int run(const char *const *argv, const char *input, struct err *err)
{
	return run_for(argv, input, NULL, err);
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

/* The public key at the beginning of a line of wg's; false: it is none. */
static bool key_of(const char *line, uint8_t ret[PRIV_WG_KEY_LEN])
{
	char text[48], again[48];
	uint8_t raw[36];

	/* 32 bytes are 43 characters and one '='. */
	if (strcspn(line, "\t\n") != 44 || line[43] != '=')
		return false;
	for (size_t i = 0; i < 44; i += 4) {
		uint32_t v = 0;

		for (size_t k = 0; k < 4; k++) {
			const char *p = line[i + k] == '=' ? base64_letters
			                                   : strchr(base64_letters, line[i + k]);

			if (!p)
				return false;
			v = v << 6 | (uint32_t)(p - base64_letters);
		}
		raw[i / 4 * 3] = (uint8_t)(v >> 16);
		raw[i / 4 * 3 + 1] = (uint8_t)(v >> 8);
		raw[i / 4 * 3 + 2] = (uint8_t)v;
	}
	memcpy(ret, raw, PRIV_WG_KEY_LEN);
	snprintf(text, sizeof(text), "%.44s", line);
	base64(ret, PRIV_WG_KEY_LEN, again);
	return strcmp(text, again) == 0;
}

/* Reads a list of wg's, "key number number": one of handshakes makes the entries, one of bytes
 * fills them in. */
static void read_list(const char *text, bool bytes, struct priv_wg_seen *ret, uint32_t *n)
{
	for (const char *p = text; p && *p; p = strchr(p, '\n') ? strchr(p, '\n') + 1 : NULL) {
		uint8_t key[PRIV_WG_KEY_LEN];
		unsigned long long a, b = 0;
		uint32_t i = 0;

		if (!key_of(p, key) || sscanf(p + 44, "%llu %llu", &a, &b) < (bytes ? 2 : 1))
			continue;
		while (i < *n && memcmp(ret[i].key, key, sizeof(key)) != 0)
			i++;
		if (i == *n && (bytes || *n == PRIV_WG_PEERS_MAX))
			continue;
		if (i == *n) {
			ret[(*n)++] = (struct priv_wg_seen){ .handshake_s = a };
			memcpy(ret[i].key, key, sizeof(key));
		}
		if (bytes) {
			ret[i].rx_bytes = a;
			ret[i].tx_bytes = b;
		}
	}
}

int vpcnet_wg_peers(const struct slotnet_env *env, const struct instance *in,
                    const struct priv_vpc *v, struct priv_wg_seen ret[PRIV_WG_PEERS_MAX],
                    uint32_t *ret_n, struct err *err)
{
	autofd int ns = vpcnet_open(env, in, v, err);
	autofree char *shakes = NULL;
	autofree char *bytes = NULL;
	char name[IFNAMSIZ];
	int r;

	*ret_n = 0;
	if (ns < 0)
		return ns;
	link_name(in, v->idx, name);
	r = slotnet_enter(ns, err);
	if (r < 0)
		return r;
	r = run_for((const char *const[]){ "wg", "show", name, "latest-handshakes", NULL }, NULL,
	            &shakes, err);
	if (r == 0)
		r = run_for((const char *const[]){ "wg", "show", name, "transfer", NULL }, NULL,
		            &bytes, err);
	slotnet_leave(env);
	if (r < 0)
		return err_wrap(err, r, "tunnel of VPC %u", v->idx);
	read_list(shakes, /* bytes= */ false, ret, ret_n);
	read_list(bytes, /* bytes= */ true, ret, ret_n);
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
