/* SPDX-License-Identifier: Apache-2.0 */
/* api/tally.h - requests by route: counted by api.c, shown by account/metrics.c */
#pragma once

#include <stddef.h>

struct err;
struct metrics_page;
struct request;
struct route;
struct tally;

/* For routes of the table and those after it; both weak. */
int tally_new(const struct route *routes, size_t n, const struct route *more, size_t n_more,
              struct tally **ret, struct err *err);
struct tally *tally_free(struct tally *t);
/* Its reply is about to be sent. */
void tally_count(struct tally *t, const struct request *req, unsigned status);
void tally_show(struct tally *t, struct metrics_page *p);
