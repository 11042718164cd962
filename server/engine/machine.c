/* SPDX-License-Identifier: Apache-2.0 */
/*
 * machine.c - machines: run directory, adoption, end
 *
 * The run directory of an instance has the sockets its process listens on and its
 * logs. They outlive the server, so that its successor finds the process again.
 * How a machine runs is up to the implementation (engine_ops.h).
 */
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
#include "base/err.h"
#include "base/io.h"
#include "base/log.h"
#include "engine/engine_internal.h"
#include "privc/privc.h"

int machine_run_path(struct engine *e, const char *instance, const char *name, char *buf,
                     size_t size, struct err *err)
{
	if ((size_t)snprintf(buf, size, "%s/run/%s%s%s", e->data_dir, instance, *name ? "/" : "",
	                     name) >= size)
		return err_set(err, -ENAMETOOLONG, "path below '%s' is too long", e->data_dir);
	return 0;
}

struct machine *machine_new(struct engine *e, const char *instance, uint32_t vcpus, uint32_t mem_mb)
{
	struct machine *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	*m = (struct machine){ .e = e,
		               .vcpus = vcpus,
		               .mem_mb = mem_mb,
		               .proc = PROC_NONE,
		               .agent_fd = -1,
		               .layers_fd = -1 };
	mutex_init(&m->fork_lock, "machine fork");
	snprintf(m->instance, sizeof(m->instance), "%s", instance);
	return m;
}

int machine_adopt(struct engine *e, const char *instance, struct proc proc_consume, uint32_t vcpus,
                  uint32_t mem_mb, struct machine **ret, struct err *err)
{
	struct machine *m = machine_new(e, instance, vcpus, mem_mb);
	int r;

	if (!m) {
		proc_close(&proc_consume);
		return err_set(err, -ENOMEM, "adopt machine: out of memory");
	}
	m->proc = proc_consume;
	r = e->ops->adopt(m, err);
	if (r < 0) {
		machine_free(m);
		return err_wrap(err, r, "adopt machine %s", instance);
	}
	*ret = m;
	return 0;
}

struct machine *machine_free(struct machine *m)
{
	if (!m)
		return NULL;
	m->e->ops->done(m);
	proc_close(&m->proc);
	mutex_destroy(&m->fork_lock);
	free(m);
	return NULL;
}

int engine_end(struct engine *e, const char *instance, struct err *err)
{
	char path[PATH_MAX];
	int r = privc_kill(e->priv, instance, err);

	if (r == 0)
		r = machine_run_path(e, instance, "", path, sizeof(path), err);
	return r < 0 ? r : io_remove_tree(AT_FDCWD, path, err);
}

int machine_kill(struct machine *m, struct err *err)
{
	return engine_end(m->e, m->instance, err);
}

bool machine_alive(const struct machine *m)
{
	return proc_alive(&m->proc);
}

const struct machine_times *machine_times(const struct machine *m)
{
	return &m->times;
}

const struct proc *machine_proc(const struct machine *m)
{
	return &m->proc;
}

void machine_console_tail(struct engine *e, const char *instance, char *buf, size_t size)
{
	guestlog_tail(e, instance, "console", buf, size);
}

void machine_qemu_tail(struct engine *e, const char *instance, char *buf, size_t size)
{
	guestlog_tail(e, instance, "qemu.log", buf, size);
}

void machine_logs_trim(struct engine *e, const char *instance)
{
	guestlog_trim(e, instance, "console");
	guestlog_trim(e, instance, "qemu.log");
}

int machine_cont_if_stopped(struct machine *m, struct err *err)
{
	enum machine_status st = MACHINE_RUNS;
	int r = m->e->ops->status(m, deadline_in(QMP_STEP_MS), &st, err);

	return r < 0 || st == MACHINE_RUNS ? r : machine_cont(m, err);
}

int machine_stalled(struct machine *m, uint64_t deadline_ms, struct err *err)
{
	enum machine_status st = MACHINE_RUNS;
	int r = m->e->ops->status(m, deadline_ms, &st, err);

	return r < 0 ? r : st == MACHINE_STALLED;
}

/* ---- calls into the implementation ---- */

int machine_spawn(struct engine *e, const struct machine_spawn *s, struct machine **ret,
                  struct err *err)
{
	return e->ops->spawn(e, s, ret, err);
}

int machine_prepare_disk(struct machine *m, const struct engine_chain *c, struct err *err)
{
	return m->e->ops->prepare_disk(m, c, err);
}

int machine_load(struct machine *m, const struct machine_load *l, struct err *err)
{
	return m->e->ops->load(m, l, err);
}

int machine_seed(struct machine *m, const struct engine_point *p, struct err *err)
{
	return m->e->ops->seed ? m->e->ops->seed(m, p, err)
	                       : err_set(err, -ENOTSUP, "this engine has no seeds");
}

int machine_fork(struct machine *seed, const struct machine_spawn *s, const struct machine_load *l,
                 struct machine **ret, struct err *err)
{
	return seed->e->ops->fork ? seed->e->ops->fork(seed, s, l, ret, err)
	                          : err_set(err, -ENOTSUP, "this engine has no seeds");
}

int machine_cont(struct machine *m, struct err *err)
{
	return m->e->ops->cont(m, err);
}

int machine_stop(struct machine *m, struct err *err)
{
	return m->e->ops->stop(m, err);
}

bool machine_rebooted(struct machine *m)
{
	return m->e->ops->rebooted(m);
}

int machine_agent_socket(struct machine *m, int *ret_fd, struct err *err)
{
	return m->e->ops->agent_socket(m, ret_fd, err);
}

int machine_disk_layer(struct machine *m, char ret_id[ID_SIZE], struct err *err)
{
	return m->e->ops->disk_layer(m, ret_id, err);
}

int machine_disk_stats(struct machine *m, uint64_t deadline_ms, struct machine_disk_stats *ret,
                       struct err *err)
{
	return m->e->ops->disk_stats(m, deadline_ms, ret, err);
}

int machine_freeze(struct machine *m, const struct machine_freeze *f, struct machine_frozen *ret,
                   struct err *err)
{
	return m->e->ops->freeze(m, f, ret, err);
}

int machine_sweep(struct machine *m, uint64_t note, struct machine_swept *ret, struct err *err)
{
	*ret = (struct machine_swept){ 0 };
	return m->e->ops->sweep(m, note, ret, err);
}

int machine_rebase_disk(struct machine *m, const char *above, const struct engine_chain *old,
                        const struct engine_layer *to, struct err *err)
{
	return m->e->ops->rebase_disk(m, above, old, to, err);
}

int machine_grow_disk(struct machine *m, uint64_t bytes, struct err *err)
{
	return m->e->ops->grow_disk(m, bytes, err);
}
