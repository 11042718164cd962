/* SPDX-License-Identifier: Apache-2.0 */
/* fake_vmm.c - see fake_vmm.h */
#include "tests/unit/fake_vmm.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "guest/guest.h"
#include "tests/unit/fake_internal.h"
#include "tests/unit/fake_stage.h"
#include "vm/vm.h"

#ifndef FAKE_REAL_GUEST /* with it, guest.h is the real thing and serve_agent.c has one */
struct guest {
	struct vmm *m;
} the_guest;
#endif

struct vmm *fake_vmm_new(void)
{
	struct vmm *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	mutex_init(&m->lock, "fake vmm");
	cond_init(&m->released);
	m->clock = 1700000000000;
	m->ticks = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	timerfd_settime(m->ticks, 0, &(struct itimerspec){ { 0, 20000000 }, { 0, 20000000 } },
	                NULL);
#ifndef FAKE_REAL_GUEST
	the_guest.m = m;
#endif
	return m;
}

struct vmm *fake_vmm_free(struct vmm *m)
{
	for (size_t i = 0; m && i < FILES; i++)
		free(m->files[i].p);
	if (m)
		close(m->ticks);
	free(m);
	return NULL;
}

void fake_release(struct vmm *m)
{
	LOCK_SCOPE(&m->lock);
	m->release = true;
	cond_broadcast(&m->released);
}

unsigned fake_blocked(struct vmm *m)
{
	LOCK_SCOPE(&m->lock);
	return m->blocked;
}

void fake_reset_next(struct vmm *m, unsigned n)
{
	LOCK_SCOPE(&m->lock);
	m->resets = n;
}

unsigned fake_wakes(struct vmm *m)
{
	LOCK_SCOPE(&m->lock);
	return m->wakes;
}

struct vm_info *fake_find(struct vmm *m, const char *account, const char *id, struct err *err)
{
	for (size_t i = 0; i < m->n_vms; i++)
		if (strcmp(m->vms[i].id, id) == 0 && strcmp(m->vms[i].account, account) == 0)
			return &m->vms[i];
	err_tag(err, -ENOENT, ERR_VM_NOT_FOUND, "no VM '%s'", id);
	return NULL;
}

static struct snapshot_info *find_snap(struct vmm *m, const char *account, const char *id,
                                       struct err *err)
{
	for (size_t i = 0; i < m->n_snaps; i++)
		if (strcmp(m->snaps[i].id, id) == 0 && strcmp(m->snaps[i].account, account) == 0)
			return &m->snaps[i];
	err_tag(err, -ENOENT, ERR_SNAPSHOT_NOT_FOUND, "no snapshot '%s'", id);
	return NULL;
}

/* False: not released in time. */
static bool block(struct vmm *m, unsigned timeout_ms) REQUIRES(&m->lock)
{
	uint64_t until = deadline_in(timeout_ms);
	bool more = true;

	m->blocked++;
	while (!m->release && more)
		more = cond_wait_until(&m->released, &m->lock, until);
	m->blocked--;
	return more;
}

int vmm_create(struct vmm *m, const struct vm_create_opts *o, struct vm_info *ret, struct err *err)
{
	struct vm_info v = { .state = VM_RUNNING, .vcpus = 2, .mem_mb = 2048, .disk_mb = 20480 };

	LOCK_SCOPE(&m->lock);
	if (o->name && strcmp(o->name, "slow") == 0)
		block(m, 60000);
	if (m->n_vms == ROWS)
		return err_tag(err, -EDQUOT, ERR_VM_LIMIT_EXCEEDED, "too many VMs");
	if (o->snapshot_id && !o->point) {
		struct snapshot_info *n = find_snap(m, o->account, o->snapshot_id, err);

		if (!n)
			return -ENOENT;
		if (n->deleted)
			return err_tag(err, -ENOENT, ERR_SOURCE_SNAPSHOT_DELETED, "it was deleted");
		snprintf(v.snapshot_id, sizeof(v.snapshot_id), "%s", n->id);
	}
	id_make("", v.id);
	id_make("", v.instance);
	snprintf(v.account, sizeof(v.account), "%s", o->account);
	snprintf(v.name, sizeof(v.name), "%s", o->name ? o->name : "");
	snprintf(v.build_id, sizeof(v.build_id), "%s", o->build_id ? o->build_id : "");
	snprintf(v.workdir, sizeof(v.workdir), "%s", o->workdir ? o->workdir : "");
	v.created_ms = m->clock++;
	v.idle_timeout_s = o->idle_timeout_s;
	v.activity_threshold = o->activity_threshold;
	v.count_exec = o->count_exec;
	v.persistence = o->persistence;
	*ret = m->vms[m->n_vms++] = v;
	return 0;
}

int vmm_get(struct vmm *m, const char *account, const char *id, struct vm_info *ret,
            struct err *err)
{
	struct vm_info *v;

	LOCK_SCOPE(&m->lock);
	v = fake_find(m, account, id, err);
	if (!v)
		return -ENOENT;
	*ret = *v;
	return 0;
}

int vmm_get_used(struct vmm *m, const char *account, const char *id, struct vm_info *ret,
                 struct err *err)
{
	return vmm_get(m, account, id, ret, err);
}

int vmm_list(struct vmm *m, const char *account, struct vm_info **ret, size_t *ret_n,
             struct err *err)
{
	LOCK_SCOPE(&m->lock);
	*ret = calloc(ROWS, sizeof(**ret));
	*ret_n = 0;
	for (size_t i = m->n_vms; i-- > 0;)
		if (strcmp(m->vms[i].account, account) == 0)
			(*ret)[(*ret_n)++] = m->vms[i];
	return 0;
}

static int set_state(struct vmm *m, const char *account, const char *id, enum vm_state s,
                     struct vm_info *ret, struct err *err)
{
	struct vm_info *v;

	LOCK_SCOPE(&m->lock);
	v = fake_find(m, account, id, err);
	if (!v)
		return -ENOENT;
	if (s == VM_SUSPENDED && v->state == VM_STOPPED)
		return err_tag(err, -EINVAL, ERR_VM_NOT_RUNNING, "the VM is stopped");
	v->state = s;
	cond_broadcast(&m->released);
	snprintf(v->point, sizeof(v->point), "%s", s == VM_SUSPENDED ? "pt-fake" : "");
	*ret = *v;
	return 0;
}

int vmm_start(struct vmm *m, const char *account, const char *id, const struct vm_start_opts *o,
              struct vm_info *ret, struct err *err)
{
	int r = set_state(m, account, id, VM_RUNNING, ret, err);

	if (r < 0)
		return r;
	LOCK_SCOPE(&m->lock);
	if (o->idle_timeout_s != VM_LEAVE)
		fake_find(m, account, id, err)->idle_timeout_s = o->idle_timeout_s;
	if (o->activity_threshold != VM_LEAVE)
		fake_find(m, account, id, err)->activity_threshold = o->activity_threshold;
	if (o->count_exec >= 0)
		fake_find(m, account, id, err)->count_exec = o->count_exec;
	return 0;
}

int vmm_stop(struct vmm *m, const char *account, const char *id, struct vm_info *ret,
             struct err *err)
{
	return set_state(m, account, id, VM_STOPPED, ret, err);
}

int vmm_kill(struct vmm *m, const char *account, const char *id, struct vm_info *ret,
             struct err *err)
{
	return set_state(m, account, id, VM_STOPPED, ret, err);
}

int vmm_suspend(struct vmm *m, const char *account, const char *id, struct vm_info *ret,
                struct err *err)
{
	return set_state(m, account, id, VM_SUSPENDED, ret, err);
}

int vmm_delete(struct vmm *m, const char *account, const char *id, bool *ret_kept, struct err *err)
{
	struct vm_info *v;

	if (ret_kept)
		*ret_kept = false;
	LOCK_SCOPE(&m->lock);
	v = fake_find(m, account, id, err);
	if (!v)
		return -ENOENT;
	if (m->n_gone < ROWS)
		m->gone[m->n_gone++] = (struct vm_tombstone){ .info = *v,
			                                      .reason = "deleted",
			                                      .deleted_ms = m->clock++ };
	*v = m->vms[--m->n_vms];
	cond_broadcast(&m->released);
	return 0;
}

int vmm_fork(struct vmm *m, const char *account, const char *id, unsigned count,
             const struct vm_fork_opts *o, struct vm_info **ret, struct err *err)
{
	struct vm_info *v, *kids;

	LOCK_SCOPE(&m->lock);
	v = fake_find(m, account, id, err);
	if (!v)
		return -ENOENT;
	if (m->n_vms + count > ROWS)
		return err_tag(err, -EDQUOT, ERR_VM_LIMIT_EXCEEDED, "too many VMs");
	kids = calloc(count, sizeof(*kids));
	for (unsigned i = 0; i < count; i++) {
		kids[i] = *v;
		id_make("", kids[i].id);
		snprintf(kids[i].parent_id, sizeof(kids[i].parent_id), "%s", id);
		if (o->persistence)
			kids[i].persistence = *o->persistence;
	}
	for (unsigned i = 0; i < count; i++)
		m->vms[m->n_vms++] = kids[i];
	*ret = kids;
	return 0;
}

int vmm_guest(struct vmm *m, const char *account, const char *id, struct guest **ret,
              struct err *err)
{
	struct vm_info *v;

	LOCK_SCOPE(&m->lock);
	v = fake_find(m, account, id, err);
	if (!v)
		return -ENOENT;
	v->state = VM_RUNNING;
	m->wakes++;
#ifdef FAKE_REAL_GUEST
	return fake_guest(ret, err);
#else
	*ret = &the_guest;
	return 0;
#endif
}

int vmm_snapshot(struct vmm *m, const char *account, const char *vm_id, const char *name,
                 const struct vm_persistence *persistence, struct snapshot_info *ret,
                 struct err *err)
{
	struct snapshot_info n = { .vcpus = 2, .mem_mb = 2048, .disk_mb = 20480 };
	struct vm_info *v;

	LOCK_SCOPE(&m->lock);
	v = fake_find(m, account, vm_id, err);
	if (!v)
		return -ENOENT;
	id_make("sc-", n.id);
	snprintf(n.account, sizeof(n.account), "%s", account);
	snprintf(n.name, sizeof(n.name), "%s", name ? name : "");
	snprintf(n.source_vm, sizeof(n.source_vm), "%s", v->id);
	snprintf(n.source_instance, sizeof(n.source_instance), "%s", v->instance);
	n.persistent = persistence->type == PERSIST_PERSISTENT;
	n.priority = persistence->priority;
	n.created_ms = m->clock++;
	*ret = m->snaps[m->n_snaps++] = n;
	return 0;
}

int vmm_snapshot_list(struct vmm *m, const char *account, bool include_deleted,
                      struct snapshot_info **ret, size_t *ret_n, struct err *err)
{
	LOCK_SCOPE(&m->lock);
	*ret = calloc(ROWS, sizeof(**ret));
	*ret_n = 0;
	for (size_t i = m->n_snaps; i-- > 0;)
		if (strcmp(m->snaps[i].account, account) == 0 &&
		    (include_deleted || !m->snaps[i].deleted))
			(*ret)[(*ret_n)++] = m->snaps[i];
	return 0;
}

int vmm_snapshot_get(struct vmm *m, const char *account, const char *id, struct snapshot_info *ret,
                     struct err *err)
{
	struct snapshot_info *n;

	LOCK_SCOPE(&m->lock);
	n = find_snap(m, account, id, err);
	if (!n)
		return -ENOENT;
	*ret = *n;
	return 0;
}

int vmm_snapshot_rename(struct vmm *m, const char *account, const char *id, const char *name,
                        struct err *err)
{
	struct snapshot_info *n;

	LOCK_SCOPE(&m->lock);
	n = find_snap(m, account, id, err);
	if (!n)
		return -ENOENT;
	snprintf(n->name, sizeof(n->name), "%s", name);
	return 0;
}

int vmm_snapshot_delete(struct vmm *m, const char *account, const char *id, struct err *err)
{
	struct snapshot_info *n;

	LOCK_SCOPE(&m->lock);
	n = find_snap(m, account, id, err);
	if (!n)
		return -ENOENT;
	if (n->deleted)
		return err_tag(err, -EALREADY, ERR_SNAPSHOT_ALREADY_DELETED, "deleted before");
	n->deleted = true;
	return 0;
}

void vmm_status(struct vmm *m, struct vmm_status *ret)
{
	*ret = (struct vmm_status){ .accel = "tcg",
		                    .accel_why = "no /dev/kvm",
		                    .qemu_version = "7.2.0",
		                    .template_state = "ready",
		                    .running = (unsigned)m->n_vms,
		                    .vcpus = 2,
		                    .mem_mb = 2048,
		                    .disk_mb = 20480 };
}

#ifndef FAKE_REAL_GUEST
/* ---- the guest ---- */

void guest_unref(struct guest *g)
{
}

static bool reset(struct vmm *m)
{
	if (!m->resets)
		return false;
	m->resets--;
	return true;
}

static int ended(struct err *err)
{
	return err_set(err, -ECONNRESET, "the connection ended");
}

static void set_out(char **p, size_t *n, const char *text, size_t len)
{
	*p = malloc(len + 1);
	memcpy(*p, text, len);
	(*p)[len] = '\0';
	*n = len;
}

struct guest *fake_the_guest(struct vmm *m)
{
	the_guest.m = m;
	return &the_guest;
}

int guest_exec(struct guest *g, const struct guest_exec_req *req, struct guest_exec_result *ret,
               struct err *err)
{
	static const char binary[] = "a\xff\xfe\0b\xe2\x82\xac\xe2\x82";
	struct vmm *m = g->m;
	const char *c = req->command;

	if (strncmp(c, "exec bash", 9) == 0 && fake_step(req, ret))
		return 0;
	LOCK_SCOPE(&m->lock);
	if (strcmp(c, "reset") == 0 || reset(m))
		return ended(err);
	if (strncmp(c, "echo ", 5) == 0) {
		set_out(&ret->out, &ret->out_len, c + 5, strlen(c + 5));
	} else if (strcmp(c, "whoami") == 0) {
		const char *u = req->user ? req->user : "root";

		if (strcmp(u, "nobody2") == 0)
			return err_tag(err, -ENOENT, ERR_USER_NOT_FOUND, "no user '%s'", u);
		set_out(&ret->out, &ret->out_len, u, strlen(u));
	} else if (strcmp(c, "fail") == 0) {
		set_out(&ret->errout, &ret->errout_len, "no good", 7);
		ret->exit_code = 3;
	} else if (strcmp(c, "binary") == 0) {
		set_out(&ret->out, &ret->out_len, binary, sizeof(binary) - 1);
	} else if (strcmp(c, "block") == 0) {
		set_out(&ret->out, &ret->out_len, "partial", 7);
		ret->timed_out = !block(m, req->timeout_ms);
		if (m->release)
			set_out(&ret->errout, &ret->errout_len, "released", 8);
	} else if (!fake_journal_reply(c, &ret->out, &ret->out_len)) {
		ret->exit_code = 127;
	}
	return 0;
}

static struct file *find_file(struct vmm *m, const char *path)
{
	for (size_t i = 0; i < FILES; i++)
		if (m->files[i].used && strcmp(m->files[i].path, path) == 0)
			return &m->files[i];
	return NULL;
}

void fake_file(struct vmm *m, const char *path, const void *p, size_t n)
{
	struct file *f;

	LOCK_SCOPE(&m->lock);
	f = find_file(m, path);
	for (size_t i = 0; !f && i < FILES; i++)
		if (!m->files[i].used)
			f = &m->files[i];
	if (!f)
		abort();
	free(f->p);
	f->used = true;
	f->p = malloc(n + 1);
	f->n = n;
	snprintf(f->path, sizeof(f->path), "%s", path);
	for (size_t i = 0; i < n; i++)
		f->p[i] = p ? ((const unsigned char *)p)[i] : (unsigned char)(i * 31);
}

const unsigned char *fake_file_data(struct vmm *m, const char *path, size_t *ret_n)
{
	struct file *f;

	LOCK_SCOPE(&m->lock);
	f = find_file(m, path);
	if (!f)
		return NULL;
	*ret_n = f->n;
	return f->p;
}

int guest_stat(struct guest *g, const char *user, const char *path, struct guest_stat *ret,
               struct err *err)
{
	struct vmm *m = g->m;
	struct file *f;

	LOCK_SCOPE(&m->lock);
	if (reset(m))
		return ended(err);
	*ret = (struct guest_stat){ .kind = GUEST_FILE };
	if (strcmp(path, "/dir") == 0) {
		ret->kind = GUEST_DIR;
		return 0;
	}
	if (strcmp(path, "/dev/zero") == 0) {
		ret->kind = GUEST_OTHER;
		return 0;
	}
	if (strcmp(path, "/endless") == 0)
		return 0;
	if (strcmp(path, "/secret") == 0)
		return err_set(err, -EACCES, "permission denied");
	f = find_file(m, path);
	if (!f)
		return err_set(err, -ENOENT, "stat '%.100s': no such file", path);
	ret->size = f->n;
	return 0;
}

int guest_read_file(struct guest *g, const char *user, const char *path, uint64_t off, uint64_t len,
                    guest_sink_fn sink, void *ctx, uint64_t deadline_ms, struct err *err)
{
	struct vmm *m = g->m;
	static unsigned char zeros[65536];
	struct file *f;
	int r = 0;

	while (strcmp(path, "/endless") == 0) /* a guest that never stops sending */
		if ((r = sink(ctx, zeros, sizeof(zeros))) < 0)
			return err_set(err, -ECANCELED, "cancelled");
	LOCK_SCOPE(&m->lock);
	if (reset(m))
		return ended(err);
	f = find_file(m, path);
	if (!f)
		return err_set(err, -ENOENT, "no such file");
	for (size_t i = 0; r >= 0 && i < f->n; i += 10000)
		r = sink(ctx, f->p + i, MIN(f->n - i, 10000u));
	return r < 0 ? err_set(err, -ECANCELED, "cancelled") : 0;
}

int guest_write_file(struct guest *g, const char *user, const char *path, uint32_t mode,
                     guest_source_fn source, void *ctx, uint64_t deadline_ms, struct err *err)
{
	struct vmm *m = g->m;
	size_t n = 0, cap = 1 << 20;
	unsigned char *p;
	ssize_t k;

	if (strcmp(path, "/dir") == 0)
		return err_set(err, -EISDIR, "is a directory");
	mutex_lock(&m->lock);
	if (reset(m)) {
		mutex_unlock(&m->lock);
		return ended(err);
	}
	mutex_unlock(&m->lock);
	p = malloc(cap);
	while ((k = source(ctx, p + n, MIN(cap - n, 7777u))) > 0) {
		n += (size_t)k;
		if (cap - n < 7777)
			p = realloc(p, cap *= 2);
	}
	if (k == 0)
		fake_file(m, path, p, n);
	free(p);
	return k < 0 ? err_set(err, (int)k, "cancelled") : 0;
}

int guest_list_dir(struct guest *g, const char *user, const char *path, struct guest_dirent **ret,
                   size_t *ret_n, struct err *err)
{
	LOCK_SCOPE(&g->m->lock);
	if (reset(g->m))
		return ended(err);
	*ret = calloc(3, sizeof(**ret));
	(*ret)[0] = (struct guest_dirent){ strdup("sub"), GUEST_DIR };
	(*ret)[1] = (struct guest_dirent){ strdup("f\xff.txt"), GUEST_FILE };
	(*ret)[2] = (struct guest_dirent){ strdup("link"), GUEST_SYMLINK };
	*ret_n = 3;
	return 0;
}

void guest_dirents_free(struct guest_dirent *d, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(d[i].name);
	free(d);
}
#endif
