/* SPDX-License-Identifier: MIT */
/* kernel.c - see kernel.h; addresses are those that Linux 6.12 uses without randomisation */
#include "kernel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ABOVE_4G (UINT64_C(1) << 32)
#define IMAGE UINT64_C(0xffffffff80000000)
#define PHYS_BASE 0x1000u
#define DIRECT UINT64_C(0xffff888000000000)
#define STRUCTS_AT UINT64_C(0xffffea0000000000)
#define SECTION_BITS 27u
#define FREE 0xf0000000u
#define IN_USE UINT32_MAX

static void put64(struct kernel *k, uint64_t addr, uint64_t v)
{
	if (addr + 8 > k->low_bytes)
		abort();
	memcpy(k->mem + addr, &v, 8);
}

static uint64_t get64(const struct kernel *k, uint64_t addr)
{
	uint64_t v;

	memcpy(&v, k->mem + addr, 8);
	return v;
}

static void map(struct kernel *k, uint64_t va, uint64_t addr, unsigned leaf)
{
	uint64_t table = KERNEL_TOP;

	for (unsigned level = k->levels; level > leaf; level--) {
		uint64_t at = table + (va >> (12 + 9 * (level - 1)) & 511) * 8;

		if (!(get64(k, at) & 1))
			put64(k, at, (KERNEL_TABLES + k->n_table++ * KERNEL_PAGE) | 0x63);
		table = get64(k, at) & ~UINT64_C(0xfff);
	}
	put64(k, table + (va >> (12 + 9 * (leaf - 1)) & 511) * 8,
	      addr | 0x8000000000000063u | (leaf > 1 ? 0x80 : 0));
}

static uint64_t frame(const struct kernel *k, uint64_t off)
{
	return (off < k->low_bytes ? off : off - k->low_bytes + ABOVE_4G) / KERNEL_PAGE;
}

/* Where the struct page of that offset is: they lie one after the other, by offset. */
static uint8_t *page_of(struct kernel *k, uint64_t off)
{
	return k->mem + KERNEL_STRUCTS + off / KERNEL_PAGE * 64;
}

static void set(struct kernel *k, uint64_t off, uint32_t type, uint64_t order)
{
	memcpy(page_of(k, off) + 48, &type, 4);
	memcpy(page_of(k, off) + 40, &order, 8);
}

void kernel_free(struct kernel *k, uint64_t off, unsigned order)
{
	set(k, off, FREE, order);
}

void kernel_use(struct kernel *k, uint64_t off)
{
	set(k, off, IN_USE, 0);
}

char *kernel_note_text(struct kernel *k)
{
	return (char *)k->mem + KERNEL_NOTE + 24;
}

static void write_note(struct kernel *k)
{
	char *text = kernel_note_text(k);
	uint32_t head[3] = { 11, 0, 0 };

	head[1] = (uint32_t)snprintf(
	        text, KERNEL_PAGE,
	        "OSRELEASE=6.12.0-test\nPAGESIZE=4096\nSYMBOL(init_uts_ns)=ffffffff82a0b6c0\n"
	        "SYMBOL(mem_section)=%llx\nLENGTH(mem_section)=2048\nSIZE(mem_section)=16\n"
	        "OFFSET(mem_section.section_mem_map)=0\nNUMBER(SECTION_SIZE_BITS)=%u\n"
	        "NUMBER(MAX_PHYSMEM_BITS)=46\nSIZE(page)=64\nSIZE(zone)=1664\n"
	        "OFFSET(page.flags)=0\nOFFSET(page._mapcount)=48\nOFFSET(page.private)=40\n"
	        "NUMBER(PAGE_BUDDY_MAPCOUNT_VALUE)=%d\nNUMBER(phys_base)=%u\n"
	        "SYMBOL(init_top_pgt)=%llx\nNUMBER(pgtable_l5_enabled)=%d\nKERNELOFFSET=0\n",
	        (unsigned long long)(DIRECT + KERNEL_SECTIONS), SECTION_BITS, (int)FREE, PHYS_BASE,
	        (unsigned long long)(IMAGE + KERNEL_TOP - PHYS_BASE), k->levels == 5);
	memcpy(k->mem + KERNEL_NOTE, head, sizeof(head));
	memcpy(k->mem + KERNEL_NOTE + 12, "VMCOREINFO\0", 12);
}

uint64_t kernel_make(struct kernel *k)
{
	uint64_t structs = k->bytes / KERNEL_PAGE * 64;
	uint64_t step = k->large ? UINT64_C(2) << 20 : KERNEL_PAGE;
	uint64_t end = KERNEL_STRUCTS + structs;

	k->n_table = 0;
	for (uint64_t at = 0; at < KERNEL_STRUCTS; at += KERNEL_PAGE)
		memset(k->mem + at, 0, KERNEL_PAGE);
	write_note(k);
	map(k, DIRECT + KERNEL_SECTIONS, KERNEL_SECTIONS, 1);
	map(k, DIRECT + KERNEL_SECTIONS + KERNEL_PAGE, KERNEL_SECTIONS + KERNEL_PAGE, 1);
	put64(k, KERNEL_SECTIONS, DIRECT + KERNEL_SECTIONS + KERNEL_PAGE); /* the one root */
	for (uint64_t off = 0; off < k->bytes; off += KERNEL_PAGE) {
		uint64_t section = frame(k, off) * KERNEL_PAGE >> SECTION_BITS;
		uint64_t va = STRUCTS_AT + frame(k, off) * 64;

		kernel_use(k, off);
		put64(k, KERNEL_SECTIONS + KERNEL_PAGE + section * 16, STRUCTS_AT | 0x17);
		if (off / KERNEL_PAGE * 64 % step == 0 && va % step == 0)
			map(k, va, KERNEL_STRUCTS + off / KERNEL_PAGE * 64, k->large ? 2 : 1);
	}
	return end;
}
