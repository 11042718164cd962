/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base/log.h - one line per event on stderr, every line names its object
 *
 * Line: "2026-01-31T12:00:00.123Z info vm abc123: frozen in 20 ms". Control
 * characters in the text are escaped, so guest or client bytes cannot forge a
 * line. Secrets and request bodies are never arguments.
 */
#pragma once

enum log_level { LOG_LV_DEBUG, LOG_LV_INFO, LOG_LV_WARN, LOG_LV_ERROR };

/*
 * So many lines of one level are written in a minute; the rest is counted, and the next minute
 * begins with their number. Errors, and everything where debug is shown, are not limited.
 */
#define LOG_LINES_MINUTE 6000

/* Called after each write with its bytes, by any thread; for log_file.c. */
void log_on_written(void (*fn)(unsigned long bytes));

/* Name of the program on every line ("pandod"), and the least level shown. */
void log_init(const char *program, enum log_level least);
/* "debug", "info", "warn", "error" -> level, or -EINVAL. */
int log_level_parse(const char *s);

void log_obj(enum log_level lv, const char *kind, const char *id, const char *fmt, ...)
        __attribute__((format(printf, 4, 5)));
void log_line(enum log_level lv, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#define log_debug(...) log_line(LOG_LV_DEBUG, __VA_ARGS__)
#define log_info(...) log_line(LOG_LV_INFO, __VA_ARGS__)
#define log_warn(...) log_line(LOG_LV_WARN, __VA_ARGS__)
#define log_error(...) log_line(LOG_LV_ERROR, __VA_ARGS__)
