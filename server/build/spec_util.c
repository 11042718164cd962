/* SPDX-License-Identifier: Apache-2.0 */
/* spec_util.c - shared by the checkers of a spec: errors, field tables, paths */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "build/spec_internal.h"

int spec_bad(struct spec_ctx *c, enum err_code tag, struct err *err, const char *fmt, ...)
{
	char text[300];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return err_tag(err, -EINVAL, tag ? tag : c->tag, "%s", text);
}

void spec_extra(struct spec_ctx *c, const char *name, json_t *value_consume)
{
	json_object_set_new(c->extra, name, value_consume);
}

bool spec_text_ok(const char *s)
{
	for (; *s; s++)
		if ((unsigned char)*s < 0x20 || *s == 0x7f)
			return false;
	return true;
}

bool spec_path_ok(const char *s)
{
	if (s[0] != '/' || !spec_text_ok(s) || strlen(s) > SPEC_TEXT_MAX)
		return false;
	for (const char *p = s; (p = strstr(p, "/.")); p++)
		if (p[2] == '\0' || p[2] == '/' || (p[2] == '.' && (p[3] == '\0' || p[3] == '/')))
			return false;
	return true;
}

int spec_array(const json_t *j, const char *where, const char *name, struct spec_ctx *c,
               struct err *err)
{
	if (!json_is_array(j))
		return spec_bad(c, ERR_NONE, err, "'%s%s' must be an array", where, name);
	if (json_array_size(j) > SPEC_ITEMS_MAX)
		return spec_bad(c, ERR_NONE, err, "'%s%s' has more than %d entries", where, name,
		                SPEC_ITEMS_MAX);
	return 0;
}

int spec_fields(const json_t *j, const char *where, const struct json_field *fields, size_t n,
                void *dst, struct spec_ctx *c, struct err *err)
{
	int r = json_fields_read(j, where, fields, n, dst, err);

	if (r < 0)
		err->tag = c->tag;
	return r;
}

/* An array of strings without control characters and not longer than max; an empty one gets
 * empty_tag.
 */
int spec_strings(const json_t *j, const char *where, const char *name, size_t max,
                 enum err_code empty_tag, struct spec_ctx *c, struct err *err)
{
	size_t i;
	json_t *v;
	int r;

	if (!j || json_is_null(j))
		return 0;
	if ((r = spec_array(j, where, name, c, err)) < 0)
		return r;
	json_array_foreach((json_t *)(uintptr_t)j, i, v)
	{
		const char *s = json_string_value(v);

		if (!s || json_string_length(v) > max || strlen(s) != json_string_length(v) ||
		    !spec_text_ok(s))
			return spec_bad(c, ERR_NONE, err,
			                "'%s%s[%zu]' must be one line of at most %zu bytes", where,
			                name, i, max);
		if (!s[strspn(s, " ")])
			return spec_bad(c, empty_tag, err, "'%s%s[%zu]' is empty", where, name, i);
	}
	return 0;
}
