/* SPDX-License-Identifier: Apache-2.0 */
/* store/store_record.h - DNS records of verified domains */
#pragma once

#include "store/store_domain.h"

#define RECORD_VALUE_SIZE 2048   /* bytes of a value, with the NUL: a long DKIM key fits */
#define RECORDS_PER_ACCOUNT 1000 /* for all of its domains */

enum record_kind {
	RECORD_A,
	RECORD_AAAA,
	RECORD_CNAME,
	RECORD_TXT,
	RECORD_NS,
	RECORD_MX,
	RECORD_KIND_MAX,
};
extern const char *const record_kind_words[RECORD_KIND_MAX];

struct store_record {
	char id[ID_SIZE]; /* "rec-..." */
	char account[ACCOUNT_SIZE];
	char domain[DOMAIN_SIZE]; /* the verified domain */
	enum record_kind kind;
	char name[DOMAIN_SIZE]; /* below the domain: "www", "*.dev"; "@": the domain itself */
	char value[RECORD_VALUE_SIZE];
	uint32_t ttl; /* seconds */
	uint32_t priority;
	int64_t created_ms;
};

/*
 * Adds a record, or changes time to live and priority of the one with the same kind, name and
 * value. -EACCES DOMAIN_OWNERSHIP_ERROR unless the account has verified exactly that domain;
 * -EEXIST CONFLICT if a CNAME would not be the only record.
 */
int store_record_put(struct store *s, const struct store_record *rec, struct store_record *ret,
                     struct err *err);
/* Those of a domain (-EACCES as above), or of all accounts: domain NULL. By name, then kind. Caller
 * frees. */
int store_record_list(struct store *s, const char *account, const char *domain,
                      struct store_record **ret, size_t *ret_n, struct err *err);
/* The one with that id in that domain of the account; -EACCES RECORD_OWNERSHIP_ERROR if there is
 * none. */
int store_record_delete(struct store *s, const char *account, const char *domain, const char *id,
                        struct err *err);
