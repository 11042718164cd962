/* SPDX-License-Identifier: Apache-2.0 */
/*
 * texts_make.c - a tree's files are read once and kept as one text
 *
 * What makes a search slow is unpacking every file again. Here each regular file of a tree is
 * unpacked once, into a file without a name (O_TMPFILE) that is then mapped: its pages are the
 * kernel's to keep or to write out, nothing is left behind whatever happens, and nobody else can
 * change it. Texts of the tree before are taken over by their hashes. Binary files, which a search
 * leaves out, have a name and no text. A tree that is too large is left to git grep.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"
#include "git/bounds.h"
#include "git/texts.h"

#define BINARY_LOOK 8000      /* bytes in which Git looks for a NUL */
#define PATHS_MAX (64u << 20) /* bytes of all names */
#define PIECE (1u << 20)      /* written at once */

struct maker {
	git_repository *repo;
	git_odb *odb; /* owned */
	const struct texts_limits *l;
	const struct text_file **old; /* owned; by hash */
	size_t n_old;
	const struct texts *before;
	struct text_file *v; /* owned */
	size_t n, cap;
	struct buf paths, piece;
	char path[PATH_MAX];
	struct bounds b;
	uint64_t at; /* bytes of text so far */
	int fd;      /* owned */
};

static void maker_done(struct maker *m)
{
	git_odb_free(m->odb);
	free(m->old);
	free(m->v);
	buf_done(&m->paths);
	buf_done(&m->piece);
	if (m->fd >= 0)
		close(m->fd);
}

struct texts *texts_free(struct texts *t)
{
	if (!t)
		return NULL;
	if (t->map)
		munmap(t->map, t->map_len);
	free(t->v);
	free(t->paths);
	free(t);
	return NULL;
}

static int by_oid(const void *a, const void *b)
{
	return git_oid_cmp(&(*(const struct text_file *const *)a)->oid,
	                   &(*(const struct text_file *const *)b)->oid);
}

static int sort_old(struct maker *m, const struct texts *old)
{
	if (!old || old->n == 0)
		return 0;
	m->old = calloc(old->n, sizeof(*m->old));
	if (!m->old)
		return -ENOMEM;
	for (size_t i = 0; i < old->n; i++)
		m->old[i] = &old->v[i];
	m->before = old;
	m->n_old = old->n;
	qsort(m->old, m->n_old, sizeof(*m->old), by_oid);
	return 0;
}

static const struct text_file *find_old(const struct maker *m, const git_oid *oid)
{
	struct text_file key = { .oid = *oid };
	const struct text_file *k = &key, **f = NULL;

	if (m->n_old)
		f = bsearch(&k, m->old, m->n_old, sizeof(*m->old), by_oid);
	return f ? *f : NULL;
}

static int flush(struct maker *m, struct err *err)
{
	int r = io_write_all(m->fd, m->piece.p, m->piece.len);

	buf_reset(&m->piece);
	return r < 0 ? err_sys(err, r, "write texts") : 0;
}

static int put_text(struct maker *m, struct text_file *f, const char *p, size_t n, struct err *err)
{
	f->len = n;
	f->binary = memchr(p, '\0', MIN(n, (size_t)BINARY_LOOK));
	if (f->binary)
		return 0;
	if (m->at + n > m->l->bytes)
		return err_set(err, -EFBIG, "too much text to cache");
	f->at = m->at;
	m->at += n;
	buf_put(&m->piece, p, n);
	if (m->piece.failed)
		return err_set(err, -ENOMEM, "out of memory");
	return m->piece.len >= PIECE ? flush(m, err) : 0;
}

static int read_text(struct maker *m, struct text_file *f, struct err *err)
{
	const struct text_file *old = find_old(m, &f->oid);
	git_odb_object *o = NULL;
	git_object_t type;
	size_t size = 0;
	int r;

	if (old) {
		f->len = old->len;
		f->binary = old->binary;
		return old->binary ? 0 : put_text(m, f, text_of(m->before, old), old->len, err);
	}
	if (git_odb_read_header(&size, &type, m->odb, &f->oid) < 0 || type != GIT_OBJECT_BLOB)
		return err_set(err, -EIO, "an object is missing");
	if (size > m->l->blob)
		return err_set(err, -EFBIG, "a file is too large to cache");
	if (git_odb_read(&o, m->odb, &f->oid) < 0)
		return err_set(err, -EIO, "an object cannot be read");
	r = put_text(m, f, git_odb_object_data(o), git_odb_object_size(o), err);
	git_odb_object_free(o);
	return r;
}

static int add_file(struct maker *m, size_t path_len, const git_oid *oid, struct err *err)
{
	struct text_file f = { .oid = *oid, .path = m->paths.len };
	int r;

	if (m->n >= m->l->files || m->paths.len > PATHS_MAX)
		return err_set(err, -EFBIG, "too many files to cache");
	if (deadline_left(m->l->deadline) == 0 || (m->l->ending && atomic_load(m->l->ending)))
		return err_set(err, -ETIMEDOUT, "too slow");
	if (m->n == m->cap) {
		size_t cap = m->cap ? m->cap * 2 : 256;
		struct text_file *v = reallocarray(m->v, cap, sizeof(*v));

		if (!v)
			return err_set(err, -ENOMEM, "out of memory");
		m->v = v;
		m->cap = cap;
	}
	buf_put(&m->paths, m->path, path_len + 1);
	if ((r = read_text(m, &f, err)) < 0)
		return r;
	m->v[m->n++] = f;
	return m->paths.failed ? err_set(err, -ENOMEM, "out of memory") : 0;
}

/* m->path holds the first n bytes: the directory with its slash. */
static int walk(struct maker *m, git_tree *t, size_t n, unsigned depth, struct err *err)
{
	int r = 0;

	if (depth > BOUNDS_DEPTH)
		return err_set(err, -EFBIG, "directories are too deep");
	if (m->l->ending && atomic_load(m->l->ending))
		return err_set(err, -ETIMEDOUT, "too slow");
	for (size_t i = 0; i < git_tree_entrycount(t) && r == 0; i++) {
		const git_tree_entry *e = git_tree_entry_byindex(t, i);
		const char *name = git_tree_entry_name(e);
		git_filemode_t mode = git_tree_entry_filemode(e);
		size_t len = strlen(name);

		if (n + len + 2 > sizeof(m->path))
			return err_set(err, -EFBIG, "a path is too long");
		memcpy(m->path + n, name, len + 1);
		if (mode == GIT_FILEMODE_TREE) {
			autotree *sub = NULL;

			r = bounds_tree(&m->b, m->repo, git_tree_entry_id(e), &sub, err);
			if (r < 0)
				return r == -ENOENT ? err_set(err, -EIO, "a tree is missing") : r;
			m->path[n + len] = '/';
			r = walk(m, sub, n + len + 1, depth + 1, err);
		} else if (mode == GIT_FILEMODE_BLOB || mode == GIT_FILEMODE_BLOB_EXECUTABLE) {
			r = add_file(m, n + len, git_tree_entry_id(e), err);
		}
	}
	return r;
}

static int settle(struct maker *m, struct texts *t, struct err *err)
{
	t->bytes = sizeof(*t) + m->at + m->paths.cap + m->cap * sizeof(*t->v);
	t->paths = (char *)TAKE_PTR(m->paths.p);
	m->paths = (struct buf){ 0 };
	t->v = TAKE_PTR(m->v);
	t->n = m->n;
	if (m->at > 0) {
		void *p = mmap(NULL, m->at, PROT_READ, MAP_SHARED, m->fd, 0);

		if (p == MAP_FAILED)
			return err_sys(err, -errno, "map texts");
		t->map = p;
		t->map_len = m->at;
	}
	return 0;
}

int texts_make(const char *dir, git_repository *repo, git_commit *commit, const struct texts *old,
               const struct texts_limits *l, struct texts **ret, struct err *err)
{
	AUTO(maker_done)
	struct maker m = { .repo = repo,
		           .l = l,
		           .b = { .client = l->client,
		                  .deadline = l->deadline,
		                  .trees = l->files,
		                  .entries = BOUNDS_ENTRIES },
		           .fd = -1 };
	AUTO(texts_freep) struct texts *t = calloc(1, sizeof(*t));
	autotree *root = NULL;
	int r;

	if (!t || sort_old(&m, old) < 0)
		return err_set(err, -ENOMEM, "out of memory");
	if ((r = bounds_tree(&m.b, repo, git_commit_tree_id(commit), &root, err)) < 0 &&
	    r != -ENOENT)
		return r;
	if (r < 0 || (r = git_repository_odb(&m.odb, repo)) < 0)
		return git_fail(r, "read the tree", err);
	m.fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (m.fd < 0)
		return err_sys(err, -errno, "make a file in '%s'", dir);
	if ((r = walk(&m, root, 0, 0, err)) < 0 || (r = flush(&m, err)) < 0 ||
	    (r = settle(&m, t, err)) < 0)
		return r;
	t->tree = *git_tree_id(root);
	*ret = TAKE_PTR(t);
	return 0;
}
