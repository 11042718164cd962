/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_store_pack.c - references and packs of repositories that are stored, against a model
 *
 * Two nodes write, each by what it last knew of the repository: it dies, comes back with old
 * knowledge, takes over, gives up. The model is what was acknowledged. After each step references
 * and packs are exactly that; what is late or behind is refused as a whole; and every pack that was
 * begun is a row or garbage.
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

#include "base/buf.h"
#include "store/store_node.h"
#include "store/store_pack.h"
#include "tests/unit/check.h"
#include "tests/unit/db_fx.h"
#include "tests/unit/tmpdir.h"

#define STEPS 400
#define REFS 6
#define ZERO "0000000000000000000000000000000000000000"
#define REPO "00000000-0000-4000-8000-000000000001"

struct world {
	struct tmpdir dir;
	char where[512];
	struct store *s;
	struct store_repo known[2]; /* what each node thinks */
	bool alive[2];
	bool stored; /* as it is */
	int owner;   /* -1: nobody */
	char at[REFS][STORE_SHA_SIZE];
	unsigned packs, begun, done, refused, taken;
};

static const char *const ids[] = { "nd-one", "nd-two" };

static void be(struct world *w, int i)
{
	store_be_node(w->s, ids[i], 1, &(struct vm_quota){ 0 });
}

static void poke(struct world *w, const char *sql)
{
	db_poke(w->where, sql);
}

static int setup(void **state)
{
	struct world *w = calloc(1, sizeof(*w));
	char sql[400];

	assert_int_equal(tmpdir_make(&w->dir), 0);
	OK(store_open(db_at(&w->dir, "packs.db", w->where, sizeof(w->where)), &w->s, &err));
	for (int i = 0; i < 2; i++) {
		snprintf(sql, sizeof(sql),
		         "INSERT INTO nodes (id, name, address, gen, beat, alive, draining, "
		         "joined_ms, version, vcpus, mem_mb, free_mb, running, pending) VALUES "
		         "('%s', '%s', 'a%d', 1, 1, 1, 0, 0, '', 1, 1, 1, 0, 0)",
		         ids[i], ids[i], i);
		poke(w, sql);
		w->alive[i] = true;
	}
	for (size_t i = 0; i < REFS; i++)
		snprintf(w->at[i], STORE_SHA_SIZE, "%s", ZERO);
	be(w, 0);
	struct store_repo r = { .id = REPO, .account = "ac-x" };
	OK(store_repo_add(w->s, &r, &err));
	OK(store_repo_get(w->s, REPO, &w->known[0], &err));
	w->known[1] = w->known[0];
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;

	store_close(w->s);
	tmpdir_remove(&w->dir);
	free(w);
	return 0;
}

static int count(struct world *w, const char *sql)
{
	struct buf b = { 0 };
	int n;

	db_dump(w->where, sql, &b);
	buf_put_u8(&b, 0);
	n = (int)strtol((char *)b.p, NULL, 10);
	buf_done(&b);
	return n;
}

static const char *name_of(size_t i, char buf[32])
{
	snprintf(buf, 32, "refs/heads/%zu", i);
	return buf;
}

static void begin_pack(struct world *w, char ret[ID_SIZE])
{
	struct store_pack p = { .repo = REPO, .account = "ac-x", .bytes = 10, .chunks = 1 };

	id_make(PACK_ID_PREFIX, p.id);
	OK(store_pack_begin(w->s, &p, &err));
	memcpy(ret, p.id, ID_SIZE);
	w->begun++;
}

static void random_sha(char ret[STORE_SHA_SIZE])
{
	uint8_t b[20];

	for (size_t i = 0; i < sizeof(b); i++)
		b[i] = (uint8_t)random();
	b[0] |= 1;
	hex_encode(b, sizeof(b), ret);
}

/* Node i writes what it thinks is right; may it? */
static void write_some(struct world *w, int i)
{
	bool all = !w->known[i].stored || random() % 20 == 0, wrong = random() % 6 == 0;
	char names[REFS][32], to[REFS][STORE_SHA_SIZE], was[REFS][STORE_SHA_SIZE], pack[ID_SIZE];
	struct store_ref_move m[REFS];
	struct store_repo_write wr = { .repo = &w->known[i], .moves = m, .all = all };
	struct store_repo now;
	uint64_t version = 0;
	bool may;
	int r;

	be(w, i);
	OK(store_repo_get(w->s, REPO, &now, &err));
	may = w->alive[i] && w->owner == i && now.version == w->known[i].version &&
	      now.epoch == w->known[i].epoch;
	if (!w->alive[i])
		assert_false(may);
	for (size_t k = 0; k < REFS; k++) {
		if (!all && random() % 3)
			continue;
		snprintf(was[k], STORE_SHA_SIZE, "%s", all ? ZERO : w->at[k]);
		if (wrong && !all && wr.n_moves == 0)
			random_sha(was[k]);
		random_sha(to[k]);
		if (!all && random() % 4 == 0)
			snprintf(to[k], STORE_SHA_SIZE, "%s", ZERO);
		m[wr.n_moves++] = (struct store_ref_move){ name_of(k, names[k]), was[k], to[k] };
	}
	if (wr.n_moves == 0)
		return;
	wrong = wrong && !all;
	begin_pack(w, pack);
	wr.pack = pack;
	wr.head = "refs/heads/main";
	r = store_repo_write(w->s, &wr, &version, &err);
	if (!may || wrong) {
		assert_int_equal(r, !may ? -ESTALE : -EEXIST);
		OK(store_pack_drop(w->s, pack, &err));
		w->refused++;
		return;
	}
	assert_int_equal(r, 0);
	assert_int_equal(version, now.version + 1);
	w->known[i].version = version;
	w->known[i].stored = w->stored = true;
	w->packs = all ? 1 : w->packs + 1;
	for (size_t k = 0; k < wr.n_moves; k++)
		snprintf(w->at[strtoul(m[k].name + 11, NULL, 10)], STORE_SHA_SIZE, "%s", m[k].to);
	w->done++;
}

static void repack(struct world *w, int i)
{
	char pack[ID_SIZE];
	struct store_repo_write wr = { .repo = &w->known[i], .pack = pack, .repack = true };
	uint64_t version = 0;

	if (w->owner != i || !w->alive[i] || w->known[i].version == 0)
		return;
	be(w, i);
	begin_pack(w, pack);
	OK(store_repo_write(w->s, &wr, &version, &err));
	assert_int_equal(version, w->known[i].version);
	w->packs = 1;
}

static void take(struct world *w, int i)
{
	struct store_repo row;
	bool free_now = w->owner < 0 || w->owner == i || !w->alive[w->owner];
	int r;

	be(w, i);
	r = store_repo_take(w->s, REPO, &row, &err);
	if (!w->alive[i]) {
		assert_int_equal(r, -ESTALE);
	} else if (!free_now || (w->owner != i && !w->stored)) {
		assert_int_equal(r, -EAGAIN);
	} else {
		assert_int_equal(r, 0);
		w->taken += w->owner != i;
		w->owner = i;
		w->known[i] = row;
	}
}

static void live_or_die(struct world *w, int i)
{
	char sql[100];

	w->alive[i] = !w->alive[i];
	snprintf(sql, sizeof(sql), "UPDATE nodes SET alive = %d WHERE id = '%s'", w->alive[i],
	         ids[i]);
	poke(w, sql);
}

static void give_up(struct world *w, int i)
{
	int r;

	be(w, i);
	r = store_repo_give_up(w->s, REPO, &err);
	if (!w->alive[i]) {
		assert_int_equal(r, -ESTALE);
		return;
	}
	assert_int_equal(r, w->owner == i && w->stored);
	if (r == 1)
		w->owner = -1;
}

static void check(struct world *w)
{
	struct store_refs refs;
	struct store_pack *v = NULL;
	size_t n = 0, k = 0;
	char name[32];

	OK(store_refs_get(w->s, REPO, &refs, &err));
	for (size_t i = 0; i < REFS; i++) {
		if (strcmp(w->at[i], ZERO) == 0)
			continue;
		assert_true(k < refs.n);
		assert_string_equal(refs.v[k].name, name_of(i, name));
		assert_string_equal(refs.v[k++].target, w->at[i]);
	}
	assert_int_equal(k, refs.n);
	store_refs_done(&refs);
	OK(store_packs_since(w->s, REPO, 0, &v, &n, &err));
	assert_int_equal(n, w->packs);
	free(v);
	assert_int_equal(count(w, "SELECT CAST((SELECT COUNT(*) FROM git_packs) + (SELECT COUNT(*) "
	                          "FROM object_garbage WHERE object LIKE 'packs/gp-%') AS TEXT)"),
	                 w->begun);
}

static void what_was_acknowledged_is_there(void **state)
{
	struct world *w = *state;

	srandom(7);
	for (unsigned step = 0; step < STEPS; step++) {
		int i = (int)(random() % 2);
		char left[ID_SIZE];

		if (!w->alive[i] && random() % 3 == 0)
			live_or_die(w, i);
		switch (random() % 12) {
		case 0:
			live_or_die(w, i);
			break;
		case 1:
			give_up(w, i);
			break;
		case 2:
			repack(w, i);
			break;
		case 3: /* a process ends between its rows */
			be(w, i);
			begin_pack(w, left);
			OK(store_packs_recover(w->s, &err));
			break;
		case 4:
		case 5:
		case 6:
			take(w, i);
			break;
		default:
			write_some(w, i);
		}
		check(w);
	}
	assert_true(w->done > 30 && w->refused > 30 && w->taken > 10);
}

static void a_repository_goes_with_its_packs(void **state)
{
	struct world *w = *state;

	w->known[0].stored = false;
	while (!w->done)
		write_some(w, 0);
	check(w);
	be(w, 1); /* not while its owner lives */
	FAILS(-ESTALE, store_repo_delete(w->s, REPO, &err));
	live_or_die(w, 0);
	OK(store_repo_delete(w->s, REPO, &err));
	assert_int_equal(count(w, "SELECT CAST(COUNT(*) AS TEXT) FROM git_refs"), 0);
	assert_int_equal(count(w, "SELECT CAST(COUNT(*) AS TEXT) FROM git_packs"), 0);
	assert_true(count(w, "SELECT CAST(COUNT(*) AS TEXT) FROM object_garbage") > 0);
}

static void large_files_keep_it_on_its_node(void **state)
{
	struct world *w = *state;
	struct store_lfs l = { .repo = REPO, .account = "ac-x", .bytes = 1 };
	struct store_repo row;

	memset(l.oid, 'a', LFS_OID_SIZE - 1);
	while (!w->done)
		write_some(w, 0);
	OK(store_lfs_add(w->s, &l, &err));
	assert_int_equal(store_repo_give_up(w->s, REPO, &err), 0);
	live_or_die(w, 0);
	be(w, 1);
	FAILS(-EAGAIN, store_repo_take(w->s, REPO, &row, &err));
	assert_non_null(strstr(err.msg, "large files"));
	FAILS(-EBUSY, store_node_remove(w->s, ids[0], /* lose= */ false, &err));
	OK(store_node_remove(w->s, ids[0], /* lose= */ true, &err));
	OK(store_repo_take(w->s, REPO, &row, &err));
	FAILS(-ENOENT, store_lfs_get(w->s, REPO, l.oid, &l, &err));
}

/* A node that is removed leaves what is stored, and only that. */
static void a_removed_node_leaves_what_is_stored(void **state)
{
	struct world *w = *state;
	struct store_repo other = { .id = "00000000-0000-4000-8000-000000000002",
		                    .account = "ac-x" };
	struct store_repo row;

	OK(store_repo_add(w->s, &other, &err));
	while (!w->done)
		write_some(w, 0);
	live_or_die(w, 0);
	be(w, 1);
	FAILS(-EBUSY, store_node_remove(w->s, ids[0], /* lose= */ false, &err));
	assert_non_null(strstr(err.msg, "1 repositories"));
	OK(store_node_remove(w->s, ids[0], /* lose= */ true, &err));
	FAILS(-ENOENT, store_repo_get(w->s, other.id, &row, &err));
	OK(store_repo_take(w->s, REPO, &row, &err));
	assert_string_equal(row.node, ids[1]);
	assert_true(row.stored);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_was_acknowledged_is_there, setup, teardown),
		cmocka_unit_test_setup_teardown(a_repository_goes_with_its_packs, setup, teardown),
		cmocka_unit_test_setup_teardown(large_files_keep_it_on_its_node, setup, teardown),
		cmocka_unit_test_setup_teardown(a_removed_node_leaves_what_is_stored, setup,
		                                teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
