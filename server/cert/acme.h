/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cert/acme.h - certificates from an ACME server, through uacme
 *
 * One thread gets and renews them, one at a time, in the background. They are stored in
 * <data>/certs/acme, where certs.c finds them. All functions may be called from any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct acme;
struct certs;
struct err;

struct acme_conf {
	const char *dir;      /* borrowed, as all of these: <data>/certs */
	const char *url;      /* of the ACME server's directory */
	const char *email;    /* "": none */
	const char *dns_hook; /* "": none */
	bool dns_own;         /* acme_dns_challenge() is served by a name server of our own */
	const char *base;     /* a certificate for "*.base" is valid for base, too */
	unsigned renew_days;
	/* Names that should have a certificate: exact ones, and "*.domain". Caller frees *ret. */
	int (*wanted)(void *ctx, char (**ret)[256], size_t *ret_n, struct err *err);
	void *ctx;
};

int acme_start(const struct acme_conf *c, struct certs *certs, struct acme **ret, struct err *err);
struct acme *acme_stop(struct acme *a); /* NULL is fine */
/* A new certificate may be needed. */
void acme_kick(struct acme *a);
/* Gets *.domain now; blocks for as long as the ACME server takes. */
int acme_wildcard(struct acme *a, const char *domain, struct err *err);
/* The answer to an http-01 challenge that is under way, or -ENOENT. */
int acme_challenge(struct acme *a, const char *token, char *ret, size_t size);
/* The TXT record of _acme-challenge.<name> while a dns-01 challenge for it is under way, or
 * -ENOENT. */
int acme_dns_challenge(struct acme *a, const char *name, char *ret, size_t size);
