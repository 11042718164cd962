/* SPDX-License-Identifier: Apache-2.0 */
/* net/egress_json.h - a policy as JSON: in requests and replies, and in the store; for api/, vm/ */
#pragma once

#include <jansson.h>
#include <stdbool.h>

struct egress;
struct err;

#define EGRESS_MASK "********" /* shown instead of a secret; in a PUT: keep the value */

/* -EINVAL names the member. For masked secrets call egress_keep_secrets() afterwards. */
int egress_parse(const json_t *j, struct egress **ret, struct err *err);
/* secrets: as stored; else masked, as shown. NULL: out of memory. */
json_t *egress_json(const struct egress *e, bool secrets);
