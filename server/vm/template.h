/* SPDX-License-Identifier: Apache-2.0 */
/* vm/template.h - parts of the template's making; for template*.c only */
#pragma once

#include "vm/vm_internal.h"

int template_base_layer(struct vmm *m, struct store_layer *ret, struct err *err);
/* Freezes the booted machine and records the result as the template. */
int template_freeze(struct vm *vm, struct bringup *b, struct err *err);
/* -ENOENT: the cache has none. */
int template_import(struct vmm *m, const char *key_text, struct err *err);
/* Puts the template into the cache for other data directories; failing is only logged. */
void template_export(struct vmm *m, const char *point, const char *key_text);
void template_forget_cache(struct vmm *m);
