/* SPDX-License-Identifier: Apache-2.0 */
/* manifest.c - manifests of backups: checksums, walking, finding; see manifest.h */
#include "cli/manifest.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/id.h"
#include "base/io.h"
#include "cli/cli.h"

#define BLOCK (64u << 10)
#define DEPTH_MAX 64
#define MANIFEST_MAX (1u << 30) /* bytes; about five million files */
#define SAY_MS 200

/* ---- signals ---- */

static volatile sig_atomic_t stopped;

static void on_signal(int sig)
{
	stopped = sig;
}

void backup_signals(void)
{
	struct sigaction sa = { .sa_handler = on_signal };

	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	sigaction(SIGHUP, &sa, NULL);
}

int backup_stopped(struct err *err)
{
	return stopped ? err_set(err, -EINTR, "ended by a signal") : 0;
}

/* ---- progress ---- */

static void progress_say(const struct progress *p, const char *end)
{
	fprintf(stderr, "\r%s %" PRIu64 " of %" PRIu64 " MiB%s", p->verb, p->done >> 20,
	        p->all >> 20, end);
}

void progress_add(struct progress *p, uint64_t bytes)
{
	p->done += bytes;
	if (!isatty(STDERR_FILENO) || clock_ms() - p->said_ms < SAY_MS)
		return;
	p->said_ms = clock_ms();
	progress_say(p, "");
}

void progress_end(struct progress *p)
{
	if (isatty(STDERR_FILENO) && p->said_ms)
		progress_say(p, "\n");
}

/* ---- checksums ---- */

static void md_freep(EVP_MD_CTX **c)
{
	EVP_MD_CTX_free(*c);
}

static bool all_zero(const uint8_t *p, size_t n)
{
	return p[0] == 0 && memcmp(p, p + 1, n - 1) == 0;
}

/* The block at off, which is data and not a hole. */
static int add_block(EVP_MD_CTX *md, int fd, off_t off, size_t n, uint8_t *block)
{
	uint8_t at[8];
	int r = io_pread_all(fd, block, n, off);

	if (r < 0 || all_zero(block, n))
		return r;
	for (size_t i = 0; i < sizeof(at); i++)
		at[i] = (uint8_t)((uint64_t)off >> (8 * i));
	return EVP_DigestUpdate(md, at, sizeof(at)) == 1 && EVP_DigestUpdate(md, block, n) == 1
	               ? 0
	               : -EIO;
}

int manifest_hash(const char *path, char ret[HASH_SIZE], struct err *err)
{
	AUTO(md_freep) EVP_MD_CTX *md = EVP_MD_CTX_new();
	autofd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	autofree uint8_t *block = malloc(BLOCK);
	uint8_t sum[EVP_MAX_MD_SIZE];
	struct stat st;
	off_t pos = 0;
	int r = 0;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_sys(err, -errno, "open '%s'", path);
	if (!md || !block || EVP_DigestInit_ex(md, EVP_sha256(), NULL) != 1)
		return err_set(err, -ENOMEM, "out of memory");
	while (r == 0 && pos < st.st_size) {
		off_t data = lseek(fd, pos, SEEK_DATA), hole;

		if (data < 0 && errno == ENXIO)
			break;
		pos = MAX(pos, data - data % (off_t)BLOCK);
		hole = data < 0 ? st.st_size : lseek(fd, data, SEEK_HOLE);
		if (hole < 0)
			hole = st.st_size;
		for (; r == 0 && pos < hole; pos += (off_t)BLOCK) {
			r = backup_stopped(err);
			if (r == 0)
				r = add_block(md, fd, pos,
				              (size_t)MIN(st.st_size - pos, (off_t)BLOCK), block);
		}
	}
	if (r == -EINTR)
		return r;
	if (r < 0 || EVP_DigestFinal_ex(md, sum, NULL) != 1)
		return err_sys(err, r < 0 ? r : -EIO, "read '%s'", path);
	hex_encode(sum, 32, ret);
	return 0;
}

/* ---- walking ---- */

static int walk(const char *dir, const char *below, unsigned depth,
                int (*fn)(void *ctx, const char *path, struct err *err), void *ctx, struct err *err)
{
	char path[PATH_MAX];
	autodir DIR *d = NULL;
	struct dirent *e;
	int r = 0;

	snprintf(path, sizeof(path), "%.2000s/%.2000s", dir, below);
	d = opendir(path);
	if (!d || depth == DEPTH_MAX)
		return err_sys(err, d ? -ELOOP : -errno, "open '%s'", path);
	while (r >= 0 && (e = readdir(d))) {
		char sub[PATH_MAX];
		struct stat st;

		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
			continue;
		if (fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			return err_sys(err, -errno, "read '%s/%s'", path, e->d_name);
		if ((size_t)snprintf(sub, sizeof(sub), "%.2000s%s%s", below, e->d_name,
		                     S_ISDIR(st.st_mode) ? "/" : "") > 2000)
			return err_set(err, -ENAMETOOLONG, "'%s/%s' is too long", path, e->d_name);
		if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
			continue;
		r = fn(ctx, sub, err);
		if (r >= 0 && S_ISDIR(st.st_mode))
			r = walk(dir, sub, depth + 1, fn, ctx, err);
	}
	return r;
}

int manifest_walk(const char *dir, int (*fn)(void *ctx, const char *path, struct err *err),
                  void *ctx, struct err *err)
{
	return walk(dir, "", 0, fn, ctx, err);
}

/* ---- reading ---- */

/* Stays below the directory. */
static bool path_ok(const char *p)
{
	return p && *p && *p != '/' && strlen(p) < 2000 && strcmp(p, "..") != 0 &&
	       strncmp(p, "../", 3) != 0 && !strstr(p, "/../") && !strstr(p, "//") &&
	       (strlen(p) < 3 || strcmp(p + strlen(p) - 3, "/..") != 0);
}

int manifest_load(const char *dir, json_t **ret, struct err *err)
{
	autofree char *text = NULL;
	autojson json_t *j = NULL;
	char path[PATH_MAX];
	json_error_t at;
	const json_t *files;
	int r;

	snprintf(path, sizeof(path), "%.4000s/%s", dir, MANIFEST);
	if ((r = io_read_file(AT_FDCWD, path, MANIFEST_MAX, &text, err)) < 0)
		return r;
	j = json_loads(text, 0, &at);
	if (!j)
		return err_set(err, -EBADMSG, "'%s' is damaged (line %d: %s): use another backup",
		               path, at.line, at.text);
	if (json_integer_value(json_object_get(j, "format")) != MANIFEST_FORMAT)
		return err_set(err, -ENOTSUP,
		               "'%s' has format %" PRId64
		               ", this program reads %d: use the version "
		               "of Pando that made it",
		               path, (int64_t)json_integer_value(json_object_get(j, "format")),
		               MANIFEST_FORMAT);
	files = json_object_get(j, "files");
	for (size_t i = 0; i < json_array_size(files); i++)
		if (!path_ok(json_string_value(json_object_get(json_array_get(files, i), "path"))))
			return err_set(err, -EBADMSG,
			               "'%s' is damaged (file %zu): use another backup", path, i);
	if (json_array_size(files) == 0)
		return err_set(err, -EBADMSG, "'%s' is damaged: it lists no files", path);
	*ret = TAKE_PTR(j);
	return 0;
}

int manifest_find(const char *dir, char *ret, size_t size, struct err *err)
{
	autodir DIR *d = opendir(dir);
	char best[256] = "", path[PATH_MAX];
	struct dirent *e;

	if (!d)
		return err_sys(err, -errno, "open '%s'", dir);
	if (faccessat(dirfd(d), MANIFEST, F_OK, 0) == 0) {
		snprintf(ret, size, "%s", dir);
		return 0;
	}
	while ((e = readdir(d))) { /* names are times: the last one is the newest */
		snprintf(path, sizeof(path), "%s/%s", e->d_name, MANIFEST);
		if (e->d_name[0] != '.' && strcmp(e->d_name, best) > 0 &&
		    !strstr(e->d_name, ".part") && faccessat(dirfd(d), path, F_OK, 0) == 0)
			snprintf(best, sizeof(best), "%s", e->d_name);
	}
	if (!*best)
		return err_set(err, -ENOENT,
		               "there is no complete backup in '%s': one has a %s, which is "
		               "written last",
		               dir, MANIFEST);
	snprintf(ret, size, "%s/%s", dir, best);
	return 0;
}
