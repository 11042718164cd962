/* SPDX-License-Identifier: MIT */
/*
 * rig_layer.c - layer files for the tests: made by hand, read by hand
 *
 * Theory of operation: rig_apply() does not merge or map; it applies one file to a
 * picture of memory with plain reads. That makes it the reference for the library.
 */
#include "rig.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

void rig_pattern(uint8_t *page, uint64_t guest_off, uint32_t arg)
{
	uint64_t x = guest_off * 0x9e3779b97f4a7c15u + arg;

	for (size_t i = 0; i < LAYER_PAGE; i += 8) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		x += arg | 1;
		memcpy(page + i, &x, 8);
	}
}

int rig_file(void)
{
	const char *tmp = getenv("TMPDIR");
	int fd = open(tmp ? tmp : "/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	if (fd < 0)
		rig_die("temporary file: %s", strerror(errno));
	return fd;
}

int rig_memfile(void)
{
	int fd = memfd_create("rig", MFD_CLOEXEC);

	if (fd < 0)
		rig_die("memfd: %s", strerror(errno));
	return fd;
}

void rig_path(int fd, char ret[64])
{
	snprintf(ret, 64, "/proc/%d/fd/%d", getpid(), fd);
}

static void write_at(int fd, const void *data, size_t n, uint64_t off)
{
	if (pwrite(fd, data, n, (off_t)off) != (ssize_t)n)
		rig_die("write: %s", strerror(errno));
}

int rig_layer(uint64_t mem_bytes, const struct rig_extent *extents, size_t n)
{
	struct layer_info info = { .mem_bytes = mem_bytes, .n_extents = n };
	struct layer_extent *rows = calloc(n + 1, sizeof(*rows));
	uint8_t page[LAYER_PAGE], *table = malloc(n * sizeof(struct layer_disk_extent) + 1);
	uint64_t off = LAYER_PAGE;
	int fd = rig_file();

	if (!rows || !table)
		rig_die("out of memory");
	for (size_t i = 0; i < n; i++) {
		rows[i].guest_off = extents[i].guest_off;
		rows[i].len = extents[i].len;
		if (extents[i].arg == 0) {
			rows[i].flags = LAYER_EXTENT_ZERO;
			continue;
		}
		rows[i].file_off = off;
		for (uint64_t at = 0; at < extents[i].len; at += LAYER_PAGE, off += LAYER_PAGE) {
			rig_pattern(page, extents[i].guest_off + at, extents[i].arg);
			info.data_crc = layer_crc32c(info.data_crc, page, sizeof(page));
			write_at(fd, page, sizeof(page), off);
		}
	}
	info.data_pages = off / LAYER_PAGE - 1;
	info.table_crc = layer_table_encode(rows, n, table);
	write_at(fd, table, layer_table_bytes(&info), layer_table_off(&info));
	layer_header_encode(&info, page);
	write_at(fd, page, sizeof(page), 0);
	free(rows);
	free(table);
	return fd;
}

static void read_at(int fd, void *data, size_t n, uint64_t off)
{
	if (pread(fd, data, n, (off_t)off) != (ssize_t)n)
		rig_die("short read at %llu", (unsigned long long)off);
}

struct layer_info rig_apply(int fd, uint8_t *mem, uint64_t mem_bytes)
{
	struct layer_info info;
	struct layer_extent *e;
	struct stat st;
	uint8_t page[LAYER_PAGE], *table;
	const char *why = "";
	uint32_t crc = 0;

	if (fstat(fd, &st) < 0)
		rig_die("fstat: %s", strerror(errno));
	read_at(fd, page, sizeof(page), 0);
	if (layer_header_decode(page, (uint64_t)st.st_size, &info, &why) < 0)
		rig_die("layer header: %s", why);
	if (info.mem_bytes != mem_bytes)
		rig_die("layer is for other memory");
	table = malloc(layer_table_bytes(&info) + 1);
	e = calloc(info.n_extents + 1, sizeof(*e));
	if (!table || !e)
		rig_die("out of memory");
	read_at(fd, table, layer_table_bytes(&info), layer_table_off(&info));
	if (layer_table_decode(&info, table, layer_table_bytes(&info), e, &why) < 0)
		rig_die("layer table: %s", why);
	for (uint64_t i = 0; i < info.n_extents; i++) {
		if (e[i].flags & LAYER_EXTENT_ZERO) {
			memset(mem + e[i].guest_off, 0, e[i].len);
			continue;
		}
		read_at(fd, mem + e[i].guest_off, e[i].len, e[i].file_off);
		crc = layer_crc32c_soft(crc, mem + e[i].guest_off, e[i].len);
	}
	if (crc != info.data_crc)
		rig_die("layer data checksum");
	free(table);
	free(e);
	return info;
}

bool rig_same(const uint8_t *a, const uint8_t *b, uint64_t n)
{
	uint64_t bad = 0;

	for (uint64_t off = 0; off < n; off += LAYER_PAGE) {
		if (memcmp(a + off, b + off, LAYER_PAGE) == 0)
			continue;
		if (bad++ < 5)
			fprintf(stderr, "memory differs in page %llu\n",
			        (unsigned long long)(off / LAYER_PAGE));
	}
	if (bad > 0)
		fprintf(stderr, "%llu pages differ\n", (unsigned long long)bad);
	return bad == 0;
}
