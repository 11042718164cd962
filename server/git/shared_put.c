/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shared_put.c - references and what they reach, stored for all nodes
 *
 * What is uploaded is what the new references reach and the stored ones do not, as one pack that
 * stands by itself. git pack-objects makes it, in a jail, from the quarantine of a push or from the
 * repository, and not from what a client happened to send: an object that is here by chance (left
 * by a push that failed, or by a branch that was deleted) is in it, too. So at any time the stored
 * packs have all that the stored references reach.
 *
 * First the pack's row, then its objects, then the transaction that makes it part of the repository
 * and moves the references. What fails before that leaves garbage that is known.
 */
#include "git/shared.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/id.h"
#include "base/io.h"
#include "base/log.h"
#include "git/sync_internal.h"
#include "objects/objects.h"

#define PACK_MS (30 * 60000u) /* for one pack to be made */
#define PACK_HEAD 12          /* bytes of it: "PACK", version, number of objects */
#define SHALLOW_MAX (16u << 20)
#define PACKS_FEW 30 /* of a repository, that are fetched one by one */
#define PACKS_MANY 300

/* ---- a pack ---- */

struct pack_file {
	int fd; /* owned; without a name */
	uint64_t bytes;
	uint32_t objects;
};

static void pack_file_done(struct pack_file *f)
{
	if (f->fd >= 0)
		close(f->fd);
}

static int take_piece(void *ctx, const uint8_t *p, size_t n, struct err *err)
{
	struct pack_file *f = ctx;
	int r = io_write_all(f->fd, p, n);

	f->bytes += n;
	return r < 0 ? err_sys(err, r, "write a pack") : 0;
}

/* revs: what pack-objects reads, "hash" and "^hash" in lines. */
static int pack_make(struct repos *g, const char *path, const char *quarantine,
                     const struct buf *revs, struct pack_file *ret, struct err *err)
{
	static const char *const argv[] = { GIT_PROGRAM, "pack-objects",        "--revs",
		                            "--stdout",  "--delta-base-offset", "--quiet",
		                            NULL };
	char objects[128], dir[PATH_MAX];
	const char *env[] = { objects, "GIT_ALTERNATE_OBJECT_DIRECTORIES=objects", NULL };
	struct run_opts o = { .repo = path,
		              .argv = argv,
		              .env = *quarantine ? env : NULL,
		              .in = revs->p,
		              .in_len = revs->len,
		              .limit_ms = PACK_MS,
		              .mem_mb = SERVICE_MB,
		              .each = take_piece,
		              .ctx = ret };
	autorun struct run_result res = { 0 };
	uint8_t head[PACK_HEAD];
	int r;

	snprintf(objects, sizeof(objects), "GIT_OBJECT_DIRECTORY=objects/%.80s", quarantine);
	repos_path(g, "tmp", "", dir);
	ret->fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (ret->fd < 0)
		return err_sys(err, -errno, "make a file for a pack");
	if ((r = run_git(g, &o, &res, err)) < 0)
		return r;
	if (res.status != 0 || io_pread_all(ret->fd, head, sizeof(head), 0) < 0)
		return err_tag(err, -EIO, ERR_GIT_ERROR,
		               "git cannot pack what is to be stored: %.200s",
		               res.err_text.p ? (char *)res.err_text.p : "");
	ret->objects = (uint32_t)head[8] << 24 | (uint32_t)head[9] << 16 | (uint32_t)head[10] << 8 |
	               head[11];
	return 0;
}

static int upload(struct slot *s, const struct pack_file *f, char ret_id[ID_SIZE], struct err *err)
{
	struct objects_transfer t = { .put = true, .fd = f->fd, .bytes = f->bytes };
	struct objects *o = s->g->conf.objects;
	struct store_pack row = { .bytes = f->bytes, .chunks = objects_chunks(f->bytes) };
	char name[STORE_OBJECT_SIZE];
	int r;

	id_make(PACK_ID_PREFIX, row.id);
	memcpy(row.repo, s->row.id, sizeof(row.repo));
	memcpy(row.account, s->row.account, sizeof(row.account));
	if ((r = objects_claim(o, err)) < 0 ||
	    (r = store_object_key(s->g->store, row.account, t.key, err)) < 0 ||
	    (r = store_pack_begin(s->g->store, &row, err)) < 0)
		return r;
	memcpy(ret_id, row.id, ID_SIZE);
	snprintf(t.name, sizeof(t.name), "%s", pack_object_name(row.id, name));
	if ((r = objects_begin(o, &t, err)) == 0)
		r = objects_wait(o, &t, err);
	explicit_bzero(t.key, sizeof(t.key));
	return r;
}

static int not_stored(int r, struct err *err)
{
	char why[sizeof(err->msg)];

	if (r == -EEXIST || r == -ESTALE || err->tag != ERR_NONE)
		return r;
	snprintf(why, sizeof(why), "%s", err->msg);
	return err_tag(err, r, ERR_SERVICE_UNAVAILABLE, "the change cannot be stored now: %s", why);
}

/* The pack, if anything is in it, then the transaction. */
static int put(struct slot *s, const char *path, const char *quarantine, const struct buf *revs,
               const struct store_repo_write *what, struct err *err)
{
	struct store_repo_write w = *what;
	AUTO(pack_file_done) struct pack_file f = { .fd = -1 };
	char id[ID_SIZE] = "";
	int r = 0;

	w.repo = &s->row;
	if (revs->failed)
		return err_set(err, -ENOMEM, "out of memory");
	if (revs->len && (r = pack_make(s->g, path, quarantine, revs, &f, err)) < 0)
		return r;
	if (f.objects)
		r = upload(s, &f, id, err);
	w.pack = *id ? id : NULL;
	if (r == 0)
		r = store_repo_write(s->g->store, &w, &s->to, err);
	if (r < 0) {
		if (*id) /* nothing, if it was stored after all */
			store_pack_drop(s->g->store, id, NULL);
		return not_stored(r, err);
	}
	s->row.version = s->to;
	s->row.stored = true;
	return 0;
}

/* ---- what is to be there, and what is there already ---- */

static bool is_zero(const char *sha)
{
	return sha[strspn(sha, "0")] == '\0';
}

static int read_shallow(const char *path, char **ret, struct err *err)
{
	char file[PATH_MAX];

	*ret = NULL;
	snprintf(file, sizeof(file), "%.4000s/shallow", path);
	if (access(file, F_OK) < 0) {
		*ret = strdup("");
		return *ret ? 0 : err_set(err, -ENOMEM, "out of memory");
	}
	return io_read_file(AT_FDCWD, file, SHALLOW_MAX, ret, err);
}

/* Would Git take it, and is there no reference that is a directory of the other? */
static int check_name(git_repository *repo, const struct repo_update *u, struct err *err)
{
	char part[REPO_REF_SIZE + 4];
	autorefs *it = NULL;
	const char *name;
	git_oid id;
	int ok = 0;

	if (strncmp(u->ref, "refs/", 5) != 0 || git_reference_name_is_valid(&ok, u->ref) < 0 || !ok)
		return err_tag(err, -EINVAL, ERR_GIT_INVALID_REQUEST,
		               "'%.200s' is not a valid name of a reference", u->ref);
	if (is_zero(u->new_sha) || !is_zero(u->old_sha))
		return 0;
	snprintf(part, sizeof(part), "%s", u->ref);
	for (char *slash; (slash = strrchr(part, '/')) && slash > part + 5;) {
		*slash = '\0';
		if (git_reference_name_to_id(&id, repo, part) == 0)
			return err_tag(err, -EINVAL, ERR_CONFLICT,
			               "'%.200s' cannot be made: there is a reference '%.200s'",
			               u->ref, part);
	}
	snprintf(part, sizeof(part), "%s/*", u->ref);
	if (git_reference_iterator_glob_new(&it, repo, part) == 0 &&
	    git_reference_next_name(&name, it) == 0)
		return err_tag(err, -EINVAL, ERR_CONFLICT,
		               "'%.200s' cannot be made: there is a reference '%.200s'", u->ref,
		               name);
	return 0;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Of two names of one push, one must not be a directory of the other either. */
static int check_each_other(const struct repo_update *u, size_t n, struct err *err)
{
	autofree const char **v = calloc(n + 1, sizeof(*v));
	size_t k = 0;

	if (!v)
		return err_set(err, -ENOMEM, "out of memory");
	for (size_t i = 0; i < n; i++)
		if (!is_zero(u[i].new_sha))
			v[k++] = u[i].ref;
	qsort(v, k, sizeof(*v), by_name);
	for (size_t i = 0; i < k; i++) {
		char part[REPO_REF_SIZE];
		const char *p = part;

		snprintf(part, sizeof(part), "%s", v[i]);
		for (char *slash; (slash = strrchr(part, '/'));) {
			*slash = '\0';
			if (bsearch(&p, v, k, sizeof(*v), by_name))
				return err_tag(err, -EINVAL, ERR_CONFLICT,
				               "'%.200s' and '%.200s' cannot both be there", part,
				               v[i]);
		}
	}
	return 0;
}

static int check_names(const char *path, const struct repo_update *u, size_t n, struct err *err)
{
	autorepo *repo = NULL;
	int r = git_repository_open_bare(&repo, path);

	if (r < 0)
		return git_fail(r, "open the repository", err);
	for (size_t i = 0; r == 0 && i < n; i++)
		r = check_name(repo, &u[i], err);
	return r < 0 ? r : check_each_other(u, n, err);
}

static bool is_target(const struct store_refs *have, const char *sha)
{
	for (size_t i = 0; i < have->n; i++)
		if (strcmp(have->v[i].target, sha) == 0)
			return true;
	return false;
}

/* New ones without those that are there: nothing, if all of them are. */
static void make_revs(const struct repo_update *u, size_t n, const struct store_refs *have,
                      struct buf *ret)
{
	bool any = false;

	for (size_t i = 0; i < n; i++)
		if (!is_zero(u[i].new_sha) && !is_target(have, u[i].new_sha)) {
			buf_printf(ret, "%s\n", u[i].new_sha);
			any = true;
		}
	for (size_t i = 0; any && i < have->n; i++)
		buf_printf(ret, "^%s\n", have->v[i].target);
}

int slot_write(struct slot *s, const char *quarantine, const struct repo_update *u, size_t n,
               struct err *err)
{
	AUTO(store_refs_done) struct store_refs have = { 0 };
	autofree struct store_ref_move *moves = NULL;
	struct store_repo_write w = { 0 };
	autofree char *shallow = NULL;
	autobuf struct buf revs = { 0 };
	char path[PATH_MAX];
	int r;

	if (!s)
		return 0;
	repo_path(s->g, s->row.id, path);
	moves = calloc(n + 1, sizeof(*moves));
	if (!moves)
		return err_set(err, -ENOMEM, "out of memory");
	if ((r = check_names(path, u, n, err)) < 0 ||
	    (r = store_refs_get(s->g->store, s->row.id, &have, err)) < 0 ||
	    (r = read_shallow(path, &shallow, err)) < 0)
		return r;
	for (size_t i = 0; i < n; i++)
		moves[w.n_moves++] = (struct store_ref_move){ .name = u[i].ref,
			                                      .was = u[i].old_sha,
			                                      .to = u[i].new_sha };
	w.moves = moves;
	w.shallow = strcmp(shallow, have.shallow) ? shallow : NULL;
	make_revs(u, n, &have, &revs);
	return put(s, path, quarantine, &revs, &w, err);
}

int slot_head(struct slot *s, const char *ref, struct err *err)
{
	struct store_repo_write w = { .head = ref };
	autobuf struct buf none = { 0 };

	return s ? put(s, "", "", &none, &w, err) : 0;
}

/* ---- all of it ---- */

struct all_refs {
	struct repo_update *v; /* owned */
	size_t n, cap;
};

static int collect(git_repository *repo, struct all_refs *ret, struct err *err)
{
	autorefs *it = NULL;
	int rc = git_reference_iterator_new(&it, repo);

	while (rc == 0) {
		autoref *ref = NULL;
		struct repo_update *u;

		if ((rc = git_reference_next(&ref, it)) < 0)
			break;
		if (!git_reference_target(ref) ||
		    strncmp(git_reference_name(ref), SYNC_THERE, strlen(SYNC_THERE)) == 0)
			continue; /* the next round of a mirror fetches those again */
		if (ret->n == ret->cap) {
			size_t cap = ret->cap ? 2 * ret->cap : 64;
			void *p = reallocarray(ret->v, cap, sizeof(*ret->v));

			if (!p)
				return err_set(err, -ENOMEM, "out of memory");
			ret->v = p;
			ret->cap = cap;
		}
		u = &ret->v[ret->n++];
		snprintf(u->ref, sizeof(u->ref), "%s", git_reference_name(ref));
		memset(u->old_sha, '0', REPO_SHA_SIZE - 1);
		u->old_sha[REPO_SHA_SIZE - 1] = '\0';
		git_oid_tostr(u->new_sha, sizeof(u->new_sha), git_reference_target(ref));
	}
	return rc == GIT_ITEROVER ? 0 : git_fail(rc, "list references", err);
}

int put_all(struct slot *s, const char *path, struct err *err)
{
	const struct store_refs none = { 0 };
	struct store_repo_write w = { .all = true };
	autofree struct store_ref_move *moves = NULL;
	autofree char *shallow = NULL;
	autobuf struct buf revs = { 0 };
	char branch[REPO_REF_SIZE], head[REPO_REF_SIZE + 12];
	struct all_refs all = { 0 };
	autorepo *repo = NULL;
	int r = git_repository_open_bare(&repo, path);

	if (r < 0)
		return git_fail(r, "open the repository", err);
	if ((r = rev_head(repo, branch, err)) < 0 || (r = collect(repo, &all, err)) < 0 ||
	    (r = read_shallow(path, &shallow, err)) < 0 ||
	    !(moves = calloc(all.n + 1, sizeof(*moves)))) {
		free(all.v);
		return r < 0 ? r : err_set(err, -ENOMEM, "out of memory");
	}
	for (size_t i = 0; i < all.n; i++)
		moves[w.n_moves++] = (struct store_ref_move){ .name = all.v[i].ref,
			                                      .was = all.v[i].old_sha,
			                                      .to = all.v[i].new_sha };
	snprintf(head, sizeof(head), "refs/heads/%s", branch);
	w.moves = moves;
	w.head = head;
	w.shallow = shallow;
	make_revs(all.v, all.n, &none, &revs);
	r = put(s, path, "", &revs, &w, err);
	free(all.v);
	return r;
}

/* ---- many packs ---- */

/* Many, and together not small beside the largest: else that would be uploaded again and again. */
static bool wants_repack(const struct store_pack *v, size_t n)
{
	uint64_t sum = 0, largest = 0;

	for (size_t i = 0; i < n; i++) {
		sum += v[i].bytes;
		largest = MAX(largest, v[i].bytes);
	}
	return n > PACKS_FEW && (n > PACKS_MANY || (sum - largest) * 4 >= largest);
}

int slot_repack(struct slot *s, struct err *err)
{
	AUTO(store_refs_done) struct store_refs have = { 0 };
	struct store_repo_write w = { .repack = true };
	autofree struct store_pack *v = NULL;
	autobuf struct buf revs = { 0 };
	char path[PATH_MAX];
	size_t n = 0;
	int r;

	if (!s)
		return 0;
	if ((r = store_packs_since(s->g->store, s->row.id, 0, &v, &n, err)) < 0 ||
	    !wants_repack(v, n) || (r = store_refs_get(s->g->store, s->row.id, &have, err)) < 0)
		return r;
	for (size_t i = 0; i < have.n; i++)
		buf_printf(&revs, "%s\n", have.v[i].target);
	repo_path(s->g, s->row.id, path);
	if ((r = put(s, path, "", &revs, &w, err)) < 0)
		return r;
	s->to = 0; /* references are what they were */
	log_info("repository %s: %zu packs of the object store became one", s->row.id, n);
	return 0;
}
