/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heap.c - freed memory goes back to the system
 *
 * Theory of operation: by default glibc raises its threshold for mapped blocks to the size of the
 * largest one that was freed, up to 32 MiB. From then on such blocks come from the heaps of
 * threads, of which there are eight for each processor, and a heap keeps twice the threshold at its
 * top, where not even malloc_trim() looks. A few large replies are enough for a pandod of 230 MB
 * that uses 8 (decisions/0017). Setting a threshold fixes it: large blocks are mapped, and unmapped
 * when they are freed, and heaps shrink when more than that is free at their top.
 */
#include "base/heap.h"

#include <malloc.h>

#define MAPPED_FROM (256 << 10) /* bytes; growing such a block moves pages, not bytes */
#define TOP_KEPT (256 << 10)    /* bytes free at the end of a heap */
#define HEAPS_MAX 8             /* threads beyond that share; on a large host there would be 100s */

void heap_give_back(void)
{
	/* Failing is no reason not to run, and only happens with another malloc. */
	(void)mallopt(M_MMAP_THRESHOLD, MAPPED_FROM);
	(void)mallopt(M_TRIM_THRESHOLD, TOP_KEPT);
	(void)mallopt(M_ARENA_MAX, HEAPS_MAX);
}
