/* SPDX-License-Identifier: Apache-2.0 */
/*
 * front.c - answers the edge's questions: where a name leads, whether its VM runs, how to connect
 * to it, its certificate
 *
 * Names of the server itself (the base domain, api., git. and dashboard. below it) lead to the
 * API's own address. A name that is mapped leads to its VM; <vm id>.<suffix> leads to port 3000 of
 * that VM without a mapping. Everything here is called by threads of the edge.
 */
#include "front/front.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
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
#include "edge/edge.h"
#include "vm/vm.h"
#include "zone/zone.h"

#define EDGE_FIELD "X-Pando-Edge: "

struct front {
	const struct conf *conf; /* weak, these three */
	struct store *store;
	struct vmm *vmm;
	struct zones *zones; /* owned, as are the following */
	struct domains *domains;
	struct certs *certs;
	struct acme *acme;
	struct edge *edge;
	int tls_fd, http_fd; /* until passed to the edge */
	char tls_at[64], http_at[64];
	struct sockaddr_storage api_addr;
	socklen_t api_len;
	char field[sizeof(EDGE_FIELD) + 64 + 2]; /* authenticates the edge to the API */
	char secret[64 + 1];
};

/* ---- what the edge asks ---- */

static bool own_name(const struct front *f, const char *host)
{
	static const char *const words[] = { "api.", "git.", "dashboard." };
	const char *base = f->conf->domain;

	if (strcmp(host, base) == 0)
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		size_t n = strlen(words[i]);

		if (strncmp(host, words[i], n) == 0 && strcmp(host + n, base) == 0)
			return true;
	}
	return false;
}

/* <vm id>.<base domain> or <vm id>.style.dev */
static bool vm_name(const struct front *f, const char *host, struct domains_way *ret)
{
	const char *dot = strchr(host, '.');
	struct err none = { 0 };

	if (!dot || dot - host != ID_LEN ||
	    (strcmp(dot + 1, f->conf->domain) != 0 && strcmp(dot + 1, DOMAINS_PREVIEW) != 0))
		return false;
	snprintf(ret->vm, sizeof(ret->vm), "%.*s", ID_LEN, host);
	ret->port = DOMAINS_VM_PORT;
	return id_valid("", ret->vm) && vmm_owner(f->vmm, ret->vm, ret->account, &none) == 0;
}

static void route(void *ctx, const char *host, struct edge_target *ret)
{
	struct front *f = ctx;
	struct domains_way way = { .port = 0 };
	struct sockaddr_in *sa = (struct sockaddr_in *)&ret->addr;

	*ret = (struct edge_target){ .kind = EDGE_NOWHERE };
	if (own_name(f, host)) {
		ret->kind = EDGE_ADDR;
		ret->addr = f->api_addr;
		ret->addr_len = f->api_len;
		ret->field = f->field;
		return;
	}
	if (domains_route(f->domains, host, &way) < 0 && !vm_name(f, host, &way))
		return;
	ret->kind = EDGE_VM;
	ret->port = way.port;
	memcpy(ret->vm, way.vm, sizeof(ret->vm));
	snprintf(ret->account, sizeof(ret->account), "%s", way.account);
	*sa = (struct sockaddr_in){ .sin_family = AF_INET,
		                    .sin_port = htons(way.port),
		                    .sin_addr.s_addr = inet_addr(VM_GUEST_ADDR) };
	ret->addr_len = sizeof(*sa);
}

static enum edge_look look(void *ctx, struct edge_target *t)
{
	struct front *f = ctx;
	struct err none = { 0 };
	struct vm_info v;

	if (vmm_get(f->vmm, t->account, t->vm, &v, &none) < 0)
		return EDGE_GONE;
	memcpy(t->instance, v.instance, sizeof(t->instance));
	switch (v.state) {
	case VM_RUNNING:
		return EDGE_RUNNING;
	case VM_STARTING:
	case VM_BUILDING:
		return EDGE_STARTING;
	default:
		return EDGE_ASLEEP;
	}
}

static int open_way(void *ctx, struct edge_target *t, int *ret_fd, struct err *err)
{
	struct front *f = ctx;
	struct err none = { 0 };
	struct vm_socket s = { .fd = -1 };
	int r = vmm_socket(f->vmm, t->account, t->vm, &s, err);

	if (r == -ENOENT)
		domains_reload(f->domains, &none); /* its names were deleted with it */
	if (r < 0)
		return r;
	memcpy(t->instance, s.instance, sizeof(t->instance));
	t->fresh_ms = s.fresh_ms;
	*ret_fd = s.fd;
	return 0;
}

static int give_cert(void *ctx, const char *name, SSL *ssl)
{
	struct front *f = ctx;
	struct domains_way way;
	struct err err = { 0 };
	bool known = domains_route(f->domains, name, &way) == 0;

	return certs_use(f->certs, name, known, ssl, &err);
}

static int make_cert(void *ctx, const char *name, struct err *err)
{
	struct front *f = ctx;
	struct domains_way way;

	return certs_make(f->certs, name, domains_route(f->domains, name, &way) == 0, err);
}

static void machine_ended(void *ctx, const char *instance)
{
	edge_ended(((struct front *)ctx)->edge, instance);
}

static int challenge(void *ctx, const char *token, char ret[EDGE_ACME_TEXT_MAX])
{
	struct front *f = ctx;

	return f->acme ? acme_challenge(f->acme, token, ret, EDGE_ACME_TEXT_MAX) : -ENOENT;
}

/* Names ACME should certify: mapped ones below verified domains, and requested wildcards.
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
	v = calloc(n + n_own + 1, sizeof(*v));
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

static int listen_on(const char *text, int *ret_fd, char ret_at[64], struct err *err)
{
	struct sockaddr_storage sa = { 0 };
	socklen_t len = sizeof(sa);
	char addr[INET6_ADDRSTRLEN] = "", port[8] = "";
	int fd;

	*ret_fd = -1;
	if (strcmp(text, "none") == 0)
		return 0;
	fd = sock_tcp_listen(text, err);
	if (fd < 0)
		return err_wrap(err, fd, "edge");
	if (getsockname(fd, (struct sockaddr *)&sa, &len) == 0 &&
	    getnameinfo((struct sockaddr *)&sa, len, addr, sizeof(addr), port, sizeof(port),
	                NI_NUMERICHOST | NI_NUMERICSERV) == 0)
		snprintf(ret_at, 64, sa.ss_family == AF_INET6 ? "[%s]:%s" : "%s:%s", addr, port);
	*ret_fd = fd;
	return 0;
}

static void front_freep(struct front **f)
{
	front_free(*f);
}

int front_new(const struct conf *conf, struct store *store, struct vmm *vmm, struct front **ret,
              struct err *err)
{
	AUTO(front_freep) struct front *f = calloc(1, sizeof(*f));
	const char *suffixes[] = { conf->domain, DOMAINS_PREVIEW };
	struct domains_conf dc = { .base = conf->domain, .resolver = conf->resolver };
	unsigned char raw[32];
	char dir[300], ns[DOMAIN_SIZE];
	int r;

	if (!f)
		return err_set(err, -ENOMEM, "out of memory");
	*f = (struct front){
		.conf = conf, .store = store, .vmm = vmm, .tls_fd = -1, .http_fd = -1
	};
	random_bytes(raw, sizeof(raw));
	hex_encode(raw, sizeof(raw), f->secret);
	snprintf(f->field, sizeof(f->field), EDGE_FIELD "%s\r\n", f->secret);
	snprintf(dir, sizeof(dir), "%s/certs", conf->data_dir);
	snprintf(ns, sizeof(ns), "%s%s", *conf->dns_name ? "" : "ns.",
	         *conf->dns_name ? conf->dns_name : conf->domain);
	if ((r = listen_on(conf->edge_listen, &f->tls_fd, f->tls_at, err)) < 0 ||
	    (r = listen_on(conf->edge_http_listen, &f->http_fd, f->http_at, err)) < 0 ||
	    (r = zones_new(store, ns, &f->zones, err)) < 0 ||
	    (strcmp(conf->dns_listen, "none") != 0 &&
	     (r = zones_listen(f->zones, conf->dns_listen, err)) < 0))
		return r;
	dc.zones = f->zones;
	dc.mapped = names_mapped;
	dc.ctx = f;
	if ((r = domains_new(&dc, store, vmm, &f->domains, err)) < 0 ||
	    (r = certs_open_sealed(dir, suffixes, ARRAY_SIZE(suffixes), store_secrets(store),
	                           &f->certs, err)) < 0)
		return r;
	*ret = TAKE_PTR(f);
	return 0;
}

void front_deps(struct front *f, struct api_deps *deps)
{
	deps->edge_secret = f->secret;
	deps->domains = f->domains;
	deps->zones = f->zones;
	deps->certs = f->certs;
	deps->front = f;
	deps->wildcard = front_wildcard;
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
	struct edge_ops ops = { route, look, open_way, give_cert, make_cert, challenge, f };
	struct edge_conf ec = { .tls_fd = TAKE_FD(f->tls_fd),
		                .http_fd = TAKE_FD(f->http_fd),
		                .wait_ms = f->conf->edge_wait_s * 1000,
		                .answer_ms = f->conf->edge_answer_s * 1000,
		                .stall_ms = f->conf->edge_stall_s * 1000,
		                .idle_ms = f->conf->edge_idle_s * 1000,
		                .addr_conns = f->conf->edge_addr_conns,
		                .addr_requests = f->conf->edge_addr_requests,
		                .fd_reserve = f->conf->edge_fd_reserve,
		                .hsts_s = f->conf->edge_hsts_s };
	char dir[300];
	struct acme_conf ac = { .dir = dir,
		                .url = f->conf->acme_url,
		                .email = f->conf->acme_email,
		                .dns_hook = f->conf->acme_dns_hook,
		                .renew_days = f->conf->acme_renew_days,
		                .wanted = wanted,
		                .ctx = f };
	int r = api_address(f, api, err);

	snprintf(dir, sizeof(dir), "%s/certs", f->conf->data_dir);
	if (r == 0 && *f->conf->acme_url)
		r = acme_start(&ac, f->certs, &f->acme, err);
	if (r == 0)
		r = zones_serve(f->zones, err);
	if (r < 0 || (r = edge_start(&ec, &ops, &f->edge, err)) < 0)
		return r;
	vmm_on_ended(f->vmm, machine_ended, f);
	edge_ended(f->edge, NULL); /* whatever ended before we subscribed */
	return 0;
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
	vmm_on_ended(f->vmm, NULL, NULL);
	edge_stop(f->edge);
}

struct front *front_free(struct front *f)
{
	if (!f)
		return NULL;
	front_stop(f);
	edge_free(f->edge);
	acme_stop(f->acme);
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
