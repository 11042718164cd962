/* SPDX-License-Identifier: Apache-2.0 */
/* api/api_trigger.h - handlers of what follows a push: triggers, mirrors; for api/ only */
#pragma once

#include "api/git/shared.h"
#include "git/trigger.h"

int api_trigger_list(struct request *req, struct reply *res, struct err *err);
int api_trigger_create(struct request *req, struct reply *res, struct err *err);
int api_trigger_get(struct request *req, struct reply *res, struct err *err);
int api_trigger_delete(struct request *req, struct reply *res, struct err *err);
int api_delivery_list(struct request *req, struct reply *res, struct err *err);
int api_delivery_get(struct request *req, struct reply *res, struct err *err);
int api_delivery_again(struct request *req, struct reply *res, struct err *err);
int api_commit_status(struct request *req, struct reply *res, struct err *err);
int api_sync_get(struct request *req, struct reply *res, struct err *err);
int api_sync_enable(struct request *req, struct reply *res, struct err *err);
int api_sync_disable(struct request *req, struct reply *res, struct err *err);
int api_sync_run(struct request *req, struct reply *res, struct err *err);
int api_sync_hook(struct request *req, struct reply *res, struct err *err);
int api_jwks(struct request *req, struct reply *res, struct err *err);
int api_signing_rotate(struct request *req, struct reply *res, struct err *err);
