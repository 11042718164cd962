/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tz.c - time zones of the IANA database (RFC 8536)
 *
 * libc knows one zone per process, so the file is read here: the moments at which the offset
 * changes, and for what comes after the last of them the rule at the end of the file
 * ("CET-1CEST,M3.5.0,M10.5.0/3").
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "serverless/cron.h"

#define FILE_MAX (256u << 10)
#define DAY_S 86400

/* "M3.5.0/2": month, week (5: the last), weekday; "J60": without 29 February; "59": with it */
struct rule {
	char kind; /* 'M', 'J', 'N'; 0: none */
	int month, week, day;
	int32_t at_s; /* local time */
};

struct tz {
	size_t n;
	int64_t *at;     /* owned; ascending */
	int32_t *offset; /* owned; from then on */
	int32_t first;   /* before all of them */
	bool has_rule;
	int32_t standard, summer;
	struct rule begins, ends; /* of summer time; kind 0: always standard */
};

void tz_free(struct tz *z)
{
	if (!z)
		return;
	free(z->at);
	free(z->offset);
	free(z);
}

/* ---- the rule ---- */

static const char *skip_name(const char *p)
{
	if (*p == '<') {
		p += strcspn(p, ">");
		return *p ? p + 1 : NULL;
	}
	if (!isalpha((unsigned char)*p))
		return NULL;
	while (isalpha((unsigned char)*p))
		p++;
	return p;
}

static const char *number(const char *p, int max, int *ret)
{
	int v = 0;

	if (!isdigit((unsigned char)*p))
		return NULL;
	for (; isdigit((unsigned char)*p); p++)
		if ((v = v * 10 + *p - '0') > max)
			return NULL;
	*ret = v;
	return p;
}

/* [+-]hh[:mm[:ss]] in seconds */
static const char *clock_text(const char *p, int32_t *ret)
{
	int h = 0, m = 0, s = 0, sign = 1;

	if (*p == '-' || *p == '+')
		sign = *p++ == '-' ? -1 : 1;
	if (!(p = number(p, 167, &h)) || (*p == ':' && !(p = number(p + 1, 59, &m))) ||
	    (*p == ':' && !(p = number(p + 1, 59, &s))))
		return NULL;
	*ret = sign * (h * 3600 + m * 60 + s);
	return p;
}

static const char *rule_text(const char *p, struct rule *r)
{
	r->at_s = 2 * 3600;
	r->kind = 'N';
	if (*p == 'M') {
		r->kind = 'M';
		if (!(p = number(p + 1, 12, &r->month)) || *p != '.' ||
		    !(p = number(p + 1, 5, &r->week)) || *p != '.' ||
		    !(p = number(p + 1, 6, &r->day)) || !r->month || !r->week)
			return NULL;
	} else if (*p == 'J') {
		r->kind = 'J';
		if (!(p = number(p + 1, 365, &r->day)) || !r->day)
			return NULL;
	} else if (!(p = number(p, 365, &r->day))) {
		return NULL;
	}
	return *p == '/' ? clock_text(p + 1, &r->at_s) : p;
}

static bool read_rule(const char *p, struct tz *z)
{
	int32_t west;

	if (!(p = skip_name(p)) || !(p = clock_text(p, &west)))
		return false;
	z->standard = z->summer = -west;
	if (!*p)
		return true;
	if (!(p = skip_name(p)))
		return false;
	z->summer = z->standard + 3600;
	if (*p && *p != ',') {
		if (!(p = clock_text(p, &west)))
			return false;
		z->summer = -west;
	}
	return *p == ',' && (p = rule_text(p + 1, &z->begins)) && *p == ',' &&
	       (p = rule_text(p + 1, &z->ends)) && !*p;
}

static bool leap(int64_t y)
{
	return y % 4 == 0 && (y % 100 != 0 || y % 400 == 0);
}

static int64_t new_year(int64_t y) /* in days since the epoch */
{
	y--;
	return y * 365 + y / 4 - y / 100 + y / 400 - 719162;
}

static int64_t rule_day(const struct rule *r, int64_t year)
{
	static const int before[] = { 0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365 };
	int64_t first;
	int weekday, day, length;

	if (r->kind == 'N')
		return new_year(year) + r->day;
	if (r->kind == 'J')
		return new_year(year) + r->day - 1 + (leap(year) && r->day > 59);
	first = new_year(year) + before[r->month - 1] + (leap(year) && r->month > 2);
	length = before[r->month] - before[r->month - 1] + (leap(year) && r->month == 2);
	weekday = (int)(((first + 4) % 7 + 7) % 7);
	day = (r->day - weekday + 7) % 7 + (r->week - 1) * 7;
	while (day >= length)
		day -= 7;
	return first + day;
}

static int32_t by_rule(const struct tz *z, int64_t t)
{
	int64_t year = 1970 + (t + z->standard) / 31556952, begins, ends;

	if (!z->begins.kind)
		return z->standard;
	while ((new_year(year + 1) * DAY_S) <= t + z->standard)
		year++;
	while (new_year(year) * DAY_S > t + z->standard)
		year--;
	begins = rule_day(&z->begins, year) * DAY_S + z->begins.at_s - z->standard;
	ends = rule_day(&z->ends, year) * DAY_S + z->ends.at_s - z->summer;
	if (begins < ends)
		return t >= begins && t < ends ? z->summer : z->standard;
	return t >= ends && t < begins ? z->standard : z->summer;
}

int32_t tz_offset(const struct tz *z, int64_t utc_s)
{
	size_t lo = 0, hi = z->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (z->at[mid] <= utc_s)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (lo == z->n && z->has_rule)
		return by_rule(z, utc_s);
	return lo ? z->offset[lo - 1] : z->first;
}

/* ---- the file ---- */

static int skip_bytes(struct rd *c, size_t n, const uint8_t **ret)
{
	if (c->left < n)
		return -EBADMSG;
	*ret = c->p;
	c->p += n;
	c->left -= n;
	return 0;
}

struct head {
	uint8_t version;
	uint32_t isutc, isstd, leap, times, types, chars;
};

static int read_head(struct rd *c, struct head *h)
{
	const uint8_t *p;

	if (skip_bytes(c, 20, &p) < 0 || memcmp(p, "TZif", 4) != 0)
		return -EBADMSG;
	h->version = p[4];
	return rd_u32(c, &h->isutc) < 0 || rd_u32(c, &h->isstd) < 0 || rd_u32(c, &h->leap) < 0 ||
	                       rd_u32(c, &h->times) < 0 || rd_u32(c, &h->types) < 0 ||
	                       rd_u32(c, &h->chars) < 0 || h->times > 8192 || !h->types ||
	                       h->types > 256 || h->chars > 4096 || h->leap > 4096 ||
	                       h->isutc > 256 || h->isstd > 256
	               ? -EBADMSG
	               : 0;
}

static size_t body_size(const struct head *h, size_t word)
{
	return h->times * (word + 1) + (size_t)h->types * 6 + h->chars + h->leap * (word + 4) +
	       h->isstd + h->isutc;
}

static int read_body(struct rd *c, const struct head *h, struct tz *z)
{
	const uint8_t *at, *index, *type, *rest;

	if (skip_bytes(c, (size_t)h->times * 8, &at) < 0 || skip_bytes(c, h->times, &index) < 0 ||
	    skip_bytes(c, (size_t)h->types * 6, &type) < 0 ||
	    skip_bytes(c, h->chars + (size_t)h->leap * 12 + h->isstd + h->isutc, &rest) < 0)
		return -EBADMSG;
	z->at = calloc(h->times + 1, sizeof(*z->at));
	z->offset = calloc(h->times + 1, sizeof(*z->offset));
	if (!z->at || !z->offset)
		return -ENOMEM;
	z->n = h->times;
	z->first = (int32_t)get_be32(type);
	for (size_t i = 0; i < z->n; i++) {
		z->at[i] =
		        (int64_t)((uint64_t)get_be32(at + i * 8) << 32 | get_be32(at + i * 8 + 4));
		if (index[i] >= h->types || (i && z->at[i] <= z->at[i - 1]))
			return -EBADMSG;
		z->offset[i] = (int32_t)get_be32(type + (size_t)index[i] * 6);
		if (abs(z->offset[i]) > 2 * DAY_S)
			return -EBADMSG;
	}
	return abs(z->first) > 2 * DAY_S ? -EBADMSG : 0;
}

int tz_parse(const uint8_t *p, size_t n, struct tz **ret, struct err *err)
{
	AUTO(tz_freep) struct tz *z = calloc(1, sizeof(*z));
	struct rd c = rd_of(p, n);
	const uint8_t *skip;
	char rule[128];
	struct head h;
	int r;

	if (!z)
		return err_set(err, -ENOMEM, "out of memory");
	/* First the form of 32 bits, which is old; then the same with 64, and the rule. */
	if (read_head(&c, &h) < 0 || h.version < '2' ||
	    skip_bytes(&c, body_size(&h, 4), &skip) < 0 || read_head(&c, &h) < 0)
		return err_set(err, -EBADMSG, "not a time zone of version 2 or later");
	if ((r = read_body(&c, &h, z)) < 0)
		return err_set(err, r, "a time zone that is damaged");
	if (c.left >= 2 && c.left < sizeof(rule) && c.p[0] == '\n' && c.p[c.left - 1] == '\n' &&
	    c.left > 2) {
		snprintf(rule, sizeof(rule), "%.*s", (int)(c.left - 2), (const char *)c.p + 1);
		z->has_rule = read_rule(rule, z);
		if (!z->has_rule)
			return err_set(err, -EBADMSG,
			               "a time zone with a rule that is not understood");
	}
	*ret = TAKE_PTR(z);
	return 0;
}

int tz_load(const char *dir, const char *name, struct tz **ret, struct err *err)
{
	char path[256];
	autofree uint8_t *p = NULL;
	autofd int fd = -1;
	ssize_t n = 0, k;

	if (!*name || strlen(name) >= TZ_NAME_SIZE || *name == '/' || strstr(name, "..") ||
	    name[strspn(name,
	                "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_+-/")])
		goto unknown;
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		goto unknown;
	p = malloc(FILE_MAX);
	if (!p)
		return err_set(err, -ENOMEM, "out of memory");
	while ((k = read(fd, p + n, FILE_MAX - (size_t)n)) > 0)
		n += k;
	if (k < 0 || tz_parse(p, (size_t)n, ret, err) < 0)
		goto unknown;
	return 0;
unknown:
	return err_tag(
	        err, -EINVAL, ERR_BAD_REQUEST,
	        "'timezone': there is no zone '%.60s': give a name such as Europe/Berlin, or "
	        "UTC",
	        name);
}
