/* SPDX-License-Identifier: Apache-2.0 */
/*
 * url.c - PANDO_OBJECTS and its credentials
 *
 *   s3://BUCKET?endpoint=https://HOST[:PORT][&region=R][&prefix=P][&ca=/FILE]
 *
 * The bucket is the first part of the path at the endpoint, which every server understands.
 * Credentials are two settings, or a file in the form that S3 clients share: lines
 * "aws_access_key_id = ..." and "aws_secret_access_key = ...", of which the first of each counts.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/io.h"
#include "objects/objects_internal.h"

#define CREDENTIALS_MAX 4096 /* bytes of the file */
#define NAME_CHARS "abcdefghijklmnopqrstuvwxyz0123456789-."

static int bad(const char *why, struct err *err)
{
	return err_set(err, -EINVAL,
	               "PANDO_OBJECTS: %s; it is like "
	               "s3://bucket?endpoint=https://s3.example.org&region=us-east-1",
	               why);
}

/* "https://host:port", nothing behind it. */
static bool is_endpoint(const char *v)
{
	const char *host = strncmp(v, "https://", 8) == 0  ? v + 8
	                   : strncmp(v, "http://", 7) == 0 ? v + 7
	                                                   : "";

	return *host &&
	       host[strspn(host, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	                         "0123456789-.:[]")] == '\0' &&
	       strlen(v) < 200;
}

struct parts {
	char bucket[64], endpoint[200], region[40], prefix[64], ca[200];
};

static int take(struct parts *p, const char *name, const char *value, struct err *err)
{
	const struct {
		const char *name;
		char *dst;
		size_t size;
	} all[] = { { "endpoint", p->endpoint, sizeof(p->endpoint) },
		    { "region", p->region, sizeof(p->region) },
		    { "prefix", p->prefix, sizeof(p->prefix) },
		    { "ca", p->ca, sizeof(p->ca) } };

	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		if (strcmp(all[i].name, name) != 0)
			continue;
		if (!*value || strlen(value) >= all[i].size)
			return bad("a part of it is empty or too long", err);
		snprintf(all[i].dst, all[i].size, "%s", value);
		return 0;
	}
	return bad("only endpoint, region, prefix and ca may follow the bucket", err);
}

static int split(const char *url, struct parts *p, struct err *err)
{
	autofree char *copy = strdup(url);
	char *at = NULL, *query;

	if (!copy)
		return err_set(err, -ENOMEM, "out of memory");
	if (strncmp(copy, "s3://", 5) != 0)
		return bad("it does not begin with s3://", err);
	query = strchr(copy, '?');
	if (query)
		*query++ = '\0';
	snprintf(p->bucket, sizeof(p->bucket), "%s", copy + 5);
	for (char *w = query ? strtok_r(query, "&", &at) : NULL; w; w = strtok_r(NULL, "&", &at)) {
		char *is = strchr(w, '=');
		int r;

		if (!is)
			return bad("a part of it has no value", err);
		*is = '\0';
		if ((r = take(p, w, is + 1, err)) < 0)
			return r;
	}
	if (strlen(copy + 5) < 3 || strlen(copy + 5) > 63 ||
	    p->bucket[strspn(p->bucket, NAME_CHARS)])
		return bad("a bucket's name has 3 to 63 of a-z, 0-9, '-' and '.'", err);
	if (!is_endpoint(p->endpoint))
		return bad(
		        "the endpoint is missing, or is not http(s)://host or http(s)://host:port",
		        err);
	if (p->region[strspn(p->region, NAME_CHARS)] || p->prefix[strspn(p->prefix, NAME_CHARS)] ||
	    (*p->ca && *p->ca != '/'))
		return bad("region and prefix have only a-z, 0-9, '-' and '.', and ca is an "
		           "absolute path",
		           err);
	return 0;
}

/* The value of "name = value" in the text; 0 if there is none. */
static size_t value_of(const char *text, const char *name, char *dst, size_t size)
{
	size_t n = strlen(name);

	for (const char *line = text; line; line = strchr(line, '\n')) {
		line += strspn(line, " \t\r\n");
		if (strncmp(line, name, n) == 0 && line[n + strspn(line + n, " \t")] == '=') {
			const char *v = line + n + strspn(line + n, " \t") + 1;
			size_t len;

			v += strspn(v, " \t");
			len = strcspn(v, " \t\r\n");
			snprintf(dst, size, "%.*s", (int)len, v);
			return len < size ? len : 0;
		}
		if (!*line)
			break;
	}
	return 0;
}

static int login(const struct objects_conf *c, char *dst, size_t size, struct err *err)
{
	char id[150] = "", secret[200] = "";
	autowipe char *text = NULL;
	int r;

	snprintf(id, sizeof(id), "%s", c->key_id);
	snprintf(secret, sizeof(secret), "%s", c->secret);
	if (*c->credentials) {
		r = io_read_file(AT_FDCWD, c->credentials, CREDENTIALS_MAX, &text, err);
		if (r < 0)
			return err_wrap(err, -EINVAL, "PANDO_OBJECTS_CREDENTIALS");
		if (!value_of(text, "aws_access_key_id", id, sizeof(id)) ||
		    !value_of(text, "aws_secret_access_key", secret, sizeof(secret)))
			return err_set(err, -EINVAL,
			               "the file '%s' needs a line 'aws_access_key_id = ...' and a "
			               "line 'aws_secret_access_key = ...'",
			               c->credentials);
	}
	if (!*id || !*secret || strchr(id, ':'))
		return err_set(err, -EINVAL,
		               "PANDO_OBJECTS needs credentials: PANDO_OBJECTS_CREDENTIALS names a "
		               "file with them, or PANDO_OBJECTS_KEY and PANDO_OBJECTS_SECRET have "
		               "them");
	snprintf(dst, size, "%s:%s", id, secret);
	explicit_bzero(secret, sizeof(secret));
	return 0;
}

int s3_place_parse(const struct objects_conf *c, struct s3_place *ret, struct err *err)
{
	struct parts p = { .region = "us-east-1" };
	int r;

	*ret = (struct s3_place){ 0 };
	if ((r = split(c->url, &p, err)) < 0 ||
	    (r = login(c, ret->login, sizeof(ret->login), err)) < 0)
		return r;
	snprintf(ret->prefix, sizeof(ret->prefix), "%s%s", p.prefix, *p.prefix ? "/" : "");
	snprintf(ret->base, sizeof(ret->base), "%s/%s/%s", p.endpoint, p.bucket, ret->prefix);
	snprintf(ret->list, sizeof(ret->list), "%s/%s", p.endpoint, p.bucket);
	snprintf(ret->where, sizeof(ret->where), "'%s' at %s", p.bucket, p.endpoint);
	snprintf(ret->region, sizeof(ret->region), "%s", p.region);
	snprintf(ret->ca, sizeof(ret->ca), "%s", p.ca);
	return 0;
}
