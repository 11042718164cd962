/* SPDX-License-Identifier: Apache-2.0 */
/* base/heap.h - what malloc keeps of freed memory; see heap.c */
#pragma once

/* For a server with many threads; before the first of them. */
void heap_give_back(void);
