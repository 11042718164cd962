/* SPDX-License-Identifier: Apache-2.0 */
/*
 * blocks.c - write the content of a sparse file as a stream that does not depend on where its holes
 * are
 *
 * `blocks FILE | sha256sum` is the checksum of rootfs.raw in the manifest. The stream holds, in
 * order, every 64 KiB block that is not all zero: its offset (8 bytes, little endian), then the
 * block (the last one may be short). Two files with the same bytes give the same stream, however
 * sparse they are; holes are skipped unread, so 20 GB take seconds.
 */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define BLOCK (64u << 10) /* bytes; also the alignment of the offsets */

static int fail(const char *what, const char *path)
{
	fprintf(stderr, "blocks: %s %s: %s\n", what, path, strerror(errno));
	return 1;
}

static bool all_zero(const char *p, size_t n)
{
	return p[0] == 0 && memcmp(p, p + 1, n - 1) == 0;
}

/* Up to @size bytes at @off, fewer only at the end of the file; negative with errno set on failure.
 */
static ssize_t read_block(int fd, char *buf, size_t size, off_t off)
{
	size_t got = 0;

	while (got < size) {
		ssize_t n = pread(fd, buf + got, size - got, off + (off_t)got);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		if (n == 0)
			break;
		got += (size_t)n;
	}
	return (ssize_t)got;
}

int main(int argc, char **argv)
{
	static char buf[BLOCK];
	off_t off = 0;
	int fd;

	if (argc != 2) {
		fprintf(stderr, "usage: blocks FILE\n");
		return 2;
	}
	fd = open(argv[1], O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return fail("open", argv[1]);

	for (;;) {
		off_t data = lseek(fd, off, SEEK_DATA);
		uint64_t le;
		ssize_t n;

		if (data < 0 && errno == ENXIO)
			break; /* only hole from here on */
		if (data < 0)
			return fail("seek in", argv[1]);
		off = data - data % BLOCK;
		n = read_block(fd, buf, BLOCK, off);
		if (n < 0)
			return fail("read", argv[1]);
		if (n == 0)
			break;
		le = htole64((uint64_t)off);
		if (!all_zero(buf, (size_t)n) && (fwrite(&le, sizeof(le), 1, stdout) != 1 ||
		                                  fwrite(buf, (size_t)n, 1, stdout) != 1))
			return fail("write the blocks of", argv[1]);
		off += n;
	}
	if (fflush(stdout) != 0)
		return fail("write the blocks of", argv[1]);
	return 0;
}
