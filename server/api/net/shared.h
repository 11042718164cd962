/* SPDX-License-Identifier: Apache-2.0 */
/* api/net/shared.h - what POST /v1/vms needs of names and private networks; for api/ only */
#pragma once

#include "api/call.h"
#include "domains/domains.h"

struct vm_nic;

/* "nics"; false in *ret_has: there is none. What it points to is in the body. vpcs.c */
int api_create_nic(const json_t *j, enum err_code tag, struct vm_nic *ret, bool *ret_has,
                   struct err *err);

/* `domains` of a VM to be made: [{domain, vmPort?}]. */
#define WISHES_MAX 64
/* Reads them and checks whether the account may map them; *ret_n 0 when there are none. */
int domain_wishes(struct request *req, json_t *list, struct domain_wish *ret, size_t *ret_n,
                  struct err *err);
/* The names that lead to a VM, as an array. */
json_t *shape_domains(struct request *req, const char *vm);
