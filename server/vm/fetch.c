/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fetch.c - files of layers and states that are in the object store and not here
 *
 * A file is fetched under another name ("<id>.fetch"), flushed, and then gets its own: what is in
 * layers/ is whole, whenever a crash comes; half ones are orphans that the next start removes.
 * Several who want the same file share one fetch: the first leads, the others wait for its end.
 * Whoever leads some and waits for others finishes its own first, so nobody waits in a circle.
 *
 * Each chunk proves that it is the one that was put there (objects/chunk.c), and the engine
 * compares the checksum of the whole when it opens it. A chunk that is missing or not the right one
 * is an error of its own kind: the VM stays as it is, and resumes when the object is back.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "metrics/metrics.h"
#include "store/store_node.h"
#include "vm/stored.h"

struct fetch {
	struct fetch *next;
	enum object_kind kind;
	char id[ID_SIZE];
	unsigned refs; /* of those who want it */
	bool done;     /* then r and err are its result */
	int r;
	struct err err;
	/* the leader's */
	bool begun;
	int fd;
	char path[PATH_MAX], part[PATH_MAX];
	struct objects_transfer t;
	uint64_t t0;
};

/* One caller's: what it leads, what it waits for. */
struct wanted {
	struct fetch *f[2 * ENGINE_CHAIN_MAX + 1];
	bool leads[2 * ENGINE_CHAIN_MAX + 1];
	size_t n;
};

static int path_of(struct vmm *m, enum object_kind kind, const char *id, char *buf, size_t size)
{
	return kind == OBJECT_LAYER ? engine_layer_path(m->engine, id, buf, size)
	                            : engine_state_path(m->engine, id, buf, size);
}

static bool is_here(struct vmm *m, enum object_kind kind, const char *id)
{
	char path[PATH_MAX];

	return path_of(m, kind, id, path, sizeof(path)) < 0 || access(path, F_OK) == 0;
}

static struct fetch *join(struct stored *s, enum object_kind kind, const char *id, bool *ret_leads)
{
	struct fetch *f;
	LOCK_SCOPE(&s->lock);

	*ret_leads = false;
	for (f = s->fetches; f; f = f->next)
		if (!f->done && f->kind == kind && strcmp(f->id, id) == 0)
			break;
	if (!f && (f = calloc(1, sizeof(*f)))) {
		f->kind = kind;
		f->fd = -1;
		snprintf(f->id, sizeof(f->id), "%s", id);
		f->next = s->fetches;
		s->fetches = f;
		*ret_leads = true;
	}
	if (f)
		f->refs++;
	return f;
}

static void leave(struct stored *s, struct fetch *f_consume)
{
	LOCK_SCOPE(&s->lock);

	if (--f_consume->refs > 0)
		return;
	for (struct fetch **at = &s->fetches; *at; at = &(*at)->next)
		if (*at == f_consume) {
			*at = f_consume->next;
			break;
		}
	free(f_consume);
}

/* ---- the leader ---- */

static int open_part(struct vmm *m, struct fetch *f, struct err *err)
{
	int r = path_of(m, f->kind, f->id, f->path, sizeof(f->path));

	if (r < 0 ||
	    (size_t)snprintf(f->part, sizeof(f->part), "%s.fetch", f->path) >= sizeof(f->part))
		return err_set(err, -ENAMETOOLONG, "the path of %s is too long", f->id);
	unlink(f->part);
	f->fd = open(f->part, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	return f->fd < 0 ? err_sys(err, -errno, "create '%s'", f->part) : 0;
}

static int begin(struct vmm *m, struct fetch *f, const char *account, uint64_t bytes,
                 struct err *err)
{
	char name[STORE_OBJECT_SIZE];
	int r;

	static_assert(STORE_OBJECT_KEY == OBJECT_KEY_BYTES && STORE_OBJECT_SIZE <= OBJECT_NAME_SIZE,
	              "the store's keys and names are the objects'");
	f->t0 = clock_us();
	if ((r = store_object_key(m->store, account, f->t.key, err)) < 0 ||
	    (r = open_part(m, f, err)) < 0)
		return r;
	f->t.fd = f->fd;
	f->t.bytes = bytes;
	snprintf(f->t.name, sizeof(f->t.name), "%s", object_name(f->kind, f->id, name));
	r = objects_begin(m->stored->o, &f->t, err);
	f->begun = r == 0;
	return r;
}

/* The sentence that a user gets, and what a program makes of it. */
static int explain(const struct fetch *f, int r, struct err *err)
{
	char why[sizeof(err->msg)];

	snprintf(why, sizeof(why), "%s", err->msg);
	if (r == -ENOENT || r == -EBADMSG) {
		metrics_add(METRIC_OBJECT_DAMAGED, 0, 1);
		log_obj(LOG_LV_ERROR, "layer", f->id, "is damaged in the object store: %s", why);
		return err_tag(err, r == -ENOENT ? -EIO : r, ERR_OBJECT_DAMAGED,
		               "%s %s is not on this machine, and what the object store has of it "
		               "is damaged: %s",
		               f->kind == OBJECT_LAYER ? "layer" : "the state of point", f->id,
		               why);
	}
	if (r == -ENOSPC || r == -EDQUOT || r == -ENOMEM)
		return r;
	return err_tag(err, -EAGAIN, ERR_SERVICE_UNAVAILABLE,
	               "%s %s is not on this machine and cannot be fetched now: %s",
	               f->kind == OBJECT_LAYER ? "layer" : "the state of point", f->id, why);
}

static int put_in_place(struct fetch *f, struct err *err)
{
	if (fsync(f->fd) < 0)
		return err_sys(err, -errno, "flush '%s'", f->part);
	return rename(f->part, f->path) < 0 ? err_sys(err, -errno, "rename '%s'", f->part) : 0;
}

/* r, err: of begin(). Whatever happened, those who wait hear of it. */
static void finish(struct vmm *m, struct fetch *f, int r, struct err *err)
{
	struct stored *s = m->stored;

	if (f->begun)
		r = objects_wait(s->o, &f->t, err);
	explicit_bzero(f->t.key, sizeof(f->t.key));
	if (r == 0)
		r = put_in_place(f, err);
	if (f->fd >= 0)
		close(TAKE_FD(f->fd));
	if (r < 0) {
		unlink(f->part);
		r = explain(f, r, err);
	} else {
		metrics_since(METRIC_OBJECT_FETCH, 0, f->t0);
		if (*store_node_id(m->store))
			cache_fetched(s, f->kind, f->id);
		log_obj(LOG_LV_INFO, f->kind == OBJECT_LAYER ? "layer" : "point", f->id,
		        "fetched from the object store: %llu KB in %llu ms",
		        (unsigned long long)f->t.bytes >> 10,
		        (unsigned long long)(clock_us() - f->t0) / 1000);
	}
	LOCK_SCOPE(&s->lock);
	f->r = r;
	f->err = *err;
	f->done = true;
	cond_broadcast(&s->done);
}

/* ---- all who want files ---- */

/* The size and owner of what is stored; 0: it is not. */
static int look_up(struct vmm *m, enum object_kind kind, const char *id, char *account,
                   uint64_t *bytes, struct err *err)
{
	struct store_layer l;
	struct store_point p;
	const char *node;
	bool stored;
	int r;

	if (kind == OBJECT_LAYER) {
		if ((r = store_layer_get(m->store, id, &l, err)) < 0)
			return r;
		stored = l.stored;
		node = l.node;
		*bytes = l.bytes;
		snprintf(account, ACCOUNT_SIZE, "%s", l.account);
	} else {
		if ((r = store_point_get(m->store, id, &p, err)) < 0)
			return r;
		stored = p.stored;
		node = p.node;
		*bytes = p.state_bytes;
		snprintf(account, ACCOUNT_SIZE, "%s", p.account);
	}
	if (!stored && strcmp(node, store_node_id(m->store)) != 0)
		return err_tag(err, -EHOSTUNREACH, ERR_NODE_UNAVAILABLE,
		               "%s %s is on node %s and not in the object store (yet): try again "
		               "later, or ask that node",
		               kind == OBJECT_LAYER ? "layer" : "the state of point", id, node);
	return stored;
}

static int want(struct vmm *m, struct wanted *w, enum object_kind kind, const char *id,
                struct err *err)
{
	char account[ACCOUNT_SIZE];
	struct err own = { 0 };
	struct fetch *f;
	uint64_t bytes = 0;
	bool leads;
	int r;

	if (is_here(m, kind, id))
		return 0;
	r = look_up(m, kind, id, account, &bytes, err);
	if (r <= 0)
		return r;
	f = join(m->stored, kind, id, &leads);
	if (!f)
		return err_set(err, -ENOMEM, "out of memory");
	w->f[w->n] = f;
	w->leads[w->n++] = leads;
	if (leads && is_here(m, kind, id)) { /* another one was done just now */
		LOCK_SCOPE(&m->stored->lock);
		f->done = true;
		cond_broadcast(&m->stored->done);
		return 0;
	}
	if (leads && (r = begin(m, f, account, bytes, &own)) < 0)
		finish(m, f, r, &own);
	return 0;
}

static int await_all(struct vmm *m, struct wanted *w, struct err *err)
{
	struct stored *s = m->stored;
	int r = 0;

	for (size_t i = 0; i < w->n; i++) {
		struct err own = { 0 };
		bool done;

		mutex_lock(&s->lock);
		done = w->f[i]->done;
		mutex_unlock(&s->lock);
		if (w->leads[i] && !done)
			finish(m, w->f[i], 0, &own);
	}
	for (size_t i = 0; i < w->n; i++) {
		mutex_lock(&s->lock);
		while (!w->f[i]->done)
			cond_wait(&s->done, &s->lock);
		if (w->f[i]->r < 0 && r == 0) {
			r = w->f[i]->r;
			if (err)
				*err = w->f[i]->err;
		}
		mutex_unlock(&s->lock);
		leave(s, w->f[i]);
	}
	if (w->n && s->cache_bytes)
		stored_soon(m);
	return r;
}

static int want_chain(struct vmm *m, struct wanted *w, const struct engine_chain *c,
                      struct err *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < c->n; i++)
		r = want(m, w, OBJECT_LAYER, c->l[i].id, err);
	return r;
}

int fetch_chain(struct vmm *m, const struct engine_chain *c, struct err *err)
{
	struct wanted w = { .n = 0 };
	int r, waited;

	if (!m->stored)
		return 0;
	cache_used(m->stored, c);
	r = want_chain(m, &w, c, err);
	waited = await_all(m, &w, r == 0 ? err : NULL);
	return r < 0 ? r : waited;
}

int fetch_point(struct vmm *m, const struct engine_point *p, struct err *err)
{
	struct wanted w = { .n = 0 };
	int r, waited;

	if (!m->stored)
		return 0;
	cache_used(m->stored, &p->mem);
	cache_used(m->stored, &p->disk);
	r = want_chain(m, &w, &p->mem, err);
	if (r == 0)
		r = want_chain(m, &w, &p->disk, err);
	if (r == 0)
		r = want(m, &w, OBJECT_POINT, p->id, err);
	waited = await_all(m, &w, r == 0 ? err : NULL);
	return r < 0 ? r : waited;
}

bool fetch_is_here(struct vmm *m, const char *layer)
{
	struct engine_chain c;
	bool here = true;

	if (!m->stored)
		return true;
	if (chain_load(m, layer, &c, NULL) < 0)
		return false;
	for (size_t i = 0; here && i < c.n; i++)
		here = is_here(m, OBJECT_LAYER, c.l[i].id);
	return here;
}
