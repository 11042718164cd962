/* SPDX-License-Identifier: Apache-2.0 */
/*
 * send.c - one attempt to tell someone of something that happened
 *
 * The body is signed anew for every attempt; where it goes is judged by outbound.c. The reply's
 * body is not kept. Who gave a secret gets an HMAC beside the signature, for receivers that
 * cannot check the latter.
 */
#include <curl/curl.h>
#include <errno.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/id.h"
#include "base/utf8.h"
#include "hook/hook.h"
#include "hook/outbound.h"

#define REPLY_MAX (256u << 10) /* bytes read of a reply's body */

struct attempt {
	const struct hook_post *w;
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

static bool add_header(struct curl_slist **list, const char *name, const char *value)
{
	autobuf struct buf b = { 0 };
	struct curl_slist *next;

	buf_printf(&b, "%s: %s", name, value);
	buf_put_u8(&b, 0);
	next = b.failed ? NULL : curl_slist_append(*list, (char *)b.p);
	if (next)
		*list = next;
	return next;
}

static bool add_hmac(struct curl_slist **list, const struct hook_post *w)
{
	unsigned char md[EVP_MAX_MD_SIZE];
	char text[8 + 65] = "sha256=";
	unsigned n = 0;

	if (!w->secret || !*w->secret)
		return true;
	if (!HMAC(EVP_sha256(), w->secret, (int)strlen(w->secret), (const unsigned char *)w->body,
	          strlen(w->body), md, &n) ||
	    n != 32)
		return false;
	hex_encode(md, n, text + strlen(text));
	return add_header(list, "x-pando-signature-256", text);
}

/* NULL: out of memory. */
static struct curl_slist *headers_of(const struct hook_post *w, const char *signature)
{
	struct curl_slist *list = curl_slist_append(NULL, "content-type: application/json");

	if (list && add_header(&list, "x-freestyle-signature", signature) &&
	    add_header(&list, "x-freestyle-delivery", w->id) && add_hmac(&list, w) &&
	    curl_slist_append(list, "expect:"))
		return list;
	curl_slist_free_all(list);
	return NULL;
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

static int post(const struct hook_post *w, const char *signature, int *ret_status, struct err *err)
{
	struct attempt t = { .w = w,
		             .out = { .allow_private = w->allow_private, .ending = w->ending } };
	struct curl_slist *headers = headers_of(w, signature);
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

int hook_send(const struct hook_post *p, int *ret_status, struct err *err)
{
	autofree char *signature = NULL;
	int r;

	*ret_status = -1;
	if ((r = signer_sign(p->signer, p->issuer, p->id, p->body, strlen(p->body), &signature,
	                     err)) < 0 ||
	    (r = post(p, signature, ret_status, err)) < 0)
		return r;
	if (*ret_status >= 200 && *ret_status < 300)
		return 0;
	return err_set(err, -EIO, "the endpoint answered %d%s", *ret_status,
	               *ret_status >= 300 && *ret_status < 400 ? ": redirects are not followed"
	                                                       : "");
}

void hook_note(char dst[HOOK_NOTE_SIZE], const char *text)
{
	autobuf struct buf b = { 0 };

	utf8_put_clean(&b, text, strlen(text));
	buf_put_u8(&b, 0);
	snprintf(dst, HOOK_NOTE_SIZE, "%.240s", b.failed ? "" : (char *)b.p);
}
