/* SPDX-License-Identifier: Apache-2.0 */
/* api/api_domains.h - names: verifications, domains, mappings, certificates; for api/ only */
#pragma once

#include "api/call.h"
#include "domains/domains.h"

int api_domain_list(struct request *req, struct reply *res, struct err *err);
int api_verification_list(struct request *req, struct reply *res, struct err *err);
int api_verification_create(struct request *req, struct reply *res, struct err *err);
int api_verification_complete(struct request *req, struct reply *res, struct err *err);
int api_verification_cancel(struct request *req, struct reply *res, struct err *err);
int api_mapping_list(struct request *req, struct reply *res, struct err *err);
int api_mapping_create(struct request *req, struct reply *res, struct err *err);
int api_mapping_delete(struct request *req, struct reply *res, struct err *err);
int api_cert_wildcard(struct request *req, struct reply *res, struct err *err);
int api_ca(struct request *req, struct reply *res, struct err *err);

/* `domains` of a VM to be made: [{domain, vmPort?}]. */
#define WISHES_MAX 64
struct domain_wish {
	char domain[DOMAIN_SIZE];
	uint32_t port;
};
/* Reads them and looks whether they can be had; *ret_n 0 when there are none. */
int domain_wishes(struct request *req, json_t *list, struct domain_wish *ret, size_t *ret_n,
                  struct err *err);
/* Maps all of them, or none and deletes the VM. */
int domain_grant(struct request *req, const struct domain_wish *w, size_t n, const char *vm,
                 struct err *err);
/* The names that lead to a VM, as an array. */
json_t *shape_domains(struct request *req, const char *vm);
