/* SPDX-License-Identifier: Apache-2.0 */
/*
 * web/web.h - the files of the dashboard and of the docs site, which are part of the program
 *
 * A site is a table of files, sorted by path, over one block of bytes. web_site is the one that
 * scripts/web.sh made (web_data.c, generated while building); tests bring tables of their own.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

struct web_file {
	const char *path; /* "index.html", "assets/main-XYZ.js", "docs/guides/agents.html" */
	const char *type;
	const char *etag;       /* with its quotes */
	uint32_t off, len, raw; /* where it is in the block; bytes when unpacked */
	bool gzip;              /* kept, and sent to those who accept it, as gzip */
	bool immutable;         /* its name changes with its contents */
};

struct web {
	const struct web_file *files;
	size_t n;
	const unsigned char *data;
};

extern const struct web web_site;

/* NULL: there is none. Paths are compared as they are: "..", "//" and the like lead nowhere. */
const struct web_file *web_find(const struct web *w, const char *path);
/* A page of the docs: the file, the file with ".html", or the folder's "index.html". */
const struct web_file *web_find_page(const struct web *w, const char *path);
/* The file as it is, unpacked; the caller frees it. */
int web_unpack(const struct web *w, const struct web_file *f, void **ret, struct err *err);
/* Accept-Encoding: may the reply be gzip? NULL: no. */
bool web_takes_gzip(const char *accept);
/* If-None-Match: does the client have this version? NULL: no. */
bool web_known(const char *if_none_match, const char *etag);
