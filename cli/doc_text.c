/* SPDX-License-Identifier: Apache-2.0 */
/* doc_text.c - a page as --help prints it: plain text, 80 columns */
#include <ctype.h>
#include <string.h>

#include "base/auto.h"
#include "cli/doc.h"

#define WIDTH 80
#define INDENT 7
#define TERM_COLUMN 30

/* Words of one paragraph, wrapped; the cursor is at column col. */
static void wrap(FILE *f, const char *p, size_t n, size_t indent, size_t col)
{
	const char *end = p + n;

	while (p < end) {
		size_t w = 0;

		while (p < end && *p == ' ')
			p++;
		while (p + w < end && p[w] != ' ')
			w++;
		if (!w)
			break;
		if (col > indent && col + 1 + w > WIDTH) {
			fputc('\n', f);
			col = 0;
		}
		if (col < indent)
			fprintf(f, "%*s", (int)(indent - col), "");
		else if (col > indent)
			fputc(' ', f);
		col = (col <= indent ? indent : col + 1) + w;
		fprintf(f, "%.*s", (int)w, p);
		p += w;
	}
	fputc('\n', f);
}

static void title(FILE *f, const char *name, const char *summary)
{
	fprintf(f, "%s - %s\n", name, summary);
}

static void section(FILE *f, const char *text)
{
	fputc('\n', f);
	for (; *text; text++)
		fputc(toupper((unsigned char)*text), f);
	fputc('\n', f);
}

static void synopsis(FILE *f, const char *line)
{
	fprintf(f, "%*s%s\n", INDENT, "", line);
}

static void para(FILE *f, const char *text)
{
	while (*text) {
		const char *end = strstr(text, "\n\n");
		size_t n = end ? (size_t)(end - text) : strlen(text);

		wrap(f, text, n, INDENT, 0);
		text += n;
		if (end) {
			fputc('\n', f);
			text += 2;
		}
	}
}

static void item(FILE *f, const char *term, const char *text)
{
	size_t col = INDENT + strlen(term);

	fprintf(f, "%*s%s", INDENT, "", term);
	if (col + 2 > TERM_COLUMN) {
		fputc('\n', f);
		col = 0;
	}
	wrap(f, text, strlen(text), TERM_COLUMN, col);
}

static void example(FILE *f, const char *what, const char *command)
{
	size_t col = INDENT + strlen(command);

	fprintf(f, "%*s%s", INDENT, "", command);
	if (*what)
		fprintf(f, "%*s# %s", col < 44 ? (int)(44 - col) : 2, "", what);
	fputc('\n', f);
}

const struct doc_ops doc_text = {
	.title = title,
	.section = section,
	.synopsis = synopsis,
	.para = para,
	.item = item,
	.example = example,
};
