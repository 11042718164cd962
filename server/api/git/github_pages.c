/* SPDX-License-Identifier: Apache-2.0 */
/*
 * github_pages.c - the pages a browser sees on its way to GitHub and back
 *
 * Plain HTML without scripts and without anything from elsewhere; whatever is shown is escaped. The
 * policy allows one form, to the GitHub server that the link is about. Secrets in the address of a
 * page leave it neither in a Referer nor in a cache.
 */
#include "api/git/shared.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/id.h"
#include "git/ghapps.h"

/* As the session's (cookie.c): over HTTPS no page on a name below the same domain can plant one. */
#define COOKIE_PLAIN "pando_github"
#define COOKIE_SECURE "__Host-pando_github"

static void put_html(struct buf *b, const char *s)
{
	for (; *s; s++) {
		const char *as = *s == '&'    ? "&amp;"
		                 : *s == '<'  ? "&lt;"
		                 : *s == '>'  ? "&gt;"
		                 : *s == '"'  ? "&quot;"
		                 : *s == '\'' ? "&#39;"
		                              : NULL;

		if (as)
			buf_put(b, as, strlen(as));
		else
			buf_put_u8(b, (uint8_t)*s);
	}
}

static void page_begin(struct buf *b, const char *title)
{
	buf_printf(b, "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
	              "<meta name=\"viewport\" content=\"width=device-width\"><title>");
	put_html(b, title);
	buf_printf(b, " - Pando</title></head><body><main><h1>");
	put_html(b, title);
	buf_printf(b, "</h1>");
}

/* form: the only origin that a form may go to, or NULL. */
static int page_end(struct reply *res, struct buf *b, const char *form, struct err *err)
{
	char policy[REPLY_HEADER_SIZE];
	size_t n;

	buf_printf(b, "</main></body></html>\n");
	if (b->failed)
		return err_set(err, -ENOMEM, "out of memory");
	n = b->len;
	snprintf(policy, sizeof(policy),
	         "default-src 'none'; base-uri 'none'; form-action %s; frame-ancestors 'none'",
	         form ? form : "'none'");
	reply_header(res, "Content-Security-Policy", policy);
	reply_header(res, "X-Frame-Options", "DENY");
	reply_header(res, "Referrer-Policy", "no-referrer");
	reply_header(res, "Cache-Control", "no-store");
	return reply_bytes(res, "text/html; charset=utf-8", buf_take_str(b), n, err);
}

/* Browsers get a page that says what is wrong, not JSON. */
static int page_error(struct request *req, struct reply *res, int r, struct err *err)
{
	autobuf struct buf b = { 0 };

	(void)req;
	if (r == -ENOMEM)
		return r;
	res->status = (unsigned)err_code_status(code_of(err));
	page_begin(&b, "This did not work");
	buf_printf(&b, "<p>");
	put_html(&b, err->msg);
	buf_printf(&b, ".</p>");
	return page_end(res, &b, NULL, err);
}

static void set_cookie(struct request *req, struct reply *res, const char *secret)
{
	bool secure = request_secure(req);
	char text[256];

	snprintf(text, sizeof(text), "%s=%s; Path=/; HttpOnly; SameSite=Lax%s%s",
	         secure ? COOKIE_SECURE : COOKIE_PLAIN, secret, secure ? "; Secure" : "",
	         *secret ? "" : "; Max-Age=0");
	reply_header(res, "Set-Cookie", text);
	OPENSSL_cleanse(text, sizeof(text));
}

static void browser_of(struct request *req, char ret[GHAPPS_SECRET_SIZE])
{
	if (cookie_find(req, request_secure(req) ? COOKIE_SECURE : COOKIE_PLAIN, ret,
	                GHAPPS_SECRET_SIZE) != 1)
		*ret = '\0';
}

/* ---- where a link leads ---- */

static void put_next(struct buf *b, const struct ghapps_page *p, const char *host)
{
	buf_printf(b, "<p>The %s will belong to the account <strong>",
	           p->install ? "repositories that you choose on GitHub" : "new GitHub App");
	put_html(b, p->account);
	buf_printf(b, "</strong> on ");
	put_html(b, host);
	buf_printf(
	        b,
	        p->install
	                ? ": it can read and change them. Go on only if that is what you want.</p>"
	                : ". It can read and change the repositories where it is installed.</p>");
	if (p->install) {
		buf_printf(b, "<p><a rel=\"noreferrer\" href=\"");
		put_html(b, p->target);
		buf_printf(b, "\">Choose repositories on GitHub</a></p>");
		return;
	}
	buf_printf(b, "<form method=\"post\" action=\"");
	put_html(b, p->target);
	buf_printf(b, "\"><input type=\"hidden\" name=\"manifest\" value=\"");
	put_html(b, p->manifest);
	buf_printf(b, "\"><button type=\"submit\">Create the App on GitHub</button></form>");
}

int api_github_start(struct request *req, struct reply *res, struct err *err)
{
	AUTO(ghapps_page_done) struct ghapps_page p = { 0 };
	char browser[GHAPPS_SECRET_SIZE], base[300];
	autofree char *link = NULL;
	autobuf struct buf b = { 0 };
	unsigned char raw[32];
	struct ghapps *h = NULL;
	int r;

	random_bytes(raw, sizeof(raw));
	hex_encode(raw, sizeof(raw), browser);
	if ((r = github_apps_of(req, &h, err)) < 0 ||
	    (r = request_query(req, "link", &link, err)) < 0 ||
	    (r = ghapps_page_open(h, link ? link : "", browser, &p, err)) < 0)
		return page_error(req, res, r, err);
	set_cookie(req, res, browser);
	page_begin(&b, p.install ? "Connect GitHub repositories" : "A GitHub App for this server");
	put_next(&b, &p, strstr(request_base(req, base, sizeof(base)), "://") + 3);
	return page_end(res, &b, p.install ? NULL : p.origin, err);
}

/* ---- back from GitHub ---- */

int api_github_created(struct request *req, struct reply *res, struct err *err)
{
	autowipe struct store_github_app *a = calloc(1, sizeof(*a));
	char browser[GHAPPS_SECRET_SIZE], secret[GHAPPS_SECRET_SIZE];
	autofree char *code = NULL, *state = NULL;
	autobuf struct buf b = { 0 };
	struct ghapps *h = NULL;
	int r;

	if (!a)
		return err_set(err, -ENOMEM, "out of memory");
	browser_of(req, browser);
	if ((r = github_apps_of(req, &h, err)) < 0 ||
	    (r = request_query(req, "code", &code, err)) < 0 ||
	    (r = request_query(req, "state", &state, err)) < 0 ||
	    (r = ghapps_app_made(h, state, browser, code, a, secret, err)) < 0)
		return page_error(req, res, r, err);
	set_cookie(req, res, "");
	page_begin(&b, "The App is there");
	buf_printf(&b, "<p>GitHub has made the App <strong>");
	put_html(&b, a->name);
	buf_printf(&b,
	           "</strong>, and this server has its keys. The next step is to <a "
	           "rel=\"noreferrer\" href=\"" GHAPPS_PATH "/start?link=%s\">install it</a> where "
	           "the repositories are.</p>",
	           secret);
	explicit_bzero(a, sizeof(*a));
	return page_end(res, &b, NULL, err);
}

int api_github_installed(struct request *req, struct reply *res, struct err *err)
{
	autofree char *state = NULL, *number = NULL, *code = NULL;
	char browser[GHAPPS_SECRET_SIZE];
	struct store_installation i;
	autobuf struct buf b = { 0 };
	struct ghapps *h = NULL;
	int r;

	browser_of(req, browser);
	if ((r = github_apps_of(req, &h, err)) < 0 ||
	    (r = request_query(req, "state", &state, err)) < 0 ||
	    (r = request_query(req, "installation_id", &number, err)) < 0 ||
	    (r = request_query(req, "code", &code, err)) < 0 ||
	    (r = ghapps_installed(h, state, browser, number, code, &i, err)) < 0)
		return page_error(req, res, r, err);
	set_cookie(req, res, "");
	page_begin(&b, "Connected");
	buf_printf(&b, "<p>The repositories of <strong>");
	put_html(&b, i.login);
	buf_printf(&b,
	           "</strong> that you chose can be mirrored now. You can close this page.</p>");
	return page_end(res, &b, NULL, err);
}
