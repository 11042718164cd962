/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_object.c - layers and states in the object store: which are there, which are to go
 *
 * "chunks" is written before the first object of a file is put, "stored" after the last one. So
 * whatever may be in the object store is known here, whenever a crash comes: a row with chunks that
 * is collected leaves a row of garbage in the same transaction (store_gc.c), and the objects go
 * when that is old enough. Ids are never used again, so what is garbage stays garbage: a clock that
 * jumps can only take objects from under somebody who is still reading them.
 *
 * A node uploads what it made itself, and fetches what is stored, whoever made it. Any of them
 * deletes garbage: two that do it at a time find nothing left to do, at worst. Of nodes the disks
 * of stopped VMs are uploaded, too, so that another one can boot them.
 *
 * Keys of owners are made when they are first needed, and sealed like all secrets.
 */
#include "store/store_object.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "store/store_cluster.h"
#include "store/store_internal.h"
#include "store/store_pack.h"

#define CLUSTER_OWNER "cluster" /* no account has this id */

static_assert(CLUSTER_ID_SIZE <= ID_SIZE, "the id of a cluster is an id");

const char *object_name(enum object_kind kind, const char *id, char buf[STORE_OBJECT_SIZE])
{
	snprintf(buf, STORE_OBJECT_SIZE, "%s/%s", kind == OBJECT_LAYER ? "layers" : "points", id);
	return buf;
}

int store_objects_id(struct store *s, char ret[ID_SIZE], struct err *err)
{
	autotx struct tx t = { 0 };
	autofree char *id = NULL;
	char made[ID_SIZE];
	int r;

	if ((r = tx_begin(&t, s, err)) < 0)
		return r;
	/* With PostgreSQL there is one already; of SQLite nobody else needs it. */
	if ((r = meta_get(s, "cluster", &id, err)) < 0 ||
	    (!id && (r = meta_get(s, "objects", &id, err)) < 0))
		return r;
	if (id) {
		snprintf(ret, ID_SIZE, "%s", id);
		return 0;
	}
	id_make(CLUSTER_ID_PREFIX, made);
	if ((r = meta_put(s, "objects", made, err)) < 0 || (r = tx_commit(&t, err)) < 0)
		return r;
	memcpy(ret, made, ID_SIZE);
	return 0;
}

/* ---- keys ---- */

static int hex_value(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static int decode(const char *hex, uint8_t ret[STORE_OBJECT_KEY], struct err *err)
{
	bool good = hex && strlen(hex) == (size_t)2 * STORE_OBJECT_KEY;

	for (size_t i = 0; good && i < STORE_OBJECT_KEY; i++) {
		int hi = hex_value(hex[2 * i]), lo = hex_value(hex[2 * i + 1]);

		good = hi >= 0 && lo >= 0;
		ret[i] = good ? (uint8_t)(hi * 16 + lo) : 0;
	}
	return good ? 0
	            : err_tag(err, -EUCLEAN, ERR_DATABASE_ERROR,
	                      "the key of an account's objects is damaged");
}

/* 1: there is one. */
static int read_key(struct store *s, const char *owner, uint8_t ret[STORE_OBJECT_KEY],
                    struct err *err)
{
	autoquery struct query q = { 0 };
	autowipe char *hex = NULL;
	int r = query_begin(&q, s, "SELECT value FROM object_keys WHERE owner = $1", err);

	if (r < 0)
		return r;
	query_bind_text(&q, owner);
	if ((r = query_step(&q, err)) <= 0)
		return r;
	hex = query_read_secret(&q, (struct secret_place){ "object_keys.value", owner });
	if ((r = query_read_end(&q, err)) < 0 || (r = decode(hex, ret, err)) < 0)
		return r;
	return 1;
}

static int make_key(struct store *s, const char *owner, uint8_t ret[STORE_OBJECT_KEY],
                    struct err *err)
{
	autoquery struct query q = { 0 };
	char hex[2 * STORE_OBJECT_KEY + 1];
	int r = query_begin(
	        &q, s, "INSERT INTO object_keys (owner, value, created_ms) VALUES ($1, $2, $3)",
	        err);

	if (r < 0)
		return r;
	random_bytes(ret, STORE_OBJECT_KEY);
	hex_encode(ret, STORE_OBJECT_KEY, hex);
	query_bind_text(&q, owner);
	query_bind_secret(&q, (struct secret_place){ "object_keys.value", owner }, hex);
	query_bind_i64(&q, clock_wall_ms());
	r = query_run(&q, err);
	explicit_bzero(hex, sizeof(hex));
	return r < 0 ? r : 0;
}

int store_object_key(struct store *s, const char *account, uint8_t ret[STORE_OBJECT_KEY],
                     struct err *err)
{
	const char *owner = *account ? account : CLUSTER_OWNER;
	autotx struct tx t = { 0 };
	int r;

	{
		LOCK_SCOPE(&s->lock);
		if ((r = read_key(s, owner, ret, err)) != 0)
			return r < 0 ? r : 0;
	}
	if ((r = tx_begin(&t, s, err)) < 0 || (r = read_key(s, owner, ret, err)) < 0)
		return r;
	if (r > 0)
		return 0;
	r = make_key(s, owner, ret, err);
	return r < 0 ? r : tx_commit(&t, err);
}

/* ---- uploads ---- */

/* Points that are to last: a fork's are not, and cached specs can be made again. */
#define LASTING                                                             \
	"(EXISTS (SELECT 1 FROM vms WHERE vms.point = p.id)"                \
	" OR EXISTS (SELECT 1 FROM vms WHERE vms.checkpoint = p.id)"        \
	" OR EXISTS (SELECT 1 FROM vms WHERE vms.checkpoint_before = p.id)" \
	" OR EXISTS (SELECT 1 FROM snapshots WHERE snapshots.point = p.id)" \
	" OR EXISTS (SELECT 1 FROM templates WHERE templates.point = p.id))"
#define NEEDED                                                                                 \
	"WITH RECURSIVE need (id) AS ("                                                        \
	" SELECT p.mem_layer FROM points p WHERE p.mem_layer IS NOT NULL AND " LASTING         \
	" UNION SELECT p.disk_layer FROM points p WHERE p.disk_layer IS NOT NULL AND " LASTING \
	" UNION SELECT disk_layer FROM vms WHERE disk_layer IS NOT NULL AND state = 'stopped'" \
	" AND node <> ''"                                                                      \
	" UNION SELECT l.parent FROM layers l JOIN need ON l.id = need.id"                     \
	" WHERE l.parent IS NOT NULL)"
#define LAYERS_DUE \
	"FROM layers WHERE stored = 0 AND bytes > 0 AND node = $1 AND id IN (SELECT id FROM need)"
#define POINTS_DUE "FROM points p WHERE p.stored = 0 AND p.node = $1 AND " LASTING

static const char list_layers[] =
        NEEDED "SELECT id, account, bytes " LAYERS_DUE
               " ORDER BY CASE WHEN chunks = 0 THEN 0 ELSE 1 END, bytes, id LIMIT $2";
static const char list_points[] =
        "SELECT p.id, p.account, p.state_bytes " POINTS_DUE " ORDER BY p.created_ms, p.id LIMIT $2";

static int list_due(struct store *s, enum object_kind kind, unsigned limit, struct store_upload *v,
                    size_t *n, struct err *err)
{
	autoquery struct query q = { 0 };
	int r = query_begin(&q, s, kind == OBJECT_LAYER ? list_layers : list_points, err);

	if (r < 0)
		return r;
	query_bind_text(&q, s->node);
	query_bind_i64(&q, limit);
	while ((r = query_step(&q, err)) > 0) {
		struct store_upload *u = &v[(*n)++];

		u->kind = kind;
		query_read_text(&q, u->id, sizeof(u->id));
		query_read_text(&q, u->account, sizeof(u->account));
		u->bytes = (uint64_t)query_read_i64(&q, 0, INT64_MAX);
	}
	return r < 0 ? r : query_read_end(&q, err);
}

int store_uploads(struct store *s, unsigned limit, struct store_upload **ret, size_t *ret_n,
                  struct err *err)
{
	autofree struct store_upload *v = calloc(2 * (size_t)limit, sizeof(*v));
	size_t n = 0;
	int r;

	if (!v)
		return err_set(err, -ENOMEM, "out of memory");
	LOCK_SCOPE(&s->lock);
	if ((r = list_due(s, OBJECT_LAYER, limit, v, &n, err)) < 0 ||
	    (r = list_due(s, OBJECT_POINT, limit, v, &n, err)) < 0)
		return r;
	*ret = TAKE_PTR(v);
	*ret_n = n;
	return 0;
}

static int sum_of(struct store *s, const char *sql, uint64_t *n, uint64_t *bytes, struct err *err)
{
	autoquery struct query q = { 0 };
	int r = query_begin(&q, s, sql, err);

	if (r < 0)
		return r;
	query_bind_text(&q, s->node);
	if ((r = query_step(&q, err)) < 0)
		return r;
	*n += (uint64_t)query_read_i64(&q, 0, INT64_MAX);
	*bytes += (uint64_t)query_read_i64(&q, 0, INT64_MAX);
	return query_read_end(&q, err);
}

int store_uploads_sum(struct store *s, struct store_uploads_sum *ret, struct err *err)
{
	int r;

	*ret = (struct store_uploads_sum){ 0 };
	LOCK_SCOPE(&s->lock);
	if ((r = sum_of(s,
	                NEEDED
	                "SELECT COUNT(*), CAST(COALESCE(SUM(bytes), 0) AS BIGINT) " LAYERS_DUE,
	                &ret->n, &ret->bytes, err)) < 0 ||
	    (r = sum_of(
	             s,
	             "SELECT COUNT(*), CAST(COALESCE(SUM(p.state_bytes), 0) AS BIGINT) " POINTS_DUE,
	             &ret->n, &ret->bytes, err)) < 0)
		return r;
	r = query_count(s, "SELECT COUNT(*) FROM object_garbage", NULL, err);
	ret->garbage = (uint64_t)MAX(r, 0);
	return MIN(r, 0);
}

static int set_i64(struct store *s, const char *sql, int64_t v, const char *id, struct err *err)
{
	autotx struct tx t = { 0 };
	autoquery struct query q = { 0 };
	int r;

	if ((r = tx_begin(&t, s, err)) < 0 || (r = query_begin(&q, s, sql, err)) < 0)
		return r;
	query_bind_i64(&q, v);
	query_bind_text(&q, id);
	if ((r = query_run(&q, err)) < 0)
		return r;
	if (r == 0)
		return err_set(err, -ENOENT, "'%s' is gone", id);
	query_done(&q);
	return tx_commit(&t, err);
}

int store_upload_begin(struct store *s, enum object_kind kind, const char *id, uint32_t chunks,
                       struct err *err)
{
	return set_i64(s,
	               kind == OBJECT_LAYER ? "UPDATE layers SET chunks = $1 WHERE id = $2"
	                                    : "UPDATE points SET chunks = $1 WHERE id = $2",
	               chunks, id, err);
}

int store_upload_done(struct store *s, enum object_kind kind, const char *id, struct err *err)
{
	return set_i64(s,
	               kind == OBJECT_LAYER ? "UPDATE layers SET stored = $1 WHERE id = $2"
	                                    : "UPDATE points SET stored = $1 WHERE id = $2",
	               1, id, err);
}

static int read_ids(struct query *q, char (**ret)[ID_SIZE], size_t *ret_n, struct err *err)
{
	autofree char(*ids)[ID_SIZE] = NULL;
	size_t n = 0, cap = 0;
	int r;

	while ((r = query_step(q, err)) > 0) {
		if (n == cap) {
			void *p = reallocarray(ids, cap ? 2 * cap : 64, ID_SIZE);

			if (!p)
				return err_set(err, -ENOMEM, "out of memory");
			ids = p;
			cap = cap ? 2 * cap : 64;
		}
		query_read_text(q, ids[n++], ID_SIZE);
	}
	if (r < 0 || (r = query_read_end(q, err)) < 0)
		return r;
	*ret = TAKE_PTR(ids);
	*ret_n = n;
	return 0;
}

int store_layers_idle(struct store *s, char (**ret_ids)[ID_SIZE], size_t *ret_n, struct err *err)
{
	LOCK_SCOPE(&s->lock);
	autoquery struct query q = { 0 };
	char own[NODE_KEY_SIZE];
	int r;

	r = query_begin(&q, s,
	                "WITH RECURSIVE busy (id) AS ("
	                " SELECT base_mem FROM vms WHERE base_mem IS NOT NULL AND node = $1"
	                " AND state NOT IN ('suspended', 'stopped', 'lost')"
	                " UNION SELECT disk_layer FROM vms WHERE disk_layer IS NOT NULL"
	                " AND node = $1 AND state NOT IN ('suspended', 'stopped', 'lost')"
	                " UNION SELECT p.mem_layer FROM points p JOIN templates ON templates.point"
	                " = p.id WHERE p.mem_layer IS NOT NULL"
	                " AND templates.key LIKE CAST($2 AS TEXT)"
	                " UNION SELECT p.disk_layer FROM points p JOIN templates ON templates.point"
	                " = p.id WHERE p.disk_layer IS NOT NULL"
	                " AND templates.key LIKE CAST($2 AS TEXT)"
	                " UNION SELECT l.parent FROM layers l JOIN busy ON l.id = busy.id"
	                " WHERE l.parent IS NOT NULL)"
	                "SELECT id FROM layers WHERE stored = 1"
	                " AND NOT EXISTS (SELECT 1 FROM busy WHERE busy.id = layers.id)",
	                err);
	if (r < 0)
		return r;
	query_bind_text(&q, s->node);
	query_bind_text(&q, node_key(s, "%", own));
	return read_ids(&q, ret_ids, ret_n, err);
}

/* ---- garbage ---- */

int object_garbage_locked(struct store *s, const char *object, uint32_t chunks, int64_t at_ms,
                          struct err *err)
{
	autoquery struct query q = { 0 };
	int r = query_begin(&q, s,
	                    "INSERT INTO object_garbage (object, chunks, at_ms) "
	                    "VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
	                    err);

	if (r < 0)
		return r;
	query_bind_text(&q, object);
	query_bind_i64(&q, chunks);
	query_bind_i64(&q, at_ms);
	return query_run(&q, err);
}

int store_object_garbage(struct store *s, int64_t before_ms, unsigned limit,
                         struct store_object_garbage **ret, size_t *ret_n, struct err *err)
{
	autofree struct store_object_garbage *v = calloc(limit, sizeof(*v));
	LOCK_SCOPE(&s->lock);
	autoquery struct query q = { 0 };
	size_t n = 0;
	int r;

	if (!v)
		return err_set(err, -ENOMEM, "out of memory");
	r = query_begin(&q, s,
	                "SELECT object, chunks FROM object_garbage WHERE at_ms <= $1 "
	                "ORDER BY at_ms, object LIMIT $2",
	                err);
	if (r < 0)
		return r;
	query_bind_i64(&q, before_ms);
	query_bind_i64(&q, limit);
	while ((r = query_step(&q, err)) > 0 && n < limit) {
		query_read_text(&q, v[n].object, sizeof(v[n].object));
		v[n++].chunks = (uint32_t)query_read_i64(&q, 0, UINT32_MAX);
	}
	if (r < 0 || (r = query_read_end(&q, err)) < 0)
		return r;
	*ret = TAKE_PTR(v);
	*ret_n = n;
	return 0;
}

int store_object_garbage_done(struct store *s, const char *object, struct err *err)
{
	autotx struct tx t = { 0 };
	const char *args[] = { object };
	int r;

	if ((r = tx_begin(&t, s, err)) < 0 ||
	    (r = run_text(s, "DELETE FROM object_garbage WHERE object = $1", args, 1, err)) < 0)
		return r;
	return tx_commit(&t, err);
}

int store_object_found(struct store *s, const char *object, uint32_t chunks, int64_t now_ms,
                       struct err *err)
{
	static const struct {
		const char *dir, *prefix, *known;
	} kinds[] = { { "layers/", "ly-", "SELECT COUNT(*) FROM layers WHERE id = $1" },
		      { "points/", "pt-", "SELECT COUNT(*) FROM points WHERE id = $1" },
		      { "packs/", PACK_ID_PREFIX,
		        "SELECT COUNT(*) FROM git_packs WHERE id = $1" } };
	const char *id = strchr(object, '/'), *known = NULL;
	autotx struct tx t = { 0 };
	int r;

	for (size_t i = 0; id && i < ARRAY_SIZE(kinds); i++)
		if (strncmp(object, kinds[i].dir, strlen(kinds[i].dir)) == 0 &&
		    id_valid(kinds[i].prefix, id + 1))
			known = kinds[i].known;
	if (!known)
		return 0; /* not ours to judge */
	if ((r = tx_begin(&t, s, err)) < 0 || (r = query_count(s, known, id + 1, err)) != 0)
		return MIN(r, 0);
	if ((r = object_garbage_locked(s, object, chunks, now_ms, err)) <= 0)
		return r;
	r = tx_commit(&t, err);
	return r < 0 ? r : 1;
}
