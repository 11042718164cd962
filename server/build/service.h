/* SPDX-License-Identifier: Apache-2.0 */
/* build/service.h - a ServiceSpec as systemd reads it; of a spec's layers and of the systemd routes
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"

#define SERVICE_NAME_SIZE 201 /* with the NUL, without ".service" */

/* The name without ".service"; -EINVAL, with a code for each kind of error. */
int service_name(const char *s, char ret[SERVICE_NAME_SIZE], struct err *err);

struct unit {
	char name[SERVICE_NAME_SIZE];
	bool enable, oneshot, delete_after_success;
	struct buf text; /* owned; the unit file */
};
/* Checks a ServiceSpec and writes its unit file: no value can add a line of its own. */
int unit_make(const json_t *spec, struct unit *ret, struct err *err);
void unit_done(struct unit *u);
