/* SPDX-License-Identifier: Apache-2.0 */
/*
 * site.c - serves the files of web/: the dashboard's page for each of its addresses, assets, docs
 *
 * Whatever the address below /ui, the reply is the same page: it finds out itself what to show.
 * Files whose names carry a hash may be kept forever; all others are asked for again with their
 * ETag.
 *
 * The content security policy allows scripts and styles from this server's own files only, so text
 * of guests and users that gets into the page as markup by mistake still runs nothing. blob: and
 * data: images are results of code cells. Frames are for HTML results (web/src/, sandboxed) and
 * never for this page itself in another.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "api/call.h"
#include "web/web.h"

static const char policy[] =
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
        "font-src 'self'; connect-src 'self'; frame-src 'self' blob:; worker-src 'self'; "
        "manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

static void add_guards(struct reply *res)
{
	reply_header(res, "Content-Security-Policy", policy);
	reply_header(res, "X-Frame-Options", "DENY");
	reply_header(res, "Referrer-Policy", "same-origin");
	reply_header(res, "Cross-Origin-Opener-Policy", "same-origin");
	reply_header(res, "Cross-Origin-Resource-Policy", "same-origin");
}

static int send_file(struct request *req, struct reply *res, const struct web_file *f,
                     struct err *err)
{
	const struct web *w = deps_of(req)->web;
	void *plain;
	int r;

	reply_header(res, "ETag", f->etag);
	reply_header(res, "Vary", "Accept-Encoding");
	reply_header(res, "Cache-Control",
	             f->immutable ? "public, max-age=31536000, immutable" : "no-cache");
	add_guards(res);
	if (web_known(request_header(req, "If-None-Match"), f->etag)) {
		res->status = 304;
		return reply_bytes(res, NULL, NULL, 0, err);
	}
	if (!f->gzip)
		return reply_static(res, f->type, w->data + f->off, f->len, err);
	if (web_takes_gzip(request_header(req, "Accept-Encoding"))) {
		reply_header(res, "Content-Encoding", "gzip");
		return reply_static(res, f->type, w->data + f->off, f->len, err);
	}
	r = web_unpack(w, f, &plain, err);
	return r < 0 ? r : reply_bytes(res, f->type, plain, f->raw, err);
}

static int send_or_not(struct request *req, struct reply *res, const struct web_file *f,
                       const char *what, struct err *err)
{
	if (!f)
		return err_set(err, -ENOENT, "there is no %s", what);
	return send_file(req, res, f, err);
}

int api_site_page(struct request *req, struct reply *res, struct err *err)
{
	const struct web *w = deps_of(req)->web;

	return send_or_not(req, res, w ? web_find(w, "index.html") : NULL,
	                   "dashboard in this build of the server", err);
}

int api_site_asset(struct request *req, struct reply *res, struct err *err)
{
	const struct web *w = deps_of(req)->web;
	char path[256];
	int n = snprintf(path, sizeof(path), "assets/%s", req->match.arg[0]);

	return send_or_not(req, res, w && n < (int)sizeof(path) ? web_find(w, path) : NULL,
	                   "such file: the page is of another version of the server, load it again",
	                   err);
}

int api_site_icon(struct request *req, struct reply *res, struct err *err)
{
	const struct web *w = deps_of(req)->web;

	return send_or_not(req, res, w ? web_find(w, "icon.svg") : NULL, "icon", err);
}

int api_site_docs(struct request *req, struct reply *res, struct err *err)
{
	const struct web *w = deps_of(req)->web;
	const struct web_file *f = NULL;
	char path[512] = "docs";
	int n = 0;

	if (req->match.n_args)
		n = snprintf(path, sizeof(path), "docs/%s", req->match.arg[0]);
	if (w && n < (int)sizeof(path))
		f = web_find_page(w, path);
	return send_or_not(req, res, f, "such page in the documentation: see /docs", err);
}
