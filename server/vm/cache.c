/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cache.c - the files of layers that the object store has, too, are a cache
 *
 * Dropped is what is stored, what no running VM and no template stands on, and what nobody holds:
 * a thaw holds the names of all its layers before it looks for their files, and the drop excludes
 * it while it looks at the holds. When a layer was last used is remembered since the start; before
 * that, the file's own times have to do.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/io.h"
#include "vm/stored.h"

struct file {
	char id[ID_SIZE];
	uint64_t bytes; /* on the disk */
	int64_t used_ms;
};

static struct layer_use *find_use(struct stored *s, const char *id) REQUIRES(s->lock);
static struct layer_use *find_use(struct stored *s, const char *id)
{
	for (size_t i = 0; i < s->n_used; i++)
		if (strcmp(s->used[i].id, id) == 0)
			return &s->used[i];
	return NULL;
}

void cache_used(struct stored *s, const struct engine_chain *c)
{
	int64_t now = clock_wall_ms();
	LOCK_SCOPE(&s->lock);

	for (size_t i = 0; i < c->n; i++) {
		struct layer_use *u = find_use(s, c->l[i].id);

		if (!u) {
			if (s->n_used == USED_MAX)
				s->n_used = 0; /* the files' own times, then */
			u = &s->used[s->n_used++];
			snprintf(u->id, sizeof(u->id), "%s", c->l[i].id);
		}
		u->ms = now;
	}
}

static int longest_ago(const void *a, const void *b)
{
	const struct file *x = a, *y = b;

	return x->used_ms == y->used_ms ? strcmp(x->id, y->id) : x->used_ms < y->used_ms ? -1 : 1;
}

static int64_t ms_of(const struct timespec *t)
{
	return (int64_t)t->tv_sec * 1000 + t->tv_nsec / 1000000;
}

/* Those of the idle ones that have a file; their number. */
static size_t look_at_files(struct vmm *m, char (*ids)[ID_SIZE], size_t n, struct file *f)
{
	struct stored *s = m->stored;
	size_t k = 0;

	for (size_t i = 0; i < n; i++) {
		const struct layer_use *u;
		char path[PATH_MAX];
		struct stat st;

		if (engine_layer_path(m->engine, ids[i], path, sizeof(path)) < 0 ||
		    stat(path, &st) < 0)
			continue;
		f[k] = (struct file){ .bytes = (uint64_t)st.st_blocks * 512 };
		snprintf(f[k].id, ID_SIZE, "%s", ids[i]);
		mutex_lock(&s->lock);
		u = find_use(s, ids[i]);
		f[k].used_ms = u ? u->ms : MAX(ms_of(&st.st_atim), ms_of(&st.st_mtim));
		mutex_unlock(&s->lock);
		k++;
	}
	qsort(f, k, sizeof(*f), longest_ago);
	return k;
}

static bool is_held(struct vmm *m, const char *id)
{
	LOCK_SCOPE(&m->lock);

	for (size_t i = 0; i < m->n_holds; i++)
		if (strcmp(m->holds[i], id) == 0)
			return true;
	return false;
}

/* Of the files that nobody uses now; asked for and dropped with takers of names locked out. */
static uint64_t drop_some(struct vmm *m, uint64_t bytes, unsigned *ret_n, struct err *err)
{
	autofree char(*ids)[ID_SIZE] = NULL;
	autofree struct file *f = NULL;
	uint64_t freed = 0;
	size_t n = 0;
	int r;

	rwlock_wrlock(&m->gc);
	r = store_layers_idle(m->store, &ids, &n, err);
	if (r == 0 && !(f = calloc(n + 1, sizeof(*f))))
		r = err_set(err, -ENOMEM, "out of memory");
	n = r == 0 ? look_at_files(m, ids, n, f) : 0;
	for (size_t i = 0; i < n && freed < bytes; i++) {
		if (is_held(m, f[i].id))
			continue;
		engine_remove_layer(m->engine, f[i].id);
		freed += f[i].bytes;
		++*ret_n;
	}
	rwlock_unlock(&m->gc);
	return freed;
}

uint64_t cache_drop(struct vmm *m, uint64_t bytes)
{
	struct err err = { 0 };
	unsigned n = 0;
	uint64_t freed;

	if (!m->stored || !bytes)
		return 0;
	freed = drop_some(m, bytes, &n, &err);
	if (*err.msg)
		log_warn("layers that are stored were not dropped: %s", err.msg);
	if (n)
		log_info("dropped %u layers that are in the object store (%llu MB)", n,
		         (unsigned long long)freed >> 20);
	return freed;
}

/* ---- copies of what other nodes made ---- */

void cache_fetched(struct stored *s, enum object_kind kind, const char *id)
{
	LOCK_SCOPE(&s->lock);

	if (s->n_fetched == s->cap_fetched) {
		size_t cap = s->cap_fetched ? 2 * s->cap_fetched : 64;
		void *p = reallocarray(s->fetched, cap, sizeof(*s->fetched));

		if (!p)
			return; /* the next start finds it */
		s->fetched = p;
		s->cap_fetched = cap;
	}
	s->fetched[s->n_fetched] = (struct fetched){ .kind = kind };
	snprintf(s->fetched[s->n_fetched++].id, ID_SIZE, "%s", id);
}

/* Nobody here can ask for it by name any more, unless he holds it. */
static bool remove_gone(struct vmm *m, const struct fetched *f)
{
	struct store_layer l;
	struct store_point p;
	bool gone;

	rwlock_wrlock(&m->gc);
	gone = (f->kind == OBJECT_LAYER ? store_layer_get(m->store, f->id, &l, NULL)
	                                : store_point_get(m->store, f->id, &p, NULL)) == -ENOENT &&
	       !is_held(m, f->id);
	if (gone && f->kind == OBJECT_LAYER)
		engine_remove_layer(m->engine, f->id);
	else if (gone)
		engine_remove_point(m->engine, f->id);
	rwlock_unlock(&m->gc);
	return gone;
}

void cache_forget_gone(struct vmm *m)
{
	struct stored *s = m->stored;
	struct fetched f;
	size_t i = 0;

	for (;;) {
		mutex_lock(&s->lock);
		if (i >= s->n_fetched) {
			mutex_unlock(&s->lock);
			return;
		}
		f = s->fetched[i];
		mutex_unlock(&s->lock);
		if (!remove_gone(m, &f)) {
			i++;
			continue;
		}
		mutex_lock(&s->lock);
		s->fetched[i] = s->fetched[--s->n_fetched]; /* only this thread takes away */
		mutex_unlock(&s->lock);
	}
}

/* What all layers take here. */
static uint64_t taken(struct vmm *m)
{
	char path[PATH_MAX];
	autodir DIR *d = NULL;
	struct dirent *de;
	uint64_t sum = 0;
	struct stat st;

	snprintf(path, sizeof(path), "%s/layers", m->conf.data_dir);
	d = opendir(path);
	while (d && (de = readdir(d)))
		if (de->d_name[0] != '.' &&
		    fstatat(dirfd(d), de->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0)
			sum += (uint64_t)st.st_blocks * 512;
	return sum;
}

void cache_keep(struct vmm *m)
{
	uint64_t sum;

	if (!m->stored->cache_bytes)
		return;
	sum = taken(m);
	if (sum > m->stored->cache_bytes)
		cache_drop(m, sum - m->stored->cache_bytes);
}
