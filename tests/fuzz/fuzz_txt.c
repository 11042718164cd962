/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_txt.c - any bytes as a name server's answer about TXT records */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "domains/domains.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int r = txt_answer(data, size, "0123456789abcdef");

	if (r != 0 && r != 1 && r != -EAGAIN && r != -EBADMSG && r != -EIO)
		abort();
	return 0;
}
