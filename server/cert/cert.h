/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cert/cert.h - certificates of the edge: a CA of our own, leaves on demand, what ACME brought
 *
 * Below <data>/certs: ca.key, ca.crt (made at first start), leaf/<name>.pem (key and certificate),
 * and acme/ and acme-wild/ as uacme keeps them. Keys are 0600. Everything is found again after a
 * restart. All functions may be called from any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct certs;
struct err;
typedef struct ssl_st SSL;

#define CERT_NAME_MAX 254

/* suffixes: names whose children one wildcard leaf covers ("pando.localhost"); the first is the
 * default. */
int certs_open(const char *dir, const char *const *suffixes, size_t n, struct certs **ret,
               struct err *err);
struct certs *certs_free(struct certs *c);
/*
 * Gives ssl a certificate: ACME's for that name or its wildcard; else one of ours. own: the name is
 * known and may have a leaf of its own; others are shown the default one. Does not block: -EAGAIN
 * when it is not in memory, then certs_make() gets it.
 */
int certs_use(struct certs *c, const char *name, bool own, SSL *ssl, struct err *err);
/* Reads or makes what certs_use() would give. Blocks on files and on others that make one. */
int certs_make(struct certs *c, const char *name, bool own, struct err *err);
/* From now on names below the domain are shown one certificate for *.domain of ours, until ACME has
 * one. Blocks as certs_make() does. */
int certs_local_wildcard(struct certs *c, const char *domain, struct err *err);
/* The CA's certificate as PEM, for trust stores. Caller frees. */
int certs_ca_pem(struct certs *c, char **ret, struct err *err);
/* ACME brought something: files are looked at again. Blocks on them. */
void certs_forget(struct certs *c);
/* When ACME's certificate for exactly this name should be renewed (seconds since the epoch), or
 * -ENOENT. */
int64_t certs_acme_renew_at(struct certs *c, const char *name, unsigned days_before);
