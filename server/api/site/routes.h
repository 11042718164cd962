/* SPDX-License-Identifier: Apache-2.0 */
/*
 * api/site/routes.h - the dashboard and the docs site: /, /ui, /assets, /docs
 *
 * ROUTE(method, pattern, scope, body_max, handler, flags, help). No include guard: handlers.h makes
 * the prototypes of it, routes.c the table.
 */
/* clang-format off */
DOC(SECTION, NULL)
ROUTE(GET, "/", SCOPE_PUBLIC, NO_BODY, api_site_page, 0,
      "The dashboard")
ROUTE(GET, "/ui", SCOPE_PUBLIC, NO_BODY, api_site_page, 0,
      "The dashboard")
ROUTE(GET, "/ui/", SCOPE_PUBLIC, NO_BODY, api_site_page, 0,
      "The dashboard")
ROUTE(GET, "/ui/{*path}", SCOPE_PUBLIC, NO_BODY, api_site_page, 0,
      "A page of the dashboard")
ROUTE(GET, "/assets/{file}", SCOPE_PUBLIC, NO_BODY, api_site_asset, 0,
      "A file of the dashboard")
ROUTE(GET, "/favicon.ico", SCOPE_PUBLIC, NO_BODY, api_site_icon, 0,
      "The dashboard's icon")
ROUTE(GET, "/docs", SCOPE_PUBLIC, NO_BODY, api_site_docs, 0,
      "The documentation")
ROUTE(GET, "/docs/", SCOPE_PUBLIC, NO_BODY, api_site_docs, 0,
      "The documentation")
ROUTE(GET, "/docs/{*path}", SCOPE_PUBLIC, NO_BODY, api_site_docs, 0,
      "A page of the documentation")
/* clang-format on */
