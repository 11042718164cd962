/* SPDX-License-Identifier: Apache-2.0 */
/* routes.c - the route table: everything the API answers, from the lists of each folder */
#include "api/handlers.h"

#include "auth/auth.h"
#include "base/auto.h"

#define NO_BODY BODY_IGNORED
#define FILE_BODY (MIB(352)) /* 256 MiB in base64, and the JSON around it */
#define SPEC_BODY (MIB(8))   /* with the files of its layers */

#define FLAGS(scope, flags) ((flags) | ((scope) == SCOPE_PUBLIC ? ROUTE_PUBLIC : 0u))
#define ROUTE(method, pattern, scope, body, handler, flags, help) \
	{ METHOD_##method, pattern, scope, body, handler, help, NULL, FLAGS(scope, flags) },
#define ROUTE_INTAKE(method, pattern, scope, handler, takes, help) \
	{ METHOD_##method, pattern, scope, BODY_STREAMED, handler, help, &takes, 0 },

#define DOC(kind, text) /* api/doc/lines.c */

const struct route api_routes[] = {
#include "api/lists.h"
};
const size_t api_n_routes = ARRAY_SIZE(api_routes);
