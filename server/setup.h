/* SPDX-License-Identifier: Apache-2.0 */
/* setup.h - what main.c finds and opens first: the base image, the object store; and what settings
 * mean to the parts that it starts */
#pragma once

#include "build/build.h"
#include "model/account.h"
#include "serverless/deploy.h"

struct conf;
struct err;
struct objects;
struct repos;
struct store;

/* conf's image_dir is a directory that has all that a boot needs, by its real name. */
int setup_image(struct conf *c, struct err *err);
/*
 * NULL if there is to be none. An object store that does not answer is no reason not to start: what
 * is here can be used, and the rest is uploaded later. One that needs a person's hand is.
 */
int setup_objects(const struct conf *c, struct store *store, struct objects **ret, struct err *err);
struct vm_quota setup_quota(const struct conf *c);
/* Limits for specs are the same ranges as those of the settings for the default VM. */
struct builder_conf setup_builder(const struct conf *c, struct repos *repos);
struct deploy_limits setup_deployments(const struct conf *c);
