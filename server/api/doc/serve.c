/* SPDX-License-Identifier: Apache-2.0 */
/* serve.c - GET /openapi.json: built at the first request, then kept until the server ends */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/evp.h>

#include "api/call.h"
#include "api/doc/openapi.h"
#include "base/auto.h"
#include "base/id.h"

#define ETAG_BYTES 12

/* Written once, under `once`. */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static char *kept; /* never freed; NULL: it could not be built */
static size_t kept_n;
static char kept_etag[2 * ETAG_BYTES + 3]; /* with its quotes */
static struct err kept_err;

static void build(void)
{
	unsigned char md[EVP_MAX_MD_SIZE];
	autojson json_t *doc = NULL;
	char hex[2 * ETAG_BYTES + 1];

	if (openapi_build(&doc, &kept_err) < 0)
		return;
	kept = json_dumps(doc, JSON_COMPACT);
	kept_n = kept ? strlen(kept) : 0;
	if (!kept || !EVP_Digest(kept, kept_n, md, NULL, EVP_sha256(), NULL)) {
		err_set(&kept_err, -ENOMEM, "out of memory");
		free(kept);
		kept = NULL;
		return;
	}
	hex_encode(md, ETAG_BYTES, hex);
	snprintf(kept_etag, sizeof(kept_etag), "\"%s\"", hex);
}

int api_openapi(struct request *req, struct reply *res, struct err *err)
{
	const char *known = request_header(req, "If-None-Match");
	char *copy;

	pthread_once(&once, build);
	if (!kept) {
		*err = kept_err;
		return kept_err.code;
	}
	reply_header(res, "ETag", kept_etag);
	reply_header(res, "Cache-Control", "no-cache"); /* kept, but asked for again */
	if (known && strstr(known, kept_etag)) {
		res->status = 304;
		return reply_bytes(res, NULL, NULL, 0, err);
	}
	copy = malloc(kept_n);
	if (copy)
		memcpy(copy, kept, kept_n);
	return copy ? reply_bytes(res, "application/json", copy, kept_n, err)
	            : err_set(err, -ENOMEM, "out of memory");
}
