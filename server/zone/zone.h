/* SPDX-License-Identifier: Apache-2.0 */
/*
 * zone/zone.h - verified domains as DNS zones: their records, and answers about them; for domains/,
 * api/ and main
 *
 * The store has the records. Queries are answered from a table in memory, with one zone per domain
 * that has records. All functions may be called from any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/store_record.h"

struct dns_edns;
struct dns_query;
struct err;
struct zones;

#define RECORD_TTL_DEFAULT 300u
#define RECORD_TTL_MAX 604800u /* a week */
#define RECORD_PRIORITY_DEFAULT 10u
#define RECORD_PRIORITY_MAX 65535u

/* ns: name of this name server in NS and SOA records. */
int zones_new(struct store *store, const char *ns, struct zones **ret, struct err *err);
struct zones *zones_free(struct zones *z); /* NULL is fine */
/* Domains changed owners, or an account was deleted. */
int zones_reload(struct zones *z, struct err *err);

/* Records may have changed in another node: reads them again if so. Zones that are as they were
 * keep their serial number. */
int zones_refresh(struct zones *z, struct err *err);

/* A requested record; texts are borrowed. */
struct record_wish {
	const char *kind, *name, *value;
	int64_t ttl, priority; /* -1: the default */
};
/* The record in stored form: checked, in lower case, the name relative to the domain. Leaves id,
 * account and time alone. -EINVAL INVALID_PARAMETERS. */
int record_normal(const char *domain, const struct record_wish *w, struct store_record *ret,
                  struct err *err);
/* domain: in normal form; -EACCES DOMAIN_OWNERSHIP_ERROR unless the account has verified it. */
int zones_put(struct zones *z, const char *account, const char *domain, const struct record_wish *w,
              struct store_record *ret, struct err *err);
/* The id of the record with that kind, name and value; -EACCES RECORD_OWNERSHIP_ERROR. */
int zones_find(struct zones *z, const char *account, const char *domain,
               const struct record_wish *w, char ret_id[ID_SIZE], struct err *err);
int zones_delete(struct zones *z, const char *account, const char *domain, const char *id,
                 struct err *err);

/* Names of this server: the domain and all names below it lead to these addresses ("": none).
 * Before zones_serve(). */
int zones_base(struct zones *z, const char *domain, const char *ipv4, const char *ipv6,
               struct err *err);
/* fn gives the TXT record of _acme-challenge.<name>, or -ENOENT; NULL: nobody does. */
#define ZONES_CHALLENGE_MAX 256
void zones_on_challenge(struct zones *z,
                        int (*fn)(void *ctx, const char *name, char ret[ZONES_CHALLENGE_MAX]),
                        void *ctx);

/* Writes the answer to a query and returns its length, at most max. */
size_t zones_answer(struct zones *z, const struct dns_query *q, const struct dns_edns *e, bool tcp,
                    uint8_t *ret, size_t max);

/* Binds address and port, UDP and TCP; they are served from zones_serve() until zones_free(). */
int zones_listen(struct zones *z, const char *text, struct err *err);
int zones_serve(struct zones *z, struct err *err);
/* The name of this name server, or NULL if it is off. */
const char *zones_server(const struct zones *z);
