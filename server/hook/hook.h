/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hook/hook.h - signed requests to addresses chosen by users, and the threads that send them
 *
 * One mechanism for the webhooks of repositories (git/trigger.h) and of accounts
 * (hook/webhooks.h): a crew takes what is due from the store, sends it with a signature
 * (signing.c), never to internal addresses (outbound.c), and tries it again over a day.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/id.h"

struct store;

#define HOOK_URL_SIZE 2048
#define HOOK_NOTE_SIZE 256 /* why an attempt failed */

/* ---- signing.c ---- */
struct signer;
int signer_open(struct store *s, struct signer **ret, struct err *err);
struct signer *signer_close(struct signer *s);
/* A compact JWT with body_sha256; caller frees. */
int signer_sign(struct signer *s, const char *issuer, const char *id, const void *body, size_t n,
                char **ret, struct err *err);
/* The public keys; those retired within SIGNING_KEPT_MS too. */
#define SIGNING_KEPT_MS (7LL * 24 * 3600 * 1000)
#define SIGNING_PUBLIC_SIZE 44 /* 32 bytes in base64url and the NUL */
struct signing_public {
	char kid[ID_SIZE];
	char x[SIGNING_PUBLIC_SIZE]; /* the Ed25519 key in base64url */
};
/* Caller frees *ret. */
int signer_keys(struct signer *s, struct signing_public **ret, size_t *ret_n, struct err *err);
/* A new key signs from now on. */
int signer_rotate(struct signer *s, char ret_kid[ID_SIZE], struct err *err);

/* ---- send.c ---- */
struct hook_post {
	struct signer *signer;
	const char *issuer, *url, *id, *body;
	const char *secret; /* of an additional HMAC; NULL or "": none */
	bool allow_private;
	const atomic_bool *ending;
};
/*
 * http or https, with a host; judged again when it is connected to. name: the member of the
 * body, tag: the error's code.
 */
int hook_url_check(const char *url, const char *name, bool allow_private, enum err_code tag,
                   struct err *err);
/* 0: it was answered with 2xx. *ret_status: the reply's, -1: there was none. */
int hook_send(const struct hook_post *p, int *ret_status, struct err *err);
/* The text as a note in a row: UTF-8, cut off. */
void hook_note(char dst[HOOK_NOTE_SIZE], const char *text);

/* ---- crew.c ---- */
/* After so many attempts that failed: how long until the next; -1: there is none. */
int64_t hook_wait_ms(uint32_t attempts, uint32_t retry_s);

struct crew;
struct crew_ops {
	size_t job_size;
	/* Takes a job that is due, so that nobody else does. -ENOENT: there is none. */
	int (*claim)(void *ctx, void *job, struct err *err);
	/* When the next is due, by the wall clock; INT64_MAX: none is waiting. */
	int (*next)(void *ctx, int64_t *ret_ms, struct err *err);
	/* Does it and writes the result down. */
	void (*work)(void *ctx, void *job);
};
int crew_start(const struct crew_ops *ops, void *ctx, unsigned n, struct crew **ret,
               struct err *err);
void crew_wake(struct crew *c); /* there may be something to do */
/* Nothing new is begun; NULL is fine, as with crew_wake() and crew_close(). */
void crew_end(struct crew *c);
struct crew *crew_close(struct crew *c); /* waits for what runs */
