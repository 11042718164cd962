/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base/err.h - a code and a message, on the caller's stack
 *
 * Functions return 0 or positive on success, -errno on failure, and put a message into the caller's
 * struct err. Nothing to free, nothing to leak. `tag` is a code of base/codes.def
 * (ERR_SNAPSHOT_NOT_FOUND) for callers that must tell two failures of one errno apart, or ERR_NONE.
 */
#pragma once

#define GROUP(title)
#define CODE(name, status, meaning) ERR_##name,
enum err_code {
	ERR_NONE,
#include "base/codes.def"
	ERR_CODE_MAX
};
#undef CODE
#undef GROUP
/* "SNAPSHOT_NOT_FOUND"; NULL for ERR_NONE. */
const char *err_code_name(enum err_code code);
/* The HTTP status that the API answers; 0: the code is not sent. */
unsigned err_code_status(enum err_code code);
/* ERR_NONE when there is none of that name. */
enum err_code err_code_parse(const char *name);

#define ERR_FACTS_MAX 4
#define ERR_FACT_RETRY "retryAfter" /* seconds: waiting helps, and the API answers 429 or 503 */

struct err {
	int code;
	enum err_code tag;
	char msg[384];
	unsigned n_facts; /* numbers that belong to the error: limit, current, ... */
	struct err_fact {
		const char *name; /* static */
		long long value;
	} facts[ERR_FACTS_MAX];
};

/* Sets code and message, returns code; a NULL err only returns the code. */
int err_set(struct err *err, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* The same, with a tag. */
int err_tag(struct err *err, int code, enum err_code tag, const char *fmt, ...)
        __attribute__((format(printf, 4, 5)));
/* "fmt...: strerror(errno_code)": for failed system calls. code is negative. */
int err_sys(struct err *err, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* Puts "fmt...: " before the existing message; returns code, the one that err has. */
int err_wrap(struct err *err, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* Adds a number to the error that was set last; one too many is dropped. */
void err_fact(struct err *err, const char *name, long long value);
/* Of the error that was set last, or -1. */
long long err_fact_get(const struct err *err, const char *name);
/* Thread-safe name of an errno value (positive or negative). */
const char *err_name(int code);
