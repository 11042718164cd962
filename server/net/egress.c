/* SPDX-License-Identifier: Apache-2.0 */
/*
 * egress.c - decides what a policy allows; pure functions
 *
 * The kernel decides by address and port, the DNS forwarder by name, the proxy by
 * all three. They must agree, so all of it is here: egress_plan() gives nft
 * the same rules that egress_conn_allowed() applies in the proxy.
 */
#include "net/egress.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/auto.h"
#include "base/err.h"

struct egress *egress_ref(struct egress *e)
{
	if (e)
		__atomic_add_fetch(&e->refs, 1, __ATOMIC_RELAXED);
	return e;
}

void egress_unref(struct egress *e)
{
	if (!e || __atomic_sub_fetch(&e->refs, 1, __ATOMIC_ACQ_REL))
		return;
	for (size_t i = 0; i < e->n_inject; i++)
		for (size_t k = 0; k < e->inject[i].n; k++) {
			struct egress_header *h = &e->inject[i].headers[k];

			if (h->value)
				explicit_bzero(h->value, strlen(h->value));
			free(h->name);
			free(h->value);
		}
	free(e);
}

/* The previous value of a header; NULL: none. */
static const char *old_value(const struct egress *before, const char *domain, const char *name)
{
	for (size_t i = 0; before && i < before->n_inject; i++) {
		const struct egress_inject *in = &before->inject[i];

		for (size_t k = 0; !strcmp(in->domain, domain) && k < in->n; k++)
			if (!strcasecmp(in->headers[k].name, name))
				return in->headers[k].value;
	}
	return NULL;
}

static int keep(struct egress_header *h, const char *domain, const struct egress *before,
                struct err *err)
{
	const char *value = old_value(before, domain, h->name);
	char *copy = value ? strdup(value) : NULL;

	if (!value)
		return err_set(
		        err, -EINVAL,
		        "the value of header '%s' for '%s' is masked, and there is none to keep",
		        h->name, domain);
	if (!copy)
		return err_set(err, -ENOMEM, "out of memory");
	free(h->value);
	h->value = copy;
	h->keep = false;
	return 0;
}

int egress_keep_secrets(struct egress *e, const struct egress *before, struct err *err)
{
	int r;

	for (size_t i = 0; i < e->n_inject; i++)
		for (size_t k = 0; k < e->inject[i].n; k++)
			if (e->inject[i].headers[k].keep &&
			    (r = keep(&e->inject[i].headers[k], e->inject[i].domain, before, err)) <
			            0)
				return r;
	return 0;
}

bool egress_domain_matches(const char *domain, const char *name)
{
	size_t n = strlen(name), d;

	if (strncmp(domain, "*.", 2) != 0)
		return !strcasecmp(domain, name);
	d = strlen(domain + 1); /* ".example.com" */
	return n > d && !strcasecmp(name + n - d, domain + 1);
}

static bool port_in(const struct egress_rule *r, uint16_t port)
{
	for (unsigned i = 0; i < r->n_ports; i++)
		if (port >= r->ports[i].lo && port <= r->ports[i].hi)
			return true;
	return !r->n_ports;
}

static bool covers_all(const struct egress_rule *r)
{
	return !*r->domain && (!r->has_cidr || r->prefix == 0);
}

bool egress_is_default(const struct egress *e)
{
	return !e || (e->mode == PRIV_EGRESS_OPEN && !e->n_inject && !e->up_kbit && !e->down_kbit);
}

bool egress_name_allowed(const struct egress *e, const char *name)
{
	if (!e || e->mode == PRIV_EGRESS_OPEN)
		return true;
	if (e->mode == PRIV_EGRESS_CLOSED)
		return false;
	for (size_t i = 0; i < e->n_rules; i++) {
		const struct egress_rule *r = &e->rules[i];
		bool about = *r->domain ? egress_domain_matches(r->domain, name) : covers_all(r);

		/* Denied on some ports only: the name may still be resolved. */
		if (about && (r->allow || !r->n_ports))
			return r->allow;
	}
	return false;
}

uint32_t egress_name_rules(const struct egress *e, const char *name,
                           uint32_t ret[PRIV_PIN_SETS_MAX])
{
	uint32_t n = 0;

	if (!e || e->mode != PRIV_EGRESS_RULES)
		return 0;
	for (uint32_t i = 0; i < e->n_rules && n < PRIV_PIN_SETS_MAX; i++) {
		const struct egress_rule *r = &e->rules[i];

		if (!*r->domain || !egress_domain_matches(r->domain, name))
			continue;
		if (!r->allow && !r->n_ports)
			break; /* no later rule is reached */
		ret[n++] = i;
	}
	return n;
}

bool egress_conn_allowed(const struct egress *e, const char *name, bool pinned, uint32_t addr,
                         uint16_t port)
{
	if (!e || e->mode == PRIV_EGRESS_OPEN)
		return true;
	if (e->mode == PRIV_EGRESS_CLOSED)
		return false;
	for (size_t i = 0; i < e->n_rules; i++) {
		const struct egress_rule *r = &e->rules[i];

		if (!port_in(r, port))
			continue;
		if (*r->domain) {
			/* To be allowed by its name, it must go to an address of that name. */
			if (*name && egress_domain_matches(r->domain, name) &&
			    (pinned || !r->allow))
				return r->allow;
		} else if (!r->has_cidr || (addr & priv_mask(r->prefix)) == r->addr) {
			return r->allow;
		}
	}
	return false;
}

/*
 * Names of this server have no address of their own, so rules by address say nothing about them,
 * but for those about all addresses. One that names a rule denies must not be reached by a
 * connection that does not say its name.
 */
bool egress_here_allowed(const struct egress *e, const char *name, uint16_t port)
{
	if (!e || e->mode == PRIV_EGRESS_OPEN)
		return true;
	return *name && egress_conn_allowed(e, name, /* pinned= */ true, /* addr= */ 0, port);
}

const struct egress_inject *egress_inject_for(const struct egress *e, const char *name)
{
	for (size_t i = 0; e && e->mode != PRIV_EGRESS_CLOSED && i < e->n_inject; i++)
		if (egress_domain_matches(e->inject[i].domain, name))
			return &e->inject[i];
	return NULL;
}

static bool has_domains(const struct egress *e)
{
	for (size_t i = 0; e->mode == PRIV_EGRESS_RULES && i < e->n_rules; i++)
		if (*e->rules[i].domain)
			return true;
	return false;
}

bool egress_wants_proxy(const struct egress *e)
{
	return e && e->mode != PRIV_EGRESS_CLOSED && (e->n_inject || has_domains(e));
}

void egress_plan(const struct egress *e, uint32_t mark, struct priv_egress *ret)
{
	*ret = (struct priv_egress){ .mark = mark };
	if (!e)
		return;
	ret->mode = e->mode;
	ret->up_kbit = e->up_kbit;
	ret->down_kbit = e->down_kbit;
	ret->proxy_http = has_domains(e);
	ret->proxy_tls = egress_wants_proxy(e);
	if (e->mode != PRIV_EGRESS_RULES)
		return;
	ret->n_rules = (uint32_t)e->n_rules;
	for (size_t i = 0; i < e->n_rules; i++) {
		const struct egress_rule *r = &e->rules[i];
		struct priv_rule *to = &ret->rules[i];

		*to = (struct priv_rule){ .allow = r->allow,
			                  .kind = *r->domain    ? PRIV_RULE_PINNED
			                          : r->has_cidr ? PRIV_RULE_CIDR
			                                        : PRIV_RULE_ANY,
			                  .addr = r->addr,
			                  .prefix = r->prefix,
			                  .n_ports = r->n_ports };
		for (unsigned k = 0; k < r->n_ports; k++) {
			to->ports[k].lo = r->ports[k].lo;
			to->ports[k].hi = r->ports[k].hi;
		}
	}
}
