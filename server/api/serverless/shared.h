/* SPDX-License-Identifier: Apache-2.0 */
/* api/serverless/shared.h - what the handlers of runs and schedules share; for api/ only */
#pragma once

#include "api/call.h"
#include "serverless/serverless.h"

int serverless_of(struct request *req, struct serverless **ret, struct err *err);
/* The schedule of the path. Caller store_schedule_done()s. */
int own_schedule(struct request *req, struct store_schedule *ret, struct err *err);

/* schedule_metrics.c */
struct schedule_sums {
	uint32_t total, succeeded, failed; /* total: those that are over */
	double latency_ms;                 /* of them together */
};
int schedule_sums(struct store *s, const char *schedule, int64_t start_ms, int64_t end_ms,
                  struct schedule_sums *ret, struct err *err);
json_t *schedule_average(const struct schedule_sums *m);
json_t *schedule_success(const struct schedule_sums *m); /* null: there were none */
/* A time of the query, or absent if it is not given. */
int request_time(struct request *req, const char *name, int64_t absent, int64_t *ret,
                 struct err *err);
