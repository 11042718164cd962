/* SPDX-License-Identifier: Apache-2.0 */
/* doc_md.c - a page as Markdown: docs/COMMANDS.md, which the docs site shows */
#include <string.h>

#include "cli/doc.h"

/* Text outside of code: what Markdown would obey is escaped. */
static void put(FILE *f, const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (strchr("\\`*_<>[]", s[i]))
			fputc('\\', f);
		fputc(s[i], f);
	}
}

static void title(FILE *f, const char *name, const char *summary)
{
	const char *noun = strncmp(name, "pando-", 6) == 0 ? name + 6 : NULL;

	fputs(noun ? "\n## pando " : "\n## ", f);
	fprintf(f, "%s\n\n", noun ? noun : name);
	put(f, summary, strlen(summary));
	fputs("\n", f);
}

static void section(FILE *f, const char *text)
{
	if (strcmp(text, "Synopsis") == 0 || strcmp(text, "Description") == 0)
		return; /* the heading above is enough */
	if (strncmp(text, "pando ", 6) == 0)
		fprintf(f, "\n### `%s`\n", text);
	else
		fprintf(f, "\n**%s**\n", text);
}

static void synopsis(FILE *f, const char *line)
{
	fprintf(f, "\n    %s\n", line);
}

static void para(FILE *f, const char *text)
{
	fputc('\n', f);
	put(f, text, strlen(text));
	fputc('\n', f);
}

static void item(FILE *f, const char *term, const char *text)
{
	fprintf(f, "\n- `%s`: ", term);
	put(f, text, strlen(text));
	fputc('\n', f);
}

static void example(FILE *f, const char *what, const char *command)
{
	item(f, command, what);
}

const struct doc_ops doc_md = {
	.title = title,
	.section = section,
	.synopsis = synopsis,
	.para = para,
	.item = item,
	.example = example,
};
