/* SPDX-License-Identifier: Apache-2.0 */
/* api/net/shared.h - handlers of policies, private networks and tunnels; for api/ only */
#pragma once

#include "api/call.h"

struct egress;
struct vm_nic;

int api_egress_get(struct request *req, struct reply *res, struct err *err);
int api_egress_put(struct request *req, struct reply *res, struct err *err);
int api_egress_blocked(struct request *req, struct reply *res, struct err *err);

/* Of POST /v1/vms: "egress"; *ret stays NULL when there is none. The caller egress_unref()s. */
int api_create_egress(const json_t *j, enum err_code tag, struct egress **ret, struct err *err);
/* Of POST /v1/vms: "nics"; false in *ret_has: there is none. What it points to is in the body. */
int api_create_nic(const json_t *j, enum err_code tag, struct vm_nic *ret, bool *ret_has,
                   struct err *err);

int api_vpc_create(struct request *req, struct reply *res, struct err *err);
int api_vpc_list(struct request *req, struct reply *res, struct err *err);
int api_vpc_get(struct request *req, struct reply *res, struct err *err);
int api_vpc_delete(struct request *req, struct reply *res, struct err *err);
int api_wg_ephemeral(struct request *req, struct reply *res, struct err *err);
int api_wg_close(struct request *req, struct reply *res, struct err *err);
int api_wg_peer(struct request *req, struct reply *res, struct err *err);
