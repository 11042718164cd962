/* SPDX-License-Identifier: Apache-2.0 */
/*
 * front.c - answers the edge's questions: where a name leads, whether its VM runs, how to connect
 * to it, its certificate
 *
 * Names of the server itself (the base domain, api., git. and dashboard. below it) lead to the
 * API's own address. A name that is mapped leads to its VM; <vm id>.<suffix> leads to port 3000 of
 * that VM without a mapping. Guests get the same answers, and some that others do not (inside.c):
 * their questions have EDGE_INSIDE before the name. All of it is called by threads of the edge.
 */
#include "front/front.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdatomic.h>
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
#include "conf.h"
#include "domains/domains.h"
#include "edgehost/edgehost.h"
#include "events/access.h"
#include "front/inside.h"
#include "front/public.h"
#include "front/visit.h"
#include "net/gate.h"
#include "peer/peer.h"
#include "ports/ports.h"
#include "store/store_node.h"
#include "vm/vm.h"
#include "zone/zone.h"

#define EDGE_FIELD "X-Pando-Edge: "
#define CONNECT_MS 20 /* for a port to answer or refuse; then it goes on without us */

_Static_assert((int)DOMAIN_H2C == EDGE_H2C && (int)DOMAIN_TLS == EDGE_TLS, "one numbering");

struct front {
	const struct conf *conf; /* weak, these five */
	struct store *store;
	struct vmm *vmm;
	struct gates *gates;
	struct access *access;
	struct ports *ports; /* weak; NULL: none */
	struct peers *peers; /* weak; NULL: no other nodes */
	struct zones *zones; /* owned, as are the following */
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

/* ---- what the edge asks ---- */

static const char *const own_words[] = { "api.", "git.", "dashboard." };

static bool own_name(const struct front *f, const char *host)
{
	const char *base = f->conf->domain;

	if (strcmp(host, base) == 0)
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(own_words); i++) {
		size_t n = strlen(own_words[i]);

		if (strncmp(host, own_words[i], n) == 0 && strcmp(host + n, base) == 0)
			return true;
	}
	return false;
}

static bool elsewhere_owner(const struct front *f, const char *vm, char account[ACCOUNT_SIZE])
{
	struct store_owner o;

	if (!f->peers || store_vm_owner(f->store, vm, &o, NULL) < 0)
		return false;
	memcpy(account, o.account, ACCOUNT_SIZE);
	return true;
}

/* <vm id>.<base domain> or <vm id>.style.dev */
static bool vm_name(const struct front *f, const char *host, struct domains_way *ret)
{
	const char *dot = strchr(host, '.');
	bool tls = false;

	if (!dot || dot - host != ID_LEN ||
	    (strcmp(dot + 1, f->conf->domain) != 0 && strcmp(dot + 1, DOMAINS_PREVIEW) != 0))
		return false;
	snprintf(ret->vm, sizeof(ret->vm), "%.*s", ID_LEN, host);
	ret->port = DOMAINS_VM_PORT;
	if (f->ports && ports_name(f->ports, ret->vm, &ret->port, &tls) && !ret->port)
		return false;
	ret->speaks = tls ? DOMAIN_TLS : DOMAIN_HTTP1;
	return id_valid("", ret->vm) &&
	       (vmm_owner(f->vmm, ret->vm, ret->account, NULL) == 0 ||
	        elsewhere_owner(f, ret->vm, ret->account));
}

/* Where a name leads for everybody; the account it belongs to, if it is a VM's. */
static void find_public(struct front *f, const char *host, struct edgehost_way *ret,
                        char account[ACCOUNT_SIZE])
{
	struct domains_way way = { .port = 0 };
	bool mapped = domains_route(f->domains, host, &way) == 0;

	*ret = (struct edgehost_way){ .cert = certs_number(f->certs, host, mapped) };
	if (own_name(f, host)) {
		ret->kind = EDGE_ADDR;
	} else if (mapped || vm_name(f, host, &way)) {
		ret->kind = EDGE_VM;
		ret->port = way.port;
		ret->speaks = (enum edge_speaks)way.speaks;
		memcpy(ret->vm, way.vm, sizeof(ret->vm));
		snprintf(account, ACCOUNT_SIZE, "%s", way.account);
	}
}

/*
 * A guest's question: is the certificate another than everybody's? For an alias it is, and where
 * the operator has given one for the base domain, because guests may not know who signed that.
 */
static bool inside_cert(struct front *f, const char *host, bool nowhere, struct inside_alias *ret)
{
	char own[INSIDE_NAME_SIZE];

	snprintf(own, sizeof(own), "%s *.%s", f->conf->domain, f->conf->domain);
	if (certs_given(f->certs, host) && inside_match(own, f->conf->domain, host, ret)) {
		snprintf(ret->cert, sizeof(ret->cert), "@*.%s", f->conf->domain);
		snprintf(ret->name, sizeof(ret->name), "%s", host);
		return true;
	}
	return nowhere && inside_match(f->conf->alias_names, f->conf->domain, host, ret);
}

static void find(struct front *f, const char *host, struct edgehost_way *ret,
                 char account[ACCOUNT_SIZE])
{
	bool inside = *host == EDGE_INSIDE;
	struct inside_alias alias;

	find_public(f, host + inside, ret, account);
	if (!inside || !inside_cert(f, host + 1, ret->kind == EDGE_NOWHERE, &alias))
		return;
	find_public(f, alias.name, ret, account);
	ret->cert = certs_number(f->certs, alias.cert, /* own= */ true);
}

static void way(void *ctx, const char *host, struct edgehost_way *ret)
{
	char account[ACCOUNT_SIZE];

	find(ctx, host, ret, account);
}

/* The edge takes all VMs of a node for one machine that runs: connections to them end when their
 * owners end them, and a new one wakes. */
static void set_elsewhere(const char *node, struct edgehost_way *w)
{
	snprintf(w->instance, sizeof(w->instance), "@%s", node);
	w->look = EDGE_RUNNING;
}

static void look(void *ctx, struct edgehost_way *w)
{
	struct front *f = ctx;
	struct err err = { 0 };
	struct place p;
	struct vm_info v;

	w->look = EDGE_GONE;
	if (vmm_get(f->vmm, NULL, w->vm, &v, NULL) < 0) {
		p = place_of_vm(f->peers, w->vm, &err);
		if (p.kind == PLACE_NODE)
			set_elsewhere(p.node, w);
		else if (p.kind == PLACE_GONE)
			w->look = EDGE_ASLEEP;
		return;
	}
	memcpy(w->instance, v.instance, sizeof(w->instance));
	switch (v.state) {
	case VM_RUNNING:
		w->look = EDGE_RUNNING;
		return;
	case VM_STARTING:
	case VM_BUILDING:
		w->look = EDGE_STARTING;
		return;
	default:
		w->look = EDGE_ASLEEP;
	}
}

/* A socket of a VM of this node. */
static int open_vm(struct front *f, const char *account, struct edgehost_way *ret, int *ret_fd,
                   struct err *err)
{
	struct sockaddr_in sa = { .sin_family = AF_INET,
		                  .sin_addr.s_addr = inet_addr(VM_GUEST_ADDR) };
	struct vm_socket s = { .fd = -1 };
	int r;

	r = vmm_socket(f->vmm, account, ret->vm, &s, err);
	if (r == -ENOENT)
		domains_reload(f->domains, NULL); /* its names were deleted with it */
	if (r < 0)
		return r;
	autofd int fd = s.fd;
	memcpy(ret->instance, s.instance, sizeof(ret->instance));
	ret->look = EDGE_RUNNING;
	ret->fresh_ms = s.fresh_ms;
	sa.sin_port = htons(ret->port);
	r = sock_connect_soon(fd, (const struct sockaddr *)&sa, sizeof(sa), CONNECT_MS);
	if (r < 0)
		return err_sys(err, r, "connect to port %u of VM %s", ret->port, ret->vm);
	*ret_fd = TAKE_FD(fd);
	return 0;
}

/* The name decides again: what the edge believes of it does not count. */
static int open_way(void *ctx, const char *host, struct edgehost_way *ret, int *ret_fd,
                    struct err *err)
{
	struct front *f = ctx;
	char account[ACCOUNT_SIZE];
	struct peer_socket s;
	struct place p;
	int r;

	find(f, host, ret, account);
	if (ret->kind == EDGE_ADDR)
		return public_connect(&f->api_addr, f->api_len, CONNECT_MS, ret_fd, err);
	if (ret->kind != EDGE_VM)
		return err_set(err, -ENOENT, "'%s' leads nowhere", host);
	p = place_of_vm(f->peers, ret->vm, err);
	if (p.kind == PLACE_HERE)
		return open_vm(f, account, ret, ret_fd, err);
	if (p.kind == PLACE_GONE)
		return err->code;
	r = peer_open(f->peers, p.node, host, &s, ret_fd, err);
	if (r < 0)
		return r;
	set_elsewhere(p.node, ret);
	ret->fresh_ms = s.fresh_ms;
	return 0;
}

/* The same for another node, which believes that the VM is here. */
static int open_for_node(void *ctx, const char *host, struct peer_socket *ret, int *ret_fd,
                         struct err *err)
{
	struct front *f = ctx;
	struct edgehost_way way;
	char account[ACCOUNT_SIZE];
	int r;

	find(f, host, &way, account);
	if (way.kind != EDGE_VM)
		return err_set(err, -ENOENT, "'%s' leads to no VM", host);
	if (place_of_vm(f->peers, way.vm, err).kind != PLACE_HERE)
		return err_tag(err, -EHOSTUNREACH, ERR_NODE_UNAVAILABLE,
		               "VM %s is not on this node any more: try again in a few seconds",
		               way.vm);
	r = open_vm(f, account, &way, ret_fd, err);
	ret->fresh_ms = r < 0 ? 0 : way.fresh_ms;
	return r;
}

static int get_cert(void *ctx, const char *name, struct buf *ret, uint64_t *ret_number,
                    struct err *err)
{
	struct front *f = ctx;
	bool inside = *name == EDGE_INSIDE, mapped;
	char account[ACCOUNT_SIZE];
	struct inside_alias alias;
	struct domains_way unused;
	struct edgehost_way w;

	name += inside;
	mapped = domains_route(f->domains, name, &unused) == 0;
	find_public(f, name, &w, account);
	if (inside && inside_cert(f, name, w.kind == EDGE_NOWHERE, &alias))
		return certs_get(f->certs, alias.cert, /* own= */ true, ret, ret_number, err);
	return certs_get(f->certs, name, mapped, ret, ret_number, err);
}

static int challenge(void *ctx, const char *token, char ret[EDGE_ACME_TEXT_MAX])
{
	struct front *f = ctx;

	return f->acme ? acme_challenge(f->acme, token, ret, EDGE_ACME_TEXT_MAX) : -ENOENT;
}

/* Which account's log has the lines of that host, and under which name: its mapping's. */
static bool log_of(struct front *f, const char *host, struct domains_way *way,
                   char name[DOMAIN_SIZE])
{
	bool inside = *host == EDGE_INSIDE;
	struct inside_alias alias;

	host += inside;
	if (inside && inside_match(f->conf->alias_names, f->conf->domain, host, &alias))
		host = alias.name;
	snprintf(name, DOMAIN_SIZE, "%s", host);
	if (domains_route(f->domains, host, way) < 0)
		return vm_name(f, host, way);
	if (way->wild)
		snprintf(name, DOMAIN_SIZE, "*%s", strchr(host, '.'));
	return true;
}

static void line(void *ctx, const char *vm, const struct edge_line *l)
{
	struct front *f = ctx;
	struct domains_way way = { .port = 0 };
	struct access_line a;
	char name[DOMAIN_SIZE];

	if (!log_of(f, l->host, &way, name) || strcmp(way.vm, vm) != 0)
		return;
	visit_line(vm, l, &a);
	access_add(f->access, way.account, name, &a);
}

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
	for (size_t i = 0; i < ARRAY_SIZE(own_words); i++)
		snprintf(ret[n++], 256, "%s%s", own_words[i], base);
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
	struct edgehost_ops ops = { way, look, open_way, get_cert, challenge, line, f };
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
	peers_on_open(f->peers, open_for_node, f);
	return 0;
}

void front_refresh(struct front *f)
{
	struct err err = { 0 };

	if (f && domains_refresh(f->domains, &err) < 0)
		log_warn("names of other nodes are not known yet: %s", err.msg);
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
