/* SPDX-License-Identifier: Apache-2.0 */
/*
 * web.c - find a file of the site, and what a client says about it
 *
 * Files are kept as gzip where that is smaller, because nearly every client takes it as it is:
 * then a reply is the bytes of the program itself, without a copy. The few that don't (curl) get
 * it unpacked.
 */
#include "web/web.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <zlib.h>

#include "base/auto.h"
#include "base/err.h"

#define PAGE_PATH_MAX 512
#define GZIP_WINDOW (15 + 16) /* zlib: the largest window, with gzip's header */

static int by_path(const void *key, const void *file)
{
	return strcmp(key, ((const struct web_file *)file)->path);
}

const struct web_file *web_find(const struct web *w, const char *path)
{
	return w->n ? bsearch(path, w->files, w->n, sizeof(*w->files), by_path) : NULL;
}

const struct web_file *web_find_page(const struct web *w, const char *path)
{
	static const char *const ends[] = { "", ".html", "/index.html" };
	const struct web_file *f = NULL;
	char full[PAGE_PATH_MAX];
	size_t n = strlen(path);

	while (n && path[n - 1] == '/')
		n--;
	for (size_t i = 0; i < ARRAY_SIZE(ends) && !f; i++) {
		int k = snprintf(full, sizeof(full), "%.*s%s", (int)n, path, ends[i]);

		if (k > 0 && (size_t)k < sizeof(full))
			f = web_find(w, full);
	}
	return f;
}

int web_unpack(const struct web *w, const struct web_file *f, void **ret, struct err *err)
{
	autofree unsigned char *p = malloc(f->raw ? f->raw : 1);
	z_stream z = { .next_in = (z_const Bytef *)(w->data + f->off), .avail_in = f->len };
	int r;

	*ret = NULL;
	if (!p)
		return err_set(err, -ENOMEM, "out of memory");
	if (!f->gzip) {
		memcpy(p, w->data + f->off, f->len);
		*ret = TAKE_PTR(p);
		return 0;
	}
	z.next_out = p;
	z.avail_out = f->raw;
	if (inflateInit2(&z, GZIP_WINDOW) != Z_OK)
		return err_set(err, -ENOMEM, "out of memory");
	r = inflate(&z, Z_FINISH);
	inflateEnd(&z);
	if (r != Z_STREAM_END || z.avail_out)
		return err_set(err, -EIO, "the built-in file '%s' cannot be unpacked", f->path);
	*ret = TAKE_PTR(p);
	return 0;
}

/* The next element of a list with commas, without the blanks around it; false at the end. */
static bool next_item(const char **at, const char **item, size_t *n)
{
	const char *p = *at + strspn(*at, " \t,");

	*item = p;
	*n = strcspn(p, ",");
	*at = p + *n;
	while (*n && (p[*n - 1] == ' ' || p[*n - 1] == '\t'))
		(*n)--;
	return *n > 0;
}

/* ";q=0", ";q=0.00": not this one. */
static bool refused(const char *params, const char *end)
{
	const char *q = params;

	while (q < end && (*q == ' ' || *q == '\t' || *q == ';'))
		q++;
	if (end - q < 3 || (*q != 'q' && *q != 'Q') || q[1] != '=')
		return false;
	for (q += 2; q < end; q++)
		if (*q != '0' && *q != '.')
			return false;
	return true;
}

bool web_takes_gzip(const char *accept)
{
	const char *item;
	size_t n;

	while (accept && next_item(&accept, &item, &n)) {
		const char *end = item + n;
		size_t name = strcspn(item, "; \t,");

		if (name == 4 && strncasecmp(item, "gzip", 4) == 0)
			return !refused(item + name, end);
	}
	return false;
}

bool web_known(const char *if_none_match, const char *etag)
{
	const char *item;
	size_t n;

	while (if_none_match && next_item(&if_none_match, &item, &n)) {
		if (n == 1 && *item == '*')
			return true;
		if (n > 2 && item[0] == 'W' && item[1] == '/') { /* a proxy may have made it weak */
			item += 2;
			n -= 2;
		}
		if (n == strlen(etag) && memcmp(item, etag, n) == 0)
			return true;
	}
	return false;
}
