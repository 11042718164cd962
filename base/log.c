/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"

#define LOG_LINE_MAX 2048 /* bytes; one write(2) keeps lines of several threads apart */

static const char *log_program = "pando";
static enum log_level log_least = LOG_LV_INFO;

static const char *const log_level_str[] = {
	[LOG_LV_DEBUG] = "debug",
	[LOG_LV_INFO] = "info",
	[LOG_LV_WARN] = "warn",
	[LOG_LV_ERROR] = "error",
};

static _Atomic(void (*)(unsigned long)) log_written;
static struct {
	_Atomic long minute;
	_Atomic unsigned lines, dropped; /* of this minute */
} log_pace[LOG_LV_ERROR];

void log_on_written(void (*fn)(unsigned long bytes))
{
	atomic_store(&log_written, fn);
}

/*
 * May this line be written? *ret_dropped: so many were not in an earlier minute. Two threads may
 * both see a minute begin, and then a few lines more are written; nothing waits for anything.
 */
static bool log_may(enum log_level lv, unsigned *ret_dropped)
{
	struct timespec now;
	long minute, seen;

	*ret_dropped = 0;
	if (lv == LOG_LV_ERROR || log_least == LOG_LV_DEBUG)
		return true;
	clock_gettime(CLOCK_MONOTONIC, &now);
	minute = now.tv_sec / 60 + 1;
	seen = atomic_load(&log_pace[lv].minute);
	if (seen != minute && atomic_compare_exchange_strong(&log_pace[lv].minute, &seen, minute)) {
		atomic_store(&log_pace[lv].lines, 0);
		*ret_dropped = atomic_exchange(&log_pace[lv].dropped, 0);
	}
	if (atomic_fetch_add(&log_pace[lv].lines, 1) < LOG_LINES_MINUTE)
		return true;
	atomic_fetch_add(&log_pace[lv].dropped, 1);
	return false;
}

void log_init(const char *program, enum log_level least)
{
	log_program = program;
	log_least = least;
}

int log_level_parse(const char *s)
{
	for (size_t i = 0; i < ARRAY_SIZE(log_level_str); i++)
		if (!strcmp(s, log_level_str[i]))
			return (int)i;
	return -EINVAL;
}

static void log_write(enum log_level lv, const char *kind, const char *id, const char *fmt,
                      va_list ap) __attribute__((format(printf, 4, 0)));
static void log_write(enum log_level lv, const char *kind, const char *id, const char *fmt,
                      va_list ap)
{
	void (*written)(unsigned long) = atomic_load(&log_written);
	char text[LOG_LINE_MAX], line[LOG_LINE_MAX + 160];
	struct timespec ts;
	struct tm tm;
	size_t n;
	int k;

	vsnprintf(text, sizeof(text), fmt, ap);
	for (char *p = text; *p; p++)
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			*p = ' ';
	clock_gettime(CLOCK_REALTIME, &ts);
	gmtime_r(&ts.tv_sec, &tm);
	n = strftime(line, sizeof(line), "%Y-%m-%dT%H:%M:%S", &tm);
	k = snprintf(line + n, sizeof(line) - n, ".%03ldZ %s %s: %s%s%s%s%s\n",
	             ts.tv_nsec / 1000000, log_level_str[lv], log_program, kind ? kind : "",
	             kind ? " " : "", id ? id : "", id ? ": " : "", text);
	if (k < 0)
		return;
	n = MIN(n + (size_t)k, sizeof(line) - 1);
	if (write(STDERR_FILENO, line, n) < 0)
		return; /* nowhere left to report it */
	if (written)
		written(n);
}

static void log_say(enum log_level lv, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void log_say(enum log_level lv, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	log_write(lv, NULL, NULL, fmt, ap);
	va_end(ap);
}

static void log_emit(enum log_level lv, const char *kind, const char *id, const char *fmt,
                     va_list ap) __attribute__((format(printf, 4, 0)));
static void log_emit(enum log_level lv, const char *kind, const char *id, const char *fmt,
                     va_list ap)
{
	unsigned dropped;
	bool may;

	if (lv < log_least)
		return;
	may = log_may(lv, &dropped);
	if (dropped)
		log_say(LOG_LV_WARN,
		        "%u lines of level %s were not logged: at most %d are in a minute", dropped,
		        log_level_str[lv], LOG_LINES_MINUTE);
	if (may)
		log_write(lv, kind, id, fmt, ap);
}

void log_obj(enum log_level lv, const char *kind, const char *id, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	log_emit(lv, kind, id, fmt, ap);
	va_end(ap);
}

void log_line(enum log_level lv, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	log_emit(lv, NULL, NULL, fmt, ap);
	va_end(ap);
}
