/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"

#include <limits.h>
#include <stdio.h>

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

struct timespec deadline_timespec(uint64_t deadline_ms)
{
	return (struct timespec){ .tv_sec = (time_t)(deadline_ms / 1000),
		                  .tv_nsec = (long)(deadline_ms % 1000) * 1000000 };
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
