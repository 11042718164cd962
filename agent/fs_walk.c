/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fs_walk.c - sends a tree as a stream of records, in an order that allows comparing two machines
 *
 * A directory comes before its contents, names are sorted by bytes (agent_path_cmp). The walk stays
 * on the file system of its root: mount points are listed, not entered. It keeps only the names of
 * one directory per level. What vanishes meanwhile is left out; a directory that cannot be read is
 * listed without its contents.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/auto.h"
#include "base/err.h"
#include "base/io.h"

#define WALK_CHUNK (32u << 10)    /* bytes collected before they are sent */
#define WALK_NAMES_MAX (1u << 20) /* entries of one directory */

struct walk {
	const struct job_fds *fds;
	const struct agent_walk_req *r;
	struct buf out;
	dev_t dev;
	char path[AGENT_PATH_MAX];
	size_t len;
};

static void flush(struct walk *w)
{
	int k;

	if (w->out.failed)
		child_fail(w->fds, ENOMEM, AGENT_TAG_NONE, "walk: out of memory");
	k = io_write_all(w->fds->out, w->out.p, w->out.len);
	if (k < 0)
		child_fail(w->fds, -k, AGENT_TAG_NONE, "walk: %s", err_name(k));
	buf_reset(&w->out);
}

static int64_t ns(struct timespec t)
{
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void emit(struct walk *w, const struct stat *st)
{
	char link[AGENT_PATH_MAX] = "";
	struct agent_walk_rec m = { .kind = fs_kind(st->st_mode),
		                    .mode = st->st_mode,
		                    .uid = st->st_uid,
		                    .gid = st->st_gid,
		                    .mtime_ns = ns(st->st_mtim),
		                    .ctime_ns = ns(st->st_ctim),
		                    .ino = st->st_ino,
		                    .path = w->path,
		                    .link = link };
	static struct buf rec;
	ssize_t n;

	if (S_ISREG(st->st_mode))
		m.size = (uint64_t)st->st_size;
	else if (S_ISCHR(st->st_mode) || S_ISBLK(st->st_mode))
		m.size = st->st_rdev;
	if (S_ISLNK(st->st_mode)) {
		n = readlink(w->path, link, sizeof(link) - 1);
		link[n > 0 ? n : 0] = '\0';
	}
	buf_reset(&rec);
	agent_walk_rec_put(&rec, &m);
	if (rec.failed)
		child_fail(w->fds, ENOMEM, AGENT_TAG_NONE, "walk: out of memory");
	buf_put_blob(&w->out, rec.p, rec.len);
	if (w->out.len >= WALK_CHUNK)
		flush(w);
}

struct entry {
	char *name; /* owned */
	struct stat st;
};

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct entry *)a)->name, ((const struct entry *)b)->name);
}

/* The contents of the directory at w->path, sorted; nothing if it cannot be read. */
static struct entry *entries_of(struct walk *w, size_t *ret_n)
{
	DIR *d = opendir(w->path);
	struct entry *v = NULL;
	size_t n = 0, cap = 0;
	struct dirent *de;

	while (d && (de = readdir(d))) {
		if (!strcmp(de->d_name, ".") || !strcmp(de->d_name, ".."))
			continue;
		if (n == cap) {
			cap = cap ? 2 * cap : 64;
			v = cap > WALK_NAMES_MAX ? NULL : reallocarray(v, cap, sizeof(*v));
		}
		if (!v || !(v[n].name = strdup(de->d_name)))
			child_fail(w->fds, ENOMEM, AGENT_TAG_NONE,
			           "walk: '%.128s' has too many entries", w->path);
		if (fstatat(dirfd(d), de->d_name, &v[n].st, AT_SYMLINK_NOFOLLOW) < 0)
			free(v[n].name); /* gone meanwhile */
		else
			n++;
	}
	if (d)
		closedir(d);
	if (n)
		qsort(v, n, sizeof(*v), by_name);
	*ret_n = n;
	return v;
}

static bool ignored(const struct walk *w)
{
	for (unsigned i = 0; i < w->r->n_ignore; i++)
		if (!strcmp(w->path, w->r->ignore[i]))
			return true;
	return false;
}

/* Is path above `after`? Then it is skipped, but its contents are not. */
static bool leads_to(const char *path, size_t len, const char *after)
{
	if (len == 1 && path[0] == '/')
		len = 0;
	return !strncmp(path, after, len) && (after[len] == '/' || after[len] == '\0');
}

static void visit(struct walk *w, const struct stat *st, bool is_root);

static void enter(struct walk *w)
{
	size_t len = w->len, n = 0;
	struct entry *v = entries_of(w, &n);

	for (size_t i = 0; i < n; i++) {
		size_t add = strlen(v[i].name);
		size_t at = len > 1 ? len + 1 : 1; /* the root already ends with a slash */

		if (at + add < sizeof(w->path)) { /* a file that no path can name is skipped */
			w->path[at - 1] = '/';
			memcpy(w->path + at, v[i].name, add + 1);
			w->len = at + add;
			visit(w, &v[i].st, /* is_root= */ false);
		}
		free(v[i].name);
	}
	free(v);
	w->len = len;
	w->path[len] = '\0';
}

static void visit(struct walk *w, const struct stat *st, bool is_root)
{
	const char *after = w->r->after;
	bool passed = *after && agent_path_cmp(w->path, after) <= 0;
	bool here = st->st_dev == w->dev;

	if (ignored(w) || (passed && !leads_to(w->path, w->len, after)))
		return;
	/* A file mounted over another does not belong to this file system. */
	if (!passed && !(is_root && w->len == 1) && (here || S_ISDIR(st->st_mode)))
		emit(w, st);
	if (S_ISDIR(st->st_mode) && here)
		enter(w);
}

static void walk_all(struct walk *w)
{
	struct stat st;

	if (lstat(w->path, &st) == 0) {
		w->dev = st.st_dev;
		visit(w, &st, /* is_root= */ true);
	} else if (errno != ENOENT && errno != ENOTDIR) {
		child_fail(w->fds, errno, AGENT_TAG_NONE, "walk '%.128s': %s", w->path,
		           err_name(errno));
	}
	flush(w);
	child_finish(w->fds, 0, AGENT_TAG_NONE, "", NULL, 0);
}

void walk_begin(struct agent *a, uint32_t id, struct rd *c)
{
	static struct walk w;
	struct agent_walk_req r;
	struct job_fds fds;
	struct stream *s;
	int k;

	if (agent_walk_req_get(c, &r) < 0 || r.root[0] != '/') {
		stream_answer(a, id, EBADMSG, AGENT_TAG_BAD_REQUEST, "malformed walk request");
		return;
	}
	s = stream_new(a, id, AGENT_OP_FS_WALK);
	if (!s) {
		stream_answer(a, id, EAGAIN, AGENT_TAG_GUEST_BUSY,
		              "too many processes are attached");
		return;
	}
	k = job_fork(a, s, JOB_OUT, &fds);
	if (k == 1) {
		w = (struct walk){ .fds = &fds, .r = &r, .len = strlen(r.root) };
		memcpy(w.path, r.root, w.len + 1);
		walk_all(&w);
	}
	if (k < 0)
		stream_result(a, s, (uint32_t)-k, AGENT_TAG_SPAWN_FAILED, "cannot start a process",
		              NULL, 0);
}
