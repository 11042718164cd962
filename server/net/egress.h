/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net/egress.h - what a guest may reach, by its policy; for vm/ and net/. As JSON:
 * egress_json.h
 *
 * The policy as data is in model/egress.h. It never changes once it is created: a change
 * replaces it with another one.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/egress.h"

struct err;

/*
 * For a policy that was just created: copies secrets that it keeps from the previous one, or NULL.
 * -EINVAL if there is nothing to keep.
 */
int egress_keep_secrets(struct egress *e, const struct egress *before, struct err *err);
struct egress *egress_ref(struct egress *e); /* NULL is fine, both */
void egress_unref(struct egress *e);
static inline void egress_unrefp(struct egress **e)
{
	egress_unref(*e);
}

/* NULL is the default: open, which needs nothing beyond what every slot has. */
bool egress_is_default(const struct egress *e);
/* Does the name, without a final dot, match "x.y" or "*.y"? */
bool egress_domain_matches(const char *domain, const char *name);
/* May the name be resolved at all? */
bool egress_name_allowed(const struct egress *e, const char *name);
/* The rules that the name's addresses are pinned to; returns how many. */
uint32_t egress_name_rules(const struct egress *e, const char *name,
                           uint32_t ret[PRIV_PIN_SETS_MAX]);
/* A connection; name "": none is known. pinned: the address was in an answer for that name. */
bool egress_conn_allowed(const struct egress *e, const char *name, bool pinned, uint32_t addr,
                         uint16_t port);
/* A connection to a name of this server, by that name; "": none is known. */
bool egress_here_allowed(const struct egress *e, const char *name, uint16_t port);
/* Headers to add for the name, or NULL. */
const struct egress_inject *egress_inject_for(const struct egress *e, const char *name);
/* Does anything have to go through the proxy? */
bool egress_wants_proxy(const struct egress *e);
void egress_plan(const struct egress *e, uint32_t mark, struct priv_egress *ret);
