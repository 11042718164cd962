/* SPDX-License-Identifier: Apache-2.0 */
/*
 * domains.c - who may map which name, and the edge's routing table
 *
 * Theory of operation: every change goes to the store first; then the table is read again from it,
 * completely, under one lock, so that the two cannot diverge. Names change rarely and are looked up
 * with every request.
 */
#include "domains/domains.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/id.h"
#include "base/lock.h"
#include "base/log.h"
#include "vm/vm.h"
#include "zone/zone.h"

#define BUCKETS 4096u

struct row {
	struct row *next;
	struct store_mapping m;
};

struct domains {
	char base[DOMAIN_SIZE];
	char resolver[64];
	struct store *store;       /* weak */
	struct vmm *vmm;           /* weak */
	struct zones *zones;       /* weak, or NULL */
	void (*mapped)(void *ctx); /* or NULL */
	void (*changed)(void *ctx);
	void *ctx;
	struct mutex change;               /* one change and its reload at a time */
	struct rwlock lock;                /* rows, bucket */
	struct row *rows GUARDED_BY(lock); /* owned */
	size_t n GUARDED_BY(lock);
	struct row *bucket[BUCKETS] GUARDED_BY(lock);
};

static unsigned hash(const char *s)
{
	unsigned h = 2166136261u;

	for (; *s; s++)
		h = (h ^ (unsigned char)*s) * 16777619u;
	return h % BUCKETS;
}

/* ---- the table ---- */

static int reload(struct domains *d, struct err *err)
{
	autofree struct store_mapping *m = NULL;
	autofree struct row *rows = NULL;
	size_t n = 0;
	int r = store_mapping_list(d->store, NULL, &m, &n, err);

	if (r < 0)
		return r;
	rows = calloc(n + 1, sizeof(*rows));
	if (!rows)
		return err_set(err, -ENOMEM, "out of memory");
	rwlock_wrlock(&d->lock);
	memset(d->bucket, 0, sizeof(d->bucket));
	for (size_t i = 0; i < n; i++) {
		struct row **b = &d->bucket[hash(m[i].domain)];

		rows[i] = (struct row){ .next = *b, .m = m[i] };
		*b = &rows[i];
	}
	free(d->rows);
	d->rows = TAKE_PTR(rows);
	d->n = n;
	rwlock_unlock(&d->lock);
	if (d->changed)
		d->changed(d->ctx);
	return 0;
}

int domains_reload(struct domains *d, struct err *err)
{
	LOCK_SCOPE(&d->change);
	return reload(d, err);
}

/* Of the same name, to the same place, for the same account. */
static bool leads_alike(const struct store_mapping *a, const struct store_mapping *b)
{
	return strcmp(a->domain, b->domain) == 0 && strcmp(a->id, b->id) == 0 &&
	       strcmp(a->account, b->account) == 0 && strcmp(a->vm, b->vm) == 0 &&
	       strcmp(a->deployment, b->deployment) == 0 && a->port == b->port &&
	       a->speaks == b->speaks && strcmp(a->ownership, b->ownership) == 0;
}

int domains_refresh(struct domains *d, struct err *err)
{
	autofree struct store_mapping *m = NULL;
	bool same;
	size_t n = 0;
	int r = store_mapping_list(d->store, NULL, &m, &n, err);

	if (r < 0)
		return r;
	LOCK_SCOPE(&d->change);
	rwlock_rdlock(&d->lock);
	same = n == d->n;
	for (size_t i = 0; same && i < n; i++)
		same = leads_alike(&d->rows[i].m, &m[i]);
	rwlock_unlock(&d->lock);
	return same ? 0 : reload(d, err);
}

static const struct row *find(const struct domains *d, const char *name) REQUIRES_SHARED(&d->lock)
{
	const struct row *r = d->bucket[hash(name)];

	while (r && strcmp(r->m.domain, name) != 0)
		r = r->next;
	return r;
}

int domains_route(struct domains *d, const char *name, struct domains_way *ret)
{
	const char *dot = strchr(name, '.');
	char wild[DOMAIN_SIZE + 2];
	const struct row *r;

	rwlock_rdlock(&d->lock);
	r = find(d, name);
	if (!r && dot) {
		snprintf(wild, sizeof(wild), "*%s", dot);
		r = find(d, wild);
	}
	if (r) {
		*ret = (struct domains_way){ .port = (uint16_t)r->m.port,
			                     .custom = *r->m.ownership != '\0',
			                     .speaks = (enum domain_speaks)r->m.speaks,
			                     .wild = *r->m.domain == '*' };
		memcpy(ret->account, r->m.account, sizeof(ret->account));
		memcpy(ret->vm, r->m.vm, sizeof(ret->vm));
		memcpy(ret->deployment, r->m.deployment, sizeof(ret->deployment));
	}
	rwlock_unlock(&d->lock);
	return r ? 0 : -ENOENT;
}

int domains_names(struct domains *d, const char *vm, char (**ret)[DOMAIN_SIZE], size_t *ret_n,
                  struct err *err)
{
	char(*v)[DOMAIN_SIZE];
	size_t n = 0;

	rwlock_rdlock(&d->lock);
	v = calloc(d->n + 1, sizeof(*v));
	for (size_t i = 0; v && i < d->n; i++) {
		const struct store_mapping *m = &d->rows[i].m;

		if (vm ? strcmp(m->vm, vm) == 0 : *m->ownership && m->speaks != DOMAIN_TLS)
			memcpy(v[n++], m->domain, sizeof(*v));
	}
	rwlock_unlock(&d->lock);
	if (!v)
		return err_set(err, -ENOMEM, "out of memory");
	*ret = v;
	*ret_n = n;
	return 0;
}

/* ---- verifications ---- */

static bool preview(const struct domains *d, const char *name)
{
	return domain_below(name, d->base) || domain_below(name, DOMAINS_PREVIEW);
}

int domains_verify(struct domains *d, const char *account, const char *domain,
                   struct store_verification *ret, struct err *err)
{
	struct store_verification v = { .created_ms = clock_wall_ms() };
	struct store_domain own;
	struct err none = { 0 };
	uint8_t secret[16];
	int r = domain_normal(domain, false, v.domain, err);

	if (r < 0)
		return r;
	if (preview(d, v.domain) || strcmp(v.domain, d->base) == 0 ||
	    strcmp(v.domain, DOMAINS_PREVIEW) == 0)
		return err_tag(err, -EINVAL, ERR_INVALID_DOMAIN,
		               "'%s' needs no verification: map it directly", v.domain);
	if (store_domain_above(d->store, v.domain, &own, &none) == 0 &&
	    strcmp(own.domain, v.domain) == 0 && strcmp(own.account, account) == 0)
		return err_tag(err, -EEXIST, ERR_DOMAIN_ALREADY_EXISTS, "'%s' is already verified",
		               v.domain);
	id_make("dv-", v.id);
	snprintf(v.account, sizeof(v.account), "%s", account);
	random_bytes(secret, sizeof(secret));
	hex_encode(secret, sizeof(secret), v.code);
	return store_verification_add(d->store, &v, ret, err);
}

int domains_complete(struct domains *d, const char *account, const char *id_or_domain,
                     char ret_domain[DOMAIN_SIZE], struct err *err)
{
	char key[DOMAIN_SIZE], name[DOMAIN_SIZE + sizeof(DOMAINS_TXT_NAME) + 1];
	struct store_verification v;
	int r;

	if (domain_normal(id_or_domain, false, key, NULL) < 0)
		snprintf(key, sizeof(key), "%s", id_or_domain);
	r = store_verification_get(d->store, account, key, &v, err);
	if (r < 0)
		return r;
	snprintf(name, sizeof(name), "%s.%s", DOMAINS_TXT_NAME, v.domain);
	r = txt_has(d->resolver, name, v.code, err);
	if (r < 0) {
		if (err)
			err->tag = ERR_FAILED_TO_VERIFY_DOMAIN;
		return r;
	}
	if (r == 0)
		return err_tag(err, -EACCES, ERR_DOMAIN_OWNERSHIP_VERIFICATION_FAILED,
		               "%s has no TXT record with the verification code yet", name);
	LOCK_SCOPE(&d->change);
	if ((r = store_domain_own(d->store, &v, err)) < 0 || (r = reload(d, err)) < 0 ||
	    (d->zones && (r = zones_reload(d->zones, err)) < 0))
		return r;
	memcpy(ret_domain, v.domain, DOMAIN_SIZE);
	return 0;
}

int domains_cancel(struct domains *d, const char *account, const char *domain, const char *code,
                   struct store_verification *ret, struct err *err)
{
	char key[DOMAIN_SIZE];
	struct store_verification v;
	int r;

	if ((r = domain_normal(domain, false, key, err)) < 0 ||
	    (r = store_verification_get(d->store, account, key, &v, err)) < 0)
		return r;
	if (code && strcmp(code, v.code) != 0)
		return err_tag(err, -ENOENT, ERR_VERIFICATION_NOT_FOUND,
		               "no verification of '%s' has that code", key);
	r = store_verification_delete(d->store, v.id, err);
	if (r >= 0)
		*ret = v;
	return r;
}

/* ---- mappings ---- */

static int taken(const char *name, struct err *err)
{
	return err_tag(err, -EEXIST, ERR_DOMAIN_ALREADY_EXISTS, "'%s' is taken", name);
}

/* Names reserved for the server. */
static bool reserved(const struct domains *d, const char *name)
{
	static const char *const words[] = { "api", "git", "dashboard" };
	char own[DOMAIN_SIZE + 16];

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		snprintf(own, sizeof(own), "%s.%s", words[i], d->base);
		if (strcmp(name, own) == 0)
			return true;
	}
	return strcmp(name, d->base) == 0 || strcmp(name, DOMAINS_PREVIEW) == 0;
}

/* The name, and its parents below the suffix, must not belong to another account. */
static int preview_free(struct domains *d, const char *account, const char *name, struct err *err)
{
	for (const char *p = name; p && preview(d, p);
	     p = strchr(p, '.') ? strchr(p, '.') + 1 : NULL) {
		struct store_mapping m;
		struct err none = { 0 };

		if (store_mapping_get(d->store, p, &m, &none) == 0 &&
		    strcmp(m.account, account) != 0)
			return taken(name, err);
	}
	return 0;
}

/* A VM's own name (its id as the label) can only be mapped to that VM. */
static int vm_label(struct domains *d, const char *account, const char *name, struct err *err)
{
	char label[ID_SIZE];
	struct vm_info v;
	struct err none = { 0 };
	size_t n = strcspn(name, ".");

	if (n != ID_LEN)
		return 0;
	snprintf(label, sizeof(label), "%.*s", (int)n, name);
	if (!id_valid("", label))
		return 0;
	return vmm_get(d->vmm, account, label, &v, &none) < 0 ? taken(name, err) : 0;
}

/* ret_ownership: id of the verified domain above it, "" for a preview name. */
static int check_name(struct domains *d, const char *account, const char *name,
                      char ret_ownership[ID_SIZE], struct err *err)
{
	bool star = strncmp(name, "*.", 2) == 0;
	struct store_domain own;
	struct err none = { 0 };
	int r;

	ret_ownership[0] = '\0';
	if (reserved(d, name))
		return taken(name, err);
	if (preview(d, star ? name + 2 : name) || (star && reserved(d, name + 2))) {
		if (star)
			return err_tag(err, -EINVAL, ERR_INVALID_DOMAIN,
			               "'%s': a preview name cannot be a wildcard", name);
		if ((r = vm_label(d, account, name, err)) < 0)
			return r;
		return preview_free(d, account, name, err);
	}
	r = store_domain_above(d->store, star ? name + 2 : name, &own, &none);
	if (r < 0 && r != -ENOENT)
		return r;
	if (r < 0 || strcmp(own.account, account) != 0)
		return err_tag(err, -EACCES, ERR_DOMAIN_OWNERSHIP_NOT_VERIFIED,
		               "'%s' is not below a domain that this account has verified", name);
	memcpy(ret_ownership, own.id, ID_SIZE);
	return 0;
}

int domains_may_map(struct domains *d, const char *account, const char *domain, struct err *err)
{
	char name[DOMAIN_SIZE], ownership[ID_SIZE];
	int r = domain_normal(domain, true, name, err);

	return r < 0 ? r : check_name(d, account, name, ownership, err);
}

/* m: what it is to lead to. */
static int map_name(struct domains *d, const char *account, const char *domain,
                    struct store_mapping m, struct store_mapping *ret, struct err *err)
{
	int r;

	m.created_ms = clock_wall_ms();
	if ((r = domain_normal(domain, true, m.domain, err)) < 0)
		return r;
	LOCK_SCOPE(&d->change);
	if ((r = check_name(d, account, m.domain, m.ownership, err)) < 0)
		return r;
	id_make("map-", m.id);
	snprintf(m.account, sizeof(m.account), "%s", account);
	if ((r = store_mapping_put(d->store, &m, ret, err)) < 0)
		return r;
	return reload(d, err);
}

int domains_map(struct domains *d, const char *account, const char *domain, const char *vm,
                uint32_t port, enum domain_speaks speaks, struct store_mapping *ret,
                struct err *err)
{
	struct store_mapping m = { .port = port, .speaks = speaks };
	int r;

	if (port < 1 || port > 65535)
		return err_tag(err, -EINVAL, ERR_INVALID_PARAMETERS,
		               "'vmPort' must be a number from 1 to 65535");
	snprintf(m.vm, sizeof(m.vm), "%s", vm);
	r = map_name(d, account, domain, m, ret, err);
	if (r >= 0 && d->mapped)
		d->mapped(d->ctx);
	return r;
}

int domains_map_deployment(struct domains *d, const char *account, const char *domain,
                           const char *deployment, struct store_mapping *ret, struct err *err)
{
	struct store_mapping m = { .speaks = DOMAIN_HTTP1 };
	int r;

	snprintf(m.deployment, sizeof(m.deployment), "%s", deployment);
	r = map_name(d, account, domain, m, ret, err);
	if (r >= 0 && d->mapped)
		d->mapped(d->ctx);
	return r;
}

int domains_map_new(struct domains *d, const char *account, const struct domain_wish *w, size_t n,
                    const char *vm, struct err *err)
{
	struct store_mapping m;
	struct err drop = { 0 };
	int r = 0;

	for (size_t i = 0; r == 0 && i < n; i++)
		r = domains_map(d, account, w[i].domain, vm, w[i].port, w[i].speaks, &m, err);
	if (r < 0 && vmm_delete(d->vmm, account, vm, NULL, &drop) < 0)
		log_obj(LOG_LV_WARN, "vm", vm, "has not all of its names, cannot be deleted: %s",
		        drop.msg);
	return r;
}

int domains_unmap(struct domains *d, const char *account, const char *domain, struct err *err)
{
	char name[DOMAIN_SIZE];
	int r = domain_normal(domain, true, name, err);

	if (r < 0)
		return r;
	LOCK_SCOPE(&d->change);
	if ((r = store_mapping_delete(d->store, account, name, err)) < 0)
		return r;
	return reload(d, err);
}

int domains_wildcard(struct domains *d, const char *account, const char *domain,
                     char ret_domain[DOMAIN_SIZE], struct err *err)
{
	struct store_domain own;
	struct err none = { 0 };
	char name[DOMAIN_SIZE];
	int r = domain_normal(strncmp(domain, "*.", 2) == 0 ? domain + 2 : domain, false, name,
	                      err);

	if (r < 0)
		return r;
	if (store_domain_above(d->store, name, &own, &none) < 0 ||
	    strcmp(own.account, account) != 0 || strcmp(own.domain, name) != 0)
		return err_tag(err, -EACCES, ERR_NO_DOMAIN_OWNERSHIP,
		               "'%s' is not a domain that this account has verified", name);
	r = store_domain_wildcard(d->store, name, err);
	if (r >= 0)
		memcpy(ret_domain, name, DOMAIN_SIZE);
	return MIN(r, 0);
}

/* ---- life ---- */

struct domains *domains_free(struct domains *d)
{
	if (!d)
		return NULL;
	rwlock_unshared(&d->lock);
	rwlock_destroy(&d->lock);
	mutex_destroy(&d->change);
	free(d->rows);
	free(d);
	return NULL;
}

int domains_new(const struct domains_conf *c, struct store *store, struct vmm *vmm,
                struct domains **ret, struct err *err)
{
	struct domains *d = calloc(1, sizeof(*d));
	int r;

	if (!d)
		return err_set(err, -ENOMEM, "out of memory");
	snprintf(d->base, sizeof(d->base), "%s", c->base);
	snprintf(d->resolver, sizeof(d->resolver), "%s", c->resolver);
	d->store = store;
	d->vmm = vmm;
	d->zones = c->zones;
	d->mapped = c->mapped;
	d->changed = c->changed;
	d->ctx = c->ctx;
	mutex_init(&d->change, "domains change");
	rwlock_init(&d->lock, "domains");
	r = reload(d, err);
	if (r < 0)
		domains_free(d);
	else
		*ret = d;
	return r;
}
