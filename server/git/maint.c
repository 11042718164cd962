/* SPDX-License-Identifier: Apache-2.0 */
/*
 * maint.c - maintenance in the background: measuring, packing, cleaning up
 *
 * One thread takes repositories that were written to, measures them and, when loose objects or
 * packs have become many, has Git pack them (objects younger than two weeks are never thrown away:
 * a push may be about to name them). A repository is marked busy on the disk while it is written
 * to; the marks that are there at start name those a crash interrupted, and only these lose their
 * lock files and quarantined objects.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"
#include "base/log.h"
#include "git/shared.h"
#include "git/texts.h"
#include "store/store_node.h"

#define LOOSE_MAX 2000      /* objects before a repack; a 256th of it is counted */
#define PACKS_MAX 30        /* packs before a repack */
#define GC_MS (30 * 60000u) /* for one of them */
#define GC_MB 4096          /* memory of it */
#define QUARANTINE "tmp_objdir-"
#define QUARANTINES_MAX 32 /* that are removed at a time */
#define DEPTH_MAX 64       /* directories inside directories, when measuring */

/* ---- measuring ---- */

static int64_t measure_dir(int fd_consume, unsigned depth)
{
	autodir DIR *d = fdopendir(fd_consume);
	struct dirent *e;
	struct stat st;
	int64_t sum = 0;

	if (!d) {
		close(fd_consume);
		return 0;
	}
	while ((e = readdir(d))) {
		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
			continue;
		if (fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		if (S_ISDIR(st.st_mode) && depth < DEPTH_MAX) {
			int sub = openat(dirfd(d), e->d_name,
			                 O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

			if (sub >= 0)
				sum += measure_dir(sub, depth + 1);
		} else {
			sum += st.st_blocks * 512;
		}
	}
	return sum;
}

int64_t repo_measure(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 ? 0 : measure_dir(fd, 0);
}

static unsigned count_names(const char *dir, const char *ending)
{
	autodir DIR *d = opendir(dir);
	struct dirent *e;
	unsigned n = 0;

	while (d && (e = readdir(d))) {
		size_t k = strlen(e->d_name), m = strlen(ending);

		n += e->d_name[0] != '.' && k >= m && strcmp(e->d_name + k - m, ending) == 0;
	}
	return n;
}

/* ---- packing ---- */

static bool wants_packing(const char *repo)
{
	char dir[PATH_MAX];

	snprintf(dir, sizeof(dir), "%s/objects/17", repo); /* hashes are uniform: any will do */
	if (count_names(dir, "") > LOOSE_MAX / 256)
		return true;
	snprintf(dir, sizeof(dir), "%s/objects/pack", repo);
	return count_names(dir, ".pack") > PACKS_MAX;
}

static void pack(struct repos *g, const char *id, const char *path)
{
	static const char *const argv[] = {
		GIT_PROGRAM, "-c",      "gc.auto=1",           "-c", "gc.packRefs=true",
		"gc",        "--quiet", "--prune=2.weeks.ago", NULL
	};
	/* Nothing moves references that somebody with the slot relies on. */
	static const char *const without_refs[] = {
		GIT_PROGRAM, "-c",      "gc.auto=1",           "-c", "gc.packRefs=false",
		"gc",        "--quiet", "--prune=2.weeks.ago", NULL
	};
	autorun struct run_result res = { 0 };
	struct run_opts o = { .repo = path,
		              .argv = is_shared(g) ? without_refs : argv,
		              .write = true,
		              .out_max = 65536,
		              .limit_ms = GC_MS,
		              .mem_mb = GC_MB };
	struct err err = { 0 };
	unsigned mark;
	int r;

	if (!gc_begin(g, id))
		return; /* being copied: after the next push, then */
	mark = busy_mark(g, id);
	r = run_git(g, &o, &res, &err);
	busy_clear(g, id, mark);
	gc_end(g);
	if (r < 0)
		log_warn("repository %s: packing: %s", id, err.msg);
	else if (res.status != 0)
		log_warn("repository %s: git gc exited with %d: %.200s", id, res.status,
		         (char *)res.err_text.p);
}

/* The same of what is shared: references under the slot, then packs of the object store. */
static void pack_shared(struct repos *g, const char *id, const char *path)
{
	static const char *const argv[] = { GIT_PROGRAM, "pack-refs", "--all", NULL };
	struct run_opts o = {
		.repo = path, .argv = argv, .write = true, .out_max = 65536, .limit_ms = GC_MS
	};
	autorun struct run_result res = { 0 };
	struct slot *slot = NULL;
	struct err err = { 0 };
	unsigned mark;
	int r = slot_take(g, id, &slot, &err);

	if (r == 0 && slot) {
		mark = busy_mark(g, id);
		r = run_git(g, &o, &res, &err);
		busy_clear(g, id, mark);
	}
	if (r == 0)
		r = slot_repack(slot, &err);
	slot_give(slot);
	if (r < 0)
		log_warn("repository %s: packing: %s", id, err.msg);
}

/* ---- quarantines ---- */

/* Is anything being written to it at this moment? */
static bool is_busy(struct repos *g, const char *id)
{
	char path[PATH_MAX];
	autodir DIR *d = NULL;
	struct dirent *e;

	repos_path(g, "busy", "", path);
	d = opendir(path);
	while (d && (e = readdir(d)))
		if (strncmp(e->d_name, id, strlen(id)) == 0)
			return true;
	return !d;
}

/*
 * A receive-pack that had to be killed leaves its quarantine behind. Those that existed while
 * nothing was being written are stale.
 */
static void drop_quarantines(struct repos *g, const char *id, const char *path)
{
	char names[QUARANTINES_MAX][64], dir[PATH_MAX];
	autodir DIR *d = NULL;
	struct dirent *e;
	size_t n = 0;

	snprintf(dir, sizeof(dir), "%s/objects", path);
	d = opendir(dir);
	while (d && n < QUARANTINES_MAX && (e = readdir(d)))
		if (strncmp(e->d_name, QUARANTINE, strlen(QUARANTINE)) == 0 &&
		    strlen(e->d_name) < sizeof(names[0]))
			snprintf(names[n++], sizeof(names[0]), "%s", e->d_name);
	for (size_t i = 0; n && !is_busy(g, id) && i < n; i++)
		io_remove_tree(dirfd(d), names[i], NULL);
}

static void look_after(struct repos *g, const char *id)
{
	struct store_repo repo;
	struct err err = { 0 };
	char path[PATH_MAX];
	uint64_t mark;

	repo_path(g, id, path);
	if (store_repo_get(g->store, id, &repo, &err) < 0) {
		quota_measured(g, id, UINT64_MAX); /* it is gone */
		return;
	}
	if (is_shared(g) && strcmp(repo.node, store_node_id(g->store)) != 0) {
		quota_measured(g, id, UINT64_MAX); /* another node measures it */
		return;
	}
	drop_quarantines(g, id, path);
	texts_follow(g->texts, id);
	if (wants_packing(path)) {
		pack(g, id, path);
		if (is_shared(g))
			pack_shared(g, id, path);
	}
	mark = quota_mark(g);
	if (store_repo_measured(g->store, id, repo_measure(path), 0, &err) < 0)
		log_warn("repository %s: cannot save its size: %s", id, err.msg);
	quota_measured(g, id, mark);
}

static void *maint_main(void *arg)
{
	struct repos *g = arg;
	char id[REPO_ID_SIZE];

	mutex_lock(&g->lock);
	for (;;) {
		while (!g->ending && g->n_dirty == 0)
			cond_wait(&g->work, &g->lock);
		if (g->ending)
			break;
		memcpy(id, g->dirty[0], sizeof(id));
		memmove(g->dirty, g->dirty + 1, --g->n_dirty * sizeof(*g->dirty));
		mutex_unlock(&g->lock);
		look_after(g, id);
		mutex_lock(&g->lock);
	}
	mutex_unlock(&g->lock);
	return NULL;
}

void maint_note(struct repos *g, const char *id)
{
	LOCK_SCOPE(&g->lock);
	for (size_t i = 0; i < g->n_dirty; i++)
		if (strcmp(g->dirty[i], id) == 0)
			return;
	if (g->n_dirty == g->cap_dirty) {
		size_t cap = g->cap_dirty ? g->cap_dirty * 2 : 64;
		void *p = realloc(g->dirty, cap * sizeof(*g->dirty));

		if (!p)
			return; /* measured with its next push */
		g->dirty = p;
		g->cap_dirty = cap;
	}
	snprintf(g->dirty[g->n_dirty++], sizeof(*g->dirty), "%s", id);
	cond_signal(&g->work);
}

int maint_start(struct repos *g, struct err *err)
{
	int r = pthread_create(&g->maint, NULL, maint_main, g);

	if (r != 0)
		return err_sys(err, -r, "start a thread");
	g->maint_runs = true;
	return 0;
}

void maint_stop(struct repos *g)
{
	if (g->maint_runs) {
		mutex_lock(&g->lock);
		g->ending = true;
		cond_signal(&g->work);
		mutex_unlock(&g->lock);
		pthread_join(g->maint, NULL);
	}
	mutex_unshared(&g->lock);
	free(g->dirty);
}

/* ---- after a crash ---- */

static void busy_path(struct repos *g, const char *id, unsigned mark, char ret[PATH_MAX])
{
	char name[REPO_ID_SIZE + 16];

	snprintf(name, sizeof(name), "%s.%u", id, mark);
	repos_path(g, "busy", name, ret);
}

unsigned busy_mark(struct repos *g, const char *id)
{
	static atomic_uint last;
	unsigned mark = atomic_fetch_add(&last, 1);
	char path[PATH_MAX];
	int fd;

	busy_path(g, id, mark, path);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	if (fd >= 0)
		close(fd); /* without it a crash could leave a lock file that has to go by hand */
	return mark;
}

void busy_clear(struct repos *g, const char *id, unsigned mark)
{
	char path[PATH_MAX];

	busy_path(g, id, mark, path);
	unlink(path);
}

static bool ends_with(const char *s, const char *end)
{
	size_t n = strlen(s), k = strlen(end);

	return n >= k && strcmp(s + n - k, end) == 0;
}

/* Removes lock files, and quarantines of objects that no reference can name. */
static void mend_dir(int fd_consume, unsigned depth)
{
	autodir DIR *d = fdopendir(fd_consume);
	struct dirent *e;

	if (!d) {
		close(fd_consume);
		return;
	}
	while ((e = readdir(d))) {
		int sub;

		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
			continue;
		if (strncmp(e->d_name, QUARANTINE, strlen(QUARANTINE)) == 0 ||
		    strncmp(e->d_name, "incoming-", 9) == 0) {
			io_remove_tree(dirfd(d), e->d_name, NULL);
			continue;
		}
		if (ends_with(e->d_name, ".lock") || strncmp(e->d_name, "tmp_", 4) == 0)
			unlinkat(dirfd(d), e->d_name, 0);
		sub = depth < DEPTH_MAX ? openat(dirfd(d), e->d_name,
		                                 O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
		                        : -1;
		if (sub >= 0)
			mend_dir(sub, depth + 1);
	}
}

static void mend_busy(struct repos *g)
{
	char path[PATH_MAX], id[REPO_ID_SIZE];
	autodir DIR *d = NULL;
	struct dirent *e;
	int fd;

	repos_path(g, "busy", "", path);
	d = opendir(path);
	while (d && (e = readdir(d))) {
		snprintf(id, sizeof(id), "%.36s", e->d_name);
		if (!repo_id_valid(id))
			continue;
		log_info("repository %s was being written to when the server stopped: cleaning it "
		         "up",
		         id);
		repo_path(g, id, path);
		fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (fd >= 0)
			mend_dir(fd, 0);
		if (!note_named(e->d_name)) /* those are published later */
			unlinkat(dirfd(d), e->d_name, 0);
		maint_note(g, id);
	}
}

static void empty_tmp(struct repos *g)
{
	char path[PATH_MAX];
	autodir DIR *d = NULL;
	struct dirent *e;

	repos_path(g, "tmp", "", path);
	d = opendir(path);
	while (d && (e = readdir(d)))
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			io_remove_tree(dirfd(d), e->d_name, NULL);
}

static int by_id(const void *a, const void *b)
{
	return strcmp(((const struct store_repo *)a)->id, ((const struct store_repo *)b)->id);
}

/* Directories that no row names: made, or being deleted, when the server ended. */
static int drop_unknown(struct repos *g, struct err *err)
{
	autofree struct store_repo *known = NULL;
	char path[PATH_MAX];
	autodir DIR *d = NULL;
	struct dirent *e;
	size_t n = 0;
	int r = store_repo_ids(g->store, &known, &n, err);

	if (r < 0)
		return r;
	repos_path(g, "repos", "", path);
	d = opendir(path);
	while (d && (e = readdir(d))) {
		struct store_repo key, *row;

		if (!ends_with(e->d_name, ".git"))
			continue;
		snprintf(key.id, sizeof(key.id), "%.*s", (int)strlen(e->d_name) - 4, e->d_name);
		if (!repo_id_valid(key.id))
			continue;
		row = n ? bsearch(&key, known, n, sizeof(*known), by_id) : NULL;
		if (row && !*row->node && (r = store_repo_claim(g->store, key.id, err)) < 0)
			return r;
		if (row)
			continue;
		log_info("repository %s belongs to no account: removing it", key.id);
		io_remove_tree(dirfd(d), e->d_name, NULL);
	}
	return 0;
}

int repos_reconcile(struct repos *g, struct err *err)
{
	empty_tmp(g);
	mend_busy(g);
	return drop_unknown(g, err);
}
