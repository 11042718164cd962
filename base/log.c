/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
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

static void log_emit(enum log_level lv, const char *kind, const char *id, const char *fmt,
                     va_list ap)
{
	char text[LOG_LINE_MAX], line[LOG_LINE_MAX + 160];
	struct timespec ts;
	struct tm tm;
	size_t n;
	int k;

	if (lv < log_least)
		return;
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
