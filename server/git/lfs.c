/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lfs.c - Git LFS: which large files there are, and their bytes on the disk
 *
 * Bytes are kept once per account under their SHA-256 (git/lfs/<account>/<aa>/<oid>), and the store
 * says which repositories have them: a token that may read one repository cannot ask it for
 * another's files. An upload goes to a file without a name, is hashed on its way, and gets its name
 * when the hash is right.
 */
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/id.h"
#include "base/io.h"
#include "git/git_internal.h"

static bool oid_valid(const char *s)
{
	return s && strlen(s) == LFS_OID_SIZE - 1 && !s[strspn(s, "0123456789abcdef")];
}

static int bad_oid(struct err *err)
{
	return err_tag(err, -EINVAL, ERR_INVALID_OBJECT_ID,
	               "the id of a large file must be a SHA-256 in hex");
}

static void lfs_path(const struct repos *g, const char *account, const char *oid,
                     char ret[PATH_MAX], bool dir_only)
{
	snprintf(ret, PATH_MAX, "%s/lfs/%s/%.2s%s%s", g->root, account, oid, dir_only ? "" : "/",
	         dir_only ? "" : oid);
}

/* ---- batch ---- */

static enum lfs_state state_of(struct repos *g, const struct store_repo *r, bool upload,
                               int64_t room, struct lfs_object *o)
{
	struct err why = { 0 };
	struct store_lfs have;
	int rc;

	if (!oid_valid(o->oid) || o->size < 0)
		return LFS_INVALID;
	rc = store_lfs_get(g->store, r->id, o->oid, &have, &why);
	if (rc < 0 && rc != -ENOENT)
		return LFS_UNREADABLE;
	if (upload)
		return rc == 0 ? LFS_KEPT : o->size > room ? LFS_TOO_LARGE : LFS_UPLOAD;
	if (rc == -ENOENT)
		return LFS_MISSING;
	o->size = have.bytes;
	return LFS_DOWNLOAD;
}

int repo_lfs_batch(struct repos *g, const struct store_repo *r, bool upload, struct lfs_object *v,
                   size_t n, struct err *err)
{
	int64_t room = 0;
	int rc;

	if (upload && (rc = quota_room(g, r->account, &room, err)) < 0)
		return rc;
	for (size_t i = 0; i < n; i++)
		v[i].state = state_of(g, r, upload, room, &v[i]);
	return 0;
}

/* ---- download ---- */

int repo_lfs_get(struct repos *g, const struct store_repo *r, const char *oid, int *ret_fd,
                 uint64_t *ret_len, struct err *err)
{
	struct store_lfs l;
	char path[PATH_MAX];
	struct stat st;
	autofd int fd = -1;
	int rc;

	if (!oid_valid(oid))
		return bad_oid(err);
	if ((rc = store_lfs_get(g->store, r->id, oid, &l, err)) < 0)
		return rc;
	lfs_path(g, r->account, oid, path, /* dir_only= */ false);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_tag(err, -ENOENT, ERR_CONTENT_NOT_FOUND, "no large file '%s'", oid);
	*ret_len = (uint64_t)st.st_size;
	*ret_fd = TAKE_FD(fd);
	return 0;
}

/* ---- upload ---- */

struct lfs_put {
	struct repos *g;
	struct store_lfs row;
	EVP_MD_CTX *md;
	int fd;            /* owned; without a name */
	struct hold *hold; /* owned */
};

struct lfs_put *lfs_put_free(struct lfs_put *p)
{
	if (!p)
		return NULL;
	EVP_MD_CTX_free(p->md);
	hold_drop(p->hold);
	if (p->fd >= 0)
		close(p->fd);
	free(p);
	return NULL;
}

int lfs_put_open(struct repos *g, const struct store_repo *r, const char *oid, int64_t len,
                 struct lfs_put **ret, struct err *err)
{
	autohold *hold = NULL;
	struct lfs_put *p;
	char dir[PATH_MAX];
	int rc;

	if (!oid_valid(oid))
		return bad_oid(err);
	lfs_path(g, r->account, oid, dir, /* dir_only= */ true);
	if ((rc = hold_new(g, r->account, r->id, MAX(len, 0), &hold, err)) < 0)
		return rc;
	if ((rc = io_mkdirs(dir, 0700, NULL)) < 0)
		return err_sys(err, rc, "make a directory for large files");
	p = calloc(1, sizeof(*p));
	if (!p)
		return err_set(err, -ENOMEM, "out of memory");
	p->g = g;
	p->hold = TAKE_PTR(hold);
	snprintf(p->row.repo, sizeof(p->row.repo), "%s", r->id);
	snprintf(p->row.account, sizeof(p->row.account), "%s", r->account);
	snprintf(p->row.oid, sizeof(p->row.oid), "%s", oid);
	p->md = EVP_MD_CTX_new();
	p->fd = open(dir, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
	if (!p->md || p->fd < 0 || EVP_DigestInit_ex(p->md, EVP_sha256(), NULL) != 1) {
		rc = err_sys(err, p->fd < 0 ? -errno : -ENOMEM, "make a large file");
		lfs_put_free(p);
		return rc;
	}
	*ret = p;
	return 0;
}

int lfs_put_data(struct lfs_put *p, const void *data, size_t n, struct err *err)
{
	int r;

	p->row.bytes += (int64_t)n;
	if ((r = hold_grow(p->hold, p->row.bytes, err)) < 0)
		return r;
	EVP_DigestUpdate(p->md, data, n);
	r = io_write_all(p->fd, data, n);
	return r < 0 ? err_sys(err, r, "write a large file") : 0;
}

int lfs_put_finish(struct lfs_put *p, struct err *err)
{
	unsigned char md[EVP_MAX_MD_SIZE];
	char hex[LFS_OID_SIZE], path[PATH_MAX], self[64];
	unsigned n = 0;
	int r;

	if (EVP_DigestFinal_ex(p->md, md, &n) != 1 || n != 32)
		return err_set(err, -EIO, "cannot compute SHA-256");
	hex_encode(md, n, hex);
	if (strcmp(hex, p->row.oid) != 0)
		return err_tag(err, -EINVAL, ERR_INVALID_OBJECT_ID,
		               "the content does not match the SHA-256 in its name");
	lfs_path(p->g, p->row.account, p->row.oid, path, /* dir_only= */ false);
	snprintf(self, sizeof(self), "/proc/self/fd/%d", p->fd);
	if (fsync(p->fd) < 0)
		return err_sys(err, -errno, "write a large file");
	LOCK_SCOPE(&p->g->lfs);
	if (linkat(AT_FDCWD, self, AT_FDCWD, path, AT_SYMLINK_FOLLOW) < 0 && errno != EEXIST)
		return err_sys(err, -errno, "keep a large file");
	if ((r = io_sync_parent(AT_FDCWD, path)) < 0)
		return err_sys(err, r, "keep a large file");
	r = store_lfs_add(p->g->store, &p->row, err);
	if (r == 0) /* counted there from now on */
		p->hold = hold_drop(p->hold);
	return r;
}

void lfs_collect(struct repos *g, const struct store_lfs *l, size_t n)
{
	char path[PATH_MAX];

	for (size_t i = 0; i < n; i++) {
		LOCK_SCOPE(&g->lfs);
		if (store_lfs_known(g->store, l[i].account, l[i].oid, NULL) != 0)
			continue;
		lfs_path(g, l[i].account, l[i].oid, path, /* dir_only= */ false);
		unlink(path);
	}
}
