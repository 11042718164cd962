/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_infer.c - the packages a script imports, as far as one can see without parsing it
 *
 * Looks for a quoted word after `from`, `import`, `import(` and `require(`, outside of comments.
 * What begins with a dot, a slash or a scheme is no package, and Node.js has modules of its own.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "serverless/serverless_internal.h"

static const char *const builtin[] = {
	"assert",
	"async_hooks",
	"buffer",
	"child_process",
	"cluster",
	"console",
	"constants",
	"crypto",
	"dgram",
	"diagnostics_channel",
	"dns",
	"domain",
	"events",
	"fs",
	"http",
	"http2",
	"https",
	"inspector",
	"module",
	"net",
	"os",
	"path",
	"perf_hooks",
	"process",
	"punycode",
	"querystring",
	"readline",
	"repl",
	"stream",
	"string_decoder",
	"sys",
	"timers",
	"tls",
	"trace_events",
	"tty",
	"url",
	"util",
	"v8",
	"vm",
	"wasi",
	"worker_threads",
	"zlib",
};

/* The package of "name/file" or "@scope/name/file". */
static int add_package(const char *s, size_t n, json_t **modules, struct err *err)
{
	const char *slash = memchr(s, '/', n);
	char name[215];

	if (n && *s == '@' && slash)
		slash = memchr(slash + 1, '/', n - (size_t)(slash + 1 - s));
	if (slash)
		n = (size_t)(slash - s);
	if (!n || n >= sizeof(name) || *s == '.' || *s == '/' || memchr(s, ':', n))
		return 0;
	snprintf(name, sizeof(name), "%.*s", (int)n, s);
	for (size_t i = 0; i < ARRAY_SIZE(builtin); i++)
		if (!strcmp(name, builtin[i]))
			return 0;
	for (const char *p = name; *p; p++)
		if (!isalnum((unsigned char)*p) && !strchr("-_.~/@", *p))
			return 0;
	if (!*modules && !(*modules = json_object()))
		return err_set(err, -ENOMEM, "out of memory");
	if (!json_object_get(*modules, name) &&
	    json_object_set_new(*modules, name, json_string("latest")) < 0)
		return err_set(err, -ENOMEM, "out of memory");
	return 0;
}

static bool word_before(const char *text, const char *at, const char *word)
{
	size_t n = strlen(word);

	return (size_t)(at - text) >= n && !memcmp(at - n, word, n) &&
	       (at - n == text ||
	        !(isalnum((unsigned char)at[-(long)n - 1]) || strchr("_$.", at[-(long)n - 1])));
}

/* Is the quote at `at` what such a word is followed by? */
static bool is_module(const char *text, const char *at)
{
	const char *p = at;

	while (p > text && isspace((unsigned char)p[-1]))
		p--;
	if (word_before(text, p, "from") || word_before(text, p, "import"))
		return true;
	if (p == text || p[-1] != '(')
		return false;
	p--;
	while (p > text && isspace((unsigned char)p[-1]))
		p--;
	return word_before(text, p, "import") || word_before(text, p, "require");
}

int run_infer(const char *script, json_t **modules, struct err *err)
{
	const char *p = script;

	while (*p) {
		if (p[0] == '/' && p[1] == '/') {
			p += strcspn(p, "\n");
		} else if (p[0] == '/' && p[1] == '*') {
			const char *end = strstr(p + 2, "*/");

			p = end ? end + 2 : p + strlen(p);
		} else if (*p == '"' || *p == '\'' || *p == '`') {
			const char *end = p + 1;
			int r;

			while (*end && *end != *p && (*p == '`' || *end != '\n'))
				end += *end == '\\' && end[1] ? 2 : 1;
			if (*end == *p && is_module(script, p) &&
			    (r = add_package(p + 1, (size_t)(end - p - 1), modules, err)) < 0)
				return r;
			p = *end ? end + 1 : end;
		} else {
			p++;
		}
	}
	return 0;
}
