/* SPDX-License-Identifier: Apache-2.0 */
/*
 * note.c - a push is recorded before references move, so that a crash cannot lose it
 *
 * A note is a file in git/busy, <repository>.<push>; it is the mark of a repository that is being
 * written to as well. Its lines: who pushes; then what is to move ("old new ref"), flushed to the
 * disk before anything does, by receive-pack's pre-receive hook or by us; then, from the
 * post-receive hook, the word "done" and what Git accepted. It is deleted when the push has been
 * published. A note without "done" (the server or the child was killed) is compared with the
 * references as they are: what is where it was to go has moved. What is told by a note at the next
 * start may have been told before: it has the push's id, and whoever counts looks at that.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/id.h"
#include "base/io.h"
#include "base/log.h"
#include "git/shared.h"

#define UPDATES_MAX 10000      /* of one push that are told about */
#define NOTE_BYTES (16u << 20) /* that are read of one */
#define NOTE_PREFIX "ph-"
#define DONE "done"

static void note_path(struct repos *g, const char *repo, const char *id, char ret[PATH_MAX])
{
	char name[REPO_ID_SIZE + ID_SIZE];

	snprintf(name, sizeof(name), "%s.%s", repo, id);
	repos_path(g, "busy", name, ret);
}

int note_open(struct repos *g, const char *repo, const char *by, struct note *ret, struct err *err)
{
	char path[PATH_MAX], line[ID_SIZE + 8];
	int n, r;

	*ret = (struct note){ .g = g, .fd = -1, .since_s = time(NULL) };
	snprintf(ret->repo, sizeof(ret->repo), "%s", repo);
	snprintf(ret->by, sizeof(ret->by), "%s", by ? by : "");
	id_make(NOTE_PREFIX, ret->id);
	note_path(g, repo, ret->id, path);
	ret->fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600);
	if (ret->fd < 0)
		return err_sys(err, -errno, "record a push");
	n = snprintf(line, sizeof(line), "by %s\n", ret->by);
	r = io_write_all(ret->fd, line, (size_t)n);
	if (r < 0) {
		note_close(ret);
		return err_sys(err, r, "record a push");
	}
	return 0;
}

int note_hold(struct note *n, struct err *err)
{
	return n->slot ? 0 : slot_take(n->g, n->repo, &n->slot, err);
}

void note_unhold(struct note *n)
{
	n->slot = slot_give(n->slot);
}

int note_plan(struct note *n, const struct repo_update *u, size_t k, struct err *err)
{
	autobuf struct buf b = { 0 };
	int r;

	/* libgit2 flushes the name of a reference, but not a new directory of objects */
	if ((r = repo_flush_objects(n->g, n->repo, n->since_s, err)) < 0)
		return r;
	for (size_t i = 0; i < k; i++)
		buf_printf(&b, "%s %s %s\n", u[i].old_sha, u[i].new_sha, u[i].ref);
	if (b.failed)
		return err_set(err, -ENOMEM, "out of memory");
	r = io_write_all(n->fd, b.p, b.len);
	if (r == 0 && fdatasync(n->fd) < 0)
		r = -errno;
	if (r < 0)
		return err_sys(err, r, "record a push");
	n->planned = k;
	return slot_write(n->slot, "", u, k, err);
}

void note_close(struct note *n)
{
	char path[PATH_MAX];

	note_unhold(n);
	if (!n->g || n->fd < 0)
		return;
	note_path(n->g, n->repo, n->id, path);
	unlink(path);
	close(TAKE_FD(n->fd));
}

void note_leave(struct note *n)
{
	note_unhold(n);
	if (n->fd >= 0)
		close(TAKE_FD(n->fd));
}

/* "old new ref" */
static bool parse_line(const char *p, size_t n, struct repo_update *ret)
{
	const size_t sha = REPO_SHA_SIZE - 1;

	if (n < 2 * sha + 3 || n - 2 * sha - 2 >= sizeof(ret->ref) || p[sha] != ' ' ||
	    p[2 * sha + 1] != ' ')
		return false;
	snprintf(ret->old_sha, sizeof(ret->old_sha), "%.*s", (int)sha, p);
	snprintf(ret->new_sha, sizeof(ret->new_sha), "%.*s", (int)sha, p + sha + 1);
	snprintf(ret->ref, sizeof(ret->ref), "%.*s", (int)(n - 2 * sha - 2), p + 2 * sha + 2);
	return true;
}

static int read_note(int fd, char **ret, struct err *err)
{
	autofree char *text = NULL;
	struct stat st;
	size_t n;
	int r;

	if (fstat(fd, &st) < 0)
		return err_sys(err, -errno, "read what was pushed");
	n = (size_t)MIN(st.st_size, (off_t)NOTE_BYTES);
	text = malloc(n + 1);
	if (!text)
		return err_set(err, -ENOMEM, "out of memory");
	if ((r = io_pread_all(fd, text, n, 0)) < 0)
		return err_sys(err, r, "read what was pushed");
	text[n] = '\0';
	*ret = TAKE_PTR(text);
	return 0;
}

int note_moves(const struct note *n, struct repo_update **ret, size_t *ret_n, struct err *err)
{
	autofree struct repo_update *u = NULL;
	autofree char *text = NULL;
	size_t lines = 0, k = 0;
	int r = read_note(n->fd, &text, err);

	if (r < 0)
		return r;
	for (const char *p = text; (p = strchr(p, '\n')); p++)
		lines++;
	u = calloc(lines + 1, sizeof(*u));
	if (!u)
		return err_set(err, -ENOMEM, "out of memory");
	for (const char *p = text; *p;) {
		size_t len = strcspn(p, "\n");

		if (parse_line(p, len, &u[k]))
			k++;
		else if (strncmp(p, "by ", 3) != 0)
			return err_set(err, -EINVAL, "the push cannot be read");
		p += len + (p[len] == '\n');
	}
	*ret = TAKE_PTR(u);
	*ret_n = k;
	return 0;
}

/* Has this reference gone where it was to go? It may have gone on from there. */
static bool moved(git_repository *repo, const struct repo_update *u)
{
	git_oid was, to, now;
	bool there = git_reference_name_to_id(&now, repo, u->ref) == 0;

	if (git_oid_fromstr(&was, u->old_sha) < 0 || git_oid_fromstr(&to, u->new_sha) < 0)
		return false;
	if (git_oid_is_zero(&to) || !there)
		return git_oid_is_zero(&to) && !there;
	if (git_oid_equal(&now, &to) || git_oid_equal(&now, &was))
		return git_oid_equal(&now, &to);
	return git_graph_descendant_of(repo, &now, &to) == 1;
}

/* The same of a repository that another node has by now: as far as the database says. */
static bool moved_elsewhere(const struct store_refs *refs, const struct repo_update *u)
{
	for (size_t i = 0; i < refs->n; i++)
		if (strcmp(refs->v[i].name, u->ref) == 0)
			return strcmp(refs->v[i].target, u->new_sha) == 0;
	return u->new_sha[strspn(u->new_sha, "0")] == '\0';
}

/* Those that were accepted, or, when nobody could say, those that have moved. */
static size_t read_updates(struct repos *g, const struct store_repo *r, const char *text,
                           struct repo_update *u)
{
	const char *done = strstr(text, "\n" DONE "\n");
	AUTO(store_refs_done) struct store_refs refs = { 0 };
	autorepo *repo = NULL;
	struct err err = { 0 };
	size_t n = 0;

	if (!done && repo_open(g, r, &repo, &err) < 0 &&
	    (!is_shared(g) || store_refs_get(g->store, r->id, &refs, NULL) < 0)) {
		log_warn("repository %s: %s", r->id, err.msg);
		return 0;
	}
	for (const char *p = done ? done + strlen(DONE) + 2 : text; *p && n < UPDATES_MAX;) {
		size_t len = strcspn(p, "\n");

		if (parse_line(p, len, &u[n]) &&
		    (done || (repo ? moved(repo, &u[n]) : moved_elsewhere(&refs, &u[n]))))
			n++;
		p += len + (p[len] == '\n');
	}
	return n;
}

static int tell(struct note *n, const struct store_repo *r, bool again, struct err *err)
{
	autofree struct repo_update *u = NULL;
	autofree char *text = NULL;
	size_t lines = 0, moved;
	int rc = read_note(n->fd, &text, err);

	if (rc < 0)
		return rc;
	if (again && strncmp(text, "by ", 3) == 0)
		snprintf(n->by, sizeof(n->by), "%.*s",
		         (int)MIN(strcspn(text + 3, "\n"), sizeof(n->by) - 1), text + 3);
	for (const char *p = text; (p = strchr(p, '\n')) && lines < UPDATES_MAX; p++)
		lines++;
	u = calloc(lines + 1, sizeof(*u));
	if (!u)
		return err_set(err, -ENOMEM, "out of memory");
	moved = read_updates(n->g, r, text, u);
	rc = again && is_shared(n->g) ? 0 /* it was flushed, or is not here */
	                              : repo_flush(n->g, r->id, n->since_s, u, moved, err);
	push_tell(&(struct repo_push){ .repo = r,
	                               .by = n->by,
	                               .id = n->id,
	                               .again = again,
	                               .updates = u,
	                               .n_updates = moved },
	          n->g);
	return rc;
}

int note_tell(struct note *n, const struct store_repo *r, struct err *err)
{
	int rc = tell(n, r, /* again= */ false, err);

	if (rc < 0)
		log_warn("repository %s: a push was not published, or not kept: %s", r->id,
		         err->msg);
	return rc;
}

int note_told(struct note *n, const struct store_repo *r, const struct repo_update *u, size_t k,
              struct err *err)
{
	int rc = repo_flush(n->g, r->id, n->since_s, u, k, err);

	if (rc == 0 && k == n->planned)
		slot_moved(n->slot);
	push_tell(
	        &(struct repo_push){
	                .repo = r, .by = n->by, .id = n->id, .updates = u, .n_updates = k },
	        n->g);
	return rc;
}

/* ---- at start ---- */

static void tell_left(struct repos *g, int dir, const char *name)
{
	struct note n = { .g = g, .fd = -1 };
	struct store_repo repo;
	struct err err = { 0 };
	int r;

	snprintf(n.repo, sizeof(n.repo), "%.36s", name);
	if (strlen(name) < UUID_SIZE || name[UUID_SIZE - 1] != '.' || !repo_id_valid(n.repo) ||
	    !id_valid(NOTE_PREFIX, name + UUID_SIZE))
		return;
	snprintf(n.id, sizeof(n.id), "%s", name + UUID_SIZE);
	n.fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	r = n.fd < 0 ? err_sys(&err, -errno, "open a note")
	             : store_repo_get(g->store, n.repo, &repo, &err);
	if (r == 0)
		r = tell(&n, &repo, /* again= */ true, &err);
	if (r < 0 && r != -ENOENT) /* kept: the next start tries again */
		log_warn("repository %s: an earlier push was not published: %s", n.repo, err.msg);
	else
		note_close(&n);
	if (n.fd >= 0)
		close(n.fd);
}

void repos_tell_unheard(struct repos *g)
{
	char path[PATH_MAX];
	autodir DIR *d = NULL;
	struct dirent *e;

	repos_path(g, "busy", "", path);
	d = opendir(path);
	while (d && (e = readdir(d)))
		tell_left(g, dirfd(d), e->d_name);
}

bool note_named(const char *name)
{
	return strlen(name) > UUID_SIZE && id_valid(NOTE_PREFIX, name + UUID_SIZE);
}
