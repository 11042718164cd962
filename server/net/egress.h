/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net/egress.h - what a guest may reach: reading a policy, and judging by it; for vm/ and net/
 *
 * The policy as data is in model/egress.h. It never changes once it is made: to change one is to
 * put another in its place.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/egress.h"

struct err;

#define EGRESS_MASK "********" /* what a GET shows of a secret; in a PUT: leave it as it is */

/*
 * before: whose secrets EGRESS_MASK stands for, or NULL. -EINVAL with a sentence that names the
 * member.
 */
int egress_parse(const json_t *j, const struct egress *before, struct egress **ret,
                 struct err *err);
/* secrets: as stored; else masked, as shown. NULL: out of memory. */
json_t *egress_json(const struct egress *e, bool secrets);
struct egress *egress_ref(struct egress *e); /* NULL is fine, both */
void egress_unref(struct egress *e);
static inline void egress_unrefp(struct egress **e)
{
	egress_unref(*e);
}

/* NULL is the default: open. Nothing of it needs more than the slot has when it is built. */
bool egress_is_default(const struct egress *e);
/* Does the name, without a dot at its end, match "x.y" or "*.y"? */
bool egress_domain_matches(const char *domain, const char *name);
/* May the name be asked for at all? */
bool egress_name_allowed(const struct egress *e, const char *name);
/* The rules whose addresses the name's are, for pinning; how many. */
uint32_t egress_name_rules(const struct egress *e, const char *name,
                           uint32_t ret[PRIV_PIN_SETS_MAX]);
/* A connection; name "": none is known. pinned: the address was an answer for that name. */
bool egress_conn_allowed(const struct egress *e, const char *name, bool pinned, uint32_t addr,
                         uint16_t port);
/* Headers to add for the name, or NULL. */
const struct egress_inject *egress_inject_for(const struct egress *e, const char *name);
/* Does anything have to go through the proxy? */
bool egress_wants_proxy(const struct egress *e);
void egress_plan(const struct egress *e, uint32_t mark, struct priv_egress *ret);
