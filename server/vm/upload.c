/* SPDX-License-Identifier: Apache-2.0 */
/*
 * upload.c - layers and states to the object store, and their objects' end
 *
 * A freeze is done when it is durable here; uploading is a thread's work after that. It asks the
 * store what is to last and is not stored, holds each while it is under way, and writes down before
 * the first object that there may be some. A failure is nobody's but the operator's: what could
 * not be uploaded stays here and is tried again, with longer and longer pauses.
 *
 * When nothing is to be uploaded it deletes the objects of rows that went long enough ago, once a
 * day looks for objects that no row knows (a database that was restored), and keeps the cache
 * within its bound.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "vm/stored.h"

#define AT_ONCE 64u         /* uploads found with one question */
#define TICK_MS 10000       /* between two looks when nothing happens */
#define AGAIN_MS 1000u      /* the first pause after a failure */
#define AGAIN_MAX_MS 60000u /* the longest */
#define GARBAGE_AT_ONCE 64u
#define FORGET_MS 60000 /* between two looks at copies whose rows have gone */
#define SWEEP_MS (24 * 3600 * 1000u)
#define SWEEP_FIRST_MS (10 * 60 * 1000u) /* after the start, when there is other work */

static bool stopping(struct vmm *m)
{
	LOCK_SCOPE(&m->lock);
	return m->stopping;
}

/* Its row is there, and is not collected until it is released. 0: there is none any more. */
static int hold_row(struct vmm *m, const struct store_upload *u, struct store_layer *ret,
                    struct err *err)
{
	struct store_point p;
	int r;

	rwlock_rdlock(&m->gc);
	r = u->kind == OBJECT_LAYER ? store_layer_get(m->store, u->id, ret, err)
	                            : store_point_get(m->store, u->id, &p, err);
	if (r == 0)
		r = vmm_hold(m, u->id, err);
	rwlock_unlock(&m->gc);
	return r == -ENOENT ? 0 : r < 0 ? r : 1;
}

/* A disk layer that was closed just now has no checksum yet: before it leaves it gets one. */
static int seal(struct vmm *m, const struct store_layer *l, struct err *err)
{
	uint64_t bytes;
	uint32_t crc;
	int r;

	if (l->kind != LAYER_DISK || l->has_crc || strcmp(l->format, "qcow2") != 0)
		return 0;
	if ((r = engine_layer_crc(m->engine, l->id, &bytes, &crc, err)) < 0)
		return r;
	if (bytes != l->bytes)
		return err_set(err, -EBADMSG, "layer %s is damaged: %llu bytes long, expected %llu",
		               l->id, (unsigned long long)bytes, (unsigned long long)l->bytes);
	return store_layer_seal(m->store, l->id, bytes, crc, /* has_crc= */ true, err);
}

static int transfer(struct vmm *m, const struct store_upload *u, struct err *err)
{
	struct objects_transfer t = { .put = true, .bytes = u->bytes };
	char path[PATH_MAX], name[STORE_OBJECT_SIZE];
	autofd int fd = -1;
	int r = u->kind == OBJECT_LAYER ? engine_layer_path(m->engine, u->id, path, sizeof(path))
	                                : engine_state_path(m->engine, u->id, path, sizeof(path));

	if (r < 0 || (r = objects_claim(m->stored->o, err)) < 0 ||
	    (r = store_upload_begin(m->store, u->kind, u->id, objects_chunks(u->bytes), err)) < 0)
		return r;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return err_sys(err, -errno, "open '%s'", path);
	t.fd = fd;
	snprintf(t.name, sizeof(t.name), "%s", object_name(u->kind, u->id, name));
	if ((r = store_object_key(m->store, u->account, t.key, err)) < 0 ||
	    (r = objects_begin(m->stored->o, &t, err)) < 0)
		return r;
	r = objects_wait(m->stored->o, &t, err);
	explicit_bzero(t.key, sizeof(t.key));
	return r < 0 ? r : store_upload_done(m->store, u->kind, u->id, err);
}

int upload_layer(struct vmm *m, const char *id, struct err *err)
{
	struct store_upload u = { .kind = OBJECT_LAYER };
	struct store_layer l;
	int r = store_layer_get(m->store, id, &l, err);

	if (r < 0 || (r = seal(m, &l, err)) < 0)
		return r;
	u.bytes = l.bytes;
	snprintf(u.id, sizeof(u.id), "%s", l.id);
	snprintf(u.account, sizeof(u.account), "%s", l.account);
	return transfer(m, &u, err);
}

static int upload_chain(struct vmm *m, const struct engine_chain *c, struct err *err)
{
	struct store_layer l;
	int r = 0;

	for (size_t i = 0; r >= 0 && i < c->n; i++)
		if ((r = store_layer_get(m->store, c->l[i].id, &l, err)) == 0 && !l.stored)
			r = upload_layer(m, l.id, err);
	return r;
}

int upload_point(struct vmm *m, const struct engine_point *p, struct err *err)
{
	struct store_upload u = { .kind = OBJECT_POINT };
	struct store_point row;
	int r;

	if ((r = upload_chain(m, &p->disk, err)) < 0 || (r = upload_chain(m, &p->mem, err)) < 0 ||
	    (r = store_point_get(m->store, p->id, &row, err)) < 0 || row.stored)
		return r;
	u.bytes = row.state_bytes;
	snprintf(u.id, sizeof(u.id), "%s", row.id);
	snprintf(u.account, sizeof(u.account), "%s", row.account);
	return transfer(m, &u, err);
}

static int upload(struct vmm *m, const struct store_upload *u, struct err *err)
{
	uint64_t t0 = clock_ms();
	struct store_layer l = { .kind = LAYER_MEM };
	int r = hold_row(m, u, &l, err);

	if (r <= 0)
		return r;
	r = u->kind == OBJECT_LAYER ? seal(m, &l, err) : 0;
	if (r == 0)
		r = transfer(m, u, err);
	vmm_release(m, u->id);
	mutex_lock(&m->lock);
	m->upload_ended = true; /* for a drain */
	cond_broadcast(&m->cond);
	mutex_unlock(&m->lock);
	if (r == 0)
		log_obj(LOG_LV_DEBUG, u->kind == OBJECT_LAYER ? "layer" : "point", u->id,
		        "stored: %llu KB in %llu ms", (unsigned long long)u->bytes >> 10,
		        (unsigned long long)(clock_ms() - t0));
	return r;
}

/*
 * A file that is damaged or missing here keeps neither the others from being uploaded nor garbage
 * from being deleted; its VM says so when it is used. The store lists it after those that were
 * never tried.
 */
static bool is_its_own(int r)
{
	return r == -ENOENT || r == -EBADMSG || r == -EIO;
}

static void note_bad(struct vmm *m, const char *id, const char *why)
{
	struct stored *s = m->stored;

	for (size_t i = 0; i < s->n_bad; i++)
		if (strcmp(s->bad[i], id) == 0)
			return;
	if (s->n_bad == UPLOADS_BAD_MAX)
		return;
	snprintf(s->bad[s->n_bad++], ID_SIZE, "%s", id);
	log_warn("objects: %s cannot be uploaded, ignoring: %s", id, why);
}

/* 1: some were, and there may be more. */
static int upload_some(struct vmm *m, struct err *err)
{
	autofree struct store_upload *u = NULL;
	size_t n = 0, done = 0;
	int r = store_uploads(m->store, AT_ONCE, &u, &n, err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < n && !stopping(m); i++) {
		struct err own = { 0 };

		r = upload(m, &u[i], &own);
		if (r == 0) {
			done++;
		} else if (is_its_own(r)) {
			note_bad(m, u[i].id, own.msg);
		} else {
			*err = own;
			return r;
		}
	}
	return done > 0;
}

/* ---- garbage ---- */

static int delete_garbage(struct vmm *m, struct err *err)
{
	autofree struct store_object_garbage *g = NULL;
	int64_t before = clock_wall_ms() - (int64_t)m->stored->keep_s * 1000;
	size_t n = 0;
	int r = store_object_garbage(m->store, before, GARBAGE_AT_ONCE, &g, &n, err);

	for (size_t i = 0; r == 0 && i < n && !stopping(m); i++) {
		r = objects_delete(m->stored->o, g[i].object, g[i].chunks, err);
		if (r == 0)
			r = store_object_garbage_done(m->store, g[i].object, err);
	}
	return r < 0 ? r : n == GARBAGE_AT_ONCE;
}

static int found(void *ctx, const char *name, uint32_t n)
{
	struct vmm *m = ctx;
	struct err err = { 0 };
	int r = store_object_found(m->store, name, n, clock_wall_ms(), &err);

	if (r < 0)
		log_warn("objects: %s", err.msg);
	if (r > 0)
		log_info("objects: nothing here knows '%s': deleted later", name);
	return r < 0 ? r : 0;
}

static int sweep(struct vmm *m, struct err *err)
{
	static const char *const dirs[] = { "layers/", "points/", "packs/" };
	int r = 0;

	for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(dirs); i++)
		r = objects_list(m->stored->o, dirs[i], found, m, err);
	return r;
}

/* ---- the thread ---- */

static void look_at_due(struct vmm *m)
{
	struct store_uploads_sum sum;
	bool known = store_uploads_sum(m->store, &sum, NULL) == 0;
	LOCK_SCOPE(&m->stored->lock);

	if (known)
		m->stored->due = sum;
}

void stored_soon(struct vmm *m)
{
	LOCK_SCOPE(&m->lock);

	m->upload_wanted = true;
	cond_broadcast(&m->cond);
}

/* Until there may be something to do, or so long. False: the server ends. */
static bool rest(struct vmm *m, uint64_t until, bool early)
{
	LOCK_SCOPE(&m->lock);

	while (!m->stopping && !(early && m->upload_wanted) &&
	       cond_wait_until(&m->cond, &m->lock, until))
		;
	m->upload_wanted = false;
	return !m->stopping;
}

static int round_of(struct vmm *m, uint64_t *sweep_at, uint64_t *forget_at, struct err *err)
{
	int r = upload_some(m, err);

	if (r == 0)
		r = delete_garbage(m, err);
	if (r == 0 && deadline_left(*forget_at) == 0) {
		cache_forget_gone(m);
		*forget_at = deadline_in(FORGET_MS);
	}
	if (r == 0 && deadline_left(*sweep_at) == 0 && (r = sweep(m, err)) == 0)
		*sweep_at = deadline_in(SWEEP_MS);
	return r;
}

static void *upload_main(void *arg)
{
	struct vmm *m = arg;
	uint64_t sweep_at = deadline_in(SWEEP_FIRST_MS), forget_at = deadline_in(FORGET_MS);
	unsigned again = AGAIN_MS;
	bool go_on = true;

	while (go_on) {
		struct err err = { 0 };
		int r = round_of(m, &sweep_at, &forget_at, &err);

		look_at_due(m);
		cache_keep(m);
		if (r < 0) {
			if (r != -ECANCELED && again == AGAIN_MS)
				log_warn("objects: layers stay on this machine until they can be "
				         "uploaded: %s",
				         err.msg);
			go_on = rest(m, deadline_in(again), /* early= */ false);
			again = MIN(again * 2, AGAIN_MAX_MS);
			continue;
		}
		again = AGAIN_MS;
		go_on = r > 0 ? !stopping(m) : rest(m, deadline_in(TICK_MS), /* early= */ true);
	}
	return NULL;
}

/* ---- begin and end ---- */

int stored_new(struct vmm *m, struct err *err)
{
	struct stored *s;

	if (!m->conf.objects)
		return 0;
	s = calloc(1, sizeof(*s));
	if (!s)
		return err_set(err, -ENOMEM, "out of memory");
	s->o = m->conf.objects;
	s->cache_bytes = (uint64_t)m->conf.objects_cache_mb << 20;
	s->keep_s = m->conf.objects_keep_s;
	mutex_init(&s->lock, "vmm stored");
	cond_init(&s->done);
	m->stored = s;
	mutex_unshared(&s->lock);
	s->used = calloc(USED_MAX, sizeof(*s->used));
	return s->used ? 0 : err_set(err, -ENOMEM, "out of memory");
}

int stored_begin(struct vmm *m, struct err *err)
{
	int r;

	if (!m->stored)
		return 0;
	r = pthread_create(&m->stored->thread, NULL, upload_main, m);
	if (r)
		return err_sys(err, -r, "start a thread");
	m->stored->has_thread = true;
	return 0;
}

void stored_end(struct vmm *m)
{
	if (!m->stored)
		return;
	objects_end(m->stored->o);
	if (m->stored->has_thread)
		pthread_join(m->stored->thread, NULL);
	m->stored->has_thread = false;
}

void stored_free(struct vmm *m)
{
	struct stored *s = m->stored;

	if (!s)
		return;
	m->stored = NULL;
	mutex_unshared(&s->lock);
	free(s->used);
	free(s->fetched);
	cond_destroy(&s->done);
	mutex_destroy(&s->lock);
	free(s);
}

void vmm_objects(struct vmm *m, struct vmm_objects *ret)
{
	struct objects_status st;

	*ret = (struct vmm_objects){ 0 };
	if (!m->stored)
		return;
	objects_status(m->stored->o, &st);
	ret->on = true;
	ret->failing = st.failing;
	ret->asked = st.asked;
	ret->since_ms = st.since_ms;
	snprintf(ret->where, sizeof(ret->where), "%s", objects_where(m->stored->o));
	snprintf(ret->error, sizeof(ret->error), "%s", st.error);
	LOCK_SCOPE(&m->stored->lock);
	ret->pending = m->stored->due.n;
	ret->pending_bytes = m->stored->due.bytes;
	ret->garbage = m->stored->due.garbage;
	ret->cache_mb = (uint32_t)(m->stored->cache_bytes >> 20);
}
