/* SPDX-License-Identifier: Apache-2.0 */
/* page.c - the edge's own responses: a page for browsers, JSON for programs; both say what to do */
#include <string.h>

#include "edge/edge_internal.h"

static int put_html(struct ebuf *out, const char *s)
{
	int r = 0;

	for (; *s && r == 0; s++) {
		const char *as = *s == '&'   ? "&amp;"
		                 : *s == '<' ? "&lt;"
		                 : *s == '>' ? "&gt;"
		                             : NULL;

		r = as ? ebuf_put(out, as, strlen(as)) : ebuf_put(out, s, 1);
	}
	return r;
}

static int put_json(struct ebuf *out, const char *s)
{
	int r = ebuf_put(out, "\"", 1);

	for (; *s && r == 0; s++) {
		if (*s == '"' || *s == '\\')
			r = ebuf_put(out, "\\", 1);
		if (r == 0)
			r = ebuf_put(out, (unsigned char)*s < 0x20 ? " " : s, 1);
	}
	return r < 0 ? r : ebuf_put(out, "\"", 1);
}

static int html(const struct xchg *x, unsigned status, const char *title, const char *text,
                struct ebuf *out)
{
	static const char style[] =
	        "<style>:root{color-scheme:light dark}body{font:16px/1.5 system-ui,sans-serif;"
	        "max-width:36rem;margin:15vh auto;padding:0 1.5rem}h1{font-size:1.4rem}"
	        "p.s{opacity:.6;font-size:.9rem}</style>";
	int r = ebuf_printf(out, "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
	                         "<meta name=\"viewport\" content=\"width=device-width\">");

	if (r == 0 && status == 503)
		r = ebuf_printf(out, "<meta http-equiv=\"refresh\" content=\"3\">");
	if (r < 0 || (r = ebuf_printf(out, "<title>%u ", status)) < 0 ||
	    (r = put_html(out, title)) < 0 || (r = ebuf_printf(out, "</title>")) < 0 ||
	    (r = ebuf_put(out, style, sizeof(style) - 1)) < 0 ||
	    (r = ebuf_printf(out, "</head><body><h1>")) < 0 || (r = put_html(out, title)) < 0 ||
	    (r = ebuf_printf(out, "</h1><p>")) < 0 || (r = put_html(out, text)) < 0 ||
	    (r = ebuf_printf(out, "</p><p class=\"s\">%u &middot; ", status)) < 0 ||
	    (r = put_html(out, x->host)) < 0)
		return r;
	return ebuf_printf(out, " &middot; Pando</p></body></html>\n");
}

int page_make(const struct xchg *x, unsigned status, enum err_code code, const char *title,
              const char *text, struct ebuf *out, const char **ret_type)
{
	int r;

	*ret_type = x->wants_html ? "text/html; charset=utf-8" : "application/json";
	if (x->wants_html)
		return html(x, status, title, text, out);
	if ((r = ebuf_printf(out, "{\"code\": ")) < 0 ||
	    (r = put_json(out, err_code_name(code))) < 0 ||
	    (r = ebuf_printf(out, ", \"error\": ")) < 0 ||
	    (r = put_json(out, err_code_name(code))) < 0 ||
	    (r = ebuf_printf(out, ", \"message\": ")) < 0 || (r = put_json(out, text)) < 0)
		return r;
	return ebuf_printf(out, "}\n");
}
