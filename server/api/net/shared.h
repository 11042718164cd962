/* SPDX-License-Identifier: Apache-2.0 */
/* api/net/shared.h - names and private networks, as POST /v1/vms needs them; for api/ only */
#pragma once

#include "api/call.h"
#include "domains/domains.h"

struct vm_nic;

/* "nics"; *ret_has false: there is none. It points into the body. vpcs.c */
int api_create_nic(const json_t *j, enum err_code tag, struct vm_nic *ret, bool *ret_has,
                   struct err *err);

/* `domains` of a VM to be created: [{domain, vmPort?}]. */
#define WISHES_MAX 64
struct domain_wish {
	char domain[DOMAIN_SIZE];
	uint32_t port;
};
/* Reads them and checks whether they are available; *ret_n 0 if there are none. */
int domain_wishes(struct request *req, json_t *list, struct domain_wish *ret, size_t *ret_n,
                  struct err *err);
/* Maps all of them, or none and deletes the VM. */
int domain_grant(struct request *req, const struct domain_wish *w, size_t n, const char *vm,
                 struct err *err);
/* The names that lead to a VM, as an array. */
json_t *shape_domains(struct request *req, const char *vm);
