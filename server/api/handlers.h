/* SPDX-License-Identifier: Apache-2.0 */
/*
 * api/handlers.h - the prototypes of all handlers, from the lists of routes
 *
 * To find a handler, find its route in api/<folder>/routes.h: it is in that folder, in a file
 * named after the route.
 */
#pragma once

#include <stddef.h>

#include "http/route.h"

#define ROUTE(method, pattern, scope, body, handler, flags, help) \
	int handler(struct request *req, struct reply *res, struct err *err);
#define ROUTE_INTAKE(method, pattern, scope, handler, takes, help)            \
	int handler(struct request *req, struct reply *res, struct err *err); \
	extern const struct intake takes;
#define DOC(kind, text)

#include "api/lists.h"

#undef ROUTE
#undef ROUTE_INTAKE
#undef DOC

extern const struct route api_routes[]; /* routes.c: the table */
extern const size_t api_n_routes;
