/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ways.c - where a name leads, whether its VM runs, a connection to it, its certificate, its log
 *
 * All of it is called by threads of the edge, or of another node whose edge was asked for a VM of
 * this one. A VM of another node is reached through peer/; instances of deployments are each node's
 * own.
 */
#include "front/front_internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/id.h"
#include "base/sock.h"
#include "cert/acme.h"
#include "cert/cert.h"
#include "domains/domains.h"
#include "events/access.h"
#include "front/inside.h"
#include "front/visit.h"
#include "ports/ports.h"
#include "serverless/deploy.h"
#include "store/store_node.h"
#include "vm/vm.h"

#define CONNECT_MS 20 /* for a port to answer or refuse; then it goes on without us */

_Static_assert((int)DOMAIN_H2C == EDGE_H2C && (int)DOMAIN_TLS == EDGE_TLS, "one numbering");

const char *const ways_own_words[WAYS_OWN_WORDS] = { "api.", "git.", "dashboard." };

static bool own_name(const struct front *f, const char *host)
{
	const char *base = f->conf->domain;

	if (strcmp(host, base) == 0)
		return true;
	for (size_t i = 0; i < WAYS_OWN_WORDS; i++) {
		size_t n = strlen(ways_own_words[i]);

		if (strncmp(host, ways_own_words[i], n) == 0 && strcmp(host + n, base) == 0)
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
	return id_valid("", ret->vm) && (vmm_owner(f->vmm, ret->vm, ret->account, NULL) == 0 ||
	                                 elsewhere_owner(f, ret->vm, ret->account));
}

/* Where a name leads for everybody; the account it belongs to, if it is a VM's. */
static void ways_public(struct front *f, const char *host, struct edgehost_way *ret,
                        char account[ACCOUNT_SIZE])
{
	struct domains_way way = { .port = 0 };
	bool mapped = domains_route(f->domains, host, &way) == 0;

	*ret = (struct edgehost_way){ .cert = certs_number(f->certs, host, mapped) };
	if (own_name(f, host)) {
		ret->kind = EDGE_ADDR;
	} else if (mapped && *way.deployment) {
		ret->kind = f->serverless ? EDGE_VM : EDGE_NOWHERE;
		ret->many = true;
		memcpy(ret->vm, way.deployment, sizeof(ret->vm));
		snprintf(account, ACCOUNT_SIZE, "%s", way.account);
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

	ways_public(f, host + inside, ret, account);
	if (!inside || !inside_cert(f, host + 1, ret->kind == EDGE_NOWHERE, &alias))
		return;
	ways_public(f, alias.name, ret, account);
	ret->cert = certs_number(f->certs, alias.cert, /* own= */ true);
}

void ways_way(void *ctx, const char *host, struct edgehost_way *ret)
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

void ways_look(void *ctx, struct edgehost_way *w)
{
	struct front *f = ctx;
	struct err err = { 0 };
	struct place p;
	struct vm_info v;

	w->look = EDGE_GONE;
	if (w->many) {
		w->look = deploy_awake(f->serverless, w->vm) ? EDGE_RUNNING : EDGE_ASLEEP;
		return;
	}
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

static uint32_t mark_of(void *ctx, const char *vm)
{
	struct front *f = ctx;

	return edgehost_mark(f->edge, vm);
}

/* To an instance of a deployment, which may have to be started first. */
static int open_many(struct front *f, unsigned waiting, struct edgehost_way *ret, int *ret_fd,
                     struct err *err)
{
	struct deploy_way w;
	int r = deploy_open(f->serverless, ret->vm, waiting, mark_of, f, &w, err);

	if (r < 0)
		return r;
	ret->look = EDGE_RUNNING;
	ret->ticket = w.place.ticket;
	ret->mark = w.mark;
	memcpy(ret->machine, w.place.vm, sizeof(ret->machine));
	memcpy(ret->instance, w.instance, sizeof(ret->instance));
	*ret_fd = w.fd;
	return 0;
}

void ways_done(void *ctx, uint64_t ticket)
{
	struct front *f = ctx;

	deploy_done(f->serverless, ticket);
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
int ways_open(void *ctx, const char *host, struct edgehost_way *ret, int *ret_fd, struct err *err)
{
	struct front *f = ctx;
	unsigned waiting = ret->waiting;
	char account[ACCOUNT_SIZE];
	struct peer_socket s;
	struct place p;
	int r;

	find(f, host, ret, account);
	if (ret->many && ret->kind == EDGE_VM)
		return open_many(f, waiting, ret, ret_fd, err);
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

int ways_open_for_node(void *ctx, const char *host, struct peer_socket *ret, int *ret_fd,
                       struct err *err)
{
	struct front *f = ctx;
	struct edgehost_way way;
	char account[ACCOUNT_SIZE];
	int r;

	find(f, host, &way, account);
	if (way.kind != EDGE_VM || way.many)
		return err_set(err, -ENOENT, "'%s' leads to no VM", host);
	if (place_of_vm(f->peers, way.vm, err).kind != PLACE_HERE)
		return err_tag(err, -EHOSTUNREACH, ERR_NODE_UNAVAILABLE,
		               "VM %s is not on this node any more: try again in a few seconds",
		               way.vm);
	r = open_vm(f, account, &way, ret_fd, err);
	ret->fresh_ms = r < 0 ? 0 : way.fresh_ms;
	return r;
}

int ways_cert(void *ctx, const char *name, struct buf *ret, uint64_t *ret_number, struct err *err)
{
	struct front *f = ctx;
	bool inside = *name == EDGE_INSIDE, mapped;
	char account[ACCOUNT_SIZE];
	struct inside_alias alias;
	struct domains_way unused;
	struct edgehost_way w;

	name += inside;
	mapped = domains_route(f->domains, name, &unused) == 0;
	ways_public(f, name, &w, account);
	if (inside && inside_cert(f, name, w.kind == EDGE_NOWHERE, &alias))
		return certs_get(f->certs, alias.cert, /* own= */ true, ret, ret_number, err);
	return certs_get(f->certs, name, mapped, ret, ret_number, err);
}

int ways_challenge(void *ctx, const char *token, char ret[EDGE_ACME_TEXT_MAX])
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

void ways_line(void *ctx, const char *vm, const struct edge_line *l)
{
	struct front *f = ctx;
	struct domains_way way = { .port = 0 };
	struct access_line a;
	char name[DOMAIN_SIZE];

	if (!log_of(f, l->host, &way, name) ||
	    strcmp(*way.deployment ? way.deployment : way.vm, vm) != 0)
		return;
	visit_line(vm, l, &a);
	access_add(f->access, way.account, name, &a);
}
