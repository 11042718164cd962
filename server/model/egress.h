/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model/egress.h - what a guest may reach: the policy as data
 *
 * Rules are tried in order, the first that matches decides; without a match a destination is
 * denied. A rule is about a domain, a range of addresses, or everything, each on all or some ports.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/priv_net.h"

#define EGRESS_RULES_MAX PRIV_RULES_MAX
#define EGRESS_DOMAIN_MAX 254u  /* with the NUL */
#define EGRESS_INJECT_MAX 16u   /* domains with headers */
#define EGRESS_HEADERS_MAX 16u  /* of one domain */
#define EGRESS_NAME_MAX 128u    /* bytes of a header's name */
#define EGRESS_VALUE_MAX 4096u  /* bytes of a header's value */
#define EGRESS_MBIT_MAX 100000u /* Mbit/s */

struct egress_rule {
	bool allow;
	char domain[EGRESS_DOMAIN_MAX]; /* "" : none; lower case, "*.x" for names below x */
	bool has_cidr;
	uint32_t addr; /* host byte order */
	uint8_t prefix;
	uint8_t n_ports; /* 0: all */
	struct {
		uint16_t lo, hi;
	} ports[PRIV_PORTS_MAX];
};

struct egress_header {
	char *name, *value; /* owned; the value is a secret */
	bool keep;          /* in a change: keep the previous value */
};
struct egress_inject {
	char domain[EGRESS_DOMAIN_MAX];
	size_t n;
	struct egress_header headers[EGRESS_HEADERS_MAX];
};

struct egress {
	unsigned refs; /* atomic */
	enum priv_egress_mode mode;
	size_t n_rules;
	struct egress_rule rules[EGRESS_RULES_MAX];
	size_t n_inject;
	struct egress_inject inject[EGRESS_INJECT_MAX];
	uint32_t up_kbit, down_kbit; /* 0: no limit */
};
