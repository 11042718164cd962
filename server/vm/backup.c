/* SPDX-License-Identifier: Apache-2.0 */
/*
 * backup.c - the VMs' part of a backup
 *
 * First every VM is visited with its lock: one that runs is frozen live as a point, which is held
 * against collection, and goes on; of one that is stopped the disk layer is copied, since its next
 * boot writes to it. Then, with the collector locked out, the database is copied, each VM in the
 * copy is made to rest on something that will not change (its own point, the point made for this
 * backup, or the copied disk), what is then unreferenced is dropped from the copy, and the files
 * that it names are linked.
 *
 * A VM that was started after it was visited is visited again, with a new copy of the database. One
 * that cannot be frozen (it is busy for too long, or the freeze fails) is in the backup as it was
 * when it was last resumed, with a note; one account's VM must not keep all others from being
 * backed up.
 */
#include "vm/backup.h"

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
#include "store/store_backup.h"
#include "vm/vm_internal.h"

#define ROUNDS_MAX 3 /* copies of the database, for VMs that are started meanwhile */

struct visit {
	char vm[ID_SIZE];
	char point[ID_SIZE]; /* held; "": it did not run */
	char disk[ID_SIZE];  /* copied; "": none was */
	char why[200];       /* it could not be frozen */
};

struct job {
	struct vmm *m;
	const char *dir;
	struct visit *v; /* owned */
	size_t n;
	struct vm_backup *out;
};

void vm_backup_done(struct vm_backup *b)
{
	free(b->notes);
	*b = (struct vm_backup){ 0 };
}

static struct visit *visit_of(const struct job *j, const char *vm)
{
	for (size_t i = 0; i < j->n; i++)
		if (strcmp(j->v[i].vm, vm) == 0)
			return &j->v[i];
	return NULL;
}

/* Its row, made if there is none; NULL: no memory. */
static struct visit *visit_add(struct job *j, const char *vm)
{
	struct visit *v = visit_of(j, vm);

	if (v)
		return v;
	v = reallocarray(j->v, j->n + 1, sizeof(*v));
	if (!v)
		return NULL;
	j->v = v;
	v = &j->v[j->n++];
	*v = (struct visit){ 0 };
	snprintf(v->vm, sizeof(v->vm), "%s", vm);
	return v;
}

static void note(struct job *j, const char *vm, const char *text)
{
	struct vm_backup_note *n =
	        reallocarray(j->out->notes, j->out->n_notes + 1, sizeof(*j->out->notes));

	log_obj(LOG_LV_WARN, "vm", vm, "backup: %s", text);
	if (!n)
		return;
	j->out->notes = n;
	n = &j->out->notes[j->out->n_notes++];
	snprintf(n->vm, sizeof(n->vm), "%s", vm);
	snprintf(n->text, sizeof(n->text), "%s", text);
}

static void paths(const struct job *j, const char *sub, const char *name, char from[PATH_MAX],
                  char to[PATH_MAX])
{
	snprintf(from, PATH_MAX, "%s/%s/%s", j->m->conf.data_dir, sub, name);
	snprintf(to, PATH_MAX, "%s/%s/%s", j->dir, sub, name);
}

/* ---- visiting ---- */

/* vm->lock held: nobody boots it meanwhile. */
static int copy_disk(struct job *j, struct vm *vm, struct visit *v, struct err *err)
{
	char from[PATH_MAX], to[PATH_MAX];
	struct stat st;
	int r;

	if (!*vm->row.disk_layer || layer_sealed(j->m, vm->row.disk_layer, NULL) != 0)
		return 0;
	paths(j, "layers", vm->row.disk_layer, from, to);
	unlink(to);
	if ((r = io_copy_file(from, to, err)) < 0)
		return r;
	/* Its time too: then the next backup finds out that it is the same. */
	if (stat(from, &st) == 0)
		utimensat(AT_FDCWD, to, (struct timespec[2]){ st.st_atim, st.st_mtim }, 0);
	snprintf(v->disk, sizeof(v->disk), "%s", vm->row.disk_layer);
	return 0;
}

static int visit(struct job *j, struct vm *vm, struct err *err)
{
	struct visit *v = visit_add(j, vm->row.info.id);
	struct frozen f = { 0 };
	struct err why = { 0 };
	int r;

	if (!v)
		return err_set(err, -ENOMEM, "out of memory");
	if (vm->gone)
		return 0;
	if (vm->row.info.state == VM_STOPPED)
		return copy_disk(j, vm, v, err);
	if (vm->row.info.state != VM_RUNNING || *v->point)
		return 0;
	r = vm_check_stall(vm, &why);
	if (r == 0)
		r = vm_freeze_live(vm, /* durable= */ true, &f, &why);
	if (r == -ENOSPC || r == -EDQUOT)
		return err_set(err, r, "freeze VM %s: %s", v->vm, why.msg);
	if (r < 0) {
		snprintf(v->why, sizeof(v->why), "%.190s", why.msg);
		return 0;
	}
	memcpy(v->point, f.point, sizeof(v->point));
	j->out->n_frozen++;
	return 0;
}

/* only NULL: all. vm_unlock() gives back what is taken here: clang cannot follow that. */
static int visit_all(struct job *j, const char *const *only, size_t n_only,
                     struct err *err) NO_THREAD_SAFETY_ANALYSIS
{
	size_t n = 0;
	struct vm **vms = vmm_all(j->m, &n);
	int r = vms || n == 0 ? 0 : err_set(err, -ENOMEM, "out of memory");

	for (size_t i = 0; vms && i < n; i++) {
		struct vm_info info;
		bool wanted = !only;

		vm_copy_info(vms[i], &info);
		for (size_t k = 0; k < n_only; k++)
			wanted |= strcmp(only[k], info.id) == 0;
		if (r < 0 || !wanted || info.state == VM_BUILDING) {
			vm_unref(vms[i]);
			continue;
		}
		if (mutex_lock_until(&vms[i]->lock, deadline_in(j->m->conf.busy_wait_s * 1000u))) {
			r = visit(j, vms[i], err);
			vm_unlock(vms[i]);
		} else {
			struct visit *v = visit_add(j, info.id);

			if (v)
				snprintf(v->why, sizeof(v->why),
				         "another operation has held it for over %u s",
				         j->m->conf.busy_wait_s);
			vm_unref(vms[i]);
		}
	}
	free(vms);
	return r;
}

/* ---- the copy of the database ---- */

/* 1: it rests on something that stays; 0: it does not. */
static int settle(struct job *j, struct store *copy, const struct store_vm *vm, bool last,
                  struct err *err)
{
	const struct visit *v = visit_of(j, vm->info.id);
	struct store_point p;
	struct store_layer l;
	char text[200];
	int r;

	switch (vm->info.state) {
	case VM_LOST:
		return 1;
	case VM_BUILDING:
		r = store_copy_forget(copy, vm->info.id, err);
		return r < 0 ? r : 1;
	case VM_SUSPENDED:
		return 1;
	default:
		break;
	}
	if (*vm->info.point) { /* on its way up */
		r = store_copy_rest(copy, vm->info.id, vm->info.point, err);
		return r < 0 ? r : 1;
	}
	if (v && *v->point && store_point_get(copy, v->point, &p, NULL) == 0) {
		r = store_copy_rest(copy, vm->info.id, v->point, err);
		return r < 0 ? r : 1;
	}
	if (vm->info.state == VM_STOPPED &&
	    (!*vm->disk_layer || (v && strcmp(v->disk, vm->disk_layer) == 0) ||
	     (store_layer_get(copy, vm->disk_layer, &l, NULL) == 0 && l.bytes)))
		return 1;
	if (!last && !(v && *v->why))
		return 0;
	snprintf(text, sizeof(text), "%s: %.120s",
	         *vm->base_point ? "is in the backup as it was when it was last resumed"
	                         : "is not in the backup",
	         v && *v->why ? v->why : "it was started again and again");
	note(j, vm->info.id, text);
	r = *vm->base_point ? store_copy_rest(copy, vm->info.id, vm->base_point, err)
	                    : store_copy_lose(copy, vm->info.id, err);
	return r < 0 ? r : 1;
}

/* Number of VMs that have to be visited again; their ids in *ret, caller frees. */
static int settle_all(struct job *j, struct store *copy, bool last, char (**ret)[ID_SIZE],
                      struct err *err)
{
	autofree struct store_vm *vms = NULL;
	char(*again)[ID_SIZE] = NULL;
	size_t n = 0;
	int r = store_vm_list(copy, NULL, &vms, &n, err), n_again = 0;

	if (r >= 0 && !(again = calloc(n + 1, ID_SIZE)))
		r = err_set(err, -ENOMEM, "out of memory");
	for (size_t i = 0; r >= 0 && i < n; i++) {
		r = settle(j, copy, &vms[i], last, err);
		if (r == 0)
			snprintf(again[n_again++], ID_SIZE, "%s", vms[i].info.id);
	}
	if (r < 0) {
		free(again);
		return r;
	}
	*ret = again;
	return n_again;
}

/* ---- files ---- */

static int take_file(struct job *j, const char *sub, const char *name, bool closed, struct err *err)
{
	char from[PATH_MAX], to[PATH_MAX];
	int r;

	paths(j, sub, name, from, to);
	if (access(to, F_OK) == 0) {
		if (!closed)
			return 0; /* copied while nobody wrote to it */
		unlink(to);
	}
	r = closed ? io_link_or_copy(from, to, err) : io_copy_file(from, to, err);
	if (r != -ENOENT)
		return r;
	note(j, name,
	     "is not on this server, and so not in the backup (with PANDO_OBJECTS it may be "
	     "in the object store)");
	return 0;
}

/* m->gc held: what the copy names is there. */
static int take_files(struct job *j, struct store *copy, struct err *err)
{
	autofree struct store_layer *layers = NULL;
	autofree struct store_point *points = NULL;
	struct store_garbage g = { 0 };
	size_t n_layers = 0, n_points = 0;
	int r = store_collect(copy, NULL, 0, NULL, 0, &g, err);

	store_garbage_done(&g);
	if (r < 0 || (r = store_layer_list(copy, &layers, &n_layers, err)) < 0 ||
	    (r = store_point_list(copy, &points, &n_points, err)) < 0)
		return r;
	for (size_t i = 0; r >= 0 && i < n_layers; i++)
		r = take_file(j, "layers", layers[i].id, layers[i].bytes > 0, err);
	for (size_t i = 0; r >= 0 && i < n_points; i++) {
		char name[ID_SIZE + 8];

		snprintf(name, sizeof(name), "%s.state", points[i].id);
		if (points[i].state_bytes)
			r = take_file(j, "points", name, /* closed= */ true, err);
	}
	return r;
}

/* One instant. Number of VMs that must be visited again first. */
static int copy_store(struct job *j, bool last, char (**again)[ID_SIZE], struct err *err)
{
	char from[PATH_MAX], to[PATH_MAX], path[PATH_MAX];
	struct store *copy = NULL;
	int r;

	snprintf(from, sizeof(from), "%s/pando.db", j->m->conf.data_dir);
	snprintf(to, sizeof(to), "%s/pando.db", j->dir);
	unlink(to);
	rwlock_rdlock(&j->m->gc);
	if ((r = store_copy(from, to, err)) >= 0 && (r = store_open_copy(to, &copy, err)) >= 0 &&
	    (r = settle_all(j, copy, last, again, err)) == 0)
		r = take_files(j, copy, err);
	rwlock_unlock(&j->m->gc);
	store_close(copy);
	for (size_t i = 0; i < 2; i++) { /* of a connection that is gone */
		snprintf(path, sizeof(path), "%s/pando.db%s", j->dir, i ? "-shm" : "-wal");
		unlink(path);
	}
	return r;
}

int vmm_backup(struct vmm *m, const char *dir, struct vm_backup *ret, struct err *err)
{
	struct job j = { .m = m, .dir = dir, .out = ret };
	char path[PATH_MAX];
	int r;

	*ret = (struct vm_backup){ 0 };
	if (store_is_shared(m->store))
		return err_tag(
		        err, -EOPNOTSUPP, ERR_CONFLICT,
		        "the state is in PostgreSQL, which this backup does not copy: stop the "
		        "server, then copy the data directory and use pg_dump; see "
		        "docs/CLUSTER.md");
	snprintf(path, sizeof(path), "%s/layers", dir);
	if ((r = io_mkdirs(path, 0700, err)) < 0)
		return r;
	snprintf(path, sizeof(path), "%s/points", dir);
	if ((r = io_mkdirs(path, 0700, err)) < 0)
		return r;
	r = visit_all(&j, NULL, 0, err);
	for (unsigned round = 1; r >= 0; round++) {
		autofree char(*again)[ID_SIZE] = NULL;
		autofree const char **names = NULL;

		r = copy_store(&j, round == ROUNDS_MAX, &again, err);
		if (r <= 0)
			break;
		names = calloc((size_t)r, sizeof(*names));
		for (int i = 0; names && i < r; i++)
			names[i] = again[i];
		r = names ? visit_all(&j, names, (size_t)r, err)
		          : err_set(err, -ENOMEM, "out of memory");
	}
	for (size_t i = 0; i < j.n; i++)
		if (*j.v[i].point)
			vmm_release(m, j.v[i].point);
	free(j.v);
	vmm_collect_soon(m);
	if (r < 0)
		vm_backup_done(ret);
	return r;
}
