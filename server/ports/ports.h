/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ports/ports.h - ports of this server that lead to ports of VMs, byte for byte; for api/, front/
 * and main.c
 *
 * A port of the configured range belongs to one VM until the mapping or the VM is deleted, also
 * across restarts. A connection wakes the VM, through whichever node it comes. Port 443 is not
 * listened on here: it stands for the VM's own name at the edge, and a mapping says where that
 * leads.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/store_port.h"

struct peers;
struct ports;
struct vmm;

struct ports_conf {
	const char *range;   /* "20000-20999", or "none"; borrowed, as is: */
	const char *listen;  /* numeric address to listen on */
	unsigned wait_ms;    /* how long a connection waits for its VM and the port there */
	struct peers *peers; /* the other nodes, whose VMs' ports are served here too; NULL: none.
	                        ports_close() comes after peers_end() */
	unsigned idle_ms;    /* after which a connection on which nothing moves is cut */
};

int ports_open(const struct ports_conf *c, struct store *s, struct vmm *vmm, struct ports **ret,
               struct err *err);
/* Cuts all connections and takes no more. NULL is fine, and so is calling it twice. */
void ports_stop(struct ports *p);
struct ports *ports_close(struct ports *p);

/* fn hears that the own name of a VM leads elsewhere; must not block. */
void ports_on_name(struct ports *p, void (*fn)(void *ctx), void *ctx);

struct port_info {
	struct store_port row;
	bool listening;
	char error[128]; /* why not, or "" */
};
/* Could it be mapped, as far as can be told beforehand? port 0: any of the range. */
int ports_check(struct ports *p, const char *protocol, uint32_t port, uint32_t target,
                struct err *err);
int ports_set(struct ports *p, const char *account, const char *vm, const char *protocol,
              uint32_t port, uint32_t target, struct port_info *ret, struct err *err);
/* Of the VM's own name: from now on that leads nowhere. */
int ports_delete(struct ports *p, const char *account, const char *vm, const char *protocol,
                 uint32_t port, struct err *err);
/* Those of a VM. Caller frees. */
int ports_list(struct ports *p, const char *vm, struct port_info **ret, size_t *ret_n,
               struct err *err);
/* Reads the table from the store again, after VMs were forked, or when another node may have
 * changed it; their names are known then. */
void ports_refresh(struct ports *p);
/* Where the VM's own name leads: 1 and the port (0: nowhere), or 0: to the usual one. ret_tls: TLS
 * is passed on as it is. */
int ports_name(struct ports *p, const char *vm, uint16_t *ret_port, bool *ret_tls);
/* "20000-20999", or "" if there is no range. */
const char *ports_range(const struct ports *p);
/* 0, or -EINVAL: it is neither "none" nor FIRST-LAST. */
int ports_range_parse(const char *text, uint32_t *ret_first, uint32_t *ret_last);
