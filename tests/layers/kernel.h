/* SPDX-License-Identifier: MIT */
/*
 * kernel.h - what a Linux kernel keeps of its memory, made by hand: note, page tables, sections,
 * struct pages
 */
#ifndef TESTS_LAYERS_KERNEL_H
#define TESTS_LAYERS_KERNEL_H

#include <stdbool.h>
#include <stdint.h>

#define KERNEL_PAGE UINT64_C(4096)
#define KERNEL_NOTE (16 * KERNEL_PAGE) /* physical, as all that follows */
#define KERNEL_TOP (20 * KERNEL_PAGE)
#define KERNEL_TABLES (21 * KERNEL_PAGE)
#define KERNEL_SECTIONS (48 * KERNEL_PAGE)
#define KERNEL_STRUCTS (512 * KERNEL_PAGE) /* struct pages: 64 bytes each */

struct kernel {
	uint8_t *mem;
	uint64_t bytes, low_bytes;
	unsigned levels;  /* of its page tables: 4 or 5 */
	bool large;       /* struct pages are mapped by large pages */
	uint64_t n_table; /* tables used */
};

/* All of memory is in use; where the kernel's own things end. */
uint64_t kernel_make(struct kernel *k);
/* A free block at that offset in memory. */
void kernel_free(struct kernel *k, uint64_t off, unsigned order);
void kernel_use(struct kernel *k, uint64_t off);
/* The note's text, without its end; for tests that spoil it. */
char *kernel_note_text(struct kernel *k);

#endif
