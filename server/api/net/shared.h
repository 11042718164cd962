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
/* Reads them and checks whether the account may map them; *ret_n 0 when there are none. */
int domain_wishes(struct request *req, json_t *list, struct domain_wish *ret, size_t *ret_n,
                  struct err *err);
/* The names that lead to a VM, as an array. */
json_t *shape_domains(struct request *req, const char *vm);
