/* SPDX-License-Identifier: Apache-2.0 */
/*
 * events/feed.h - readers of what happens in an account (GET /v1/events); for api/
 *
 * The events are in the store (store/store_feed.h). A reader has a place in them and is woken when
 * there are more; it reads from the store at the speed of its client, so nothing is kept for slow
 * ones: who falls behind what is kept is told so. A verb never waits for a reader.
 */
#pragma once

#include <stdint.h>

#include "store/store_feed.h"

struct feed;
struct feed_reader;

#define FEED_READERS_MAX 256 /* each has a connection and its thread */
#define FEED_READERS_PER_ACCOUNT 32
#define FEED_BATCH 64 /* events read at a time */

int feed_new(struct store *s, struct feed **ret, struct err *err);
/* When no reader is left. */
struct feed *feed_free(struct feed *f);
/* Of this run of the server. */
const char *feed_run(const struct feed *f);

/* -EAGAIN with LIMIT_EXCEEDED or UNAVAILABLE: there are too many. after: -1: from now on, 0: all
 * that are kept. */
int feed_open(struct feed *f, const char *account, int64_t after, struct feed_reader **ret,
              struct err *err);
void feed_close_reader(struct feed_reader *r);
/* Readable when feed_read() may have more. */
int feed_fd(const struct feed_reader *r);
/*
 * The next events, at most FEED_BATCH; *ret_n 0: none now. *ret_gap: what came after its place is
 * not there any more; its place is now *ret_last, the end. The caller frees.
 */
int feed_read(struct feed_reader *r, struct store_feed_event **ret, size_t *ret_n, bool *ret_gap,
              int64_t *ret_last, struct err *err);
/* Its place: the number of the last event that was read. */
int64_t feed_place(const struct feed_reader *r);
