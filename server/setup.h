/* SPDX-License-Identifier: Apache-2.0 */
/* setup.h - what main.c finds and opens first: the base image, the object store */
#pragma once

struct conf;
struct err;
struct objects;
struct store;

/* conf's image_dir is a directory that has all that a boot needs, by its real name. */
int setup_image(struct conf *c, struct err *err);
/*
 * NULL if there is to be none. An object store that does not answer is no reason not to start: what
 * is here can be used, and the rest is uploaded later. One that needs a person's hand is.
 */
int setup_objects(const struct conf *c, struct store *store, struct objects **ret, struct err *err);
