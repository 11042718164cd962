/* SPDX-License-Identifier: MIT */
/*
 * guestmem.c - which pages the guest's kernel has free, found without asking it
 *
 * Theory of operation: what a guest has freed is in no one's use, but looks like any other page
 * that was written. Its kernel knows: the first struct page of each free block is marked as such
 * and has the block's order. Linux describes where to find all that in a note made for programs
 * that write crash dumps and leave out free pages (VMCOREINFO; its address is in
 * /sys/kernel/vmcoreinfo, which root of the guest tells us): the kernel's page table, the sections
 * of memory and their arrays of struct page, the offsets in those, and the mark.
 *
 * Why that is right while the guest stands still, wherever it stopped: the allocator takes the mark
 * away before it hands a block to anyone, and sets the order before it sets the mark. So a block
 * that has the mark belongs to the allocator alone, and nobody relies on what is in it: a page that
 * is to be zeros is cleared when it is handed out (a kernel with init_on_free would rely on it; the
 * base image's has it off). Blocks that are being split or joined at that instant have no mark, and
 * are not found. While the guest runs the same look is a guess, good for counting only.
 *
 * A guest can write anything here. It can then lose memory of its own, which it could have
 * overwritten as well, and nothing else: no address that is not in its memory is read or given out.
 */
#include "layers/guestmem.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#define ABOVE_4G (UINT64_C(1) << 32)
#define KERNEL_MAP UINT64_C(0xffffffff80000000) /* where x86-64's kernel image is mapped */
#define ENTRY_PRESENT 1u
#define ENTRY_LARGE 0x80u
#define ENTRY_ADDR UINT64_C(0x000ffffffffff000)
#define SECTION_USABLE 3u /* present, and has its struct pages */
#define ORDER_MAX 10u

#define NOTE_HEAD 24u /* of the ELF note: three numbers, and "VMCOREINFO" in 12 bytes */

enum field {
	F_PAGESIZE,
	F_TOP_TABLE,
	F_PHYS_BASE,
	F_LEVEL5,
	F_SECTIONS,
	F_SECTION_ROOTS,
	F_SECTION_SIZE,
	F_SECTION_MAP,
	F_SECTION_BITS,
	F_PAGE_SIZE,
	F_PAGE_TYPE,
	F_PAGE_PRIVATE,
	F_FREE_TYPE,
	F_END,
};

static const struct {
	const char *name;
	unsigned base;
} fields[F_END] = {
	[F_PAGESIZE] = { "PAGESIZE=", 10 },
	[F_TOP_TABLE] = { "SYMBOL(init_top_pgt)=", 16 },
	[F_PHYS_BASE] = { "NUMBER(phys_base)=", 10 },
	[F_LEVEL5] = { "NUMBER(pgtable_l5_enabled)=", 10 },
	[F_SECTIONS] = { "SYMBOL(mem_section)=", 16 },
	[F_SECTION_ROOTS] = { "LENGTH(mem_section)=", 10 },
	[F_SECTION_SIZE] = { "SIZE(mem_section)=", 10 },
	[F_SECTION_MAP] = { "OFFSET(mem_section.section_mem_map)=", 10 },
	[F_SECTION_BITS] = { "NUMBER(SECTION_SIZE_BITS)=", 10 },
	[F_PAGE_SIZE] = { "SIZE(page)=", 10 },
	[F_PAGE_TYPE] = { "OFFSET(page._mapcount)=", 10 },
	[F_PAGE_PRIVATE] = { "OFFSET(page.private)=", 10 },
	[F_FREE_TYPE] = { "NUMBER(PAGE_BUDDY_MAPCOUNT_VALUE)=", 10 },
};

/* ---- memory ---- */

/* The bytes at a physical address, NULL if they are not all in memory. */
static const uint8_t *at(const struct guestmem *g, uint64_t addr, uint64_t n)
{
	if (addr >= ABOVE_4G) {
		addr -= ABOVE_4G;
		if (addr > g->bytes - g->low_bytes || n > g->bytes - g->low_bytes - addr)
			return NULL;
		return g->base + g->low_bytes + addr;
	}
	return addr > g->low_bytes || n > g->low_bytes - addr ? NULL : g->base + addr;
}

static uint64_t get64(const uint8_t *p)
{
	return *(const volatile uint64_t *)(const void *)p;
}

static uint32_t get32(const uint8_t *p)
{
	return *(const volatile uint32_t *)(const void *)p;
}

/*
 * What the kernel's address @va is, physically, and to the end of which virtual address that
 * continues. False: nothing.
 */
static bool translate(const struct guestmem *g, uint64_t va, uint64_t *ret, uint64_t *ret_end)
{
	uint64_t table = g->top_table;

	for (uint32_t level = g->levels; level > 0; level--) {
		unsigned shift = 12 + 9 * (level - 1);
		const uint8_t *p = at(g, table + (va >> shift & 511) * 8, 8);
		uint64_t e = p ? get64(p) : 0;
		uint64_t size = UINT64_C(1) << shift;

		if (!(e & ENTRY_PRESENT))
			return false;
		if (level == 1 || (level <= 3 && (e & ENTRY_LARGE))) {
			*ret = (e & ENTRY_ADDR & ~(size - 1)) | (va & (size - 1));
			*ret_end = (va | (size - 1)) + 1;
			return true;
		}
		table = e & ENTRY_ADDR;
	}
	return false;
}

/* A number at the kernel's address @va; 0 if there is none. */
static uint64_t number_at(const struct guestmem *g, uint64_t va)
{
	uint64_t addr, end;
	const uint8_t *p;

	if (va % 8 != 0 || !translate(g, va, &addr, &end))
		return 0;
	p = at(g, addr, 8);
	return p ? get64(p) : 0;
}

/* ---- the note ---- */

static bool parse_number(const char *s, size_t n, unsigned base, int64_t *ret)
{
	bool minus = n > 0 && *s == '-' && base == 10;
	uint64_t v = 0;

	if (minus) {
		s++;
		n--;
	}
	if (n == 0 || n > 20)
		return false;
	for (size_t i = 0; i < n; i++) {
		unsigned d = s[i] >= '0' && s[i] <= '9'   ? (unsigned)(s[i] - '0')
		             : s[i] >= 'a' && s[i] <= 'f' ? (unsigned)(s[i] - 'a') + 10
		                                          : 16;

		if (d >= base || v > (UINT64_MAX - d) / base)
			return false;
		v = v * base + d;
	}
	*ret = (int64_t)(minus ? -v : v);
	return true;
}

/* All of them, each once: 0. */
static int parse_note(const char *text, size_t n, int64_t ret[F_END])
{
	uint32_t found = 0;

	for (size_t from = 0; from < n;) {
		const char *nl = memchr(text + from, '\n', n - from);
		size_t len = nl ? (size_t)(nl - text) - from : n - from;

		for (unsigned f = 0; f < F_END; f++) {
			size_t name = strlen(fields[f].name);

			if (len <= name || memcmp(text + from, fields[f].name, name) != 0)
				continue;
			if ((found & 1u << f) ||
			    !parse_number(text + from + name, len - name, fields[f].base, &ret[f]))
				return -EBADMSG;
			found |= 1u << f;
		}
		from += len + 1;
	}
	return found == (1u << F_END) - 1 ? 0 : -EOPNOTSUPP;
}

static bool within(int64_t v, int64_t least, int64_t most)
{
	return v >= least && v <= most;
}

/* Of a field of @bytes, at an offset that divides by them, in a thing of @size. */
static bool field_in(int64_t off, int64_t bytes, int64_t size)
{
	return off >= 0 && off % bytes == 0 && off <= size - bytes;
}

static int take_note(struct guestmem *g, const int64_t v[F_END])
{
	if (v[F_PAGESIZE] != LAYER_PAGE || !within(v[F_LEVEL5], 0, 1) ||
	    !within(v[F_SECTION_ROOTS], 1, 1 << 20) || !within(v[F_SECTION_SIZE], 8, 256) ||
	    !within(v[F_SECTION_BITS], 24, 34) || !within(v[F_PAGE_SIZE], 16, 256) ||
	    LAYER_PAGE % v[F_PAGE_SIZE] != 0 || v[F_SECTION_SIZE] % 8 != 0 ||
	    !field_in(v[F_SECTION_MAP], 8, v[F_SECTION_SIZE]) ||
	    !field_in(v[F_PAGE_TYPE], 4, v[F_PAGE_SIZE]) ||
	    !field_in(v[F_PAGE_PRIVATE], 8, v[F_PAGE_SIZE]))
		return -EOPNOTSUPP;
	g->levels = v[F_LEVEL5] ? 5 : 4;
	g->top_table = (uint64_t)v[F_TOP_TABLE] - KERNEL_MAP + (uint64_t)v[F_PHYS_BASE];
	g->mem_section = (uint64_t)v[F_SECTIONS];
	g->n_roots = (uint32_t)v[F_SECTION_ROOTS];
	g->section_size = (uint32_t)v[F_SECTION_SIZE];
	g->section_map_off = (uint32_t)v[F_SECTION_MAP];
	g->section_pages = (uint32_t)1 << (v[F_SECTION_BITS] - 12);
	g->sections_per_root = LAYER_PAGE / g->section_size;
	g->page_size = (uint32_t)v[F_PAGE_SIZE];
	g->type_off = (uint32_t)v[F_PAGE_TYPE];
	g->private_off = (uint32_t)v[F_PAGE_PRIVATE];
	g->free_type = (uint32_t)v[F_FREE_TYPE];
	return g->top_table % LAYER_PAGE == 0 && at(g, g->top_table, LAYER_PAGE) ? 0 : -EBADMSG;
}

int guestmem_open(struct guestmem *g, const uint8_t *base, uint64_t bytes, uint64_t low_bytes,
                  uint64_t note, const char **ret_why)
{
	int64_t v[F_END] = { 0 };
	char text[GUESTMEM_NOTE_MAX];
	const uint8_t *p;
	uint32_t len;
	int r;

	*g = (struct guestmem){ .base = base, .bytes = bytes, .low_bytes = low_bytes };
	*ret_why = "the kernel's note is not there";
	if (low_bytes > bytes || low_bytes > ABOVE_4G || note % 4 != 0)
		return -ENOENT;
	p = at(g, note, NOTE_HEAD);
	if (!p || get32(p) != 11 || memcmp(p + 12, "VMCOREINFO", 11) != 0)
		return -ENOENT;
	len = get32(p + 4);
	if (len > sizeof(text) || !at(g, note, NOTE_HEAD + (uint64_t)len))
		return -ENOENT;
	memcpy(text, p + NOTE_HEAD, len);
	*ret_why = "the kernel's note is not understood";
	r = parse_note(text, len, v);
	if (r == 0)
		r = take_note(g, v);
	if (r == 0)
		*ret_why = "";
	return r;
}

/* ---- free blocks ---- */

static void drop_short(struct guestmem_free *l)
{
	uint32_t n = 0;

	l->min *= 2;
	for (uint32_t i = 0; i < l->n; i++) {
		if (l->end[i] - l->start[i] < l->min)
			continue;
		l->start[n] = l->start[i];
		l->end[n++] = l->end[i];
	}
	l->n = n;
}

static void add(struct guestmem_free *l, uint64_t start, uint64_t end)
{
	if (l->n > 0 && l->end[l->n - 1] == start) {
		l->end[l->n - 1] = end;
		return;
	}
	if (l->n > 0 && l->end[l->n - 1] - l->start[l->n - 1] < l->min)
		l->n--;
	while (l->n == GUESTMEM_RUNS_MAX)
		drop_short(l);
	l->start[l->n] = start;
	l->end[l->n++] = end;
}

/* Page frames that are one piece of memory: frame @pfn is at offset (@pfn - @skip) pages. */
struct frames {
	uint64_t end, skip;
};

/* The blocks in [first, end), page frames whose struct pages begin at p, one after the other. */
static uint64_t look_at_pages(const struct guestmem *g, const uint8_t *p, uint64_t first,
                              uint64_t end, const struct frames *f, struct guestmem_free *l)
{
	uint64_t pfn = first;

	while (pfn < end) {
		const uint8_t *page = p + (pfn - first) * g->page_size;
		uint64_t order, block;

		if (get32(page + g->type_off) != g->free_type) {
			pfn++;
			continue;
		}
		order = get64(page + g->private_off);
		if (order > ORDER_MAX || pfn % (UINT64_C(1) << order) != 0) {
			pfn++;
			continue;
		}
		block = pfn;
		pfn += UINT64_C(1) << order;
		add(l, (block - f->skip) * LAYER_PAGE,
		    ((pfn < f->end ? pfn : f->end) - f->skip) * LAYER_PAGE);
	}
	return pfn;
}

/* The struct pages of a section, as if the first were page frame 0's. 0: it has none. */
static uint64_t pages_of_section(const struct guestmem *g, uint64_t section)
{
	uint64_t root, map;

	if (section / g->sections_per_root >= g->n_roots)
		return 0;
	root = number_at(g, g->mem_section + section / g->sections_per_root * 8);
	if (root == 0)
		return 0;
	map = number_at(g, root + section % g->sections_per_root * g->section_size +
	                           g->section_map_off);
	return (map & SECTION_USABLE) == SECTION_USABLE ? map & ~(uint64_t)(LAYER_PAGE - 1) : 0;
}

/* From frame @pfn on. */
static void look_at_frames(const struct guestmem *g, uint64_t pfn, const struct frames *f,
                           struct guestmem_free *l)
{
	while (pfn < f->end) {
		uint64_t section = pfn / g->section_pages;
		uint64_t stop = (section + 1) * g->section_pages;
		uint64_t pages = pages_of_section(g, section);

		stop = stop < f->end ? stop : f->end;
		while (pages != 0 && pfn < stop) {
			uint64_t va = pages + pfn * g->page_size, addr, va_end, n;
			const uint8_t *p;

			if (!translate(g, va, &addr, &va_end))
				break;
			/* the array ends with a page, and no struct is in two of them */
			n = (va_end - va) / g->page_size;
			n = n < stop - pfn ? n : stop - pfn;
			p = n > 0 ? at(g, addr, n * g->page_size) : NULL;
			if (!p)
				break;
			pfn = look_at_pages(g, p, pfn, pfn + n, f, l);
		}
		pfn = pfn > stop ? pfn : stop;
	}
}

void guestmem_find(const struct guestmem *g, uint64_t from, uint64_t to, struct guestmem_free *ret)
{
	const uint64_t low = g->low_bytes / LAYER_PAGE;
	const uint64_t hole = ABOVE_4G / LAYER_PAGE - low;
	uint64_t first = from / LAYER_PAGE, end = (to < g->bytes ? to : g->bytes) / LAYER_PAGE;

	ret->n = 0;
	ret->min = (uint64_t)GUESTMEM_RUN_PAGES * LAYER_PAGE;
	if (first < low)
		look_at_frames(g, first, &(struct frames){ .end = end < low ? end : low }, ret);
	if (end > low)
		look_at_frames(g, (first > low ? first : low) + hole,
		               &(struct frames){ .end = end + hole, .skip = hole }, ret);
	if (ret->n > 0 && ret->end[ret->n - 1] - ret->start[ret->n - 1] < ret->min)
		ret->n--;
}
