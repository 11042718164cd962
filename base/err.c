/* SPDX-License-Identifier: Apache-2.0 */
#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define GROUP(title)
#define CODE(name, status, meaning) [ERR_##name] = { #name, status },
static const struct {
	const char *name;
	unsigned status;
} codes[ERR_CODE_MAX] = {
#include "base/codes.def"
};
#undef CODE
#undef GROUP

const char *err_code_name(enum err_code code)
{
	return code < ERR_CODE_MAX ? codes[code].name : NULL;
}

unsigned err_code_status(enum err_code code)
{
	return code < ERR_CODE_MAX ? codes[code].status : 0;
}

enum err_code err_code_parse(const char *name)
{
	for (unsigned i = 1; name && i < ERR_CODE_MAX; i++)
		if (strcmp(codes[i].name, name) == 0)
			return (enum err_code)i;
	return ERR_NONE;
}

const char *err_name(int code)
{
	const char *s = strerrordesc_np(code < 0 ? -code : code);

	return s ? s : "unknown error";
}

int err_set(struct err *err, int code, const char *fmt, ...)
{
	va_list ap;

	if (!err)
		return code;
	err->code = code;
	err->tag = ERR_NONE;
	err->n_facts = 0;
	va_start(ap, fmt);
	vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
	va_end(ap);
	return code;
}

int err_tag(struct err *err, int code, enum err_code tag, const char *fmt, ...)
{
	va_list ap;

	if (!err)
		return code;
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
		return code;
	err->code = code;
	err->tag = ERR_NONE;
	err->n_facts = 0;
	va_start(ap, fmt);
	n = vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
	va_end(ap);
	if (n >= 0 && (size_t)n < sizeof(err->msg))
		snprintf(err->msg + n, sizeof(err->msg) - (size_t)n, ": %s", err_name(code));
	return code;
}

int err_wrap(struct err *err, int code, const char *fmt, ...)
{
	char old[sizeof(err->msg)];
	va_list ap;
	int n;

	if (!err)
		return code;
	memcpy(old, err->msg, sizeof(old));
	va_start(ap, fmt);
	n = vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
	va_end(ap);
	if (n >= 0 && (size_t)n < sizeof(err->msg))
		snprintf(err->msg + n, sizeof(err->msg) - (size_t)n, ": %s", old);
	return code;
}

void err_fact(struct err *err, const char *name, long long value)
{
	if (err && err->n_facts < ERR_FACTS_MAX)
		err->facts[err->n_facts++] = (struct err_fact){ name, value };
}

long long err_fact_get(const struct err *err, const char *name)
{
	for (unsigned i = 0; i < err->n_facts; i++)
		if (strcmp(err->facts[i].name, name) == 0)
			return err->facts[i].value;
	return -1;
}
