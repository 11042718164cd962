/* SPDX-License-Identifier: Apache-2.0 */
/* serverless/cron.h - time zones, and when a cron expression comes next; pure but for the file of a
 * zone */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define TZ_DIR "/usr/share/zoneinfo"
#define TZ_NAME_SIZE 64
#define CRON_TEXT_SIZE 256

/* A zone of the IANA database, from its TZif file. */
struct tz;
/* dir: TZ_DIR. -EINVAL: there is no such zone. */
int tz_load(const char *dir, const char *name, struct tz **ret, struct err *err);
/* The same from bytes. -EBADMSG. */
int tz_parse(const uint8_t *p, size_t n, struct tz **ret, struct err *err);
void tz_free(struct tz *z);
static inline void tz_freep(struct tz **z)
{
	tz_free(*z);
}
/* Seconds east of Greenwich at that moment. */
int32_t tz_offset(const struct tz *z, int64_t utc_s);

/* minute hour day month weekday, with lists, ranges, steps and names; or @hourly and the like. */
struct cron {
	uint64_t minutes; /* a bit for each */
	uint32_t hours, days, months, weekdays;
	bool any_day, any_weekday; /* the field begins with "*" */
	bool fixed_hour;           /* some hours are left out */
};
int cron_parse(const char *text, struct cron *ret, struct err *err);
/*
 * The first moment after `after` (both in milliseconds since the epoch, the result on a whole
 * minute); 0: there is none in the next nine years (30 February). A local time that a change of the
 * clock leaves out comes right after the change; one that it repeats comes once, unless the
 * expression names every hour.
 */
int64_t cron_next(const struct cron *c, const struct tz *z, int64_t after_ms);
