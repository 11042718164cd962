/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cron_expr.c - cron expressions, and the search for their next moment
 *
 * The search goes through minutes of real time and looks at what the clock on the wall says, so
 * that a day of 23 or 25 hours needs no rule of its own; whole hours and days that cannot match are
 * skipped.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/auto.h"
#include "serverless/cron.h"

#define YEARS 9 /* 29 February may be eight years away */
#define DAY_S 86400

static const char *const month_names[] = { "jan", "feb", "mar", "apr", "may", "jun",
	                                   "jul", "aug", "sep", "oct", "nov", "dec" };
static const char *const day_names[] = { "sun", "mon", "tue", "wed", "thu", "fri", "sat" };

struct field {
	const char *name;
	unsigned min, max;
	const char *const *names;
	size_t n_names;
};
static const struct field fields[] = {
	{ "minute", 0, 59, NULL, 0 },
	{ "hour", 0, 23, NULL, 0 },
	{ "day of the month", 1, 31, NULL, 0 },
	{ "month", 1, 12, month_names, ARRAY_SIZE(month_names) },
	{ "day of the week", 0, 7, day_names, ARRAY_SIZE(day_names) },
};

static int bad(const struct field *f, const char *s, size_t n, struct err *err)
{
	return err_tag(err, -EINVAL, ERR_BAD_REQUEST,
	               "'cron': '%.*s' is no %s: it is %u to %u, with * , - and /",
	               (int)MIN(n, (size_t)40), s, f->name, f->min, f->max);
}

/* A number or a name; *s is moved behind it. */
static int value(const struct field *f, const char **s, const char *end, unsigned *ret)
{
	char *stop;
	unsigned long v;

	for (size_t i = 0; i < f->n_names; i++)
		if (end - *s >= 3 && !strncasecmp(*s, f->names[i], 3)) {
			*s += 3;
			*ret = (unsigned)i + f->min;
			return 0;
		}
	if (*s >= end || !isdigit((unsigned char)**s))
		return -EINVAL;
	v = strtoul(*s, &stop, 10);
	if (stop > end || v < f->min || v > f->max)
		return -EINVAL;
	*s = stop;
	*ret = (unsigned)v;
	return 0;
}

/* "*", "5", "1-5", each with "/2" */
static int part(const struct field *f, const char *s, const char *end, uint64_t *bits)
{
	unsigned lo = f->min, hi = f->max, step = 1;
	bool open = false;

	if (s < end && (*s == '*' || *s == '?')) {
		s++;
	} else {
		if (value(f, &s, end, &lo) < 0)
			return -EINVAL;
		hi = lo;
		if (s < end && *s == '-') {
			s++;
			if (value(f, &s, end, &hi) < 0 || hi < lo)
				return -EINVAL;
		} else {
			open = true;
		}
	}
	if (s < end && *s == '/') {
		char *stop;

		s++;
		if (s >= end || !isdigit((unsigned char)*s))
			return -EINVAL;
		step = (unsigned)strtoul(s, &stop, 10);
		s = stop;
		if (!step || step > f->max)
			return -EINVAL;
		if (open)
			hi = f->max;
	}
	if (s != end)
		return -EINVAL;
	for (unsigned v = lo; v <= hi; v += step)
		*bits |= UINT64_C(1) << v;
	return 0;
}

static int field(const struct field *f, const char *s, size_t n, uint64_t *ret, struct err *err)
{
	const char *end = s + n, *p = s;

	*ret = 0;
	for (;;) {
		const char *comma = memchr(p, ',', (size_t)(end - p));

		if (part(f, p, comma ? comma : end, ret) < 0)
			return bad(f, s, n, err);
		if (!comma)
			return 0;
		p = comma + 1;
	}
}

int cron_parse(const char *text, struct cron *ret, struct err *err)
{
	static const struct {
		const char *name, *text;
	} macros[] = {
		{ "@yearly", "0 0 1 1 *" },  { "@annually", "0 0 1 1 *" },
		{ "@monthly", "0 0 1 * *" }, { "@weekly", "0 0 * * 0" },
		{ "@daily", "0 0 * * *" },   { "@midnight", "0 0 * * *" },
		{ "@hourly", "0 * * * *" },
	};
	uint64_t bits[ARRAY_SIZE(fields)];
	const char *at[ARRAY_SIZE(fields)] = { 0 };
	size_t n = 0;
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(macros); i++)
		if (!strcmp(text, macros[i].name))
			text = macros[i].text;
	for (const char *p = text + strspn(text, " \t"); *p; p += strspn(p, " \t")) {
		size_t len = strcspn(p, " \t");

		if (n == ARRAY_SIZE(fields)) {
			n++;
			break;
		}
		at[n] = p;
		if ((r = field(&fields[n], p, len, &bits[n], err)) < 0)
			return r;
		n++;
		p += len;
	}
	if (n != ARRAY_SIZE(fields))
		return err_tag(
		        err, -EINVAL, ERR_BAD_REQUEST,
		        "'cron' must have five fields: minute, hour, day of the month, month, "
		        "day of the week; or be @hourly, @daily, @weekly, @monthly or @yearly");
	*ret = (struct cron){ .minutes = bits[0],
		              .hours = (uint32_t)bits[1],
		              .days = (uint32_t)bits[2],
		              .months = (uint32_t)bits[3],
		              .weekdays = (uint32_t)((bits[4] | bits[4] >> 7) & 0x7f),
		              .any_day = *at[2] == '*' || *at[2] == '?',
		              .any_weekday = *at[4] == '*' || *at[4] == '?',
		              .fixed_hour = bits[1] != 0xffffff };
	return 0;
}

/* ---- the search ---- */

struct wall {
	int64_t day; /* since the epoch */
	int month, mday, weekday, hour, minute;
};

/* From days since the epoch to a date of the Gregorian calendar. */
static void date_of(int64_t days, int *ret_month, int *ret_mday)
{
	int64_t z = days + 719468, era = (z >= 0 ? z : z - 146096) / 146097;
	int64_t doe = z - era * 146097;
	int64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
	int64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
	int64_t mp = (5 * doy + 2) / 153;

	*ret_mday = (int)(doy - (153 * mp + 2) / 5 + 1);
	*ret_month = (int)(mp < 10 ? mp + 3 : mp - 9);
}

static struct wall wall_of(int64_t local_s)
{
	int64_t day = local_s / DAY_S, rest = local_s % DAY_S;
	struct wall w;

	if (rest < 0) {
		day--;
		rest += DAY_S;
	}
	w.day = day;
	date_of(day, &w.month, &w.mday);
	w.weekday = (int)(((day + 4) % 7 + 7) % 7);
	w.hour = (int)(rest / 3600);
	w.minute = (int)(rest % 3600 / 60);
	return w;
}

static bool day_matches(const struct cron *c, const struct wall *w)
{
	bool day = c->days & (1u << w->mday), weekday = c->weekdays & (1u << w->weekday);

	if (!(c->months & (1u << w->month)))
		return false;
	/* As every cron does it: two fields that say something are an "or". */
	return c->any_day || c->any_weekday ? day && weekday : day || weekday;
}

static bool matches(const struct cron *c, int64_t local_s)
{
	struct wall w = wall_of(local_s);

	return day_matches(c, &w) && (c->hours & (1u << w.hour)) &&
	       (c->minutes & (UINT64_C(1) << w.minute));
}

/* Was the clock set back a moment ago, so that it shows this time for the second time? */
static bool shown_before(const struct tz *z, int64_t t)
{
	int32_t now = tz_offset(z, t);

	for (int64_t back = 1800; back <= INT64_C(3) * 3600; back += 1800) {
		int32_t was = tz_offset(z, t - back);

		if (was > now && tz_offset(z, t + now - was) == was)
			return true;
	}
	return false;
}

/* Local times that were left out when the clock was set forward between the two moments. */
static bool left_out(const struct cron *c, int64_t t, int32_t was, int32_t now)
{
	for (int64_t local = t + was; local < t + now; local += 60)
		if (matches(c, local))
			return true;
	return false;
}

int64_t cron_next(const struct cron *c, const struct tz *z, int64_t after_ms)
{
	int64_t t = after_ms / 1000 / 60 * 60, end = t + (int64_t)YEARS * 366 * DAY_S;
	int32_t was = tz_offset(z, t);

	for (t += 60; t < end;) {
		int32_t offset = tz_offset(z, t);
		struct wall w = wall_of(t + offset);
		int64_t step = 60;

		if (c->fixed_hour && offset > was && left_out(c, t, was, offset))
			return t * 1000;
		was = offset;
		if (!day_matches(c, &w))
			step = DAY_S - (w.hour * INT64_C(3600) + w.minute * INT64_C(60));
		else if (!(c->hours & (1u << w.hour)))
			step = INT64_C(3600) - w.minute * INT64_C(60);
		else if ((c->minutes & (UINT64_C(1) << w.minute)) &&
		         !(c->fixed_hour && shown_before(z, t)))
			return t * 1000;
		/* A change of the clock within a long step: stop at the last hour before it. */
		while (step > 3600 && tz_offset(z, t + step) != offset)
			step = MAX(step / 2 / 3600 * 3600, INT64_C(3600) - w.minute * INT64_C(60));
		t += step;
	}
	return 0;
}
