/* SPDX-License-Identifier: Apache-2.0 */
/*
 * domains/domains.h - domains of accounts and their mappings; for api/ and main
 *
 * A name below the base domain or style.dev (a preview name) belongs to the account that maps it
 * first, for as long as the mapping lasts. Any other name needs a verified domain at or above it:
 * its DNS must have a TXT record with a code that only the account knows. The store is
 * authoritative; the edge's routing table is kept in memory beside it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/store_domain.h"

struct domains;
struct buf;
struct err;
struct store;
struct vmm;
struct zones;

#define DOMAINS_TXT_NAME \
	"_freestyle_custom_hostname" /* fixed by the wire protocol; prefix of the domain */
#define DOMAINS_PREVIEW "style.dev"
#define DOMAINS_PORT_DEFAULT 443 /* of `domains` on create */
#define DOMAINS_VM_PORT 3000     /* <vm id>.<suffix> without a mapping */

struct domains_conf {
	const char *base;          /* borrowed: the base domain */
	const char *resolver;      /* borrowed: address; "": the host's */
	struct zones *zones;       /* weak: notified when domains change owners; may be NULL */
	void (*mapped)(void *ctx); /* NULL, or called after names were mapped; must not block */
	/* NULL, or called when names lead elsewhere, before anybody is told; must not block */
	void (*changed)(void *ctx);
	void *ctx;
};
int domains_new(const struct domains_conf *c, struct store *store, struct vmm *vmm,
                struct domains **ret, struct err *err);
struct domains *domains_free(struct domains *d);

/* ---- verifications ---- */
int domains_verify(struct domains *d, const char *account, const char *domain,
                   struct store_verification *ret, struct err *err);
/* Looks the TXT record up: blocks for seconds. */
int domains_complete(struct domains *d, const char *account, const char *id_or_domain,
                     char ret_domain[DOMAIN_SIZE], struct err *err);
int domains_cancel(struct domains *d, const char *account, const char *domain, const char *code,
                   struct store_verification *ret, struct err *err);

/* ---- mappings ---- */
/* May the account map that name, as far as can be told beforehand? */
int domains_may_map(struct domains *d, const char *account, const char *domain, struct err *err);
int domains_map(struct domains *d, const char *account, const char *domain, const char *vm,
                uint32_t port, enum domain_speaks speaks, struct store_mapping *ret,
                struct err *err);
/* The same for a deployment. */
int domains_map_deployment(struct domains *d, const char *account, const char *domain,
                           const char *deployment, struct store_mapping *ret, struct err *err);
/* Names for a VM that was just created: all of them, or the VM is deleted. */
struct domain_wish {
	char domain[DOMAIN_SIZE];
	uint32_t port;
	enum domain_speaks speaks;
};
int domains_map_new(struct domains *d, const char *account, const struct domain_wish *w, size_t n,
                    const char *vm, struct err *err);
int domains_unmap(struct domains *d, const char *account, const char *domain, struct err *err);
/* Notes that a wildcard certificate is wanted; the domain must be the account's. */
int domains_wildcard(struct domains *d, const char *account, const char *domain,
                     char ret_domain[DOMAIN_SIZE], struct err *err);

/* ---- for the edge: from memory, never blocks ---- */
struct domains_way {
	char account[ACCOUNT_SIZE];
	char vm[ID_SIZE];         /* or "" and */
	char deployment[ID_SIZE]; /* a deployment: to one of its instances */
	uint16_t port;
	bool custom; /* below a verified domain, not a preview name */
	bool wild;   /* by the mapping of "*" in place of its first label */
	enum domain_speaks speaks;
};
/* name: lower case. -ENOENT. */
int domains_route(struct domains *d, const char *name, struct domains_way *ret);
/* Names that lead to a VM, or (vm NULL) all custom ones that need a certificate of this server.
 * Caller frees *ret. */
int domains_names(struct domains *d, const char *vm, char (**ret)[DOMAIN_SIZE], size_t *ret_n,
                  struct err *err);
/* Reads the table from the store again, after a VM was deleted. */
int domains_reload(struct domains *d, struct err *err);
/* The same if the store has others than are known, because another node has changed them. */
int domains_refresh(struct domains *d, struct err *err);

/* name.c: pure. "INVALID_DOMAIN" unless it is a host name of at least two labels; star: it may
 * begin with "*.". */
int domain_normal(const char *text, bool star, char ret[DOMAIN_SIZE], struct err *err);
/* Is name strictly below suffix? */
bool domain_below(const char *name, const char *suffix);

/* txt.c: 1 if one of the name's TXT records has the value, 0 if none has, -errno. */
int txt_has(const char *resolver, const char *name, const char *value, struct err *err);
/* txt_msg.c: the query, appended to out; -EINVAL: not a name. */
int txt_question(const char *name, uint16_t id, struct buf *out);
/* What an answer says: 1, 0, -EAGAIN (truncated: ask over TCP), -EBADMSG, -EIO (refused by the
 * server). */
int txt_answer(const void *p, size_t n, const char *value);
