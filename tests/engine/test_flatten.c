/* SPDX-License-Identifier: Apache-2.0 */
/* test_flatten.c - whole chains of layer files through the engine's two verbs */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/crc32c.h"
#include "base/err.h"
#include "engine/engine_internal.h"
#include "layers/format.h"
#include "tests/engine/chain.h"

#define PAGE LAYER_PAGE
#define MIB (1ull << 20)
#define GIB (1ull << 30)
#define MEM_PAGES 20000u /* enough for more extents than may stay */

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

struct fixture {
	struct tmpdir dir, layers; /* layers is a folder of dir */
	struct engine e;
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct err err = { 0 };

	*state = f;
	if (!f || tmpdir_make(&f->dir) < 0)
		return -1;
	snprintf(f->e.data_dir, sizeof(f->e.data_dir), "%s", f->dir.path);
	if ((size_t)snprintf(f->layers.path, sizeof(f->layers.path), "%s/layers", f->dir.path) >=
	    sizeof(f->layers.path))
		return -1;
	mutex_init(&f->e.lock, "engine verified");
	mutex_unshared(&f->e.lock);
	f->e.verified = calloc(VERIFIED_MAX, sizeof(*f->e.verified));
	return f->e.verified ? io_mkdirs(f->layers.path, 0700, &err) : -1;
}

static int teardown(void **state)
{
	struct fixture *f = *state;
	int r = tmpdir_remove(&f->dir);

	free(f->e.verified);
	mutex_destroy(&f->e.lock);
	free(f);
	return r;
}

static bool layer_exists(struct fixture *f, const char *name)
{
	char path[256];

	return access(tmpdir_file(&f->layers, name, path, sizeof(path)), F_OK) == 0;
}

/* ---- memory ---- */

/* What a page is: 0 never written, else the number all its words hold; ZERO is zeros written down.
 */
#define ZERO UINT32_MAX

static void fill_page(uint8_t p[PAGE], uint32_t what)
{
	if (what == ZERO)
		what = 0;
	for (size_t i = 0; i < PAGE; i += sizeof(what))
		memcpy(p + i, &what, sizeof(what));
}

/* Writes pages[MEM_PAGES] as a layer file of its own, straight from the format's description. */
static void write_mem_layer(struct fixture *f, const char *id, const uint32_t *pages,
                            struct engine_layer *ret)
{
	autofree struct layer_extent *rows = calloc(MEM_PAGES, sizeof(*rows));
	struct layer_info info = { .mem_bytes = (uint64_t)MEM_PAGES * PAGE };
	autofree uint8_t *data = malloc((size_t)MEM_PAGES * PAGE);

	assert_true(data && rows);
	for (uint32_t i = 0; i < MEM_PAGES; i++) {
		struct layer_extent *last = info.n_extents ? &rows[info.n_extents - 1] : NULL;
		uint32_t flags = pages[i] == ZERO ? LAYER_EXTENT_ZERO : 0;

		if (!pages[i])
			continue;
		if (last && last->flags == flags &&
		    last->guest_off + last->len == (uint64_t)i * PAGE)
			last->len += PAGE;
		else
			rows[info.n_extents++] = (struct layer_extent){
				.guest_off = (uint64_t)i * PAGE,
				.file_off = flags ? 0 : PAGE + info.data_pages * PAGE,
				.len = PAGE,
				.flags = flags,
			};
		if (!flags)
			fill_page(data + PAGE * info.data_pages++, pages[i]);
	}
	mem_layer_write(&f->layers, id, &info, rows, data, ret);
}

/* Opens it as the engine does; its rows, which the caller frees. */
static struct layer_extent *read_mem_layer(struct fixture *f, const struct engine_layer *l,
                                           struct layer_info *ret_info, int *ret_fd)
{
	autofree struct layer_extent *rows = NULL;
	autofree uint8_t *bytes = NULL;
	uint8_t page[PAGE];
	struct err err = { 0 };
	const char *why = "";
	size_t n;

	if (engine_open_layer(&f->e, l, ret_fd, &err) < 0)
		fail_msg("open: %s", err.msg);
	assert_int_equal(io_pread_all(*ret_fd, page, PAGE, 0), 0);
	assert_int_equal(layer_header_decode(page, l->bytes, ret_info, &why), 0);
	n = layer_table_bytes(ret_info);
	bytes = malloc(n + 1);
	rows = calloc(ret_info->n_extents + 1, sizeof(*rows));
	assert_true(bytes && rows);
	assert_int_equal(io_pread_all(*ret_fd, bytes, n, (off_t)layer_table_off(ret_info)), 0);
	assert_int_equal(layer_table_decode(ret_info, bytes, n, rows, &why), 0);
	return TAKE_PTR(rows);
}

/* The flattened layer says exactly what the model says, and as what the engine would accept. */
static void check_mem_layer(struct fixture *f, const struct engine_layer *l, const uint32_t *want,
                            struct layer_info *ret_info)
{
	autofree struct layer_extent *rows = NULL;
	autofree bool *covered = calloc(MEM_PAGES, 1);
	uint8_t page[PAGE], expect[PAGE];
	autofd int fd = -1;
	uint32_t crc = 0;

	rows = read_mem_layer(f, l, ret_info, &fd);
	assert_non_null(covered);
	assert_int_equal(ret_info->mem_bytes, (uint64_t)MEM_PAGES * PAGE);
	for (uint64_t i = 0; i < ret_info->n_extents; i++) {
		assert_int_equal(rows[i].flags, 0); /* a bottom layer needs no zeros */
		for (uint64_t in = 0; in < rows[i].len; in += PAGE) {
			uint64_t nr = (rows[i].guest_off + in) / PAGE;

			covered[nr] = true;
			assert_int_equal(
			        io_pread_all(fd, page, PAGE, (off_t)(rows[i].file_off + in)), 0);
			fill_page(expect, want[nr]);
			assert_memory_equal(page, expect, PAGE);
			crc = crc32c(crc, page, PAGE);
		}
	}
	for (uint32_t i = 0; i < MEM_PAGES; i++)
		if (!covered[i])
			assert_true(want[i] == 0 || want[i] == ZERO);
	assert_int_equal(crc, l->crc);
	assert_int_equal(crc, ret_info->data_crc);
}

static void flatten_mem(struct fixture *f, const struct engine_chain *c, const char *id,
                        struct engine_layer *ret)
{
	struct err err = { 0 };

	*ret = (struct engine_layer){ .format = "mem", .has_crc = true };
	snprintf(ret->id, sizeof(ret->id), "%s", id);
	if (engine_flatten_mem(&f->e, c, /* keep_bottom= */ false, id, &ret->bytes, &ret->crc,
	                       &err) < 0)
		fail_msg("flatten: %s", err.msg);
}

/* Runs of new pages, of zeros and of nothing; over the model of what was there before. */
static void scribble_mem(uint32_t *layer, uint32_t *model, uint64_t *seed, uint32_t number)
{
	memset(layer, 0, MEM_PAGES * sizeof(*layer));
	for (unsigned k = 0; k < 200; k++) {
		uint32_t at = (uint32_t)rnd(seed, MEM_PAGES), n = 1 + (uint32_t)rnd(seed, 60);
		bool zero = rnd(seed, 4) == 0;

		for (uint32_t i = at; i < at + n && i < MEM_PAGES; i++)
			layer[i] = model[i] = zero ? ZERO : number << 16 | (i + 1);
	}
}

static void test_mem_random(void **state)
{
	struct fixture *f = *state;
	uint64_t seed = 4711;
	autofree uint32_t *layer = calloc(MEM_PAGES, sizeof(*layer));

	for (unsigned round = 0; round < 4; round++) {
		autofree uint32_t *model = calloc(MEM_PAGES, sizeof(*model));
		struct engine_chain c = { .n = 1 + rnd(&seed, 8) };
		struct engine_layer flat, again;
		struct layer_info info;
		char id[ID_SIZE];

		assert_true(layer && model);
		for (size_t i = 0; i < c.n; i++) {
			scribble_mem(layer, model, &seed, (uint32_t)(i + 1));
			snprintf(id, sizeof(id), "m%u-%zu", round, i);
			write_mem_layer(f, id, layer, &c.l[i]);
		}
		snprintf(id, sizeof(id), "flat%u", round);
		flatten_mem(f, &c, id, &flat);
		check_mem_layer(f, &flat, model, &info);
		assert_true(info.n_extents > 10);
		/* flat on flat is the same file again */
		snprintf(id, sizeof(id), "again%u", round);
		flatten_mem(f, &(struct engine_chain){ .l = { flat }, .n = 1 }, id, &again);
		assert_int_equal(again.bytes, flat.bytes);
		assert_int_equal(again.crc, flat.crc);
	}
}

/* Neighbours from two layers are one extent; zeros over nothing or over data leave no extent. */
static void test_mem_extents(void **state)
{
	struct fixture *f = *state;
	autofree uint32_t *a = calloc(MEM_PAGES, sizeof(*a));
	autofree uint32_t *b = calloc(MEM_PAGES, sizeof(*b));
	autofree uint32_t *want = calloc(MEM_PAGES, sizeof(*want));
	struct engine_chain c = { .n = 2 };
	struct engine_layer flat;
	struct layer_info info;

	assert_true(a && b && want);
	a[10] = 1;
	a[12] = 2;
	a[20] = 3;
	b[11] = 4;
	b[20] = ZERO;
	b[30] = ZERO;
	write_mem_layer(f, "a", a, &c.l[0]);
	write_mem_layer(f, "b", b, &c.l[1]);
	flatten_mem(f, &c, "flat", &flat);
	want[10] = 1;
	want[11] = 4;
	want[12] = 2;
	check_mem_layer(f, &flat, want, &info);
	assert_int_equal(info.n_extents, 1);
	assert_int_equal(info.data_pages, 3);
	assert_false(layer_exists(f, "flat.part"));
}

/* Every second page: more extents than QEMU should map; the gaps get filled. */
static void test_mem_many_extents(void **state)
{
	struct fixture *f = *state;
	autofree uint32_t *a = calloc(MEM_PAGES, sizeof(*a));
	struct engine_chain c = { .n = 1 };
	struct engine_layer flat;
	struct layer_info info;

	assert_non_null(a);
	for (uint32_t i = 0; i < MEM_PAGES; i += 2)
		a[i] = i + 1;
	write_mem_layer(f, "a", a, &c.l[0]);
	flatten_mem(f, &c, "flat", &flat);
	check_mem_layer(f, &flat, a, &info);
	assert_true(info.n_extents <= 4096);
}

/* A result that stands on the shared bottom: flattened with it again, it is the same memory. */
static void test_mem_keep_bottom(void **state)
{
	struct fixture *f = *state;
	uint64_t seed = 815;
	autofree uint32_t *layer = calloc(MEM_PAGES, sizeof(*layer));
	autofree uint32_t *model = calloc(MEM_PAGES, sizeof(*model));
	struct engine_chain c = { .n = 5 }, two = { .n = 2 };
	struct engine_layer flat;
	struct layer_info info;
	struct err err = { 0 };
	char id[ID_SIZE];

	assert_true(layer && model);
	for (size_t i = 0; i < c.n; i++) {
		scribble_mem(layer, model, &seed, (uint32_t)(i + 1));
		snprintf(id, sizeof(id), "k%zu", i);
		write_mem_layer(f, id, layer, &c.l[i]);
	}
	two.l[0] = c.l[0];
	two.l[1] = (struct engine_layer){ .id = "upper", .format = "mem", .has_crc = true };
	assert_int_equal(engine_flatten_mem(&f->e, &c, /* keep_bottom= */ true, "upper",
	                                    &two.l[1].bytes, &two.l[1].crc, &err),
	                 0);
	flatten_mem(f, &two, "whole", &flat);
	check_mem_layer(f, &flat, model, &info);
}

/* Rows far apart in 64 GiB: the model of the others would be as large as the memory. */
static void write_far_layer(struct fixture *f, const char *id, const uint64_t *at, size_t n,
                            uint32_t number, struct engine_layer *ret)
{
	struct layer_info info = { .mem_bytes = 64 * GIB, .n_extents = n, .data_pages = n };
	autofree struct layer_extent *rows = calloc(n, sizeof(*rows));
	autofree uint8_t *data = malloc(n * PAGE);

	assert_true(rows && data);
	for (size_t i = 0; i < n; i++) {
		rows[i] = (struct layer_extent){ at[i], PAGE + i * PAGE, PAGE, 0 };
		fill_page(data + i * PAGE, number + (uint32_t)i);
	}
	mem_layer_write(&f->layers, id, &info, rows, data, ret);
}

/* Two layers of the largest VM: on either side of 4 GiB, one over the other, at the very end. */
static void test_mem_largest(void **state)
{
	static const uint64_t low[] = { 0, 4 * GIB - PAGE, 4 * GIB, 16 * GIB, 40 * GIB };
	static const uint64_t high[] = { 4 * GIB, 16 * GIB + PAGE, 33 * GIB, 64 * GIB - PAGE };
	static const struct {
		uint64_t off;
		uint32_t what;
	} want[] = { { 0, 100 },        { 4 * GIB - PAGE, 101 },  { 4 * GIB, 200 },
		     { 16 * GIB, 103 }, { 16 * GIB + PAGE, 201 }, { 33 * GIB, 202 },
		     { 40 * GIB, 104 }, { 64 * GIB - PAGE, 203 } };
	struct fixture *f = *state;
	struct engine_chain c = { .n = 2 };
	autofree struct layer_extent *rows = NULL;
	uint8_t page[PAGE], expect[PAGE];
	struct engine_layer flat;
	struct layer_info info;
	autofd int fd = -1;
	size_t k = 0;

	write_far_layer(f, "low", low, ARRAY_SIZE(low), 100, &c.l[0]);
	write_far_layer(f, "high", high, ARRAY_SIZE(high), 200, &c.l[1]);
	flatten_mem(f, &c, "flat", &flat);
	rows = read_mem_layer(f, &flat, &info, &fd);
	assert_int_equal(info.mem_bytes, 64 * GIB);
	assert_int_equal(info.data_pages, ARRAY_SIZE(want)); /* what is far apart is not filled */
	for (uint64_t i = 0; i < info.n_extents; i++)
		for (uint64_t in = 0; in < rows[i].len; in += PAGE, k++) {
			assert_true(k < ARRAY_SIZE(want));
			assert_int_equal(rows[i].guest_off + in, want[k].off);
			assert_int_equal(
			        io_pread_all(fd, page, PAGE, (off_t)(rows[i].file_off + in)), 0);
			fill_page(expect, want[k].what);
			assert_memory_equal(page, expect, PAGE);
		}
	assert_int_equal(k, ARRAY_SIZE(want));
}

static void test_mem_empty(void **state)
{
	struct fixture *f = *state;
	autofree uint32_t *a = calloc(MEM_PAGES, sizeof(*a));
	struct engine_chain c = { .n = 1 };
	struct engine_layer flat;
	struct layer_info info;

	assert_non_null(a);
	write_mem_layer(f, "a", a, &c.l[0]);
	flatten_mem(f, &c, "flat", &flat);
	check_mem_layer(f, &flat, a, &info);
	assert_int_equal(info.n_extents, 0);
}

static void flip_byte(struct fixture *f, const char *id, off_t at)
{
	char path[256];
	autofd int fd = open(tmpdir_file(&f->layers, id, path, sizeof(path)), O_RDWR | O_CLOEXEC);
	uint8_t b;

	assert_true(fd >= 0);
	assert_int_equal(pread(fd, &b, 1, at), 1);
	b ^= 0x10;
	assert_int_equal(pwrite(fd, &b, 1, at), 1);
}

/* Damage is an error and leaves nothing behind. */
static void test_mem_damaged(void **state)
{
	struct fixture *f = *state;
	autofree uint32_t *a = calloc(MEM_PAGES, sizeof(*a));
	struct engine_chain c = { .n = 2 };
	uint64_t bytes;
	uint32_t crc;

	assert_non_null(a);
	a[3] = 9;
	a[5] = 9;
	write_mem_layer(f, "a", a, &c.l[0]);
	write_mem_layer(f, "b", a, &c.l[1]);
	const off_t places[] = { 20, PAGE + 77, (off_t)c.l[1].bytes - 9 };
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		struct err err = { 0 };

		flip_byte(f, "b", places[i]);
		f->e.n_verified = 0;
		assert_int_equal(engine_flatten_mem(&f->e, &c, /* keep_bottom= */ false, "flat",
		                                    &bytes, &crc, &err),
		                 -EBADMSG);
		assert_int_equal(err.tag, ERR_POINT_DAMAGED);
		assert_false(layer_exists(f, "flat") || layer_exists(f, "flat.part"));
		flip_byte(f, "b", places[i]);
	}
	f->e.n_verified = 0;
	flatten_mem(f, &c, "flat", &c.l[2]);
}

static void test_refusals(void **state)
{
	struct fixture *f = *state;
	autofree uint32_t *a = calloc(MEM_PAGES, sizeof(*a));
	struct engine_chain c = { .n = 0 };
	struct err err = { 0 };
	struct engine_layer flat;
	uint64_t bytes;
	uint32_t crc;

	assert_non_null(a);
	assert_int_equal(
	        engine_flatten_mem(&f->e, &c, /* keep_bottom= */ false, "flat", &bytes, &crc, &err),
	        -EINVAL);
	assert_int_equal(engine_flatten_disk(&f->e, &c, "flat", &bytes, &err), -EINVAL);
	a[1] = 1;
	write_mem_layer(f, "a", a, &c.l[0]);
	c.n = 1;
	assert_int_equal(engine_flatten_disk(&f->e, &c, "flat", &bytes, &err), -EINVAL);
	/* never over a layer that is there, nor beside one that is being written */
	flatten_mem(f, &c, "flat", &flat);
	assert_int_equal(
	        engine_flatten_mem(&f->e, &c, /* keep_bottom= */ false, "flat", &bytes, &crc, &err),
	        -EEXIST);
	assert_true(layer_exists(f, "flat"));
	write_mem_layer(f, "new.part", a, &flat);
	assert_int_equal(engine_flatten_mem(&f->e, &c, false, "new", &bytes, &crc, &err), -EEXIST);
	assert_true(layer_exists(f, "new.part") && !layer_exists(f, "new"));
	snprintf(c.l[0].id, sizeof(c.l[0].id), "gone");
	assert_int_equal(engine_flatten_mem(&f->e, &c, false, "new2", &bytes, &crc, &err), -ENOENT);
}

/* ---- disk ---- */

/* A raw bottom gets no checksum: it may be gigabytes of holes. */
static void engine_chain_of(struct fixture *f, const struct chain *c, struct engine_chain *ret)
{
	ret->n = c->n;
	for (size_t i = 0; i < c->n; i++) {
		struct engine_layer *l = &ret->l[i];
		struct err err = { 0 };

		*l = (struct engine_layer){ .has_crc = i > 0 || !c->raw_bottom };
		snprintf(l->id, sizeof(l->id), "l%zu", i);
		snprintf(l->format, sizeof(l->format), "%s", l->has_crc ? "qcow2" : "raw");
		if (l->has_crc)
			assert_int_equal(engine_layer_crc(&f->e, l->id, &l->bytes, &l->crc, &err),
			                 0);
	}
}

static void test_disk(void **state)
{
	for (int raw = 0; raw < 2; raw++) {
		struct fixture *f = *state;
		struct chain c = { .dir = &f->layers, .raw_bottom = raw };
		struct engine_chain ec = { 0 };
		uint64_t seed = 31 + (uint64_t)raw, bytes = 0;
		struct err err = { 0 };
		struct stat st;
		char path[256];

		for (size_t i = 0; i < 6; i++) {
			chain_add(&c, &(struct chain_layer){ .size = (16 + i) * MIB });
			chain_scribble(&c, &seed, 25);
		}
		engine_chain_of(f, &c, &ec);
		if (engine_flatten_disk(&f->e, &ec, "flat", &bytes, &err) < 0)
			fail_msg("flatten: %s", err.msg);
		chain_judge(&c, c.n, tmpdir_file(&f->layers, "flat", path, sizeof(path)));
		assert_int_equal(stat(path, &st), 0);
		assert_int_equal((uint64_t)st.st_size, bytes);
		assert_false(layer_exists(f, "flat.part"));
		for (size_t i = 0; i < c.n; i++)
			engine_remove_layer(&f->e, ec.l[i].id);
		engine_remove_layer(&f->e, "flat");
	}
}

static void test_disk_damaged(void **state)
{
	struct fixture *f = *state;
	struct chain c = { .dir = &f->layers, .raw_bottom = true };
	struct engine_chain ec = { 0 };
	struct err err = { 0 };
	uint64_t bytes;

	for (size_t i = 0; i < 3; i++)
		chain_add(&c, &(struct chain_layer){ .size = 4 * MIB });
	chain_io(&c, "write -P 1 1M 1M\n");
	engine_chain_of(f, &c, &ec);
	flip_byte(f, "l2", 400000);
	assert_int_equal(engine_flatten_disk(&f->e, &ec, "flat", &bytes, &err), -EBADMSG);
	assert_int_equal(err.tag, ERR_POINT_DAMAGED);
	/* without a checksum the reader itself must notice */
	for (size_t i = 0; i < c.n; i++)
		ec.l[i].has_crc = false;
	flip_byte(f, "l1", 24);
	err = (struct err){ 0 };
	assert_int_equal(engine_flatten_disk(&f->e, &ec, "flat", &bytes, &err), -EBADMSG);
	assert_non_null(strstr(err.msg, "layer 2 of 3"));
	assert_false(layer_exists(f, "flat") || layer_exists(f, "flat.part"));
}

/* 20 GiB of disk, 200 MiB of it in use, scattered over four layers: quick, and in little memory. */
static void test_disk_large(void **state)
{
	struct fixture *f = *state;
	struct chain c = { .dir = &f->layers, .raw_bottom = true };
	struct engine_chain ec = { 0 };
	uint64_t took, bytes = 0, seed = 8;
	struct err err = { 0 };
	struct rusage ru;
	char path[256];

	chain_add(&c, &(struct chain_layer){ .size = 10 * GIB });
	chain_io(&c, "write -P 200 1G 1M\n");
	for (unsigned l = 0; l < 4; l++) {
		autobuf struct buf b = { 0 };
		autofree char *text = NULL;

		chain_add(&c, &(struct chain_layer){ .size = 20 * GIB });
		for (unsigned i = 0; i < 820; i++)
			buf_printf(&b, "write -P %u %llu 64k\n", 1 + l,
			           (unsigned long long)rnd(&seed, 20 * GIB / 65536) * 65536);
		text = buf_take_str(&b);
		assert_non_null(text);
		chain_io(&c, text);
	}
	engine_chain_of(f, &c, &ec);
	took = clock_ms();
	if (engine_flatten_disk(&f->e, &ec, "flat", &bytes, &err) < 0)
		fail_msg("flatten: %s", err.msg);
	took = clock_ms() - took;
	assert_true(bytes > 200 * MIB && bytes < 230 * MIB);
	getrusage(RUSAGE_SELF, &ru);
	print_message("flattened %llu MiB in %llu ms, at most %ld KiB of memory\n",
	              (unsigned long long)(bytes / MIB), (unsigned long long)took, ru.ru_maxrss);
	chain_judge(&c, c.n, tmpdir_file(&f->layers, "flat", path, sizeof(path)));
	if (!SANITIZED)
		assert_true(ru.ru_maxrss < 64 << 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		/* first: the memory it takes is the process's high-water mark */
		cmocka_unit_test_setup_teardown(test_disk_large, setup, teardown),
		cmocka_unit_test_setup_teardown(test_disk, setup, teardown),
		cmocka_unit_test_setup_teardown(test_disk_damaged, setup, teardown),
		cmocka_unit_test_setup_teardown(test_mem_random, setup, teardown),
		cmocka_unit_test_setup_teardown(test_mem_extents, setup, teardown),
		cmocka_unit_test_setup_teardown(test_mem_many_extents, setup, teardown),
		cmocka_unit_test_setup_teardown(test_mem_keep_bottom, setup, teardown),
		cmocka_unit_test_setup_teardown(test_mem_largest, setup, teardown),
		cmocka_unit_test_setup_teardown(test_mem_empty, setup, teardown),
		cmocka_unit_test_setup_teardown(test_mem_damaged, setup, teardown),
		cmocka_unit_test_setup_teardown(test_refusals, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
