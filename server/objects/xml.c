/* SPDX-License-Identifier: Apache-2.0 */
/*
 * xml.c - the two answers of a server that are read: an error, and a list of keys
 *
 * The server is not trusted with more than the bytes it gives back. Expat parses; a document type
 * (and with it every entity), deep nesting, long texts and too many keys end it. What an element
 * means is decided by its whole path, so that a key named like an element is still a key.
 */
#include <errno.h>
#include <expat.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "objects/objects_internal.h"

#define DEPTH_MAX 8
#define PATH_SIZE 128
#define TEXT_SIZE 1025 /* of one element, with the NUL: continuation tokens */

struct reader {
	XML_Parser p;
	char path[PATH_SIZE]; /* "/ListBucketResult/Contents/Key" */
	unsigned depth;
	char text[TEXT_SIZE];
	size_t len;
	struct s3_error *error; /* what is wanted: one of the two */
	struct s3_list *list;
	bool ok; /* the root was the right one */
	int r;
};

static void stop(struct reader *x, int r)
{
	x->r = r;
	XML_StopParser(x->p, XML_FALSE);
}

static void begin(void *ctx, const XML_Char *name, const XML_Char **atts)
{
	struct reader *x = ctx;
	size_t used = strlen(x->path), n = strlen(name);

	(void)atts;
	if (++x->depth > DEPTH_MAX || used + n + 2 > sizeof(x->path)) {
		stop(x, -EBADMSG);
		return;
	}
	x->path[used] = '/';
	memcpy(x->path + used + 1, name, n + 1);
	x->len = 0;
	if (x->depth == 1)
		x->ok = strcmp(name, x->list ? "ListBucketResult" : "Error") == 0;
}

static void text(void *ctx, const XML_Char *s, int n)
{
	struct reader *x = ctx;

	if ((size_t)n > sizeof(x->text) - 1 - x->len) {
		if (x->list) /* a key that was cut would be another key */
			stop(x, -EBADMSG);
		return;
	}
	memcpy(x->text + x->len, s, (size_t)n);
	x->len += (size_t)n;
}

static void add_key(struct reader *x)
{
	struct s3_list *l = x->list;

	if (x->len >= S3_KEY_SIZE) /* none of ours, and too long to be one */
		return;
	if (l->n == S3_LIST_MAX) {
		stop(x, -EBADMSG);
		return;
	}
	if (!l->keys && !(l->keys = calloc(S3_LIST_MAX, S3_KEY_SIZE))) {
		stop(x, -ENOMEM);
		return;
	}
	memcpy(l->keys[l->n++], x->text, x->len + 1);
}

static void copy_text(char *dst, size_t size, const struct reader *x)
{
	size_t n = MIN(x->len, size - 1);

	for (size_t i = 0; i < n; i++)
		dst[i] = (char)(x->text[i] >= ' ' && x->text[i] < 127 ? x->text[i] : '?');
	dst[n] = '\0';
}

static void end(void *ctx, const XML_Char *name)
{
	struct reader *x = ctx;
	char *slash = strrchr(x->path, '/');

	(void)name;
	x->text[x->len] = '\0';
	if (x->error && strcmp(x->path, "/Error/Code") == 0)
		copy_text(x->error->code, sizeof(x->error->code), x);
	else if (x->error && strcmp(x->path, "/Error/Message") == 0)
		copy_text(x->error->message, sizeof(x->error->message), x);
	else if (x->list && strcmp(x->path, "/ListBucketResult/Contents/Key") == 0)
		add_key(x);
	else if (x->list && strcmp(x->path, "/ListBucketResult/IsTruncated") == 0)
		x->list->more = strcmp(x->text, "true") == 0;
	else if (x->list && strcmp(x->path, "/ListBucketResult/NextContinuationToken") == 0)
		memcpy(x->list->token, x->text, x->len + 1);
	if (slash)
		*slash = '\0';
	x->depth--;
	x->len = 0;
}

static void doctype(void *ctx, const XML_Char *name, const XML_Char *sysid, const XML_Char *pubid,
                    int internal)
{
	(void)name, (void)sysid, (void)pubid, (void)internal;
	stop(ctx, -EBADMSG);
}

static int parse(struct reader *x, const void *p, size_t n)
{
	if (n > S3_XML_MAX)
		return -EBADMSG;
	x->p = XML_ParserCreate(NULL);
	if (!x->p)
		return -ENOMEM;
	XML_SetUserData(x->p, x);
	XML_SetElementHandler(x->p, begin, end);
	XML_SetCharacterDataHandler(x->p, text);
	XML_SetStartDoctypeDeclHandler(x->p, doctype);
	if (XML_Parse(x->p, p, (int)n, /* final= */ 1) != XML_STATUS_OK && x->r == 0)
		x->r = -EBADMSG;
	XML_ParserFree(x->p);
	return x->r < 0 ? x->r : x->ok ? 0 : -EBADMSG;
}

void s3_error_parse(const void *p, size_t n, struct s3_error *ret)
{
	struct reader x = { .error = ret };

	*ret = (struct s3_error){ 0 };
	if (parse(&x, p, n) < 0)
		*ret = (struct s3_error){ 0 };
}

void s3_list_done(struct s3_list *l)
{
	free(l->keys);
	*l = (struct s3_list){ 0 };
}

int s3_list_parse(const void *p, size_t n, struct s3_list *ret, struct err *err)
{
	struct reader x = { .list = ret };
	int r;

	*ret = (struct s3_list){ 0 };
	r = parse(&x, p, n);
	if (r == 0 && ret->more && !*ret->token)
		r = -EBADMSG;
	if (r < 0) {
		s3_list_done(ret);
		return err_set(err, r == -ENOMEM ? r : -EHOSTUNREACH,
		               r == -ENOMEM ? "out of memory" : "its list of objects is malformed");
	}
	return 0;
}
