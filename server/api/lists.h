/* SPDX-License-Identifier: Apache-2.0 */
/* api/lists.h - all lists of routes. No include guard: whoever includes it defines ROUTE,
 * ROUTE_INTAKE and DOC first. */
#include "api/account/routes.h"
#include "api/git/routes.h"
#include "api/net/routes.h"
#include "api/serverless/routes.h"
#include "api/site/routes.h"
#include "api/vms/routes.h"
