/* SPDX-License-Identifier: Apache-2.0 */
#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *err_name(int code)
{
	const char *s = strerrordesc_np(code < 0 ? -code : code);

	return s ? s : "unknown error";
}

/* The last code set for a caller who wanted no sentence: err_wrap() gives it back. */
static __thread int unheard = -EIO;

int err_set(struct err *err, int code, const char *fmt, ...)
{
	va_list ap;

	if (!err)
		return unheard = code;
	err->code = code;
	err->tag = NULL;
	err->n_facts = 0;
	va_start(ap, fmt);
	vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
	va_end(ap);
	return code;
}

int err_tag(struct err *err, int code, const char *tag, const char *fmt, ...)
{
	va_list ap;

	if (!err)
		return unheard = code;
	err->code = code;
	err->tag = tag;
	err->n_facts = 0;
	va_start(ap, fmt);
	vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
	va_end(ap);
	return code;
}

int err_sys(struct err *err, int code, const char *fmt, ...)
{
	va_list ap;
	int n;

	if (!err)
		return unheard = code;
	err->code = code;
	err->tag = NULL;
	err->n_facts = 0;
	va_start(ap, fmt);
	n = vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
	va_end(ap);
	if (n >= 0 && (size_t)n < sizeof(err->msg))
		snprintf(err->msg + n, sizeof(err->msg) - (size_t)n, ": %s", err_name(code));
	return code;
}

int err_wrap(struct err *err, const char *fmt, ...)
{
	char old[sizeof(err->msg)];
	va_list ap;
	int n;

	if (!err)
		return unheard;
	memcpy(old, err->msg, sizeof(old));
	va_start(ap, fmt);
	n = vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
	va_end(ap);
	if (n >= 0 && (size_t)n < sizeof(err->msg))
		snprintf(err->msg + n, sizeof(err->msg) - (size_t)n, ": %s", old);
	return err->code;
}

void err_fact(struct err *err, const char *name, long long value)
{
	if (err && err->n_facts < ERR_FACTS_MAX)
		err->facts[err->n_facts++] = (struct err_fact){ name, value };
}
