/* SPDX-License-Identifier: Apache-2.0 */
/* bytes.c - bytes in memory as the source of a file */
#include <string.h>

#include "base/auto.h"
#include "guest/guest.h"

ssize_t guest_bytes_source(void *ctx, uint8_t *p, size_t n)
{
	struct guest_bytes *b = ctx;
	size_t k = MIN(n, b->left);

	if (k)
		memcpy(p, b->p, k);
	b->p = (const uint8_t *)b->p + k;
	b->left -= k;
	return (ssize_t)k;
}
