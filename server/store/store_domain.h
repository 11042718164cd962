/* SPDX-License-Identifier: Apache-2.0 */
/* store/store_domain.h - names: verifications, verified domains, mappings to ports of VMs */
#pragma once

#include "store/store.h"

#define DOMAIN_SIZE 254          /* a name, with the NUL */
#define DOMAIN_CODE_SIZE 40      /* value of the TXT record */
#define DOMAINS_PER_ACCOUNT 1000 /* verifications, and mappings, of one account */

struct store_verification {
	char id[ID_SIZE]; /* "dv-..." */
	char account[ACCOUNT_SIZE];
	char domain[DOMAIN_SIZE];
	char code[DOMAIN_CODE_SIZE];
	int64_t created_ms;
};
struct store_domain {
	char domain[DOMAIN_SIZE];
	char id[ID_SIZE]; /* "dom-..." */
	char account[ACCOUNT_SIZE];
	int64_t created_ms;
	bool wildcard; /* a wildcard certificate was requested */
};
/* What the program behind a name is spoken to in; kept as a number in the store. */
enum domain_speaks {
	DOMAIN_HTTP1,
	DOMAIN_H2C, /* HTTP/2 without TLS */
	DOMAIN_TLS, /* TLS, as its client sends it: the VM has the certificate */
};
struct store_mapping {
	char domain[DOMAIN_SIZE];
	char id[ID_SIZE]; /* "map-..." */
	char account[ACCOUNT_SIZE];
	char vm[ID_SIZE]; /* "": of a deployment */
	char deployment[ID_SIZE];
	uint32_t port;           /* of the VM */
	uint32_t speaks;         /* enum domain_speaks */
	char ownership[ID_SIZE]; /* of the verified domain above it, or "": a preview name */
	int64_t created_ms;
};

/* The existing one for this account and domain, or v. */
int store_verification_add(struct store *s, const struct store_verification *v,
                           struct store_verification *ret, struct err *err);
/* By id or by domain; -ENOENT VERIFICATION_NOT_FOUND. */
int store_verification_get(struct store *s, const char *account, const char *id_or_domain,
                           struct store_verification *ret, struct err *err);
/* Newest first. Caller frees, as for all lists here. */
int store_verification_list(struct store *s, const char *account, struct store_verification **ret,
                            size_t *ret_n, struct err *err);
int store_verification_delete(struct store *s, const char *id, struct err *err);

/*
 * The verification becomes ownership. Another account that had the domain loses it: its
 * names below the domain are unmapped in the same transaction.
 */
int store_domain_own(struct store *s, const struct store_verification *v, struct err *err);
int store_domain_list(struct store *s, const char *account /* NULL: all */,
                      struct store_domain **ret, size_t *ret_n, struct err *err);
/* The verified domain that is the name, or the nearest one above it. -ENOENT. */
int store_domain_above(struct store *s, const char *name, struct store_domain *ret,
                       struct err *err);
int store_domain_wildcard(struct store *s, const char *domain, struct err *err);

/*
 * Adds a mapping, or changes the account's own mapping of that name. -EEXIST
 * DOMAIN_ALREADY_EXISTS if it is another account's; -ENOENT VM_NOT_FOUND, DEPLOYMENT_NOT_FOUND.
 */
int store_mapping_put(struct store *s, const struct store_mapping *m, struct store_mapping *ret,
                      struct err *err);
int store_mapping_get(struct store *s, const char *domain, struct store_mapping *ret,
                      struct err *err);
int store_mapping_list(struct store *s, const char *account /* NULL: all */,
                       struct store_mapping **ret, size_t *ret_n, struct err *err);
int store_mapping_delete(struct store *s, const char *account, const char *domain, struct err *err);
