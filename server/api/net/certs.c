/* SPDX-License-Identifier: Apache-2.0 */
/*
 * certs.c - GET /domains/v1/certs: which certificates there are, and when they end
 *
 * An account sees those of names that are its own: verified domains, names below them, mapped
 * names. The operator sees all, also the server's own and those of names that are no longer mapped.
 */
#include "cert/cert.h"

#include <errno.h>
#include <string.h>

#include "api/net/shared.h"
#include "base/auto.h"
#include "base/clock.h"
#include "store/store_domain.h"

#define SOON_S (INT64_C(14) * 86400)

struct names {
	struct store_domain *domains;   /* owned */
	struct store_mapping *mappings; /* owned */
	size_t n_domains, n_mappings;
};

static void names_done(struct names *n)
{
	free(n->domains);
	free(n->mappings);
}

/* Is it the domain, or below it? */
static bool is_below(const char *name, const char *domain)
{
	size_t n = strlen(name), k = strlen(domain);

	return n >= k && strcmp(name + n - k, domain) == 0 && (n == k || name[n - k - 1] == '.');
}

static bool is_own(const struct names *own, const char *name)
{
	const char *bare = name + (strncmp(name, "*.", 2) == 0 ? 2 : 0);

	for (size_t i = 0; i < own->n_domains; i++)
		if (is_below(bare, own->domains[i].domain))
			return true;
	for (size_t i = 0; i < own->n_mappings; i++)
		if (strcmp(name, own->mappings[i].domain) == 0)
			return true;
	return false;
}

static const char *state_of(const struct cert_info *c, int64_t now)
{
	return c->not_after <= now            ? "expired"
	       : c->not_before > now          ? "notYetValid"
	       : c->not_after - now <= SOON_S ? "expiring"
	                                      : "valid";
}

int api_cert_list(struct request *req, struct reply *res, struct err *err)
{
	const struct api_deps *d = deps_of(req);
	const char *account = who_of(req)->account;
	AUTO(names_done) struct names own = { 0 };
	autofree struct cert_info *c = NULL;
	autojson json_t *list = json_array();
	bool all = who_of(req)->scopes & SCOPE_ADMIN;
	int64_t now = clock_wall_ms() / 1000;
	size_t n = 0;
	int r;

	if (!d->certs)
		return err_tag(err, -EAGAIN, ERR_SERVICE_UNAVAILABLE,
		               "domains are not available on this server");
	if ((r = certs_list(d->certs, &c, &n, err)) < 0 ||
	    (r = store_domain_list(d->store, account, &own.domains, &own.n_domains, err)) < 0 ||
	    (r = store_mapping_list(d->store, account, &own.mappings, &own.n_mappings, err)) < 0)
		return r;
	for (size_t i = 0; i < n; i++)
		if ((all || is_own(&own, c[i].name)) &&
		    json_array_append_new(list,
		                          json_pack("{s:s, s:s, s:o, s:o, s:s}", "name", c[i].name,
		                                    "source", c[i].source, "notBefore",
		                                    shape_time(c[i].not_before * 1000), "notAfter",
		                                    shape_time(c[i].not_after * 1000), "state",
		                                    state_of(&c[i], now))) < 0)
			return err_set(err, -ENOMEM, "out of memory");
	return reply_json(res, json_pack("{s:O}", "certs", list), err);
}
