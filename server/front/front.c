/* SPDX-License-Identifier: Apache-2.0 */
/*
 * front.c - the edge of this server, from beginning to end; it answers its questions in ways.c
 *
 * Names of the server itself (the base domain, api., git. and dashboard. below it) lead to the
 * API's own address. A name that is mapped leads to its VM; <vm id>.<suffix> leads to port 3000 of
 * that VM without a mapping. Guests get the same answers, and some that others do not (inside.c):
 * their questions have EDGE_INSIDE before the name. All of it is called by threads of the edge.
 */
#include "front/front_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/api.h"
#include "base/auto.h"
#include "base/err.h"
#include "base/id.h"
#include "base/log.h"
#include "base/sock.h"
#include "cert/acme.h"
#include "cert/cert.h"
#include "domains/domains.h"
#include "events/access.h"
#include "front/inside.h"
#include "net/gate.h"
#include "ports/ports.h"
#include "serverless/deploy.h"
#include "store/store_node.h"
#include "vm/vm.h"
#include "zone/zone.h"

/* ---- what guests ask ---- */

/* The slots' name server asks, with locks held. */
static bool ours(void *ctx, const char *name)
{
	const struct front *f = ctx;
	const char *dot = strchr(name, '.');
	struct inside_alias alias;
	struct domains_way way;

	if (inside_below(f->conf->domain, name) ||
	    inside_match(f->conf->alias_names, f->conf->domain, name, &alias) ||
	    domains_route(f->domains, name, &way) == 0)
		return true;
	return dot && dot - name == ID_LEN && strcmp(dot + 1, DOMAINS_PREVIEW) == 0;
}

static int enter(void *ctx, const struct gate_entry *e, int fd_consume)
{
	struct front *f = ctx;
	struct edgehost_guest g = {
		.vm = e->vm_id, .caller = e->caller, .only = e->only, .tls = e->tls
	};

	return edgehost_guest(f->edge, &g, fd_consume);
}

/* ---- what the edge is told ---- */

static void vm_changed(void *ctx, const char *vm, const char *ended)
{
	struct front *f = ctx;

	edgehost_changed(f->edge, vm);
	if (ended)
		edgehost_ended(f->edge, ended);
	if (ended && f->serverless)
		deploy_vm_ended(f->serverless, vm);
}

/* A deployment has instances, or none any more. */
static void awake_changed(void *ctx, const char *id)
{
	struct edgehost *e = atomic_load(&((struct front *)ctx)->edge);

	if (e)
		edgehost_changed(e, id);
}

/* Names lead elsewhere, or have other certificates. */
static void names_changed(void *ctx)
{
	struct edgehost *e = atomic_load(&((struct front *)ctx)->edge);

	if (e)
		edgehost_changed(e, NULL);
}

static int dns_challenge(void *ctx, const char *name, char ret[ZONES_CHALLENGE_MAX])
{
	struct front *f = ctx;

	return acme_dns_challenge(f->acme, name, ret, ZONES_CHALLENGE_MAX);
}

/* Can somebody set TXT records for ACME? */
static bool dns_way(const struct front *f)
{
	return *f->conf->acme_dns_hook || strcmp(f->conf->dns_listen, "none") != 0;
}

#define OWN_MAX 4
/* This server's own names, unless they mean this host alone: by a wildcard, or one by one. */
static size_t wanted_own(const struct front *f, char (*ret)[256])
{
	const char *base = f->conf->domain;
	size_t n = 0;

	if (strcmp(base, "localhost") == 0 || domain_below(base, "localhost"))
		return 0;
	if (dns_way(f)) {
		snprintf(ret[n++], 256, "*.%s", base);
		return n;
	}
	snprintf(ret[n++], 256, "%s", base);
	for (size_t i = 0; i < WAYS_OWN_WORDS; i++)
		snprintf(ret[n++], 256, "%s%s", ways_own_words[i], base);
	return n;
}

/* Names ACME should certify: our own, mapped ones below verified domains, and requested wildcards.
 */
static int wanted(void *ctx, char (**ret)[256], size_t *ret_n, struct err *err)
{
	struct front *f = ctx;
	char(*names)[DOMAIN_SIZE] = NULL;
	autofree struct store_domain *own = NULL;
	autofree char(*v)[256] = NULL;
	size_t n = 0, n_own = 0, k = 0;
	int r = store_domain_list(f->store, NULL, &own, &n_own, err);

	if (r < 0 || (r = domains_names(f->domains, NULL, &names, &n, err)) < 0)
		return r;
	v = calloc(n + n_own + OWN_MAX, sizeof(*v));
	if (v)
		k = wanted_own(f, v);
	for (size_t i = 0; v && i < n_own; i++)
		if (own[i].wildcard)
			snprintf(v[k++], sizeof(*v), "*.%s", own[i].domain);
	for (size_t i = 0; v && i < n; i++)
		snprintf(v[k++], sizeof(*v), "%s", names[i]);
	free(names);
	if (!v)
		return err_set(err, -ENOMEM, "out of memory");
	*ret = TAKE_PTR(v);
	*ret_n = k;
	return 0;
}

/* For the API: a wildcard certificate for a verified domain, from ACME or the local CA. */
int front_wildcard(struct front *f, const char *domain, struct err *err)
{
	if (f->acme)
		return acme_wildcard(f->acme, domain, err);
	return certs_local_wildcard(f->certs, domain, err);
}

/* Names were mapped: they may want a certificate. */
static void names_mapped(void *ctx)
{
	acme_kick(((struct front *)ctx)->acme);
}

/* ---- life ---- */

static void front_freep(struct front **f)
{
	front_free(*f);
}

/* One CA for all nodes: whoever comes first has made it. */
static int share_ca(struct front *f, struct err *err)
{
	autowipe char *key = NULL, *shared_key = NULL;
	autofree char *cert = NULL, *shared = NULL;
	int r;

	if (!f->peers)
		return 0;
	if ((r = certs_ca_export(f->certs, &key, &cert, err)) < 0 ||
	    (r = store_node_shared(f->store, "edge-ca", key, cert, &shared_key, &shared, err)) < 0)
		return r;
	if (strcmp(cert, shared) == 0)
		return 0;
	log_info("certificates: the local CA is that of the other nodes from now on");
	return certs_ca_replace(f->certs, shared_key, shared, err);
}

/* The CA that guests are to trust. */
static int give_ca(struct front *f, struct err *err)
{
	autofree char *pem = NULL;
	int r = certs_ca_pem(f->certs, &pem, err);

	return r < 0 ? r
	             : vmm_trust(f->vmm, pem,
	                         inside_below("localhost", f->conf->domain) ? f->conf->domain : "",
	                         err);
}

int front_new(const struct conf *conf, struct store *store, struct vmm *vmm, struct gates *gates,
              struct access *access, struct peers *peers, struct front **ret, struct err *err)
{
	AUTO(front_freep) struct front *f = calloc(1, sizeof(*f));
	const char *suffixes[] = { conf->domain, DOMAINS_PREVIEW };
	struct domains_conf dc = { .base = conf->domain, .resolver = conf->resolver, .ctx = f };
	unsigned char raw[32];
	char dir[300], ns[DOMAIN_SIZE];
	int r;

	if (!f)
		return err_set(err, -ENOMEM, "out of memory");
	*f = (struct front){ .conf = conf,
		             .store = store,
		             .vmm = vmm,
		             .gates = gates,
		             .access = access,
		             .peers = peers,
		             .tls_fd = -1,
		             .http_fd = -1 };
	random_bytes(raw, sizeof(raw));
	hex_encode(raw, sizeof(raw), f->secret);
	snprintf(f->field, sizeof(f->field), EDGE_FIELD "%s\r\n", f->secret);
	snprintf(dir, sizeof(dir), "%s/certs", conf->data_dir);
	snprintf(ns, sizeof(ns), "%s%s", *conf->dns_name ? "" : "ns.",
	         *conf->dns_name ? conf->dns_name : conf->domain);
	if ((r = public_listen(conf->edge_listen, &f->tls_fd, f->tls_at, err)) < 0 ||
	    (r = public_listen(conf->edge_http_listen, &f->http_fd, f->http_at, err)) < 0 ||
	    (r = zones_new(store, ns, &f->zones, err)) < 0 ||
	    (strcmp(conf->dns_listen, "none") != 0 &&
	     (r = zones_listen(f->zones, conf->dns_listen, err)) < 0))
		return r;
	dc.zones = f->zones;
	dc.mapped = names_mapped;
	dc.changed = names_changed;
	if ((r = domains_new(&dc, store, vmm, &f->domains, err)) < 0 ||
	    (r = certs_open_sealed(dir, suffixes, ARRAY_SIZE(suffixes), store_secrets(store),
	                           &f->certs, err)) < 0 ||
	    (r = share_ca(f, err)) < 0 || (r = give_ca(f, err)) < 0 ||
	    (*conf->tls_cert && (r = certs_give(f->certs, conf->tls_cert, conf->tls_key, err)) < 0))
		return r;
	public_find(conf->public_address, f->tls_fd >= 0 ? f->tls_fd : f->http_fd, &f->public);
	if ((r = zones_base(f->zones, conf->domain, f->public.ipv4, f->public.ipv6, err)) < 0)
		return r;
	*ret = TAKE_PTR(f);
	return 0;
}

static void edge_status(struct front *f, struct api_edge_status *ret)
{
	struct edgehost *e = atomic_load(&f->edge);
	struct edgehost_status s = { .pid = -1 };

	if (e)
		edgehost_status(e, &s);
	*ret = (struct api_edge_status){ .pid = s.pid,
		                         .starts = s.starts,
		                         .connections = s.stats.connections,
		                         .requests = s.stats.requests,
		                         .refused = s.stats.refused,
		                         .woken = s.stats.woken,
		                         .lines_lost = s.lines_lost,
		                         .open = s.stats.open };
}

void front_ports(struct front *f, struct ports *p)
{
	f->ports = p;
	ports_on_name(p, names_changed, f);
}

void front_serverless(struct front *f, struct serverless *s)
{
	f->serverless = s;
	if (s)
		deploy_on_awake(s, awake_changed, f);
}

void front_deps(struct front *f, struct api_deps *deps)
{
	deps->public_ipv4 = f->public.ipv4;
	deps->public_ipv6 = f->public.ipv6;
	deps->edge_secret = f->secret;
	deps->domains = f->domains;
	deps->zones = f->zones;
	deps->certs = f->certs;
	deps->front = f;
	deps->wildcard = front_wildcard;
	deps->edge_status = edge_status;
}

/* The API's address as reachable from this host. */
static int api_address(struct front *f, struct api *api, struct err *err)
{
	char url[128];
	int r;

	api_url(api, url, sizeof(url));
	r = sock_parse(url + strlen("http://"), &f->api_addr, &f->api_len, err);
	return r < 0 ? err_wrap(err, r, "edge: the API's address") : 0;
}

int front_start(struct front *f, struct api *api, struct err *err)
{
	struct edgehost_ops ops = { ways_way,  ways_look,      ways_open, ways_done,
		                    ways_cert, ways_challenge, ways_line, f };
	struct gate_here here = { f, ours, enter };
	struct edge_conf ec = { .tls_fd = -1,
		                .http_fd = -1,
		                .wait_ms = f->conf->edge_wait_s * 1000,
		                .answer_ms = f->conf->edge_answer_s * 1000,
		                .stall_ms = f->conf->edge_stall_s * 1000,
		                .idle_ms = f->conf->edge_idle_s * 1000,
		                .addr_conns = f->conf->edge_addr_conns,
		                .addr_requests = f->conf->edge_addr_requests,
		                .fd_reserve = f->conf->edge_fd_reserve,
		                .hsts_s = f->conf->edge_hsts_s };
	struct edgehost_conf hc = { .field = f->field,
		                    .mem_mb = f->conf->edge_mem_mb,
		                    .log = (enum log_level)MAX(
		                            0, log_level_parse(f->conf->log_level)) };
	struct edgehost *e = NULL;
	char dir[300];
	struct acme_conf ac = { .dir = dir,
		                .url = f->conf->acme_url,
		                .email = f->conf->acme_email,
		                .dns_hook = f->conf->acme_dns_hook,
		                .dns_own = strcmp(f->conf->dns_listen, "none") != 0,
		                .base = f->conf->domain,
		                .renew_days = f->conf->acme_renew_days,
		                .wanted = wanted,
		                .ctx = f };
	int r = api_address(f, api, err);

	snprintf(dir, sizeof(dir), "%s/certs", f->conf->data_dir);
	if (r == 0 && *f->conf->acme_url)
		r = acme_start(&ac, f->certs, &f->acme, err);
	if (r == 0 && f->acme)
		zones_on_challenge(f->zones, dns_challenge, f);
	if (r == 0)
		r = zones_serve(f->zones, err);
	if (r < 0 || (f->tls_fd < 0 && f->http_fd < 0))
		return r;
	hc.edge = ec;
	hc.edge.tls_fd = TAKE_FD(f->tls_fd);
	hc.edge.http_fd = TAKE_FD(f->http_fd);
	if ((r = edgehost_start(&hc, &ops, &e, err)) < 0)
		return r;
	atomic_store(&f->edge, e);
	certs_on_change(f->certs, names_changed, f);
	vmm_on_changed(f->vmm, vm_changed, f);
	edgehost_changed(e, NULL); /* whatever changed or ended before we subscribed */
	edgehost_ended(e, NULL);
	gates_set_here(f->gates, &here);
	peers_on_open(f->peers, ways_open_for_node, f);
	return 0;
}

void front_refresh(struct front *f)
{
	struct err err = { 0 };

	if (!f)
		return;
	if (domains_refresh(f->domains, &err) < 0)
		log_warn("names of other nodes are not known yet: %s", err.msg);
	if (f->ports)
		ports_refresh(f->ports);
	if (zones_server(f->zones) && zones_refresh(f->zones, &err) < 0)
		log_warn("DNS records of other nodes are not known yet: %s", err.msg);
}

void front_say(const struct front *f)
{
	if (*f->tls_at)
		printf("  edge         https://*.%s at %s; 'pando ca' prints the CA to trust\n",
		       f->conf->domain, f->tls_at);
	if (*f->http_at)
		printf("               http://*.%s at %s\n", f->conf->domain, f->http_at);
	if (zones_server(f->zones))
		printf("  name server  %s at %s\n", zones_server(f->zones), f->conf->dns_listen);
}

void front_stop(struct front *f)
{
	if (!f)
		return;
	peers_on_open(f->peers, NULL, NULL);
	vmm_off_changed(f->vmm, f);
	if (f->serverless)
		deploy_on_awake(f->serverless, NULL, NULL);
	gates_set_here(f->gates, NULL);
	edgehost_stop(f->edge);
}

struct front *front_free(struct front *f)
{
	if (!f)
		return NULL;
	front_stop(f);
	if (f->zones)
		zones_on_challenge(f->zones, NULL, NULL);
	acme_stop(f->acme);
	if (f->certs)
		certs_on_change(f->certs, NULL, NULL);
	edgehost_free(atomic_exchange(&f->edge, NULL));
	certs_free(f->certs);
	domains_free(f->domains);
	zones_free(f->zones);
	if (f->tls_fd >= 0)
		close(f->tls_fd);
	if (f->http_fd >= 0)
		close(f->http_fd);
	free(f);
	return NULL;
}
