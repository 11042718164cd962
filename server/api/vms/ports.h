/* SPDX-License-Identifier: Apache-2.0 */
/* api/vms/ports.h - "ports" of a new VM; for vms.c */
#pragma once

#include "api/call.h"

#define PORT_WISHES_MAX 16
struct port_wish {
	char protocol[4];
	uint32_t port, target; /* port 0: any; target 0: nowhere */
};
/* ret has room for PORT_WISHES_MAX + 1. */
int port_wishes(struct request *req, const json_t *list, enum err_code tag, struct port_wish *ret,
                size_t *ret_n, struct err *err);
/* All of them, or the VM is deleted. */
int ports_of_new(struct request *req, const char *vm, const struct port_wish *w, size_t n,
                 struct err *err);
json_t *shape_ports(struct request *req, const char *vm);
