/* SPDX-License-Identifier: Apache-2.0 */
/* wire/get.h - fields that more than one protocol reads; for wire/ */
#pragma once

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

static inline int get_bool(struct rd *c, bool *ret)
{
	uint8_t v;

	if (rd_u8(c, &v) < 0 || v > 1)
		return -EBADMSG;
	*ret = v;
	return 0;
}
