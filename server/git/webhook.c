/* SPDX-License-Identifier: Apache-2.0 */
/*
 * webhook.c - one attempt to tell someone of a push
 *
 * Where it goes is judged by outbound.c. The reply's body is not kept.
 */
#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "git/outbound.h"
#include "git/trigger_internal.h"

#define REPLY_MAX (256u << 10) /* bytes read of a reply's body */

struct attempt {
	const struct webhook *w;
	struct outbound out;
	size_t got;
};

static size_t drop_body(char *p, size_t size, size_t n, void *ctx)
{
	struct attempt *t = ctx;

	(void)p;
	t->got += size * n;
	return t->got > REPLY_MAX ? 0 : size * n;
}

static struct curl_slist *headers_of(const struct webhook *w)
{
	struct curl_slist *list = NULL, *next;
	autobuf struct buf b = { 0 };
	char id[ID_SIZE + 32];

	buf_printf(&b, "x-freestyle-signature: %s", w->signature);
	buf_put_u8(&b, 0);
	snprintf(id, sizeof(id), "x-freestyle-delivery: %s", w->id);
	const char *const lines[] = { "content-type: application/json", (char *)b.p, id,
		                      "expect:" };
	for (size_t i = 0; i < ARRAY_SIZE(lines) && !b.failed; i++) {
		next = curl_slist_append(list, lines[i]);
		if (!next)
			break;
		list = next;
	}
	return list;
}

static void set_up(CURL *c, struct attempt *t, const struct curl_slist *headers)
{
	outbound_set(c, t->w->url, &t->out);
	curl_easy_setopt(c, CURLOPT_HTTPHEADER, headers);
	curl_easy_setopt(c, CURLOPT_USERAGENT, "pando-webhook");
	curl_easy_setopt(c, CURLOPT_POSTFIELDS, t->w->body);
	curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, drop_body);
	curl_easy_setopt(c, CURLOPT_WRITEDATA, t);
}

int webhook_send(const struct webhook *w, int *ret_status, struct err *err)
{
	struct attempt t = { .w = w,
		             .out = { .allow_private = w->allow_private, .ending = w->ending } };
	struct curl_slist *headers = headers_of(w);
	CURL *c = curl_easy_init();
	long status = 0;
	CURLcode rc;

	if (!c || !headers) {
		curl_slist_free_all(headers);
		curl_easy_cleanup(c);
		return err_set(err, -ENOMEM, "out of memory");
	}
	set_up(c, &t, headers);
	rc = curl_easy_perform(c);
	curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &status);
	curl_slist_free_all(headers);
	curl_easy_cleanup(c);
	if (rc == CURLE_WRITE_ERROR && t.got > REPLY_MAX) /* its status is what counts */
		rc = CURLE_OK;
	if (rc == CURLE_ABORTED_BY_CALLBACK)
		return err_set(err, -ECANCELED, "the server is shutting down");
	if (rc != CURLE_OK && t.out.refused)
		return err_set(err, -EACCES,
		               "the endpoint has an internal address: webhooks to those are not "
		               "allowed on this server (PANDO_WEBHOOK_ALLOW_PRIVATE)");
	if (rc != CURLE_OK)
		return err_set(err, -EIO, "%s", curl_easy_strerror(rc));
	*ret_status = (int)status;
	return 0;
}
