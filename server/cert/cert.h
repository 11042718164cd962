/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cert/cert.h - certificates of the edge: a local CA, leaf certificates on demand, ACME's
 * certificates
 *
 * Below <data>/certs: ca.key, ca.crt (made at first start), leaf/<name>.pem (key and certificate),
 * and acme/ and acme-wild/ as uacme keeps them. Keys are 0600; ca.key and leaf/ are sealed as well,
 * if there are keys to seal with. Everything is found again after a restart. All functions may be
 * called from any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct certs;
struct err;
struct secrets;

#define CERT_NAME_MAX 254

/* suffixes: names whose children one wildcard leaf covers ("pando.localhost"); the first is the
 * default. */
int certs_open(const char *dir, const char *const *suffixes, size_t n, struct certs **ret,
               struct err *err);
/* The same with local keys sealed (secret/secret.h); k is weak. */
int certs_open_sealed(const char *dir, const char *const *suffixes, size_t n, struct secrets *k,
                      struct certs **ret, struct err *err);
struct certs *certs_free(struct certs *c);
/* For the names that it is valid for, the certificate (and its chain) in these two files comes
 * first. They are read now, and again when they change. Once, before c has other users. */
int certs_give(struct certs *c, const char *cert, const char *key, struct err *err);
/* Is that one valid for the name, or for all children of "*.name"? Does not block. */
bool certs_given(struct certs *c, const char *name);
/*
 * A name with '@' before it has a local certificate of its own that nobody gets who does not ask
 * for it in this form: "@git.example.org", "@*.example.org".
 *
 * The number of a name's certificate: a given one, ACME's for that name or its wildcard, else a
 * local one. own: the name is known and may have a leaf certificate of its own; others get the
 * default one. A number means one certificate, for good. Does not block: 0 if it is not in memory;
 * then certs_get() gets it.
 */
uint64_t certs_number(struct certs *c, const char *name, bool own);
/* Reads or creates it. Key and certificates are put into *ret as DER, the leaf's first, each with
 * its length before it (buf_put_blob()). Blocks on files and on other calls. */
int certs_get(struct certs *c, const char *name, bool own, struct buf *ret, uint64_t *ret_number,
              struct err *err);
/* fn is called when names may have other certificates from now on; must not block. */
void certs_on_change(struct certs *c, void (*fn)(void *ctx), void *ctx);
/* From now on names below the domain get one local certificate for *.domain, until ACME has
 * one. Blocks as certs_get() does. */
int certs_local_wildcard(struct certs *c, const char *domain, struct err *err);
/* The CA's certificate as PEM, for trust stores. Caller frees. */
int certs_ca_pem(struct certs *c, char **ret, struct err *err);
/*
 * Its key and certificate, in PEM; and others instead of them, before anything is asked of it. So
 * nodes have one CA. The caller wipes the key and frees both.
 */
int certs_ca_export(struct certs *c, char **ret_key, char **ret_cert, struct err *err);
int certs_ca_replace(struct certs *c, const char *key, const char *cert, struct err *err);
/* ---- what there is: list.c ---- */
#define CERTS_LISTED_MAX 10000
struct cert_info {
	char name[CERT_NAME_MAX + 3];  /* "example.org" or "*.example.org" */
	const char *source;            /* "given", "acme" or "local"; static */
	int64_t not_before, not_after; /* seconds since the epoch */
};
/* All in the files, by name; up to CERTS_LISTED_MAX. Reads them. Caller frees. */
int certs_list(struct certs *c, struct cert_info **ret, size_t *ret_n, struct err *err);
/* Of those that somebody else has to renew (given, ACME) the one that ends first, as of a minute
 * ago at most; -ENOENT: there is none. */
int certs_first_to_end(struct certs *c, struct cert_info *ret);
/* ACME has new certificates: reads the files again. Blocks on them. */
void certs_forget(struct certs *c);
/* When ACME's certificate for exactly this name should be renewed (seconds since the epoch), or
 * -ENOENT. */
int64_t certs_acme_renew_at(struct certs *c, const char *name, unsigned days_before);
