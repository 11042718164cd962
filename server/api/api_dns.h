/* SPDX-License-Identifier: Apache-2.0 */
/* api/api_dns.h - DNS records of verified domains; for api/ only */
#pragma once

#include "api/call.h"

int api_record_list(struct request *req, struct reply *res, struct err *err);
int api_record_create(struct request *req, struct reply *res, struct err *err);
int api_record_delete(struct request *req, struct reply *res, struct err *err);
