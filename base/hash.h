/* SPDX-License-Identifier: Apache-2.0 */
/* base/hash.h - a hash for tables in memory; with a random seed nobody can aim at one bucket */
#pragma once

#include <stdint.h>

/* FNV-1a over the text, then a mix so that low and high bits depend on all of it. */
static inline uint64_t hash_text(const char *s, uint64_t seed)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325) ^ seed;

	for (; *s; s++)
		h = (h ^ (unsigned char)*s) * UINT64_C(0x100000001b3);
	h = (h ^ h >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	h = (h ^ h >> 27) * UINT64_C(0x94d049bb133111eb);
	return h ^ h >> 31;
}
