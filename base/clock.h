/* SPDX-License-Identifier: Apache-2.0 */
/* base/clock.h - monotonic milliseconds, deadlines, RFC 3339 text */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

uint64_t clock_us(void); /* CLOCK_MONOTONIC */
uint64_t clock_ms(void); /* CLOCK_MONOTONIC */
/* CLOCK_BOOTTIME: goes on while the machine sleeps. */
uint64_t clock_boot_ms(void);
int64_t clock_wall_ms(void);  /* milliseconds since the epoch */
uint64_t clock_wall_ns(void); /* nanoseconds since the epoch */

/* A deadline is a clock_ms() value. Milliseconds left for poll(2): 0 when it has passed. */
int deadline_left(uint64_t deadline_ms);
static inline uint64_t deadline_in(unsigned ms)
{
	return clock_ms() + ms;
}

#define CLOCK_RFC3339_LEN 32
/* "2026-01-31T12:00:00.123Z" */
const char *clock_rfc3339(int64_t wall_ms, char buf[CLOCK_RFC3339_LEN]);
/* The reverse, with any offset and any number of decimals; -EINVAL. */
int clock_rfc3339_parse(const char *s, int64_t *ret_wall_ms);
