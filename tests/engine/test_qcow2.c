/* SPDX-License-Identifier: Apache-2.0 */
/* test_qcow2.c - the qcow2 writer, reader and merge; checked with QEMU's tools */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/auto.h"
#include "base/err.h"
#include "engine/qcow2.h"
#include "engine/qcow2_read.h"
#include "tests/engine/chain.h"

#define MIB (1ull << 20)
#define GIB (1ull << 30)

static int setup(void **state)
{
	struct tmpdir *t = calloc(1, sizeof(*t));

	*state = t;
	return t ? tmpdir_make(t) : -1;
}

static int teardown(void **state)
{
	int r = tmpdir_remove(*state);

	free(*state);
	return r;
}

/* Merges the first n layers into the file; code of qcow2_merge(). */
static int merge(const struct chain *c, size_t n, const char *flat, struct err *err)
{
	autofd int out = open(flat, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	int fds[ENGINE_CHAIN_MAX];
	uint64_t bytes = 0;
	struct stat st;
	int r;

	assert_true(out >= 0);
	for (size_t i = 0; i < n; i++)
		fds[i] = chain_open(c, i);
	r = qcow2_merge(&(struct qcow2_merge){ .layers = fds, .n = n, .bottom_raw = c->raw_bottom },
	                out, &bytes, err);
	for (size_t i = 0; i < n; i++)
		close(fds[i]);
	if (r == 0) {
		assert_int_equal(fstat(out, &st), 0);
		assert_int_equal((uint64_t)st.st_size, bytes);
	}
	return r;
}

static void merge_and_judge(const struct chain *c, size_t n)
{
	struct err err = { 0 };
	char flat[256];
	autofd int fd = -1;
	autoqcow2 struct qcow2 *q = NULL;

	tmpdir_file(c->dir, "flat", flat, sizeof(flat));
	if (merge(c, n, flat, &err) < 0)
		fail_msg("merge: %s", err.msg);
	chain_judge(c, n, flat);
	fd = open(flat, O_RDONLY | O_CLOEXEC);
	assert_int_equal(qcow2_open(fd, &q, &err), 0);
	assert_int_equal(qcow2_size(q), c->size[n - 1]);
}

static void test_empty(void **state)
{
	static const uint64_t sizes[] = {
		512, MIB, 512 * MIB, 512 * MIB + 512, 20 * GIB, 8192 * GIB
	};
	struct tmpdir *t = *state;
	char path[256];

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		autofd int fd = -1;
		struct err err = { 0 };
		uint64_t data = 1;

		fd = open(tmpdir_file(t, "empty", path, sizeof(path)),
		          O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
		assert_true(fd >= 0);
		assert_int_equal(qcow2_write_empty(fd, sizes[i], &err), 0);
		assert_int_equal(TOOL("qemu-img", "check", "-q", "-f", "qcow2", path), 0);
		assert_int_equal(qcow2_allocated_bytes(fd, &data, &err), 0);
		assert_int_equal(data, 0);
	}
}

/* What qemu-img map finds in this file alone. */
static uint64_t allocated_by_qemu(const char *path)
{
	const char *argv[] = { "qemu-img", "map", "-f", "qcow2", "--output=json", path, NULL };
	autofree char *out = NULL;
	uint64_t sum = 0;
	struct err err = { 0 };
	json_t *map, *e;
	size_t i;

	assert_int_equal(proc_run(&(struct proc_run_opts){ .argv = argv,
	                                                   .deadline_ms = CHAIN_TOOL_MS,
	                                                   .max_output = 4u << 20 },
	                          &out, NULL, &err),
	                 0);
	map = json_loads(out, 0, NULL);
	assert_non_null(map);
	json_array_foreach(map, i, e) if (json_is_true(json_object_get(e, "data"))) sum +=
	        (uint64_t)json_integer_value(json_object_get(e, "length"));
	json_decref(map);
	return sum;
}

static void test_allocated(void **state)
{
	struct chain c = { .dir = *state, .raw_bottom = true };
	uint64_t seed = 77, data;
	struct err err = { 0 };
	char path[256];

	chain_add(&c, &(struct chain_layer){ .size = 16 * MIB });
	for (unsigned i = 0; i < 3; i++) {
		autofd int fd = -1;

		chain_add(&c, &(struct chain_layer){ .size = 16 * MIB, .cluster = i * 2048 });
		chain_scribble(&c, &seed, 40);
		chain_path(&c, c.n - 1, path, sizeof(path));
		fd = chain_open(&c, c.n - 1);
		assert_int_equal(qcow2_allocated_bytes(fd, &data, &err), 0);
		assert_int_equal(data, allocated_by_qemu(path));
		assert_true(data > 0);
	}
}

static uint64_t random_size(uint64_t *seed, uint64_t before)
{
	uint64_t size = before;

	switch (rnd(seed, 6)) {
	case 0: /* grows, not to the end of a cluster */
		size += 512 * (1 + rnd(seed, 4000));
		break;
	case 1:
		size += MIB * (1 + rnd(seed, 4));
		break;
	case 2: /* smaller than what it stands on */
		size -= MIN(size / 2, 512 * rnd(seed, 1000));
		break;
	default:
		break;
	}
	return size;
}

static void random_chain(struct tmpdir *dir, uint64_t seed)
{
	static const unsigned clusters[] = { 512, 4096, 32768, 131072, 2097152 };
	struct chain c = { .dir = dir };
	uint64_t size = 0;
	size_t n;

	seed = seed * 0x9e3779b97f4a7c15ull + 1;
	for (unsigned i = 0; i < 8; i++)
		rnd(&seed, 2);
	c.raw_bottom = rnd(&seed, 2);
	n = 2 + rnd(&seed, 5);
	size = 2 * MIB + 512 * rnd(&seed, 20000);
	for (size_t i = 0; i < n; i++) {
		struct chain_layer l = { .size = size };

		if (rnd(&seed, 3) == 0) {
			l.cluster = clusters[rnd(&seed, ARRAY_SIZE(clusters))];
			l.v2 = rnd(&seed, 3) == 0;
		}
		chain_add(&c, &l);
		chain_scribble(&c, &seed, (unsigned)rnd(&seed, 30));
		size = random_size(&seed, size);
	}
	merge_and_judge(&c, n);
	if (n > 2)
		merge_and_judge(&c, 2 + rnd(&seed, n - 2));
	for (size_t i = 0; i < n; i++) {
		char path[256];

		chain_path(&c, i, path, sizeof(path));
		unlink(path);
	}
}

/* PANDO_TEST_CHAINS and PANDO_TEST_SEED ask for more and for others. */
static void test_random_chains(void **state)
{
	const char *n_text = getenv("PANDO_TEST_CHAINS"), *seed_text = getenv("PANDO_TEST_SEED");
	uint64_t n = n_text ? strtoull(n_text, NULL, 10) : 15;
	uint64_t first = seed_text ? strtoull(seed_text, NULL, 10) : 1;

	for (uint64_t i = 0; i < n; i++) {
		print_message("chain %llu\n", (unsigned long long)first + i);
		random_chain(*state, first + i);
	}
}

/* Tables of several L1 entries, a grown disk, and zeros that must and must not be written down. */
static void test_grown(void **state)
{
	struct chain c = { .dir = *state, .raw_bottom = true };
	struct err err = { 0 };
	char flat[256];
	struct stat st;

	chain_add(&c, &(struct chain_layer){ .size = GIB });
	chain_io(&c, "write -P 1 0 1M\nwrite -P 2 600M 1M\nwrite -P 3 1023M 1M\n");
	chain_add(&c, &(struct chain_layer){ .size = GIB });
	chain_io(&c, "write -P 4 64k 64k\nwrite -z 600M 512k\nwrite -P 5 1000M 3M\n");
	chain_add(&c, &(struct chain_layer){ .size = 3 * GIB + 512 });
	chain_io(&c, "write -P 6 0 512\nwrite -P 7 3G 512\ndiscard 1002M 1M\nwrite -z 2G 100M\n");
	chain_add(&c, &(struct chain_layer){ .size = 20 * GIB });
	chain_io(&c, "write -P 8 1536M 64k\nwrite -P 9 19G 1M\nwrite -z 1023M 400M\n");
	merge_and_judge(&c, c.n);
	merge_and_judge(&c, 3);
	tmpdir_file(*state, "flat", flat, sizeof(flat));
	assert_int_equal(merge(&c, 4, flat, &err), 0);
	assert_int_equal(stat(flat, &st), 0);
	/* data, tables for it, the rest: nothing for zeros beyond the bottom */
	assert_int_equal(st.st_size / 65536, 52 + 5 + 4);
}

/* One run of the source that belongs to two tables of the result. */
static void test_run_over_two_tables(void **state)
{
	struct chain c = { .dir = *state, .raw_bottom = true };

	chain_add(&c, &(struct chain_layer){ .size = GIB });
	chain_add(&c, &(struct chain_layer){ .size = GIB, .cluster = 2 * MIB });
	chain_io(&c, "write -P 1 510M 2M\nwrite -P 2 512M 2M\nwrite -z 1020M 2M\n");
	merge_and_judge(&c, 2);
}

/* A cluster put together from the layer above and a bottom that shows through. */
static void test_mixed_cluster(void **state)
{
	for (int raw = 0; raw < 2; raw++) {
		struct chain c = { .dir = *state, .raw_bottom = raw };
		char path[256];

		chain_add(&c, &(struct chain_layer){ .size = 4 * MIB });
		chain_io(&c, "write -P 1 0 4M\ndiscard 1M 64k\n");
		chain_add(&c, &(struct chain_layer){ .size = 4 * MIB, .cluster = 4096 });
		chain_io(&c, "write -P 2 4096 4096\nwrite -z 1M 4096\nwrite -P 3 2M 64k\n");
		chain_add(&c, &(struct chain_layer){ .size = 2 * MIB + 1024 });
		chain_add(&c, &(struct chain_layer){ .size = 4 * MIB });
		merge_and_judge(&c, 4);
		merge_and_judge(&c, 3);
		merge_and_judge(&c, 2);
		for (size_t i = 0; i < c.n; i++) {
			chain_path(&c, i, path, sizeof(path));
			unlink(path);
		}
	}
}

/* The result is an ordinary qcow2: QEMU may write to it. */
static void test_result_is_writable(void **state)
{
	struct chain c = { .dir = *state, .raw_bottom = true };
	struct chain d = { .dir = *state, .raw_bottom = true, .n = 1 };
	uint64_t seed = 5;
	char flat[256], path[256];

	chain_add(&c, &(struct chain_layer){ .size = 8 * MIB });
	chain_add(&c, &(struct chain_layer){ .size = 8 * MIB });
	chain_scribble(&c, &seed, 20);
	chain_add(&c, &(struct chain_layer){ .size = 8 * MIB });
	chain_scribble(&c, &seed, 20);
	merge_and_judge(&c, 3);
	chain_path(&c, 1, path, sizeof(path));
	assert_int_equal(rename(tmpdir_file(*state, "flat", flat, sizeof(flat)), path), 0);
	d.size[0] = d.size[1] = 8 * MIB;
	d.n = 2;
	chain_scribble(&d, &seed, 60);
	assert_int_equal(TOOL("qemu-img", "check", "-q", "-f", "qcow2", path), 0);
}

/* ---- files that must be rejected ---- */

static void put_be64_at(int fd, off_t off, uint64_t v)
{
	uint8_t b[8];

	put_be32(b, (uint32_t)(v >> 32));
	put_be32(b + 4, (uint32_t)v);
	assert_int_equal(pwrite(fd, b, 8, off), 8);
}

static void put_be32_at(int fd, off_t off, uint32_t v)
{
	uint8_t b[4];

	put_be32(b, v);
	assert_int_equal(pwrite(fd, b, 4, off), 4);
}

static uint64_t get_be64_at(int fd, off_t off)
{
	uint8_t b[8];

	assert_int_equal(pread(fd, b, 8, off), 8);
	return (uint64_t)get_be32(b) << 32 | get_be32(b + 4);
}

/* A copy of the file, in memory, to be damaged. */
static int damaged_copy(int template_fd)
{
	int fd = memfd_create("damaged", MFD_CLOEXEC);
	autofree uint8_t *bytes = NULL;
	struct stat st;

	assert_true(fd >= 0);
	assert_int_equal(fstat(template_fd, &st), 0);
	bytes = malloc((size_t)st.st_size);
	assert_non_null(bytes);
	assert_int_equal(io_pread_all(template_fd, bytes, (size_t)st.st_size, 0), 0);
	assert_int_equal(io_pwrite_all(fd, bytes, (size_t)st.st_size, 0), 0);
	return fd;
}

static int measure(int fd, struct err *err)
{
	uint64_t data;

	*err = (struct err){ 0 };
	return qcow2_allocated_bytes(fd, &data, err);
}

static void test_damaged(void **state)
{
	struct chain c = { .dir = *state };
	autofd int t = -1;
	struct err err = { 0 };
	uint64_t l1, l2, data;
	struct stat st;
	off_t e;

	chain_add(&c, &(struct chain_layer){ .size = 2 * GIB });
	chain_io(&c, "write -P 1 0 128k\n");
	t = chain_open(&c, 0);
	l1 = get_be64_at(t, 40);
	l2 = get_be64_at(t, (off_t)l1) & 0x00fffffffffffe00ull;
	data = get_be64_at(t, (off_t)l2);
	e = (off_t)l2;
	assert_int_equal(fstat(t, &st), 0);
	assert_int_equal(measure(t, &err), 0);

	const struct {
		const char *what;
		off_t at;
		uint64_t value;
		int code;
	} cases[] = {
		{ "magic", 0, 0x0102030400000003ull, -EBADMSG },
		{ "version 4", 0, 0x514649fb00000004ull, -ENOTSUP },
		{ "cluster bits 8", 16, 0x0000000000000008ull, -EBADMSG },
		{ "cluster bits 22", 16, 0x0000000000000016ull, -EBADMSG },
		{ "cluster bits 2^32-1", 16, 0x00000000ffffffffull, -EBADMSG },
		{ "size needs a longer L1", 24, 8 * GIB, -EBADMSG },
		{ "size of 2^63", 24, 1ull << 63, -EBADMSG },
		{ "size of half a sector", 24, 256, -EBADMSG },
		{ "encryption", 32, 0x0000000200000004ull, -ENOTSUP },
		{ "L1 of 2^32-1 entries", 32, 0x00000000ffffffffull, -EBADMSG },
		{ "L1 unaligned", 40, 513, -EBADMSG },
		{ "L1 past the end", 40, 1ull << 40, -EBADMSG },
		{ "L1 at 0", 40, 0, -EBADMSG },
		{ "corrupt", 72, 2, -EBADMSG },
		{ "data file", 72, 4, -ENOTSUP },
		{ "zstd", 72, 8, -ENOTSUP },
		{ "extended L2", 72, 16, -ENOTSUP },
		{ "unknown feature", 72, 1ull << 40, -ENOTSUP },
		{ "header length", 96, 0x0000000400000010ull, -EBADMSG },
		{ "L2 table past the end", (off_t)l1, 1ull << 50, -EBADMSG },
		{ "L2 table unaligned", (off_t)l1, l2 + 512, -EBADMSG },
		{ "L1 reserved bit", (off_t)l1, l2 | 1, -EBADMSG },
		{ "compressed", e, data | 1ull << 62, -ENOTSUP },
		{ "L2 reserved bit", e, data | 2, -EBADMSG },
		{ "data unaligned", e, data + 512, -EBADMSG },
		{ "data past the end", e, 1ull << 50, -EBADMSG },
		{ "dirty", 72, 1, 0 },
		{ "zero flag with a place", e, data | 1, 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		autofd int fd = damaged_copy(t);
		int r;

		put_be64_at(fd, cases[i].at, cases[i].value);
		r = measure(fd, &err);
		if (r != cases[i].code || (r < 0 && !err.msg[0]))
			fail_msg("%s: %d %s", cases[i].what, r, err.msg);
	}
}

static void test_damaged_more(void **state)
{
	struct chain c = { .dir = *state };
	autofd int t = -1;
	autofd int twice = -1;
	autofd int tables = -1;
	autofd int v2 = -1;
	autofd int cut = -1;
	struct err err = { 0 };
	uint64_t l1, l2e, l2, data;
	struct stat st;

	chain_add(&c, &(struct chain_layer){ .size = 20 * GIB });
	chain_io(&c, "write -P 1 0 128k\n");
	t = chain_open(&c, 0);
	l1 = get_be64_at(t, 40);
	l2e = get_be64_at(t, (off_t)l1);
	l2 = l2e & 0x00fffffffffffe00ull;
	data = get_be64_at(t, (off_t)l2);
	assert_int_equal(fstat(t, &st), 0);

	/* all of the disk is one cluster: 512 MiB out of a file of less than one */
	twice = damaged_copy(t);
	for (off_t i = 0; i < 8192; i++)
		put_be64_at(twice, (off_t)l2 + 8 * i, data);
	assert_int_equal(measure(twice, &err), -EBADMSG);

	/* all of the disk is one table, of zeros */
	tables = damaged_copy(t);
	put_be64_at(tables, (off_t)l2, 1);
	put_be64_at(tables, (off_t)l2 + 8, 1);
	assert_int_equal(measure(tables, &err), 0);
	for (off_t i = 0; i < 40; i++)
		put_be64_at(tables, (off_t)l1 + 8 * i, l2e);
	assert_int_equal(measure(tables, &err), -EBADMSG);

	/* version 2 has no zero flag */
	v2 = damaged_copy(t);
	put_be32_at(v2, 4, 2);
	assert_int_equal(measure(v2, &err), 0);
	put_be64_at(v2, (off_t)l2, data | 1);
	assert_int_equal(measure(v2, &err), -EBADMSG);

	/* cut anywhere: an answer, and no crash; without its first clusters never a good one */
	cut = damaged_copy(t);
	for (off_t size = st.st_size; size >= 0; size -= 4096) {
		int r;

		assert_int_equal(ftruncate(cut, size), 0);
		r = measure(cut, &err);
		assert_true(r == 0 || r == -EBADMSG);
		if (size <= (off_t)l2)
			assert_int_equal(r, -EBADMSG);
	}
}

/* Foreign files with unsupported features. */
static void test_refused_features(void **state)
{
	struct tmpdir *t = *state;
	char raw[256], path[256], data[300];
	struct err err = { 0 };

	tmpdir_file(t, "raw", raw, sizeof(raw));
	tmpdir_file(t, "q", path, sizeof(path));
	snprintf(data, sizeof(data), "data_file=%s/ext", t->path);
	assert_int_equal(TOOL("qemu-img", "create", "-q", "-f", "raw", raw, "1M"), 0);
	assert_int_equal(TOOL("qemu-io", "-f", "raw", "-c", "write -P 7 0 1M", raw), 0);
	const char *const *makes[] = {
		(const char *const[]){ "qemu-img", "convert", "-q", "-c", "-f", "raw", "-O",
		                       "qcow2", raw, path, NULL },
		(const char *const[]){ "qemu-img", "create", "-q", "-f", "qcow2", "-o",
		                       "extended_l2=on", path, "1M", NULL },
		(const char *const[]){ "qemu-img", "create", "-q", "-f", "qcow2", "-o", data, path,
		                       "1M", NULL },
	};
	for (size_t i = 0; i < ARRAY_SIZE(makes); i++) {
		autofd int fd = -1;

		assert_int_equal(tool(makes[i], NULL), 0);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		assert_true(fd >= 0);
		assert_int_equal(measure(fd, &err), -ENOTSUP);
		assert_true(err.msg[0] != '\0');
		unlink(path);
	}
}

/* Random damage to tables and header: an answer or an error, and what is accepted is consistent. */
static void test_random_damage(void **state)
{
	struct chain c = { .dir = *state, .raw_bottom = true };
	autofd int bottom = -1;
	autofd int t = -1;
	uint64_t seed = 99, good = 0;
	struct stat st;
	char flat[256];

	chain_add(&c, &(struct chain_layer){ .size = 3 * MIB });
	chain_add(&c, &(struct chain_layer){ .size = 4 * MIB, .cluster = 4096 });
	chain_scribble(&c, &seed, 25);
	bottom = chain_open(&c, 0);
	t = chain_open(&c, 1);
	assert_int_equal(fstat(t, &st), 0);
	tmpdir_file(*state, "flat", flat, sizeof(flat));
	for (unsigned i = 0; i < 400; i++) {
		autofd int fd = damaged_copy(t);
		autofd int out = open(flat, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
		struct err err = { 0 };
		int layers[3] = { bottom, fd, fd };
		uint64_t bytes;
		int r;

		for (unsigned k = 1 + (unsigned)rnd(&seed, 3); k > 0; k--) {
			off_t at =
			        (off_t)rnd(&seed, rnd(&seed, 2) ? 14 : (uint64_t)st.st_size / 8) *
			        8;
			uint64_t was = get_be64_at(fd, at);

			put_be64_at(fd, at,
			            rnd(&seed, 2) ? was ^ 1ull << rnd(&seed, 64)
			                          : rnd(&seed, 1ull << 40) << 12);
		}
		assert_true(out >= 0);
		r = qcow2_merge(&(struct qcow2_merge){ .layers = layers, .n = 3, .bottom_raw = 1 },
		                out, &bytes, &err);
		if (r < 0) {
			assert_true(r == -EBADMSG || r == -ENOTSUP || r == -EINVAL);
			assert_true(err.msg[0] != '\0');
		} else if (good++ % 16 == 0) {
			assert_int_equal(TOOL("qemu-img", "check", "-q", "-f", "qcow2", flat), 0);
		}
	}
	assert_true(good > 20 && good < 380);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_empty, setup, teardown),
		cmocka_unit_test_setup_teardown(test_allocated, setup, teardown),
		cmocka_unit_test_setup_teardown(test_random_chains, setup, teardown),
		cmocka_unit_test_setup_teardown(test_grown, setup, teardown),
		cmocka_unit_test_setup_teardown(test_run_over_two_tables, setup, teardown),
		cmocka_unit_test_setup_teardown(test_mixed_cluster, setup, teardown),
		cmocka_unit_test_setup_teardown(test_result_is_writable, setup, teardown),
		cmocka_unit_test_setup_teardown(test_damaged, setup, teardown),
		cmocka_unit_test_setup_teardown(test_damaged_more, setup, teardown),
		cmocka_unit_test_setup_teardown(test_refused_features, setup, teardown),
		cmocka_unit_test_setup_teardown(test_random_damage, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
