/* SPDX-License-Identifier: MIT */
/*
 * layers/guestmem.h - which pages the guest's kernel has free
 *
 * Pure code over a picture of guest memory: no descriptors, no globals, no allocation. A running
 * guest may change what is read at any time, and may write what it likes: every number is read
 * once, checked, and only then used. See guestmem.c.
 */
#ifndef PANDO_LAYERS_GUESTMEM_H
#define PANDO_LAYERS_GUESTMEM_H

#include <stdint.h>

#include "layers/format.h"

#define GUESTMEM_RUNS_MAX                                                                        \
	4096u                   /* free runs in a list: each may split a mapping of a later thaw \
	                         */
#define GUESTMEM_RUN_PAGES 16u  /* shorter ones are left alone */
#define GUESTMEM_NOTE_MAX 8192u /* bytes of the kernel's note; Linux 6.12 has 4,200 */

/* Guest memory as the layers have it: one piece, of which the guest sees the end above 4 GiB. */
struct guestmem {
	const uint8_t *base;
	uint64_t bytes;
	uint64_t low_bytes; /* of it below 4 GiB */
	/* what the kernel's note says */
	uint64_t top_table, mem_section;
	uint32_t levels;
	uint32_t section_pages, section_size, section_map_off, sections_per_root, n_roots;
	uint32_t page_size, type_off, private_off, free_type;
};

/*
 * Reads the note at the guest's physical address @note. 0; or -ENOENT, -EBADMSG, -EOPNOTSUPP and a
 * reason in *@ret_why (a constant string).
 */
int guestmem_open(struct guestmem *g, const uint8_t *base, uint64_t bytes, uint64_t low_bytes,
                  uint64_t note, const char **ret_why);

/* Sorted, as offsets in guest memory, none touches another. */
struct guestmem_free {
	uint64_t start[GUESTMEM_RUNS_MAX], end[GUESTMEM_RUNS_MAX];
	uint32_t n;
	uint64_t min; /* bytes: shorter ones are not in it; grows when there are too many */
};
/*
 * The free runs within [@from, @to). Of a guest that runs it is what may be free; of one that
 * stands still, what is.
 */
void guestmem_find(const struct guestmem *g, uint64_t from, uint64_t to, struct guestmem_free *ret);

#endif
