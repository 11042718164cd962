/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sync_round.c - one round of a mirror
 *
 * Three hashes decide about a reference: here, there, and the base, what both had when they last
 * agreed. The side that still is at the base takes over the other's; if both moved, the one that
 * contains the other wins; otherwise it is a conflict. A branch only ever moves forward. Every step
 * can be interrupted: the next round finds two sides that agree, or the same question.
 */
#include <errno.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/json_field.h"
#include "git/graph.h"
#include "git/shared.h"
#include "git/sync_internal.h"

#define REFS_MAX 20000u
#define ROUND_MS (20u * 60 * 1000)     /* for one round, with all that it fetches and pushes */
#define ROUND_BYTES (INT64_C(4) << 30) /* that it receives */
#define SAYS_MAX (8u << 20)
#define FETCH_HEADS ("+refs/heads/*:" SYNC_THERE "heads/*")
#define FETCH_TAGS ("+refs/tags/*:" SYNC_THERE "tags/*")
#define PUSH_BATCH 50    /* references in one push */
#define CONFLICTS_MAX 20 /* listed; as JSON they fit into SYNC_CONFLICTS_SIZE */

struct item {
	char ref[REPO_REF_SIZE]; /* "heads/main", "tags/v1" */
	git_oid here, there, base;
	bool push; /* there is to become as here */
	bool pull; /* here is to become as there */
	bool agreed;
};
struct round {
	struct repos *g;
	const struct store_repo *r;
	const struct store_sync *y;
	char path[PATH_MAX];
	git_repository *repo; /* owned */
	struct item *v;       /* owned, sorted */
	size_t n, cap;
	struct repo_update *moved; /* owned: here */
	size_t n_moved;
	char head[REPO_REF_SIZE];
	char auth[1024];
	json_t *conflicts; /* borrowed */
	struct note note;
	int stop_fd;
	uint64_t deadline;
	int64_t room; /* bytes it may still fetch */
};

static void round_done(struct round *d)
{
	note_close(&d->note);
	git_repository_free(d->repo);
	free(d->v);
	free(d->moved);
	OPENSSL_cleanse(d->auth, sizeof(d->auth));
}

static int too_long(struct err *err)
{
	return err_tag(err, -ETIMEDOUT, ERR_GIT_HUB_SYNC_FAILED, "it took longer than %u minutes",
	               ROUND_MS / 60000);
}

static int run_net(struct round *d, const char *const *argv, bool write, struct run_result *res,
                   struct err *err)
{
	const char *env[] = { "GIT_CONFIG_COUNT=2",
		              "GIT_CONFIG_KEY_0=http.followRedirects",
		              "GIT_CONFIG_VALUE_0=false",
		              "GIT_CONFIG_KEY_1=http.extraHeader",
		              d->auth,
		              NULL };
	int r;

	if (deadline_left(d->deadline) == 0)
		return too_long(err);
	if (!*d->auth) {
		env[0] = "GIT_CONFIG_COUNT=1";
		env[3] = NULL;
	}
	r = run_git(d->g,
	            &(struct run_opts){ .repo = d->path,
	                                .stop_fd = d->stop_fd,
	                                .argv = argv,
	                                .env = env,
	                                .network = true,
	                                .write = write,
	                                .out_max = SAYS_MAX,
	                                .mem_mb = SERVICE_MB,
	                                .net_max = d->room,
	                                .limit_ms = (unsigned)deadline_left(d->deadline) },
	            res, err);
	return r == -ETIMEDOUT ? too_long(err) : r;
}

static int net_failed(const struct run_result *res, const char *what, struct err *err)
{
	const char *text = res->err_text.len ? (const char *)res->err_text.p : "";
	const char *fatal = strstr(text, "fatal: "), *refusal = strstr(text, "\nproxy: ");

	if (refusal && strstr(refusal, "MiB"))
		text = refusal + 8;
	else if (fatal)
		text = fatal + 7;
	return err_tag(err, -EIO, ERR_GIT_HUB_SYNC_FAILED, "%s: %.*s", what,
	               (int)MIN(strcspn(text, "\n"), (size_t)180), text);
}

static void make_auth(struct round *d, const char *token)
{
	unsigned char plain[600], text[832];
	int n;

	if (!*token)
		return;
	n = snprintf((char *)plain, sizeof(plain), "x-access-token:%s", token);
	EVP_EncodeBlock(text, plain, MIN(n, (int)sizeof(plain) - 1));
	snprintf(d->auth, sizeof(d->auth), "GIT_CONFIG_VALUE_1=Authorization: Basic %s", text);
	OPENSSL_cleanse(plain, sizeof(plain));
	OPENSSL_cleanse(text, sizeof(text));
}

static int fetch(struct round *d, struct err *err)
{
	const char *const argv[] = { GIT_PROGRAM,
		                     "fetch",
		                     "--quiet",
		                     "--prune",
		                     "--no-tags",
		                     "--no-write-fetch-head",
		                     "--no-auto-maintenance",
		                     "--no-recurse-submodules",
		                     "--",
		                     d->y->url,
		                     FETCH_HEADS,
		                     FETCH_TAGS,
		                     NULL };
	autorun struct run_result res = { 0 };
	int r = run_net(d, argv, true, &res, err);

	if (r < 0)
		return r;
	return res.status == 0 ? 0 : net_failed(&res, "cannot fetch", err);
}

/* ---- what there is ---- */

static int by_ref(const void *a, const void *b)
{
	return strcmp(((const struct item *)a)->ref, ((const struct item *)b)->ref);
}

static int collect(struct round *d, const char *glob, size_t skip, size_t off, struct err *err)
{
	autorefs *it = NULL;
	git_reference *ref;
	int rc = git_reference_iterator_glob_new(&it, d->repo, glob);

	while (rc == 0 && (rc = git_reference_next(&ref, it)) == 0) {
		const git_oid *id = git_reference_target(ref);
		const char *name = git_reference_name(ref) + skip;

		if (d->n == d->cap) {
			size_t cap = d->cap ? d->cap * 2 : 64;
			struct item *v = realloc(d->v, cap * sizeof(*v));

			if (!v || cap > (size_t)REFS_MAX * 4) {
				d->v = v ? v : d->v;
				git_reference_free(ref);
				return err_set(err, -E2BIG, "too many references");
			}
			d->v = v;
			d->cap = cap;
		}
		if (id && strlen(name) < REPO_REF_SIZE - 40) {
			struct item *i = &d->v[d->n++];

			memset(i, 0, sizeof(*i));
			snprintf(i->ref, sizeof(i->ref), "%s", name);
			git_oid_cpy((git_oid *)(void *)((char *)i + off), id);
		}
		git_reference_free(ref);
	}
	return rc == GIT_ITEROVER ? 0 : git_fail(rc, "list references", err);
}

static void take_over(git_oid *dst, const git_oid *src)
{
	if (!git_oid_is_zero(src))
		git_oid_cpy(dst, src);
}

static int collect_all(struct round *d, struct err *err)
{
	static const char *const kinds[] = { "heads/*", "tags/*" };
	static const struct {
		const char *prefix;
		size_t off;
	} from[] = { { "refs/", offsetof(struct item, here) },
		     { SYNC_THERE, offsetof(struct item, there) },
		     { SYNC_BASE, offsetof(struct item, base) } };
	size_t k = 0;
	char glob[64];
	int r;

	for (size_t f = 0; f < ARRAY_SIZE(from); f++)
		for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
			snprintf(glob, sizeof(glob), "%s%s", from[f].prefix, kinds[i]);
			r = collect(d, glob, strlen(from[f].prefix), from[f].off, err);
			if (r < 0)
				return r;
		}
	if (d->n == 0)
		return 0;
	qsort(d->v, d->n, sizeof(*d->v), by_ref);
	for (size_t i = 1; i < d->n; i++) {
		if (strcmp(d->v[k].ref, d->v[i].ref) != 0) {
			d->v[++k] = d->v[i];
			continue;
		}
		take_over(&d->v[k].here, &d->v[i].here);
		take_over(&d->v[k].there, &d->v[i].there);
		take_over(&d->v[k].base, &d->v[i].base);
	}
	d->n = k + 1;
	return 0;
}

/* ---- decisions ---- */

static json_t *sha_json(const git_oid *id)
{
	char sha[REPO_SHA_SIZE];

	return git_oid_is_zero(id) ? json_null() : json_string(git_oid_tostr(sha, sizeof(sha), id));
}

static void conflict(struct round *d, const struct item *i, const char *why)
{
	json_t *j;

	if (json_array_size(d->conflicts) >= CONFLICTS_MAX)
		return;
	j = json_pack("{s:o, s:o, s:o, s:s}", "ref", json_text(i->ref, strlen(i->ref)), "local",
	              sha_json(&i->here), "remote", sha_json(&i->there), "reason", why);
	json_array_append_new(d->conflicts, j);
}

/* Moves, makes or deletes a reference here; 0: somebody was quicker. */
static int move_here(struct round *d, struct item *i, const char *name, struct err *err)
{
	autoref *old = NULL, *ref = NULL;
	int rc;

	if (git_oid_is_zero(&i->there)) {
		rc = git_reference_lookup(&old, d->repo, name);
		if (rc == 0 && !git_oid_equal(git_reference_target(old), &i->here))
			rc = GIT_EMODIFIED;
		if (rc == 0)
			rc = git_reference_delete(old);
	} else if (git_oid_is_zero(&i->here)) {
		rc = git_reference_create(&ref, d->repo, name, &i->there, 0, NULL);
	} else {
		rc = git_reference_create_matching(&ref, d->repo, name, &i->there, 1, &i->here,
		                                   NULL);
	}
	if (rc == GIT_EMODIFIED || rc == GIT_EEXISTS || rc == GIT_ELOCKED || rc == GIT_ENOTFOUND)
		return 0; /* the push that did it has asked for another round */
	if (rc < 0)
		return git_fail(rc, "move a reference", err);
	git_oid_cpy(&i->here, &i->there);
	i->agreed = true;
	return 1;
}

/* All that is taken over from there: noted down and flushed as one, then moved one by one. */
static int pull_all(struct round *d, struct err *err)
{
	struct repo_update *u = d->moved;
	size_t n = 0, k = 0;
	int r;

	for (size_t i = 0; i < d->n; i++) {
		const struct item *it = &d->v[i];

		if (!it->pull)
			continue;
		snprintf(u[n].ref, sizeof(u[n].ref), "refs/%.*s", (int)sizeof(u[n].ref) - 6,
		         it->ref);
		git_oid_tostr(u[n].old_sha, sizeof(u[n].old_sha), &it->here);
		git_oid_tostr(u[n].new_sha, sizeof(u[n].new_sha), &it->there);
		n++;
	}
	if (n == 0)
		return 0;
	r = note_plan(&d->note, u, n, err);
	for (size_t i = 0; r >= 0 && i < d->n; i++) {
		if (!d->v[i].pull)
			continue;
		r = move_here(d, &d->v[i], u[k].ref, err);
		if (r > 0) /* those that have moved come to stand at the beginning */
			u[d->n_moved++] = u[k];
		k++;
	}
	return MIN(r, 0);
}

/* Both are there and differ: which one contains the other? */
static int decide_both(struct round *d, struct item *i, struct err *err)
{
	struct graph gr = { .g = d->g, .r = d->r, .repo = d->repo };
	int forward;

	if (strncmp(i->ref, "tags/", 5) == 0) {
		conflict(d, i, "the tag differs");
		return 0;
	}
	forward = graph_before(&gr, &i->here, &i->there, err);
	if (forward < 0)
		return forward;
	if (forward) {
		i->pull = true;
		return 0;
	}
	forward = graph_before(&gr, &i->there, &i->here, err);
	if (forward < 0)
		return forward;
	if (forward)
		i->push = true;
	else
		conflict(d, i, "the branch has diverged");
	return 0;
}

static int decide(struct round *d, struct item *i, struct err *err)
{
	bool here = !git_oid_is_zero(&i->here), there = !git_oid_is_zero(&i->there);

	if (git_oid_equal(&i->here, &i->there)) {
		i->agreed = true;
		return 0;
	}
	if (here && there)
		return decide_both(d, i, err);
	if (git_oid_is_zero(&i->base)) { /* new on one side */
		i->push = here;
		i->pull = there;
		return 0;
	}
	if (here && !git_oid_equal(&i->here, &i->base)) {
		conflict(d, i, "it was deleted there and changed here");
	} else if (there && !git_oid_equal(&i->there, &i->base)) {
		conflict(d, i, "it was deleted here and changed there");
	} else if (here && strncmp(i->ref, "heads/", 6) == 0 && strcmp(i->ref + 6, d->head) == 0) {
		conflict(d, i, "it was deleted there but is the default branch here");
	} else {
		i->pull = here;
		i->push = there;
	}
	return 0;
}

/* ---- pushing ---- */

/* "!\t<from>:<to>\t...": those are not agreed upon. */
static void read_push(struct round *d, const struct buf *out)
{
	autofree char *text = strndup(out->len ? (char *)out->p : "", out->len);
	char *save = NULL;

	for (char *p = text ? strtok_r(text, "\n", &save) : NULL; p;
	     p = strtok_r(NULL, "\n", &save)) {
		struct item key, *i;
		char *to = strstr(p, ":refs/"), *end = to ? strchr(to, '\t') : NULL;

		if (!end || p[1] != '\t' || p[0] == '!')
			continue;
		*end = '\0';
		snprintf(key.ref, sizeof(key.ref), "%s", to + 6);
		i = bsearch(&key, d->v, d->n, sizeof(*d->v), by_ref);
		if (i)
			i->agreed = true;
	}
}

/* What is pushed contains what is there, or nothing is there; the lease sees to it that it still
 * is. */
static int push_some(struct round *d, size_t *at, struct err *err)
{
	char specs[PUSH_BATCH][REPO_REF_SIZE + 64], leases[PUSH_BATCH][REPO_REF_SIZE + 80];
	const char *argv[2 * PUSH_BATCH + 12] = { GIT_PROGRAM, "push", "--porcelain",
		                                  "--no-verify" };
	char old[REPO_SHA_SIZE], new[REPO_SHA_SIZE];
	autorun struct run_result res = { 0 };
	size_t k = 0, n = 4;
	int r;

	for (; *at < d->n && k < PUSH_BATCH; ++*at) {
		const struct item *i = &d->v[*at];
		bool gone = git_oid_is_zero(&i->here);

		if (!i->push)
			continue;
		git_oid_tostr(old, sizeof(old), &i->there);
		git_oid_tostr(new, sizeof(new), &i->here);
		snprintf(leases[k], sizeof(leases[k]), "--force-with-lease=refs/%s:%s", i->ref,
		         git_oid_is_zero(&i->there) ? "" : old);
		snprintf(specs[k], sizeof(specs[k]), "%s:refs/%s", gone ? "" : new, i->ref);
		k++;
	}
	if (k == 0)
		return 0;
	for (size_t i = 0; i < k; i++)
		argv[n++] = leases[i];
	argv[n++] = "--";
	argv[n++] = d->y->url;
	for (size_t i = 0; i < k; i++)
		argv[n++] = specs[i];
	r = run_net(d, argv, false, &res, err);
	if (r < 0)
		return r;
	read_push(d, &res.out);
	if (res.status != 0 && !memmem(res.out.p ? res.out.p : (void *)"", res.out.len, "\t", 1))
		return net_failed(&res, "cannot push", err);
	return 0;
}

/* Where it was and where both agree that it is now; false: it is there. */
static bool to_remember(const struct item *i, struct repo_update *ret)
{
	if (!i->agreed || git_oid_equal(&i->here, &i->base))
		return false;
	snprintf(ret->ref, sizeof(ret->ref), SYNC_BASE "%.*s", REPO_REF_SIZE - 32, i->ref);
	git_oid_tostr(ret->old_sha, sizeof(ret->old_sha), &i->base);
	git_oid_tostr(ret->new_sha, sizeof(ret->new_sha), &i->here);
	return true;
}

static int remember_one(git_repository *repo, const struct repo_update *u, struct err *err)
{
	autoref *ref = NULL;
	git_oid to;
	int rc = git_oid_fromstr(&to, u->new_sha);

	if (rc == 0 && git_oid_is_zero(&to))
		rc = git_reference_remove(repo, u->ref);
	else if (rc == 0)
		rc = git_reference_create(&ref, repo, u->ref, &to, 1, NULL);
	return rc < 0 && rc != GIT_ENOTFOUND ? git_fail(rc, "record a reference", err) : 0;
}

static int remember(struct round *d, struct err *err)
{
	struct repo_update *u = d->moved; /* as large as there are items; told by now */
	size_t n = 0;
	int r;

	for (size_t k = 0; k < d->n; k++)
		n += to_remember(&d->v[k], &u[n]);
	if (n == 0)
		return 0;
	r = slot_write(d->note.slot, "", u, n, err);
	for (size_t k = 0; r == 0 && k < n; k++)
		r = remember_one(d->repo, &u[k], err);
	if (r == 0)
		slot_moved(d->note.slot);
	return r;
}

static int round_run(struct round *d, struct err *err)
{
	size_t at = 0;
	int r, told;

	if ((r = fetch(d, err)) < 0 || (r = note_hold(&d->note, err)) < 0 ||
	    (r = repo_open(d->g, d->r, &d->repo, err)) < 0 ||
	    (r = rev_head(d->repo, d->head, err)) < 0 || (r = collect_all(d, err)) < 0)
		return r;
	d->moved = calloc(d->n + 1, sizeof(*d->moved));
	if (!d->moved)
		return err_set(err, -ENOMEM, "out of memory");
	for (size_t i = 0; r == 0 && i < d->n; i++)
		r = decide(d, &d->v[i], err);
	if (r == 0)
		r = pull_all(d, err);
	told = note_told(&d->note, d->r, d->moved, d->n_moved, r < 0 ? NULL : err);
	if (r == 0)
		r = told;
	note_unhold(&d->note); /* the other server may take its time */
	while (r == 0 && at < d->n)
		r = push_some(d, &at, err);
	if (r == 0)
		r = note_hold(&d->note, err);
	return r < 0 ? r : remember(d, err);
}

int sync_round(struct repos *g, const struct store_repo *r, const struct store_sync *y, int stop_fd,
               const char *token, json_t *conflicts, struct err *err)
{
	AUTO(round_done)
	struct round d = { .g = g,
		           .r = r,
		           .y = y,
		           .conflicts = conflicts,
		           .note = NOTE_NONE,
		           .stop_fd = stop_fd,
		           .deadline = deadline_in(ROUND_MS) };
	int rc = quota_room(g, r->account, &d.room, err);

	if (rc < 0 || (rc = shared_ready(g, r, err)) < 0)
		return rc;
	d.room = MIN(d.room, ROUND_BYTES);
	repo_path(g, r->id, d.path);
	make_auth(&d, token);
	if ((rc = note_open(g, r->id, SYNC_BY, &d.note, err)) < 0)
		return rc;
	rc = round_run(&d, err);
	if (rc == -ECANCELED)
		note_leave(&d.note);
	return rc;
}

/* What both had agreed on is to go, which all nodes know; 1: the list is full. */
static int list_agreed(git_repository *repo, struct repo_update *u, size_t *n, struct err *err)
{
	autorefs *it = NULL;
	int rc = git_reference_iterator_glob_new(&it, repo, SYNC_BASE "*");

	while (rc == 0 && *n < FORGET_BATCH) {
		autoref *ref = NULL;

		if ((rc = git_reference_next(&ref, it)) < 0 || !git_reference_target(ref))
			continue;
		snprintf(u[*n].ref, sizeof(u->ref), "%s", git_reference_name(ref));
		git_oid_tostr(u[*n].old_sha, sizeof(u->old_sha), git_reference_target(ref));
		memset(u[*n].new_sha, '0', REPO_SHA_SIZE - 1);
		u[(*n)++].new_sha[REPO_SHA_SIZE - 1] = '\0';
	}
	if (rc < 0 && rc != GIT_ITEROVER)
		return git_fail(rc, "list references", err);
	return rc == 0;
}

static int forget_agreed(git_repository *repo, struct slot *s, struct err *err)
{
	autofree struct repo_update *u = calloc(FORGET_BATCH, sizeof(*u));
	int more = 1;

	if (!u)
		return err_set(err, -ENOMEM, "out of memory");
	while (more > 0) {
		size_t n = 0;
		int r;

		if ((more = list_agreed(repo, u, &n, err)) < 0 || n == 0)
			return MIN(more, 0);
		if ((r = slot_write(s, "", u, n, err)) < 0)
			return r;
		for (size_t i = 0; i < n; i++)
			if ((r = remember_one(repo, &u[i], err)) < 0)
				return r;
		slot_moved(s);
	}
	return more;
}

int sync_forget(struct repos *g, const struct store_repo *r, struct err *err)
{
	autorepo *repo = NULL;
	autorefs *it = NULL;
	struct slot *slot = NULL;
	git_reference *ref;
	int rc;

	if ((rc = slot_take(g, r->id, &slot, err)) < 0)
		return rc;
	if ((rc = repo_open(g, r, &repo, err)) == 0)
		rc = forget_agreed(repo, slot, err);
	slot_give(slot);
	if (rc < 0)
		return rc;
	rc = git_reference_iterator_glob_new(&it, repo, SYNC_REFS "*");
	while (rc == 0 && (rc = git_reference_next(&ref, it)) == 0) {
		git_reference_delete(ref);
		git_reference_free(ref);
	}
	return 0;
}
