/* SPDX-License-Identifier: Apache-2.0 */
/* cert/cert_internal.h - for cert/ only */
#pragma once

#include <openssl/evp.h>
#include <openssl/x509.h>
#include <stdatomic.h>
#include <time.h>

#include "base/err.h"
#include "base/lock.h"
#include "cert/cert.h"

#define CERTS_CACHED_MAX                                                        \
	4096 /* names in memory; beyond that the least recently used is dropped \
	      */
#define SUFFIXES_MAX 4
#define CERT_FILE_MAX (64u << 10)

/* A name's certificate. Nothing in it changes once it is in the table. */
struct entry {
	struct entry *next;
	atomic_uint refs;
	uint64_t number;              /* given to no other, ever; once it is in the table */
	char name[CERT_NAME_MAX + 1]; /* as asked for */
	EVP_PKEY *key;                /* owned */
	X509 *cert;                   /* owned */
	STACK_OF(X509) * chain;       /* owned; without cert */
	time_t until;                 /* to be created or read again */
	uint64_t used;                /* certs.lock: last use, counted in lookups */
};

struct entry *entry_new(const char *name); /* NULL: out of memory */
struct entry *entry_ref(struct entry *e);
struct entry *entry_unref(struct entry *e);
void entry_unrefp(struct entry **e);

#define CERT_PATH_MAX 256
#define WILD_SIZE (CERT_NAME_MAX + 3) /* "*." and a name */

#define BUCKETS 256
struct certs {
	char dir[400];
	struct secrets *secrets; /* weak; NULL: local keys are plain */
	char suffix[SUFFIXES_MAX][CERT_NAME_MAX + 1];
	size_t n_suffixes;
	struct given *given; /* owned, or NULL; set before there are other threads */
	EVP_PKEY *ca_key;    /* owned */
	X509 *ca_cert;       /* owned */
	struct mutex make;   /* one certificate is read or created at a time; taken before lock */
	struct mutex lock;   /* never held during file access or signing */
	struct entry *bucket[BUCKETS] GUARDED_BY(lock); /* ref'd */
	size_t n GUARDED_BY(lock);
	uint64_t lookups GUARDED_BY(lock);
	uint64_t numbers GUARDED_BY(lock);           /* given out */
	void (*changed)(void *ctx) GUARDED_BY(lock); /* or NULL */
	void *changed_ctx GUARDED_BY(lock);
	uint64_t forgets GUARDED_BY(lock); /* certificates in the making are made again */
	char (*wild)[WILD_SIZE] GUARDED_BY(
	        lock); /* owned: wildcards that have a certificate, "*.example.org" */
	size_t n_wild GUARDED_BY(lock);
	struct cert_info first GUARDED_BY(lock); /* list.c; its source NULL: there is none */
	uint64_t first_ms GUARDED_BY(lock);      /* clock_ms() of that look; 0: never */
};

/* ca.c */
int ca_open(struct certs *c, struct err *err);
/* A key and certificate signed by the CA, for the name and, if it is a suffix, its children. */
int ca_issue(struct certs *c, const char *name, bool wildcard, EVP_PKEY **ret_key, X509 **ret_cert,
             struct err *err);
/* given.c */
struct given;
/* The given certificate, ref'd, if it is valid for the name. g may be NULL. */
struct entry *given_for(struct given *g, const char *name);
struct entry *given_entry(struct given *g); /* ref'd; NULL: there is none */
struct given *given_free(struct given *g);  /* NULL is fine */
/* pem.c */
void entry_clear(struct entry *e); /* key and certificates */
/* name: of the key's file below the directory, if it may be sealed; else NULL. cert_path NULL: both
 * are in one file. */
int pem_read(struct certs *c, const char *key_path, const char *name, const char *cert_path,
             struct entry *ret, struct err *err);
/* Key and certificate (or NULL) into one file of mode 0600, sealed. */
int pem_write(struct certs *c, const char *name, EVP_PKEY *key, X509 *cert, struct err *err);
/* Seals all local keys with the key in use. */
int pem_renew_all(void *certs, struct err *err);
/* Key, certificate and chain as DER, each with its length before it. */
int der_write(const struct entry *e, struct buf *out, struct err *err);
time_t cert_since(const X509 *cert); /* start of its validity */
time_t cert_until(const X509 *cert);
