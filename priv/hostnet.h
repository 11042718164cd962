/* SPDX-License-Identifier: Apache-2.0 */
/*
 * priv/hostnet.h - our part of the host's network namespace
 *
 * One address block per instance, one nft table per instance, ip_forward while
 * any instance runs.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "priv/netplan.h"

struct err;
struct instance;

struct hostnet {
	char tag[16];
	unsigned long netns; /* number of the namespace we are in */
	uint32_t block;      /* first address of our /20, host byte order */
	unsigned block_n;    /* its number in the pool */
	uint32_t mtu;        /* of the first uplink: slots use it too */
	int nl;              /* owned: rtnetlink of the host's namespace, main thread only */
	int routes_fd;       /* owned: readable when routes of the host changed */
	char uplinks[NET_UPLINKS_MAX][IFNAMSIZ]; /* as last applied */
	size_t n_uplinks;
};
#define HOSTNET_NONE ((struct hostnet){ .nl = -1, .routes_fd = -1 })

/* pool: "10.231.0.0", a /16. Claims a block (the same one after a restart) and applies the table.
 */
int hostnet_open(const struct instance *in, const char *pool, struct hostnet *ret, struct err *err);
/* Drains routes_fd and applies the table again if the uplinks changed. */
int hostnet_refresh(struct hostnet *h, struct err *err);
/* remove: also removes the table and the claim, and restores ip_forward if we were the last. */
void hostnet_close(struct hostnet *h, bool remove);
