/* SPDX-License-Identifier: Apache-2.0 */
/*
 * repl_input.c - is the input a complete cell?
 *
 * One pass over the text tracks open brackets, strings and comments, for Bash also words like `if`
 * and `do`. If something is open at the end, the cell continues. A Python block continues until an
 * empty line. A wrong guess costs an error message from the kernel, or an empty line.
 */
#include "cli/repl_input.h"

#include <ctype.h>
#include <stddef.h>
#include <string.h>

struct walk {
	int depth;         /* of brackets */
	int words;         /* bash: opened minus closed */
	const char *quote; /* what ends the string we are in, or NULL */
	bool escaped;      /* a backslash came last */
	bool block;        /* python: a line ended with a colon */
	char last;         /* the last significant character of a line */
};

static bool at(const char *p, const char *what)
{
	return strncmp(p, what, strlen(what)) == 0;
}

/* If a string begins here, what ends it. */
static const char *opens_string(const char *language, const char *p)
{
	bool python = *language == 'p';

	if (python && at(p, "\"\"\""))
		return "\"\"\"";
	if (python && at(p, "'''"))
		return "'''";
	if (*p == '"')
		return "\"";
	if (*p == '\'')
		return "'";
	if (*p == '`' && !python && *language != 'b')
		return "`";
	return NULL;
}

static const char *opens_comment(const char *language, const char *p, const char *text)
{
	if (*language == 'p' && *p == '#')
		return "\n";
	if (*language == 'b' && *p == '#' && (p == text || isspace((unsigned char)p[-1])))
		return "\n";
	if ((*language == 'j' || *language == 't') && at(p, "//"))
		return "\n";
	if ((*language == 'j' || *language == 't') && at(p, "/*"))
		return "*/";
	return NULL;
}

/* Inside a string: the next position, after its end if it ends here. */
static const char *in_string(struct walk *w, const char *language, const char *p)
{
	size_t n = strlen(w->quote);

	if (*p == '\\' && p[1] && !(*language == 'b' && *w->quote == '\''))
		return p + 2;
	if (at(p, w->quote)) {
		w->quote = NULL;
		return p + n;
	}
	/* a single-line string ends with its line */
	if (*p == '\n' && n == 1 && *language != 'b' && *w->quote != '`')
		w->quote = NULL;
	return p + 1;
}

/* Words of Bash that open and close; only where a command begins. */
static void bash_word(struct walk *w, const char *p, size_t n)
{
	static const char *const open[] = { "if", "case", "do", "{" }, *const close[] = {
		"fi", "esac", "done", "}"
	};

	for (size_t i = 0; i < sizeof(open) / sizeof(open[0]); i++) {
		w->words += strlen(open[i]) == n && strncmp(p, open[i], n) == 0;
		w->words -= strlen(close[i]) == n && strncmp(p, close[i], n) == 0;
	}
}

static bool is_word(int ch)
{
	return ch && !isspace(ch) && !strchr(";|&()<>'\"", ch);
}

static bool bash_open(struct walk *w, const char *text)
{
	bool command = true;

	for (const char *p = text; *p;) {
		size_t n = 0;

		if (w->quote) {
			p = in_string(w, "bash", p);
			continue;
		}
		if (opens_comment("bash", p, text)) {
			p += strcspn(p, "\n");
			continue;
		}
		while (is_word((unsigned char)p[n]) && p[n] != '\\')
			n++;
		if (n) {
			if (command)
				bash_word(w, p, n);
			/* a command can also begin after these */
			command = command &&
			          (at(p, "do") || at(p, "then") || at(p, "else") || at(p, "{") ||
			           at(p, "if") || at(p, "while") || at(p, "until") || at(p, "!"));
			p += n;
			continue;
		}
		w->quote = opens_string("bash", p);
		w->escaped = *p == '\\' && p[1] == '\n' && !p[2];
		w->depth += (*p == '(') - (*p == ')');
		if (strchr(";|&(\n", *p))
			command = true;
		p += *p == '\\' && p[1] ? 2 : 1;
	}
	return w->quote || w->escaped || w->words > 0 || w->depth > 0;
}

static bool code_open(struct walk *w, const char *language, const char *text)
{
	for (const char *p = text; *p;) {
		const char *end;

		if (w->quote) {
			p = in_string(w, language, p);
			w->last = 'x';
			continue;
		}
		end = opens_comment(language, p, text);
		if (end) {
			const char *stop = strstr(p + 1, end);

			if (!stop)
				return *end == '*';
			p = *end == '\n' ? stop : stop + strlen(end);
			continue;
		}
		w->quote = opens_string(language, p);
		if (w->quote) {
			p += strlen(w->quote);
			continue;
		}
		w->depth += strchr("([{", *p) != NULL;
		w->depth -= strchr(")]}", *p) != NULL;
		if (*p == '\\' && p[1] == '\n' && !p[2])
			return true;
		if (*p == '\n') {
			w->block |= w->last == ':' && w->depth <= 0;
			w->last = 0;
		} else if (!isspace((unsigned char)*p)) {
			w->last = *p;
		}
		p++;
	}
	return (w->quote && (strlen(w->quote) == 3 || *w->quote == '`')) || w->depth > 0;
}

/* Does the text end with an empty line? */
static bool ends_empty(const char *text)
{
	size_t n = strlen(text);

	if (n && text[n - 1] == '\n')
		n--;
	while (n && (text[n - 1] == ' ' || text[n - 1] == '\t'))
		n--;
	return n && text[n - 1] == '\n';
}

bool repl_wants_more(const char *language, const char *text)
{
	struct walk w = { 0 };

	if (*language == 'b')
		return bash_open(&w, text);
	if (*language == 'p' && at(text, "%%"))
		return !ends_empty(text);
	if (code_open(&w, language, text))
		return true;
	return *language == 'p' && (w.block || *text == '@') && !ends_empty(text);
}
