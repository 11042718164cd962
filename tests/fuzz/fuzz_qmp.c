/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_qmp.c - replies and events of QEMU's monitor */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "engine/qmp.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct err err = { 0 };
	struct qmp_msg m;

	if (qmp_parse((const char *)data, size, &m, &err) == 0) {
		if (!m.body || strlen(m.name) >= sizeof(m.name) || strlen(m.desc) >= sizeof(m.desc))
			abort();
		qmp_msg_done(&m);
	} else if (!*err.msg) {
		abort(); /* an error must have a message */
	}
	return 0;
}
