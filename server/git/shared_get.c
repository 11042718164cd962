/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shared_get.c - a repository's files become what is stored
 *
 * A copy that was right at some version needs the packs that came later; where there is none, all
 * of them. They are fetched several at a time, and indexed by git in a jail. Then packed-refs is
 * written and the loose references go, under Git's own lock of that file; last comes the version.
 * Whatever a crash leaves, the version is still the old one, and all of it is done again. A copy
 * where there was none is made in git/tmp and renamed.
 *
 * Who reads meanwhile sees old references or new ones; the objects of both are there.
 */
#include "git/shared.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/id.h"
#include "base/io.h"
#include "base/log.h"
#include "git/texts.h"
#include "metrics/metrics.h"
#include "objects/objects.h"

#define AT_ONCE 16u            /* packs that are fetched at a time */
#define INDEX_MS (30 * 60000u) /* for one of them */
#define PACK_SUM 20            /* bytes at its end, after which it is named */
#define LOCK_MS 60000          /* for somebody else to let go of packed-refs */
#define LOCK_AGAIN_US 20000

static_assert(STORE_REF_SIZE == REPO_REF_SIZE && STORE_SHA_SIZE == REPO_SHA_SIZE,
              "the store's references are Git's");
static_assert(STORE_OBJECT_KEY == OBJECT_KEY_BYTES && STORE_OBJECT_SIZE <= OBJECT_NAME_SIZE,
              "the store's keys and names are the objects'");

/* ---- the version ---- */

uint64_t copy_version(const char *path)
{
	autofree char *text = NULL;
	char file[PATH_MAX], *end = NULL;
	unsigned long long v;

	snprintf(file, sizeof(file), "%.4000s/" SHARED_FILE, path);
	if (io_read_file(AT_FDCWD, file, 64, &text, NULL) < 0 || !*text)
		return 0;
	v = strtoull(text, &end, 10);
	return *end == '\n' ? v : 0;
}

/* Replaced as a whole; if it is lost with the power, the copy counts as older than it is. */
static int replace_file(const char *path, const char *name, const void *p, size_t n,
                        struct err *err)
{
	char tmp[PATH_MAX], file[PATH_MAX];
	int r;

	snprintf(tmp, sizeof(tmp), "%.3900s/tmp_%s", path, name);
	snprintf(file, sizeof(file), "%.3900s/%s", path, name);
	unlink(tmp);
	if ((r = io_write_file(AT_FDCWD, tmp, p, n, 0600, err)) < 0)
		return r;
	return rename(tmp, file) < 0 ? err_sys(err, -errno, "rename '%s'", name) : 0;
}

int copy_set_version(const char *path, uint64_t version, struct err *err)
{
	char text[32];
	int n = snprintf(text, sizeof(text), "%llu\n", (unsigned long long)version);

	return replace_file(path, SHARED_FILE, text, (size_t)n, err);
}

/* ---- packs ---- */

struct fetch {
	struct objects_transfer t;
	char path[PATH_MAX]; /* of the file while it is fetched */
	bool begun;
};

static int damaged(const struct slot *s, const char *pack, int r, struct err *err)
{
	char why[sizeof(err->msg)];

	snprintf(why, sizeof(why), "%s", err->msg);
	if (r == -ENOENT || r == -EBADMSG) {
		metrics_add(METRIC_OBJECT_DAMAGED, 0, 1);
		log_error("repository %s: pack %s is damaged in the object store: %s", s->row.id,
		          pack, why);
		return err_tag(
		        err, -EIO, ERR_OBJECT_DAMAGED,
		        "repository %s is not on this machine, and what the object store has of "
		        "it is damaged: %s",
		        s->row.id, why);
	}
	if (err->tag != ERR_NONE)
		return r;
	return err_tag(err, -EAGAIN, ERR_SERVICE_UNAVAILABLE,
	               "repository %s cannot be fetched now: %s", s->row.id, why);
}

static int begin(struct slot *s, struct fetch *f, const char *path, const struct store_pack *p,
                 struct err *err)
{
	char name[STORE_OBJECT_SIZE];
	int r;

	*f = (struct fetch){ .t = { .fd = -1, .bytes = p->bytes } };
	if ((r = objects_claim(s->g->conf.objects, err)) < 0 ||
	    (r = store_object_key(s->g->store, p->account, f->t.key, err)) < 0)
		return r;
	snprintf(f->path, sizeof(f->path), "%.3900s/objects/pack/tmp_%s", path, p->id);
	unlink(f->path);
	f->t.fd = open(f->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (f->t.fd < 0)
		return err_sys(err, -errno, "make a pack");
	snprintf(f->t.name, sizeof(f->t.name), "%s", pack_object_name(p->id, name));
	r = objects_begin(s->g->conf.objects, &f->t, err);
	f->begun = r == 0;
	return r;
}

static int index_pack(struct slot *s, const char *path, const char *pack, struct err *err)
{
	const char *argv[] = { GIT_PROGRAM, "index-pack", pack, NULL };
	struct run_opts o = { .repo = path,
		              .argv = argv,
		              .write = true,
		              .out_max = 4096,
		              .limit_ms = INDEX_MS,
		              .mem_mb = SERVICE_MB };
	autorun struct run_result res = { 0 };
	int r = run_git(s->g, &o, &res, err);

	if (r < 0)
		return r;
	return res.status == 0 ? 0
	                       : err_tag(err, -EIO, ERR_GIT_ERROR,
	                                 "git cannot index a pack of repository %s: %.200s",
	                                 s->row.id, res.err_text.p ? (char *)res.err_text.p : "");
}

/* It is here, whole: it gets the name that Git gives it, and an index. */
static int keep(struct slot *s, struct fetch *f, const char *path, struct err *err)
{
	char pack[128], file[PATH_MAX], idx[PATH_MAX], hex[2 * PACK_SUM + 1];
	uint8_t sum[PACK_SUM];
	int r;

	if (f->t.bytes < PACK_SUM ||
	    io_pread_all(f->t.fd, sum, sizeof(sum), (off_t)(f->t.bytes - PACK_SUM)) < 0)
		return err_set(err, -EBADMSG, "a pack of %llu bytes",
		               (unsigned long long)f->t.bytes);
	hex_encode(sum, sizeof(sum), hex);
	snprintf(pack, sizeof(pack), "objects/pack/pack-%s.pack", hex);
	snprintf(file, sizeof(file), "%.3900s/%s", path, pack);
	snprintf(idx, sizeof(idx), "%.3900s/objects/pack/pack-%s.idx", path, hex);
	if (access(idx, F_OK) == 0 && access(file, F_OK) == 0)
		return 0; /* it was here */
	if (fsync(f->t.fd) < 0 || rename(f->path, file) < 0)
		return err_sys(err, -errno, "keep a pack");
	r = index_pack(s, path, pack, err);
	if (r < 0)
		unlink(file);
	return r;
}

static int get_some(struct slot *s, const char *path, const struct store_pack *v, size_t n,
                    struct err *err)
{
	autofree struct fetch *f = calloc(n, sizeof(*f));
	size_t i;
	int r = 0;

	if (!f)
		return err_set(err, -ENOMEM, "out of memory");
	for (i = 0; r == 0 && i < n; i++)
		if ((r = begin(s, &f[i], path, &v[i], err)) < 0)
			r = damaged(s, v[i].id, r, err);
	for (size_t k = 0; k < i; k++) {
		struct err own = { 0 };
		int rc = f[k].begun ? objects_wait(s->g->conf.objects, &f[k].t, &own) : -ECANCELED;

		explicit_bzero(f[k].t.key, sizeof(f[k].t.key));
		if (rc < 0 && f[k].begun && r == 0) {
			*err = own;
			r = damaged(s, v[k].id, rc, err);
		}
	}
	for (size_t k = 0; k < i; k++) {
		if (r == 0)
			r = keep(s, &f[k], path, err);
		if (f[k].t.fd >= 0)
			close(f[k].t.fd);
		unlink(f[k].path);
	}
	return r;
}

static int get_packs(struct slot *s, const char *path, uint64_t from, struct err *err)
{
	autofree struct store_pack *v = NULL;
	size_t n = 0;
	int r = store_packs_since(s->g->store, s->row.id, from, &v, &n, err);

	for (size_t i = 0; r == 0 && i < n; i += AT_ONCE)
		r = get_some(s, path, v + i, MIN(n - i, (size_t)AT_ONCE), err);
	return r;
}

/* ---- references ---- */

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct store_ref *)a)->name, ((const struct store_ref *)b)->name);
}

static int lock_refs(const char *file, struct err *err)
{
	uint64_t until = deadline_in(LOCK_MS);
	int fd;

	while ((fd = open(file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600)) < 0) {
		if (errno != EEXIST || !deadline_left(until))
			return err_sys(err, -errno, "lock the references");
		usleep(LOCK_AGAIN_US);
	}
	close(fd);
	return 0;
}

/* All loose references; Git wants the directories to be there. */
static int drop_loose(const char *path, struct err *err)
{
	static const char *const kept[] = { "heads", "tags" };
	autofd int dir = -1;
	char refs[PATH_MAX];
	autodir DIR *d = NULL;
	struct dirent *e;
	int r = 0;

	snprintf(refs, sizeof(refs), "%.4000s/refs", path);
	d = opendir(refs);
	if (!d)
		return err_sys(err, -errno, "open the references");
	while (r >= 0 && (e = readdir(d)))
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			r = io_remove_tree(dirfd(d), e->d_name, err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < ARRAY_SIZE(kept); i++)
		if (mkdirat(dirfd(d), kept[i], 0700) < 0 && errno != EEXIST)
			return err_sys(err, -errno, "make a directory of references");
	return fsync(dirfd(d)) < 0 ? err_sys(err, -errno, "write the references") : 0;
}

static int write_packed(const char *path, struct store_refs *refs, struct err *err)
{
	autobuf struct buf b = { 0 };

	qsort(refs->v, refs->n, sizeof(*refs->v), by_name);
	buf_printf(&b, "# pack-refs with: sorted \n");
	for (size_t i = 0; i < refs->n; i++)
		buf_printf(&b, "%s %s\n", refs->v[i].target, refs->v[i].name);
	if (b.failed)
		return err_set(err, -ENOMEM, "out of memory");
	return replace_file(path, "packed-refs", b.p, b.len, err);
}

static int write_refs(const char *path, struct store_refs *refs, struct err *err)
{
	char lock[PATH_MAX];
	int r;

	snprintf(lock, sizeof(lock), "%.4000s/packed-refs.lock", path);
	if ((r = lock_refs(lock, err)) < 0)
		return r;
	if ((r = write_packed(path, refs, err)) == 0)
		r = drop_loose(path, err);
	unlink(lock);
	return r;
}

static int write_rest(const char *path, const struct store_refs *refs, struct err *err)
{
	char head[REPO_REF_SIZE + 16], shallow[PATH_MAX];
	int n = snprintf(head, sizeof(head), "ref: %.*s\n", REPO_REF_SIZE, refs->head), r;

	if ((r = replace_file(path, "HEAD", head, (size_t)n, err)) < 0)
		return r;
	if (*refs->shallow)
		return replace_file(path, "shallow", refs->shallow, strlen(refs->shallow), err);
	snprintf(shallow, sizeof(shallow), "%.4000s/shallow", path);
	return unlink(shallow) < 0 && errno != ENOENT ? err_sys(err, -errno, "write the depth") : 0;
}

/* ---- all of it ---- */

static int fill(struct slot *s, const char *path, uint64_t from, struct err *err)
{
	AUTO(store_refs_done) struct store_refs refs = { 0 };
	char file[PATH_MAX];
	int r;

	snprintf(file, sizeof(file), "%.4000s/objects/pack/x", path);
	if ((r = get_packs(s, path, from, err)) < 0 ||
	    (r = store_refs_get(s->g->store, s->row.id, &refs, err)) < 0)
		return r;
	if ((r = io_sync_parent(AT_FDCWD, file)) < 0)
		return err_sys(err, r, "write the packs");
	if ((r = write_refs(path, &refs, err)) < 0 || (r = write_rest(path, &refs, err)) < 0)
		return r;
	snprintf(file, sizeof(file), "%.4000s/HEAD", path);
	if ((r = io_sync_parent(AT_FDCWD, file)) < 0)
		return err_sys(err, r, "write the references");
	return copy_set_version(path, s->row.version, err);
}

static int make_new(struct slot *s, const char *path, struct err *err)
{
	char tmp[PATH_MAX];
	int r;

	repos_path(s->g, "tmp", s->row.id, tmp);
	io_remove_tree(AT_FDCWD, tmp, NULL);
	if ((r = repo_init_at(tmp, "main", err)) == 0 && (r = fill(s, tmp, 0, err)) == 0)
		r = repo_put_in_place(tmp, path, err);
	if (r < 0)
		io_remove_tree(AT_FDCWD, tmp, NULL);
	return r;
}

int get_all(struct slot *s, uint64_t from, struct err *err)
{
	uint64_t t0 = clock_us();
	char path[PATH_MAX];
	unsigned mark;
	int r;

	repo_path(s->g, s->row.id, path);
	if (access(path, F_OK) < 0) {
		r = make_new(s, path, err);
	} else {
		mark = busy_mark(s->g, s->row.id);
		r = fill(s, path, from, err);
		busy_clear(s->g, s->row.id, mark);
	}
	if (r < 0)
		return r;
	maint_note(s->g, s->row.id);
	log_info("repository %s: fetched, version %llu after %llu, %llu ms", s->row.id,
	         (unsigned long long)s->row.version, (unsigned long long)from,
	         (unsigned long long)(clock_us() - t0) / 1000);
	return 0;
}
