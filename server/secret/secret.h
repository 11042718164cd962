/* SPDX-License-Identifier: Apache-2.0 */
/*
 * secret/secret.h - values that are encrypted at rest, and the keys they are encrypted with
 *
 * A sealed value is text: "$s1$" and the base64 of key id, nonce, ciphertext and tag (AES-256-GCM).
 * The place it belongs to (table and column, row) is authenticated with it, so it opens nowhere
 * else. The keys are in a file that is not part of the database: <data>/secret.key, the file that
 * PANDO_SECRET_KEY names, or a credential of systemd, which pando-priv passes on as a descriptor.
 * One key per line, its id (1 to 255) and 64 hexadecimal digits; the first one is in use, the
 * others only open what is sealed with them.
 *
 * Those who keep sealed values (the store, the certificates) register how to seal all of them
 * again. A rotation is: a new first key into the file; everybody seals again; the old keys out of
 * the file. A crash between any two steps leaves a file with all keys that are needed, and the
 * next start does the rest (secrets_settle()).
 *
 * Any thread may call. Opened values belong to the caller, who wipes them (base/auto.h: autowipe).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct err;
struct secrets;

struct secrets_conf {
	const char *data_dir;
	const char *file; /* PANDO_SECRET_KEY; "": the credential, else <data>/secret.key */
	int fd;           /* of the credential, borrowed; -1: none */
	bool create;      /* nothing is sealed yet: a file that is missing is made */
};
/* -EINVAL: no key, or one that cannot be read; the message names the file and the way out. */
int secrets_open(const struct secrets_conf *c, struct secrets **ret, struct err *err);
struct secrets *secrets_close(struct secrets *k);
/* For messages: the file, or "systemd's credential pando.secret-key". */
const char *secrets_source(const struct secrets *k);

/* Where a value belongs: "table.column" or "file", and the row's key or the file's name. */
struct secret_place {
	const char *column, *row;
};
/* The caller frees *ret. */
int secret_seal(struct secrets *k, struct secret_place at, const void *p, size_t n, char **ret,
                struct err *err);
/* *ret ends with a NUL that *ret_n (may be NULL) does not count. -EBADMSG: not sealed, changed or
 * moved; -ENOKEY: sealed with a key that we do not have. */
int secret_open(struct secrets *k, struct secret_place at, const char *sealed, char **ret,
                size_t *ret_n, struct err *err);
bool secret_is_sealed(const char *text);
/* Is it sealed with the key in use? */
bool secret_is_current(struct secrets *k, const char *sealed);

#define SECRET_DIGEST_SIZE 65
/* SHA-256 as text: to find a random secret that is kept sealed. Not for what people choose. */
void secret_digest(const char *v, char ret[SECRET_DIGEST_SIZE]);

/* ---- file.c: a file that is one sealed value; k NULL: plain ---- */
/* name is authenticated: "ca.key". Mode 0600, replaced atomically. */
int secret_file_write(struct secrets *k, const char *path, const char *name, const void *p,
                      size_t n, struct err *err);
/* A file that is not sealed is read as it is. The caller wipes and frees. */
int secret_file_read(struct secrets *k, const char *path, const char *name, size_t max, char **ret,
                     struct err *err);
/* Seals it, or seals it again, if it is plain or of an older key. A missing file is fine. */
int secret_file_renew(struct secrets *k, const char *path, const char *name, size_t max,
                      struct err *err);

/* ---- rotation ---- */
#define SECRET_HOLDERS_MAX 8
/* fn seals again whatever ctx keeps; it may be called at any time, by any thread, until drop. */
int secrets_hold(struct secrets *k, int (*fn)(void *ctx, struct err *err), void *ctx,
                 struct err *err);
void secrets_drop(struct secrets *k, void *ctx);
/* At start, once all have registered: finishes a rotation that was interrupted, or that the
 * operator began by adding a key in front. */
int secrets_settle(struct secrets *k, struct err *err);
/* A new key for everything; *ret_id: its id. -EROFS: the file is not ours to write. */
int secrets_rotate(struct secrets *k, unsigned *ret_id, struct err *err);
