/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store/store_feed.h - everything that happened to an account, in order; for events/feed.c, vm/,
 * git/
 *
 * One row per event, numbered by the server: a number is never used twice, and of two events of an
 * account the later one has the larger number. What the store itself changes is written down in the
 * same transaction (store_outbox.c). What it does not store (passing states of VMs, pushes) is
 * queued by store_feed_note() and written with the next event, or by store_feed_flush(): the order
 * is that of the calls.
 *
 * The newest FEED_KEPT events of an account are kept, for a day. What is dropped leaves a mark, so
 * that whoever asks for what came after an older event can be told that something is missing.
 */
#pragma once

#include <jansson.h>
#include <stdint.h>

#include "base/err.h"
#include "store/store.h"

#define FEED_KEPT 4096 /* events of an account */
#define FEED_KEEP_MS (INT64_C(24) * 3600 * 1000)
#define FEED_QUEUE_MAX 8192 /* notes that wait to be written */
#define FEED_TYPE_SIZE 24
#define FEED_REFUSED_S 10     /* between two events of one refused quota */
#define FEED_REFUSED_MAX 1024 /* accounts and quotas that are remembered for that */

struct store_feed_event {
	int64_t seq, at_ms;
	char type[FEED_TYPE_SIZE];
	char vm[ID_SIZE]; /* it concerns, or "" */
	char *text;       /* owned; the members of a JSON object, without braces; or "" */
};
void store_feed_free(struct store_feed_event *v, size_t n);
/* Of the account, with a larger number, oldest first, at most max. The caller frees. */
int store_feed_list(struct store *s, const char *account, int64_t after, size_t max,
                    struct store_feed_event **ret, size_t *ret_n, struct err *err);
/* The last number that was used; and the largest one that this account has lost, or 0. */
int store_feed_range(struct store *s, const char *account, int64_t *ret_last, int64_t *ret_lost,
                     struct err *err);
/*
 * Without waiting for the disk. about_consume becomes the member; NULL: there is none. One too many
 * is dropped, and readers are told that something is missing.
 */
void store_feed_note(struct store *s, const char *account, const char *type, const char *vm,
                     const char *member, json_t *about_consume);
/*
 * A quota was used up: "quota.refused", like store_feed_note(). The same one of an account is told
 * once in FEED_REFUSED_S; then the event says how many there were since the last. The name and the
 * unit are those of /v1/accounts.
 */
void store_feed_refused(struct store *s, const char *account, const char *quota, enum err_code code,
                        int64_t limit, int64_t current, int64_t requested);
int store_feed_flush(struct store *s, struct err *err);
/*
 * fn(account) when an event was written (its transaction is still open, so whoever reads now waits
 * for it), fn(NULL) when one was queued. It must not block. NULL: nobody.
 */
void store_feed_notify(struct store *s, void (*fn)(void *ctx, const char *account), void *ctx);
