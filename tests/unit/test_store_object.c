/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_store_object.c - what may be in the object store, against a model with a clock of its own
 *
 * Random layers, points, uploads that stop anywhere, collections, deletions that fail halfway,
 * strangers' objects, and time that goes on in jumps. The model is the bucket: which objects are in
 * it. What must hold after each step: a layer that the store calls stored has all of its objects;
 * no object of a row goes before the row, or sooner than an hour after it. At the end nothing is
 * left.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/buf.h"
#include "store/store_object.h"
#include "tests/unit/check.h"
#include "tests/unit/db_fx.h"
#include "tests/unit/tmpdir.h"

#define STEPS 600
#define NAMES 2048
#define CHUNKS 4 /* of a file, at most */
#define KEEP_MS (INT64_C(3600) * 1000)

struct object {
	char name[STORE_OBJECT_SIZE];
	bool in[CHUNKS]; /* the bucket */
	int64_t gone_ms; /* when its row went; 0: it has one */
	bool stranger;   /* never had one */
};
struct world {
	struct store *s;
	struct object o[NAMES];
	size_t n;
	int64_t now;
	unsigned made, deleted, partly;
};

static struct object *object_of(struct world *w, const char *name)
{
	for (size_t i = 0; i < w->n; i++)
		if (strcmp(w->o[i].name, name) == 0)
			return &w->o[i];
	assert_true(w->n < NAMES);
	snprintf(w->o[w->n].name, STORE_OBJECT_SIZE, "%s", name);
	return &w->o[w->n++];
}

static bool any_in(const struct object *o)
{
	return o->in[0] || o->in[1] || o->in[2] || o->in[3];
}

/* A template of a new point, with layers on others or of its own. */
static void make(struct world *w, char (*tops)[ID_SIZE], size_t n_tops)
{
	struct store_layer l[2] = {
		{ .kind = LAYER_MEM, .format = "mem", .bytes = 1 + (uint64_t)random() % CHUNKS },
		{ .kind = LAYER_DISK, .format = "qcow2", .bytes = 1 + (uint64_t)random() % CHUNKS }
	};
	struct store_point p = { .vcpus = 1, .state_bytes = 1 };
	char key[32];

	id_make("ly-", l[0].id);
	id_make("ly-", l[1].id);
	id_make("pt-", p.id);
	if (n_tops && random() % 3) { /* on the memory of one that may be gone by now */
		struct store_layer below;
		const char *id = tops[random() % (long)n_tops];

		if (store_layer_get(w->s, id, &below, NULL) == 0)
			snprintf(l[0].parent, ID_SIZE, "%s", id);
	}
	if (random() % 8 == 0)
		l[1].bytes = 0; /* still written to: never uploaded */
	snprintf(p.mem_layer, ID_SIZE, "%s", l[0].id);
	snprintf(p.disk_layer, ID_SIZE, "%s", l[1].id);
	OK(store_point_add(w->s, &p, l, 2, &err));
	snprintf(key, sizeof(key), "k%u", w->made % 12); /* which takes the key of an older one */
	OK(store_template_set(w->s, key, p.id, &err));
	snprintf(tops[w->made++ % 8], ID_SIZE, "%s", l[0].id);
}

/* As the uploader does it, up to any of its steps. */
static void upload(struct world *w)
{
	autofree struct store_upload *u = NULL;
	char name[STORE_OBJECT_SIZE];
	size_t n = 0;

	OK(store_uploads(w->s, 3, &u, &n, &err));
	for (size_t i = 0; i < n; i++) {
		uint32_t chunks = u[i].kind == OBJECT_LAYER ? (uint32_t)u[i].bytes : 1;
		struct object *o;

		assert_true(u[i].bytes > 0);
		if (random() % 5 == 0)
			continue;
		OK(store_upload_begin(w->s, u[i].kind, u[i].id, chunks, &err));
		o = object_of(w, object_name(u[i].kind, u[i].id, name));
		for (uint32_t k = 0; k < chunks; k++) {
			if (random() % 9 == 0) {
				w->partly++;
				goto next; /* a crash, an outage */
			}
			o->in[k] = true;
		}
		OK(store_upload_done(w->s, u[i].kind, u[i].id, &err));
	next:;
	}
}

static void note_gone(struct world *w, const char *dir, char (*ids)[ID_SIZE], size_t n)
{
	for (size_t i = 0; i < n; i++) {
		char name[STORE_OBJECT_SIZE];

		snprintf(name, sizeof(name), "%s/%s", dir, ids[i]);
		object_of(w, name)->gone_ms = w->now;
	}
}

static void collect(struct world *w, char (*held)[ID_SIZE])
{
	const char *ids[] = { held[0], held[1] };
	AUTO(store_garbage_done) struct store_garbage g = { 0 };

	OK(store_collect_at(w->s, NULL, 0, ids, **held ? 2 : 0, w->now, &g, &err));
	note_gone(w, "layers", g.layers, g.n_layers);
	note_gone(w, "points", g.points, g.n_points);
}

/* As the uploader's thread does it; a deletion may stop halfway, and is repeated later. */
static void delete_garbage(struct world *w)
{
	autofree struct store_object_garbage *g = NULL;
	size_t n = 0;

	OK(store_object_garbage(w->s, w->now - KEEP_MS, 5, &g, &n, &err));
	for (size_t i = 0; i < n; i++) {
		struct object *o = object_of(w, g[i].object);

		assert_true(o->gone_ms > 0 && w->now - o->gone_ms >= KEEP_MS);
		assert_true(g[i].chunks > 0 && g[i].chunks <= CHUNKS);
		for (uint32_t k = 0; k < g[i].chunks; k++) {
			if (random() % 10 == 0)
				return;
			o->in[k] = false;
		}
		assert_false(any_in(o)); /* it knew of all of them */
		OK(store_object_garbage_done(w->s, g[i].object, &err));
		w->deleted++;
	}
}

static void sweep(struct world *w)
{
	for (size_t i = 0; i < w->n; i++) {
		struct object *o = &w->o[i];
		int r;

		if (!any_in(o))
			continue;
		r = store_object_found(w->s, o->name, CHUNKS, w->now, &err);
		/* only what nobody knows of: the first time it is seen */
		assert_int_equal(r, o->stranger && o->gone_ms == 0);
		if (r)
			o->gone_ms = w->now;
	}
}

static void check(struct world *w)
{
	autofree struct store_layer *l = NULL;
	size_t n = 0;

	OK(store_layer_list(w->s, &l, &n, &err));
	for (size_t i = 0; i < n; i++) {
		char name[STORE_OBJECT_SIZE];
		const struct object *o = object_of(w, object_name(OBJECT_LAYER, l[i].id, name));

		assert_int_equal(o->gone_ms, 0);
		for (uint64_t k = 0; l[i].stored && k < l[i].bytes; k++)
			assert_true(o->in[k]);
		for (uint64_t k = l[i].chunks; k < CHUNKS; k++)
			assert_false(o->in[k]);
	}
}

static void stranger(struct world *w)
{
	char id[ID_SIZE], name[STORE_OBJECT_SIZE];
	struct object *o;

	id_make("ly-", id);
	o = object_of(w, object_name(OBJECT_LAYER, id, name));
	o->stranger = o->in[random() % CHUNKS] = true;
}

static void run(struct world *w)
{
	static char tops[8][ID_SIZE];
	char held[2][ID_SIZE] = { "" };

	memset(tops, 0, sizeof(tops));
	for (int i = 0; i < STEPS; i++) {
		switch (random() % 8) {
		case 0:
		case 1:
			make(w, tops, MIN(w->made, 8u));
			break;
		case 2:
		case 3:
			upload(w);
			break;
		case 4:
			snprintf(held[0], ID_SIZE, "%s", random() % 2 ? tops[random() % 8] : "");
			snprintf(held[1], ID_SIZE, "%s", held[0]);
			collect(w, held);
			break;
		case 5:
			w->now += random() % (KEEP_MS * 2 / 3);
			break;
		case 6:
			delete_garbage(w);
			break;
		case 7:
			if (random() % 4 == 0)
				stranger(w);
			sweep(w);
			break;
		}
		check(w);
	}
}

static void the_bucket_and_the_store_agree(void **state)
{
	static struct world w;
	struct tmpdir dir;
	char path[256], key[32], none[2][ID_SIZE] = { "", "" }, point[ID_SIZE];
	struct store_uploads_sum sum;

	srandom(20261118);
	w = (struct world){ .now = 1000000 };
	assert_int_equal(tmpdir_make(&dir), 0);
	OK(store_open(db_at(&dir, "o.db", path, sizeof(path)), &w.s, &err));
	run(&w);
	assert_true(w.made > 50 && w.deleted > 20 && w.partly > 10);
	for (unsigned i = 0; i < 12; i++) {
		snprintf(key, sizeof(key), "k%u", i);
		if (store_template_get(w.s, key, point, NULL) == 0)
			OK(store_template_drop(w.s, key, point, &err));
	}
	collect(&w, none);
	sweep(&w);
	w.now += KEEP_MS;
	do {
		delete_garbage(&w);
		OK(store_uploads_sum(w.s, &sum, &err));
	} while (sum.garbage);
	assert_int_equal(sum.n, 0);
	for (size_t i = 0; i < w.n; i++)
		assert_false(any_in(&w.o[i]));
	w.s = store_close(w.s);
	tmpdir_remove(&dir);
}

static void layers_are_their_accounts(void **state)
{
	struct store_layer l = { .kind = LAYER_DISK, .format = "qcow2", .id = "ly-own" }, got;
	struct store_vm v = { .slot = -1,
		              .info = { .state = VM_RUNNING, .account = "ac-one", .id = "v" } };
	struct store_point p = { .id = "pt-own", .vcpus = 1, .disk_layer = "ly-own" };
	uint8_t a[STORE_OBJECT_KEY], b[STORE_OBJECT_KEY], c[STORE_OBJECT_KEY];
	char(*idle)[ID_SIZE] = NULL;
	char id[ID_SIZE], again[ID_SIZE], path[256];
	struct store_upload *u = NULL;
	struct store *s = NULL;
	struct tmpdir dir;
	size_t n = 0;

	assert_int_equal(tmpdir_make(&dir), 0);
	OK(store_open(db_at(&dir, "o.db", path, sizeof(path)), &s, &err));
	snprintf(v.disk_layer, ID_SIZE, "ly-own");
	OK(store_vm_add_many(s, &v, 1, &l, 1, NULL, &err));
	OK(store_layer_get(s, "ly-own", &got, &err));
	assert_string_equal(got.account, "ac-one");
	v.info.state = VM_SUSPENDED;
	snprintf(v.info.point, ID_SIZE, "pt-own");
	l.bytes = 5;
	OK(store_vm_update(s, &v, &l, 1, &p, &err));
	OK(store_uploads(s, 8, &u, &n, &err));
	assert_int_equal(n, 2);
	assert_string_equal(u[0].id, "ly-own");
	assert_string_equal(u[1].id, "pt-own");
	assert_string_equal(u[1].account, "ac-one");
	free(u);
	OK(store_upload_done(s, OBJECT_LAYER, "ly-own", &err));
	OK(store_layers_idle(s, &idle, &n, &err));
	assert_int_equal(n, 1);
	free(idle);
	v.info.state = VM_RUNNING;
	OK(store_vm_update(s, &v, NULL, 0, NULL, &err));
	idle = NULL;
	OK(store_layers_idle(s, &idle, &n, &err));
	assert_int_equal(n, 0);
	free(idle);
	FAILS(-ENOENT, store_upload_begin(s, OBJECT_LAYER, "ly-none", 1, &err));

	OK(store_object_key(s, "ac-one", a, &err));
	OK(store_object_key(s, "ac-one", b, &err));
	assert_memory_equal(a, b, sizeof(a));
	OK(store_object_key(s, "ac-two", b, &err));
	OK(store_object_key(s, "", c, &err));
	assert_memory_not_equal(a, b, sizeof(a));
	assert_memory_not_equal(a, c, sizeof(a));
	OK(store_objects_id(s, id, &err));
	OK(store_objects_id(s, again, &err));
	assert_string_equal(id, again);
	store_close(s);
	tmpdir_remove(&dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_bucket_and_the_store_agree),
		cmocka_unit_test(layers_are_their_accounts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
