/* SPDX-License-Identifier: Apache-2.0 */
/* api/vms/self.h - the option selfAccess of a VM; for api/ */
#pragma once

#include <jansson.h>
#include <stdint.h>

#include "base/err.h"

/* true, false, null or {allow, inherit}: VM_SELF_... NULL: 0. */
int parse_self_access(json_t *v, enum err_code tag, uint32_t *ret, struct err *err);
/* false, or what it may do. */
json_t *shape_self_access(uint32_t self);
