/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

static uint64_t now_ns(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

uint64_t clock_us(void)
{
	return now_ns(CLOCK_MONOTONIC) / 1000;
}

uint64_t clock_ms(void)
{
	return now_ns(CLOCK_MONOTONIC) / 1000000;
}

uint64_t clock_boot_ms(void)
{
	return now_ns(CLOCK_BOOTTIME) / 1000000;
}

int64_t clock_wall_ms(void)
{
	return (int64_t)(now_ns(CLOCK_REALTIME) / 1000000);
}

uint64_t clock_wall_ns(void)
{
	return now_ns(CLOCK_REALTIME);
}

int deadline_left(uint64_t deadline_ms)
{
	uint64_t now = clock_ms();

	if (deadline_ms <= now)
		return 0;
	return deadline_ms - now > INT_MAX ? INT_MAX : (int)(deadline_ms - now);
}

const char *clock_rfc3339(int64_t wall_ms, char buf[CLOCK_RFC3339_LEN])
{
	time_t s = (time_t)(wall_ms / 1000);
	struct tm tm;
	size_t n;

	gmtime_r(&s, &tm);
	n = strftime(buf, CLOCK_RFC3339_LEN, "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(buf + n, CLOCK_RFC3339_LEN - n, ".%03dZ", (int)(wall_ms % 1000));
	return buf;
}

/* Exactly n digits at *p. */
static int take_digits(const char **p, int n, int *ret)
{
	int v = 0;

	for (int i = 0; i < n; i++) {
		if (!isdigit((unsigned char)(*p)[i]))
			return -EINVAL;
		v = v * 10 + ((*p)[i] - '0');
	}
	*p += n;
	*ret = v;
	return 0;
}

static int take_char(const char **p, const char *any)
{
	if (!**p || !strchr(any, **p))
		return -EINVAL;
	return *(*p)++;
}

/* "Z", "+02:00": seconds to subtract. */
static int take_offset(const char **p, int *ret)
{
	int h, m, sign = take_char(p, "Zz+-");

	*ret = 0;
	if (sign < 0 || sign == 'Z' || sign == 'z')
		return sign < 0 ? sign : 0;
	if (take_digits(p, 2, &h) < 0 || take_char(p, ":") < 0 || take_digits(p, 2, &m) < 0 ||
	    h > 23 || m > 59)
		return -EINVAL;
	*ret = (sign == '-' ? -60 : 60) * (h * 60 + m);
	return 0;
}

int clock_rfc3339_parse(const char *s, int64_t *ret_wall_ms)
{
	struct tm tm = { 0 }, back;
	int offset, digit, ms = 0;
	time_t t;

	if (take_digits(&s, 4, &tm.tm_year) < 0 || take_char(&s, "-") < 0 ||
	    take_digits(&s, 2, &tm.tm_mon) < 0 || take_char(&s, "-") < 0 ||
	    take_digits(&s, 2, &tm.tm_mday) < 0 || take_char(&s, "Tt ") < 0 ||
	    take_digits(&s, 2, &tm.tm_hour) < 0 || take_char(&s, ":") < 0 ||
	    take_digits(&s, 2, &tm.tm_min) < 0 || take_char(&s, ":") < 0 ||
	    take_digits(&s, 2, &tm.tm_sec) < 0)
		return -EINVAL;
	if (*s == '.') {
		s++;
		if (!isdigit((unsigned char)*s))
			return -EINVAL;
		for (int unit = 100; isdigit((unsigned char)*s); unit /= 10) {
			take_digits(&s, 1, &digit);
			ms += digit * unit;
		}
	}
	if (take_offset(&s, &offset) < 0 || *s)
		return -EINVAL;
	tm.tm_year -= 1900;
	tm.tm_mon -= 1;
	back = tm;
	t = timegm(&tm); /* normalises: the 31st of June would become another day */
	if (tm.tm_mon != back.tm_mon || tm.tm_mday != back.tm_mday || tm.tm_hour != back.tm_hour ||
	    tm.tm_min != back.tm_min || (tm.tm_sec != back.tm_sec && back.tm_sec != 60))
		return -EINVAL;
	*ret_wall_ms = ((int64_t)t - offset) * 1000 + ms;
	return 0;
}
