/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shared_counters.h - what a forked child runs through counts, too
 *
 * The compiler's counters are data of the program, which a child has a copy of. Here their pages
 * become memory that both share: libFuzzer learns what an input made a child do, and the coverage
 * has its lines. Only whole pages: at either end there is data that is none of ours.
 */
#pragma once

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"

/* The linker makes them, if there is such a section. */
extern char __start___llvm_prf_cnts[] __attribute__((weak, visibility("hidden")));
extern char __stop___llvm_prf_cnts[] __attribute__((weak, visibility("hidden")));
extern char __start___sancov_cntrs[] __attribute__((weak, visibility("hidden")));
extern char __stop___sancov_cntrs[] __attribute__((weak, visibility("hidden")));

static inline void share_pages(char *from, char *to)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	uintptr_t a = ((uintptr_t)from + page - 1) & ~(page - 1), b = (uintptr_t)to & ~(page - 1);
	void *copy;

	if (!from || b <= a)
		return;
	copy = mmap(NULL, b - a, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	must(copy != MAP_FAILED);
	memcpy(copy, (void *)a, b - a);
	must(mremap(copy, b - a, b - a, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)a) != MAP_FAILED);
}

static inline void share_counters(void)
{
	share_pages(__start___llvm_prf_cnts, __stop___llvm_prf_cnts);
	share_pages(__start___sancov_cntrs, __stop___sancov_cntrs);
}
