/* SPDX-License-Identifier: Apache-2.0 */
/* cli/egress.h - rules of egress as they are typed; for cli/ and its tests */
#pragma once

#include <jansson.h>

struct err;

/*
 * "*.example.org", "203.0.113.0/24" or "any", then perhaps ":443,8000-8080", as a rule with this
 * action. NULL with a message; caller json_decref()s.
 */
json_t *egress_rule(const char *action, const char *text, struct err *err);
