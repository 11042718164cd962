/* SPDX-License-Identifier: Apache-2.0 */
/*
 * standalone.c - runs a fuzz target over files, without libFuzzer
 *
 * Theory of operation: each argument is a file or a directory of files; each
 * file is one input, copied into a heap block of exactly its size so that
 * AddressSanitizer sees the first byte read too far. Each input is also run cut
 * short at every length up to CUT_MAX and with single bits flipped, because
 * most parsers fail at an edge and this costs little. A corpus without
 * an input is an error: a test that checks nothing must not pass. After --once inputs are run as
 * they are and no other: for corpora that libFuzzer has made; after --few with a few of the
 * variants: for targets that take long; after --all with all of them again.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define INPUT_MAX (16u << 20) /* bytes; corpora are small, more is a mistake */
#define CUT_MAX 512u          /* lengths tried per input */
#define FLIP_MAX 512u         /* bytes of an input whose bits are flipped, one at a time */
#define FEW 8u                /* of each, spread over the input, if there are to be few */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned long inputs, runs;
static bool once, few;

/* The input ends where the block ends. */
static int run_copy(const uint8_t *data, size_t size)
{
	uint8_t *copy = malloc(size ? size : 1);

	if (!copy)
		return -ENOMEM;
	if (size)
		memcpy(copy, data, size);
	LLVMFuzzerTestOneInput(copy, size);
	free(copy);
	runs++;
	return 0;
}

static int run_variants(uint8_t *data, size_t size)
{
	size_t step = few ? size / FEW + 1 : 1;
	int r = run_copy(data, size);

	for (size_t n = 0; r == 0 && !once && n < size && (few || n < CUT_MAX); n += step)
		r = run_copy(data, n);
	for (size_t i = 0; r == 0 && !once && i < size && (few || i < FLIP_MAX); i += step) {
		data[i] ^= (uint8_t)(1u << (i % 8));
		r = run_copy(data, size);
		data[i] ^= (uint8_t)(1u << (i % 8));
	}
	return r;
}

static int read_all(int fd, uint8_t **ret, size_t *ret_size)
{
	struct stat st;
	uint8_t *data;
	size_t have = 0;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (st.st_size > INPUT_MAX)
		return -EFBIG;
	data = malloc((size_t)st.st_size + 1);
	if (!data)
		return -ENOMEM;
	while (have < (size_t)st.st_size) {
		ssize_t n = read(fd, data + have, (size_t)st.st_size - have);

		if (n <= 0) {
			int r = n < 0 ? -errno : -EIO; /* before free() can change errno */

			free(data);
			return r;
		}
		have += (size_t)n;
	}
	*ret = data;
	*ret_size = have;
	return 0;
}

static int run_fd(int fd, const char *name)
{
	uint8_t *data = NULL;
	size_t size = 0;
	int r = read_all(fd, &data, &size);

	if (r == 0) {
		/* a crash in the target is found by the last name printed */
		printf("input %s (%zu bytes)\n", name, size);
		fflush(stdout);
		inputs++;
		r = run_variants(data, size);
	}
	free(data);
	if (r < 0)
		fprintf(stderr, "input %s: %s\n", name, strerror(-r));
	return r;
}

static int run_dir(int dirfd, const char *path)
{
	DIR *d = fdopendir(dirfd);
	struct dirent *e;
	int r = 0;

	if (!d) {
		r = -errno;
		close(dirfd);
		return r;
	}
	while (r == 0 && (e = readdir(d))) {
		int fd;

		if (e->d_name[0] == '.')
			continue;
		fd = openat(dirfd, e->d_name, O_RDONLY | O_CLOEXEC);
		if (fd < 0) {
			r = -errno;
			fprintf(stderr, "open %s/%s: %s\n", path, e->d_name, strerror(-r));
			break;
		}
		r = run_fd(fd, e->d_name);
		close(fd);
	}
	closedir(d);
	return r;
}

static int run_path(const char *path)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	int r;

	if (fd < 0 || fstat(fd, &st) < 0) {
		r = -errno;
		fprintf(stderr, "open %s: %s\n", path, strerror(-r));
		if (fd >= 0)
			close(fd);
		return r;
	}
	if (S_ISDIR(st.st_mode))
		return run_dir(fd, path); /* consumes fd */
	r = run_fd(fd, path);
	close(fd);
	return r;
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		if (strncmp(argv[i], "--", 2) == 0) {
			once = strcmp(argv[i], "--once") == 0;
			few = strcmp(argv[i], "--few") == 0;
		} else if (run_path(argv[i]) < 0) {
			return 1;
		}
	}
	if (inputs == 0) {
		fprintf(stderr, "no inputs: give files or directories of files\n");
		return 1;
	}
	printf("%lu inputs, %lu runs\n", inputs, runs);
	return 0;
}
