/* SPDX-License-Identifier: Apache-2.0 */
/* store_row.h - a VM's row without its layers; for tests only */
#pragma once

#include "store/store.h"

static inline int store_vm_add(struct store *s, const struct store_vm *v, struct err *e)
{
	return store_vm_add_many(s, v, 1, NULL, 0, NULL, e);
}
