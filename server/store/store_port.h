/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store/store_port.h - ports of VMs that can be reached from outside; for ports/
 *
 * A port of the server's range leads to a port of one VM, as long as the row is there. Port 443 is
 * the VM's own name at the edge: each VM has that one, and its row says where it leads if that is
 * not the usual port.
 */
#pragma once

#include "store/store.h"

#define PORTS_OWN_NAME 443u   /* <vm id>.<base domain>, by HTTPS */
#define PORTS_PER_VM 32       /* rows */
#define PORTS_PER_ACCOUNT 100 /* of the server's range */

struct store_port {
	char vm[ID_SIZE];
	char account[ACCOUNT_SIZE];
	char protocol[4];      /* "tcp", "udp"; of the VM's own name "tcp" (it ends TLS) or "tls" */
	uint32_t port, target; /* target 0: leads nowhere (the VM's own name only) */
	int64_t created_ms;
};
/*
 * Of a VM that exists; replaces what the VM has for that port, its own name whatever its protocol.
 * -EEXIST CONFLICT: it is another VM's; -EDQUOT LIMIT_EXCEEDED.
 */
int store_port_put(struct store *s, const struct store_port *p, struct err *err);
/* -ENOENT if the VM has no such port. */
int store_port_delete(struct store *s, const char *vm, const char *protocol, uint32_t port,
                      struct err *err);
/* All of them, by port. Caller frees. */
int store_port_list(struct store *s, struct store_port **ret, size_t *ret_n, struct err *err);
