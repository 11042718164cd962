/* SPDX-License-Identifier: MIT */
/*
 * fuzz_guestmem.c - fuzz entry: guest memory in which a kernel says what is free
 *
 * The input changes a memory that is right (tests/layers/kernel.c): records of an address and what
 * is written there, the note's text among it. Nothing outside memory may be read, and what is found
 * must lie in it, in order.
 */
#include <string.h>

#include "fuzz.h"
#include "layers/guestmem.h"
#include "tests/layers/kernel.h"

#define BYTES (4u << 20)
#define RECORDS_MAX 256

static uint8_t *memory(void)
{
	static uint8_t *mem, *good;
	static uint64_t used;

	if (!mem) {
		struct kernel k = { .bytes = BYTES, .low_bytes = BYTES / 2, .levels = 4 };

		mem = calloc(1, BYTES);
		good = calloc(1, BYTES);
		must(mem && good);
		k.mem = good;
		k.low_bytes = BYTES; /* where it writes */
		used = kernel_make(&k);
		kernel_free(&k, 3u << 20, 7);
	}
	memcpy(mem, good, used);
	return mem;
}

/* One byte after the other from what a kernel has, or anywhere. */
static void change(uint8_t *mem, struct in *in)
{
	static const uint64_t places[] = { KERNEL_NOTE,     KERNEL_NOTE + 24,
		                           KERNEL_TOP,      KERNEL_TABLES,
		                           KERNEL_SECTIONS, KERNEL_SECTIONS + 4096,
		                           KERNEL_STRUCTS,  KERNEL_STRUCTS + 8192 };
	uint64_t at = places[in_u8(in) % 8] + in_u16(in) % (2 * KERNEL_PAGE);
	struct in what = in_take(in, 1 + in_u8(in) % 16);

	memcpy(mem + at, what.p, what.n);
}

static void look(const struct guestmem *g, uint64_t from, uint64_t to)
{
	static struct guestmem_free f;

	guestmem_find(g, from, to, &f);
	must(f.n <= GUESTMEM_RUNS_MAX);
	for (uint32_t i = 0; i < f.n; i++) {
		must(f.start[i] < f.end[i] && f.end[i] <= g->bytes && f.start[i] >= from);
		must(f.start[i] % KERNEL_PAGE == 0 && f.end[i] % KERNEL_PAGE == 0);
		must(i == 0 || f.start[i] > f.end[i - 1]);
		must(f.end[i] - f.start[i] >= f.min);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct in in = { data, size };
	uint8_t *mem = memory();
	struct guestmem g;
	const char *why;
	uint64_t low = in_u8(&in) % 3 ? BYTES : BYTES / 2;
	uint64_t note = in_u8(&in) % 4 ? KERNEL_NOTE : (uint64_t)in_u16(&in) * 64;

	for (unsigned n = 0; in.n > 0 && n < RECORDS_MAX; n++)
		change(mem, &in);
	if (guestmem_open(&g, mem, BYTES, low, note, &why) < 0) {
		must(*why);
		return 0;
	}
	look(&g, 0, BYTES);
	look(&g, BYTES / 4, BYTES);
	return 0;
}
