/* SPDX-License-Identifier: Apache-2.0 */
/* vm/template_own.h - templates that are this server's own; for files of this folder */
#pragma once

#include "vm/vm_internal.h"

/* One is wanted and not there yet. */
bool own_pending(struct vmm *m, const struct own *o) REQUIRES(&m->lock);
/* It is damaged; true: it was one, and is made again. Fine for any point. */
bool own_forget(struct vmm *m, const char *point);
/* A guest thawed from that point (NULL: none) is not told again what it knows; vm->lock. */
void vm_told_already(struct vm *vm, const struct engine_point *p);
void vm_note_told(struct vm *vm, const char *point); /* it was suspended as that point */
