/* SPDX-License-Identifier: Apache-2.0 */
/* tell.c - what happens to a VM, told to its account (who listens is not known here) and the log */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "vm/vm_internal.h"

static void tell(struct vmm *m, const char *account, const char *vm_id, const char *instance,
                 enum event_level lv, const char *fmt, va_list ap)
        __attribute__((format(printf, 6, 0)));
static void tell(struct vmm *m, const char *account, const char *vm_id, const char *instance,
                 enum event_level lv, const char *fmt, va_list ap)
{
	char text[512];

	vsnprintf(text, sizeof(text), fmt, ap);
	events_publish(m->conf.events, &(struct event){ .level = lv,
	                                                .source = "vm",
	                                                .account = account,
	                                                .vm = vm_id,
	                                                .instance = instance,
	                                                .message = text });
}

void vm_tell(const struct vm *vm, enum event_level lv, const char *fmt, ...)
{
	const struct vm_info *i = &vm->row.info;
	va_list ap;

	va_start(ap, fmt);
	tell(vm->m, i->account, i->id, i->instance, lv, fmt, ap);
	va_end(ap);
}

void vmm_tell(struct vmm *m, const char *account, const char *vm_id, enum event_level lv,
              const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	tell(m, account, vm_id, NULL, lv, fmt, ap);
	va_end(ap);
}

void vm_log_words(const struct vm *vm, const char *whose, char *words)
{
	char *rest = NULL;

	if (!*words)
		vm_log(vm, LOG_LV_WARN, "%s: (nothing)", whose);
	for (char *l = strtok_r(words, "\r\n", &rest); l; l = strtok_r(NULL, "\r\n", &rest))
		vm_log(vm, LOG_LV_WARN, "%s: %s", whose, l);
}
