/* SPDX-License-Identifier: Apache-2.0 */
/* api/api_credential.h - handlers of an account's passwords for other Git servers; for api/ only */
#pragma once

#include "api/git/shared.h"

int api_credential_list(struct request *req, struct reply *res, struct err *err);
int api_credential_put(struct request *req, struct reply *res, struct err *err);
int api_credential_delete(struct request *req, struct reply *res, struct err *err);
