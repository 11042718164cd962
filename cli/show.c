/* SPDX-License-Identifier: Apache-2.0 */
/* show.c - replies as tables, lines or JSON */
#include "cli/cli.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"

#define CELL_MAX 256

void cli_dump(const json_t *reply)
{
	json_dumpf(reply, stdout, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
	putchar('\n');
}

/* Names come from users: control characters are not printed. */
static void put_text(const char *s, char dst[CELL_MAX])
{
	size_t n = 0;

	for (; *s && n + 1 < CELL_MAX; s++)
		dst[n++] = (char)(iscntrl((unsigned char)*s) ? '?' : *s);
	dst[n] = '\0';
}

static void put_list(const json_t *v, char dst[CELL_MAX])
{
	size_t i, n = 0;
	json_t *item;

	dst[0] = '\0';
	json_array_foreach(v, i, item)
	{
		const char *s = json_string_value(item);

		n += json_is_integer(item)
		             ? (size_t)snprintf(dst + n, CELL_MAX - n, "%s%lld", n ? "," : "",
		                                (long long)json_integer_value(item))
		             : (size_t)snprintf(dst + n, CELL_MAX - n, "%s%s", n ? "," : "",
		                                s ? s : "?");
		if (n >= CELL_MAX)
			return;
	}
}

static void cell(const json_t *row, const char *member, char dst[CELL_MAX])
{
	const char *dot = strchr(member, '.');
	char first[64];
	const json_t *v;

	if (dot) {
		snprintf(first, sizeof(first), "%.*s", (int)(dot - member), member);
		row = json_object_get(row, first);
		member = dot + 1;
	}
	v = json_object_get(row, member);
	if (json_is_string(v))
		put_text(json_string_value(v), dst);
	else if (json_is_integer(v))
		snprintf(dst, CELL_MAX, "%lld", (long long)json_integer_value(v));
	else if (json_is_real(v))
		snprintf(dst, CELL_MAX, "%.1f", json_real_value(v));
	else if (json_is_boolean(v))
		snprintf(dst, CELL_MAX, "%s", json_is_true(v) ? "yes" : "no");
	else if (json_is_array(v))
		put_list(v, dst);
	else
		snprintf(dst, CELL_MAX, "-");
}

void cli_table(const struct cli *c, const json_t *reply, const json_t *rows,
               const struct cli_col *cols, size_t n)
{
	autofree size_t *width = calloc(n, sizeof(*width));
	char text[CELL_MAX];
	size_t i;
	json_t *row;

	if (cli_json(c) || !width) {
		cli_dump(reply);
		return;
	}
	for (size_t k = 0; k < n; k++)
		width[k] = strlen(cols[k].title);
	json_array_foreach(rows, i, row)
	{
		for (size_t k = 0; k < n; k++) {
			cell(row, cols[k].member, text);
			width[k] = MAX(width[k], strlen(text));
		}
	}
	for (size_t k = 0; k < n; k++)
		printf("%-*s%s", k + 1 < n ? (int)width[k] : 0, cols[k].title,
		       k + 1 < n ? "  " : "\n");
	json_array_foreach(rows, i, row)
	{
		for (size_t k = 0; k < n; k++) {
			cell(row, cols[k].member, text);
			printf("%-*s%s", k + 1 < n ? (int)width[k] : 0, text,
			       k + 1 < n ? "  " : "\n");
		}
	}
}

void cli_show(const struct cli *c, const json_t *reply, const struct cli_col *cols, size_t n)
{
	char text[CELL_MAX];

	if (cli_json(c)) {
		cli_dump(reply);
		return;
	}
	for (size_t k = 0; k < n; k++) {
		cell(reply, cols[k].member, text);
		printf("%-14s %s\n", cols[k].title, text);
	}
}

void cli_say(const struct cli *c, const json_t *reply, const char *fmt, ...)
{
	va_list ap;

	if (cli_json(c)) {
		cli_dump(reply);
		return;
	}
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
}

int cli_fail(int status, const char *fmt, ...)
{
	va_list ap;

	fputs("pando: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	return status;
}

const char *cli_str(const json_t *object, const char *member)
{
	const char *s = json_string_value(json_object_get(object, member));

	return s ? s : "";
}

void cli_put_text(FILE *f, const char *s)
{
	for (; *s; s++)
		fputc(iscntrl((unsigned char)*s) && *s != '\t' ? '?' : *s, f);
}
