/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fault_memory.c - allocations of our own objects, redirected by the linker
 *
 * free() needs no stand-in: what is handed out is the C library's (or a sanitizer's) own memory.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fault/fault.h"
#include "tests/fault/fault_wrap.h"

static bool fails(const char *what)
{
	int saved = errno;
	int e = fault_hit(FAULT_MEMORY, what, NULL);

	errno = e ? ENOMEM : saved;
	return e;
}

void *__wrap_malloc(size_t n)
{
	return fails("malloc") ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size)
{
	return fails("calloc") ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t n)
{
	return fails("realloc") ? NULL : __real_realloc(p, n);
}

void *__wrap_reallocarray(void *p, size_t n, size_t size)
{
	return fails("reallocarray") ? NULL : __real_reallocarray(p, n, size);
}

char *__wrap_strdup(const char *s)
{
	return fails("strdup") ? NULL : __real_strdup(s);
}

char *__wrap_strndup(const char *s, size_t n)
{
	return fails("strndup") ? NULL : __real_strndup(s, n);
}

int __wrap_vasprintf(char **ret, const char *fmt, va_list ap)
{
	return fails("vasprintf") ? -1 : __real_vasprintf(ret, fmt, ap);
}

int __wrap_asprintf(char **ret, const char *fmt, ...)
{
	va_list ap;
	int r;

	if (fails("asprintf"))
		return -1;
	va_start(ap, fmt);
	r = __real_vasprintf(ret, fmt, ap);
	va_end(ap);
	return r;
}

/* The names that a build with _FORTIFY_SOURCE calls. */
int __wrap___vasprintf_chk(char **ret, int flag, const char *fmt, va_list ap)
{
	return fails("vasprintf") ? -1 : __real_vasprintf(ret, fmt, ap);
}

int __wrap___asprintf_chk(char **ret, int flag, const char *fmt, ...)
{
	va_list ap;
	int r;

	if (fails("asprintf"))
		return -1;
	va_start(ap, fmt);
	r = __real_vasprintf(ret, fmt, ap);
	va_end(ap);
	return r;
}
