/* SPDX-License-Identifier: Apache-2.0 */
/*
 * files.c - layer and state files: names, opening, checksums, removal
 *
 * A sealed layer's checksum is verified once per run of the server and again
 * whenever the file's inode, size or change time differ from what was seen
 * then. So a thaw costs one fstat per layer, and the first check
 * also reads the layer into the page cache.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/crc32c.h"
#include "base/err.h"
#include "base/io.h"
#include "engine/engine_internal.h"
#include "engine/qcow2.h"
#include "layers/format.h"

#define CRC_CHUNK (1u << 20) /* bytes read at a time */

int engine_path(const struct engine *e, char *buf, size_t size, const char *dir, const char *name,
                const char *suffix, struct err *err)
{
	if ((size_t)snprintf(buf, size, "%s/%s/%s%s", e->data_dir, dir, name, suffix) >= size)
		return err_set(err, -ENAMETOOLONG, "path below '%s' is too long", e->data_dir);
	return 0;
}

int engine_layer_path(const struct engine *e, const char *id, char *buf, size_t size)
{
	return engine_path(e, buf, size, "layers", id, "", NULL);
}

int engine_state_path(const struct engine *e, const char *point_id, char *buf, size_t size)
{
	return engine_path(e, buf, size, "points", point_id, ".state", NULL);
}

int engine_file_crc(int fd, uint64_t *ret_bytes, uint32_t *ret_crc, struct err *err)
{
	autofree uint8_t *chunk = malloc(CRC_CHUNK);
	uint64_t off = 0;
	uint32_t crc = 0;

	if (!chunk)
		return err_set(err, -ENOMEM, "checksum: out of memory");
	for (;;) {
		ssize_t k = pread(fd, chunk, CRC_CHUNK, (off_t)off);

		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0)
			return err_sys(err, -errno, "checksum");
		if (k == 0)
			break;
		crc = crc32c(crc, chunk, (size_t)k);
		off += (uint64_t)k;
	}
	*ret_bytes = off;
	*ret_crc = crc;
	return 0;
}

int engine_layer_crc(struct engine *e, const char *id, uint64_t *ret_bytes, uint32_t *ret_crc,
                     struct err *err)
{
	char path[PATH_MAX];
	autofd int fd = -1;
	int r = engine_path(e, path, sizeof(path), "layers", id, "", err);

	if (r < 0)
		return r;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return err_sys(err, -errno, "open layer %s", id);
	return engine_file_crc(fd, ret_bytes, ret_crc, err);
}

static bool verified_before(struct engine *e, const char *id, const struct stat *st, bool remember)
{
	struct verified v = { .ino = st->st_ino,
		              .size = (uint64_t)st->st_size,
		              .ctime_ns = st->st_ctim.tv_sec * 1000000000ll + st->st_ctim.tv_nsec };
	LOCK_SCOPE(&e->lock);

	snprintf(v.id, sizeof(v.id), "%s", id);
	for (size_t i = 0; i < e->n_verified; i++) {
		struct verified *o = &e->verified[i];

		if (strcmp(o->id, id) != 0)
			continue;
		if (remember)
			*o = v;
		return o->ino == v.ino && o->size == v.size && o->ctime_ns == v.ctime_ns;
	}
	if (remember) {
		if (e->n_verified == VERIFIED_MAX)
			e->n_verified = 0;
		e->verified[e->n_verified++] = v;
	}
	return false;
}

/* A memory layer contains its own checksums; the store's identifies it as the right one. */
static int check_mem(int fd, const struct engine_layer *l, const struct stat *st, struct err *err)
{
	struct layer_info h;
	const char *why = "";
	uint8_t page[LAYER_PAGE];
	autofree uint8_t *chunk = NULL;
	uint64_t off = LAYER_PAGE, left;
	uint32_t crc = 0;
	int r = io_pread_all(fd, page, sizeof(page), 0);

	if (r < 0)
		return err_sys(err, r, "memory layer %s: read", l->id);
	if (layer_header_decode(page, (uint64_t)st->st_size, &h, &why) < 0)
		return err_tag(err, -EBADMSG, ERR_POINT_DAMAGED, "memory layer %s is damaged: %s",
		               l->id, why);
	left = h.data_pages * LAYER_PAGE;
	chunk = malloc(CRC_CHUNK);
	if (!chunk)
		return err_set(err, -ENOMEM, "memory layer %s: out of memory", l->id);
	while (left) {
		size_t n = MIN(left, CRC_CHUNK);

		r = io_pread_all(fd, chunk, n, (off_t)off);
		if (r < 0)
			return err_sys(err, r, "memory layer %s: read", l->id);
		crc = crc32c(crc, chunk, n);
		off += n;
		left -= n;
	}
	if (crc != h.data_crc || (l->has_crc && crc != l->crc))
		return err_tag(err, -EBADMSG, ERR_POINT_DAMAGED,
		               "memory layer %s is damaged: checksum %08x, expected %08x", l->id,
		               crc, l->has_crc ? l->crc : h.data_crc);
	return 0;
}

static int check_layer(struct engine *e, int fd, const struct engine_layer *l, struct err *err)
{
	uint64_t bytes;
	struct stat st;
	uint32_t crc;
	int r = 0;

	if (fstat(fd, &st) < 0)
		return err_sys(err, -errno, "layer %s", l->id);
	if (l->bytes && (uint64_t)st.st_size != l->bytes)
		return err_tag(err, -EBADMSG, ERR_POINT_DAMAGED,
		               "layer %s is damaged: %llu bytes long, expected %llu", l->id,
		               (unsigned long long)st.st_size, (unsigned long long)l->bytes);
	if (verified_before(e, l->id, &st, /* remember= */ false))
		return 0;
	if (!strcmp(l->format, "mem")) {
		r = check_mem(fd, l, &st, err);
	} else if (l->has_crc) {
		r = engine_file_crc(fd, &bytes, &crc, err);
		if (r == 0 && crc != l->crc)
			r = err_tag(err, -EBADMSG, ERR_POINT_DAMAGED,
			            "disk layer %s is damaged: checksum %08x, expected %08x", l->id,
			            crc, l->crc);
	}
	if (r == 0)
		verified_before(e, l->id, &st, /* remember= */ true);
	return r;
}

/* Only a missing file is lost; other errors may be temporary. */
static enum err_code open_fault(int e)
{
	return e == ENOENT ? ERR_POINT_DAMAGED : ERR_NONE;
}

int engine_open_layer(struct engine *e, const struct engine_layer *l, int *ret_fd, struct err *err)
{
	char path[PATH_MAX];
	autofd int fd = -1;
	int r = engine_path(e, path, sizeof(path), "layers", l->id, "", err);

	if (r < 0)
		return r;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return err_tag(err, -errno, open_fault(errno), "layer %s cannot be opened: %s",
		               l->id, err_name(errno));
	r = check_layer(e, fd, l, err);
	if (r < 0)
		return r;
	*ret_fd = TAKE_FD(fd);
	return 0;
}

int engine_sync_chain(struct engine *e, const struct engine_chain *c, struct err *err)
{
	char path[PATH_MAX];
	int r = 0;

	for (size_t i = 0; i < c->n; i++) {
		autofd int fd = -1;

		if ((r = engine_path(e, path, sizeof(path), "layers", c->l[i].id, "", err)) < 0)
			return r;
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0 || fsync(fd) < 0)
			return err_sys(err, -errno, "sync layer %s", c->l[i].id);
	}
	r = c->n ? io_sync_parent(AT_FDCWD, path) : 0;
	return r < 0 ? err_sys(err, r, "sync the directory of the layers") : 0;
}

int engine_new_disk(struct engine *e, const char *id, uint64_t virtual_bytes, int *ret_rw,
                    int *ret_ro, struct err *err)
{
	char path[PATH_MAX];
	autofd int rw = -1;
	autofd int ro = -1;
	int r = engine_path(e, path, sizeof(path), "layers", id, "", err), s = 0;

	if (r < 0)
		return r;
	rw = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (rw < 0)
		return err_sys(err, -errno, "create disk layer '%s'", path);
	ro = open(path, O_RDONLY | O_CLOEXEC);
	r = ro < 0 ? err_sys(err, -errno, "open disk layer '%s'", path)
	           : qcow2_write_empty(rw, virtual_bytes, err);
	/* QEMU flushes only what it has written itself. */
	if (r == 0 && (fsync(rw) < 0 || (s = io_sync_parent(AT_FDCWD, path)) < 0))
		r = err_sys(err, s < 0 ? s : -errno, "sync disk layer '%s'", path);
	if (r < 0) {
		unlink(path);
		return r;
	}
	*ret_rw = TAKE_FD(rw);
	*ret_ro = TAKE_FD(ro);
	return 0;
}

static void remove_file(struct engine *e, const char *dir, const char *name, const char *suffix)
{
	char path[PATH_MAX];

	if (engine_path(e, path, sizeof(path), dir, name, suffix, NULL) == 0)
		unlink(path);
}

void engine_remove_layer(struct engine *e, const char *id)
{
	remove_file(e, "layers", id, "");
	remove_file(e, "layers", id, ".part");
}

void engine_remove_point(struct engine *e, const char *id)
{
	remove_file(e, "points", id, ".state");
}

int engine_point_fits(const struct engine_info *i, const struct engine_point *p, struct err *err)
{
	const struct {
		const char *what, *have, *want;
	} same[] = { { "QEMU version", i->qemu_version, p->qemu_version },
		     { "machine", i->machine, p->machine },
		     { "accelerator", accel_name(i->accel), p->accel } };

	for (size_t k = 0; k < ARRAY_SIZE(same); k++)
		if (strcmp(same[k].have, same[k].want) != 0)
			return err_tag(err, -EXDEV, ERR_POINT_MISMATCH,
			               "point %s was frozen with %s '%s', this server has '%s'",
			               p->id, same[k].what, same[k].want, same[k].have);
	if (!engine_cpu_same(i->cpu, p->cpu))
		return err_tag(err, -EXDEV, ERR_POINT_MISMATCH,
		               "point %s was frozen on the CPU '%s', this server has '%s'", p->id,
		               p->cpu, i->cpu);
	return 0;
}

int engine_point_check(struct engine *e, const struct engine_point *p, struct err *err)
{
	char path[PATH_MAX];
	autofd int fd = -1;
	uint64_t bytes;
	uint32_t crc;
	int r = engine_point_fits(&e->info, p, err);

	if (r < 0 || (r = engine_path(e, path, sizeof(path), "points", p->id, ".state", err)) < 0)
		return r;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return err_tag(err, -errno, open_fault(errno),
		               "device state of point %s cannot be opened: %s", p->id,
		               err_name(errno));
	r = engine_file_crc(fd, &bytes, &crc, err);
	if (r < 0)
		return r;
	if (bytes != p->state_bytes || crc != p->state_crc)
		return err_tag(err, -EBADMSG, ERR_POINT_DAMAGED,
		               "device state of point %s is damaged: checksum %08x, expected %08x",
		               p->id, crc, p->state_crc);
	return 0;
}

int engine_point_verify(struct engine *e, const struct engine_point *p, struct err *err)
{
	const struct engine_chain *chains[] = { &p->mem, &p->disk };
	int r = engine_point_check(e, p, err);

	for (size_t c = 0; c < ARRAY_SIZE(chains); c++)
		for (size_t i = 0; r == 0 && i < chains[c]->n; i++) {
			autofd int fd = -1;

			r = engine_open_layer(e, &chains[c]->l[i], &fd, err);
		}
	return r;
}

int engine_import_layer(struct engine *e, const char *from, const char *id, uint64_t *ret_bytes,
                        struct err *err)
{
	char path[PATH_MAX];
	struct stat st;
	int r = engine_path(e, path, sizeof(path), "layers", id, "", err);

	if (r == 0)
		r = io_link_or_copy(from, path, err);
	if (r < 0)
		return r;
	if (stat(path, &st) < 0)
		return err_sys(err, -errno, "layer '%s'", path);
	*ret_bytes = (uint64_t)st.st_size;
	return 0;
}
