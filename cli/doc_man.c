/* SPDX-License-Identifier: Apache-2.0 */
/* doc_man.c - a page as the source of a man page */
#include <ctype.h>
#include <string.h>

#include "cli/doc.h"

/* Escapes text for troff: hyphens stay hyphens, nothing begins a request. */
static void put(FILE *f, const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if ((i == 0 || s[i - 1] == '\n') && (s[i] == '.' || s[i] == '\''))
			fputs("\\&", f);
		if (s[i] == '\\')
			fputs("\\e", f);
		else if (s[i] == '-')
			fputs("\\-", f);
		else
			fputc(s[i], f);
	}
}

static void title(FILE *f, const char *name, const char *summary)
{
	fputs(".TH ", f);
	for (const char *p = name; *p; p++)
		fputc(toupper((unsigned char)*p), f);
	fprintf(f, " 1 \"\" \"Pando %s\" \"Pando\"\n.SH NAME\n", PANDO_VERSION);
	put(f, name, strlen(name));
	fputs(" \\- ", f);
	put(f, summary, strlen(summary));
	fputc('\n', f);
}

static void section(FILE *f, const char *text)
{
	fputs(".SH ", f);
	if (strncmp(text, "pando ", 6) == 0)
		put(f, text, strlen(text)); /* a command's name stays as it is typed */
	else
		for (; *text; text++)
			fputc(toupper((unsigned char)*text), f);
	fputc('\n', f);
}

static void synopsis(FILE *f, const char *line)
{
	fputs(".B ", f);
	put(f, line, strlen(line));
	fputs("\n.br\n", f);
}

static void para(FILE *f, const char *text)
{
	while (*text) {
		const char *end = strstr(text, "\n\n");
		size_t n = end ? (size_t)(end - text) : strlen(text);

		fputs(".PP\n", f);
		put(f, text, n);
		fputc('\n', f);
		text += n + (end ? 2 : 0);
	}
}

static void item(FILE *f, const char *term, const char *text)
{
	fputs(".TP\n.B ", f);
	put(f, term, strlen(term));
	fputc('\n', f);
	put(f, text, strlen(text));
	fputc('\n', f);
}

static void example(FILE *f, const char *what, const char *command)
{
	fputs(".TP\n.B ", f);
	put(f, command, strlen(command));
	fputc('\n', f);
	put(f, what, strlen(what));
	fputc('\n', f);
}

const struct doc_ops doc_man = {
	.title = title,
	.section = section,
	.synopsis = synopsis,
	.para = para,
	.item = item,
	.example = example,
};
