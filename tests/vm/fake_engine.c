/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_engine.c - machines without QEMU
 *
 * The order of steps is that of server/engine: what is checked before, what is undone after, and
 * what has happened already when a step fails. A memory layer has one page with the freeze's number
 * in it, a device state is one line. So every point is small, different from all others, and real
 * to the engine's checks.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"
#include "base/sock.h"
#include "engine/engine_internal.h"
#include "layers/format.h"
#include "tests/vm/fake.h"

#define CONNECT_MS 10000

static struct fake *fake_of(const struct machine *m)
{
	return engine_impl(m->e);
}

/* The machine's process must be there, as for every question to QEMU's monitor. */
static int ask(struct machine *m, const char *what, struct err *err)
{
	int r = fake_call(fake_of(m), FAKE_ENGINE, what, m->instance, err);

	if (r)
		return r < 0 ? r : err_sys(err, -(r & ~FAKE_LOST), "engine: %s", what);
	if (!proc_alive(&m->proc))
		return err_set(err, -EPIPE, "the machine has ended");
	return 0;
}

static int spawn(struct engine *e, const struct machine_spawn *s, struct machine **ret,
                 struct err *err)
{
	static const char *const none[] = { NULL };
	char path[PATH_MAX];
	autofd int log_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	struct priv_spawn p = { .vm_id = s->instance,
		                .slot = s->slot,
		                .argv = none,
		                .env = none,
		                .log_fd = log_fd,
		                .mem_mb = s->mem_mb,
		                .vcpus = s->vcpus };
	struct machine *m;
	int r = fake_call(engine_impl(e), FAKE_ENGINE, "spawn", s->instance, err);

	if (r)
		return r < 0 ? r : -EIO;
	m = machine_new(e, s->instance, s->vcpus, s->mem_mb);
	if (!m)
		return err_set(err, -ENOMEM, "start machine: out of memory");
	m->boot = s->boot;
	r = machine_run_path(e, s->instance, "", path, sizeof(path), err);
	if (r == 0)
		r = io_mkdirs(path, 0700, err);
	if (r == 0)
		r = privc_spawn(e->priv, &p, &m->proc, err);
	if (r == 0)
		r = ask(m, "monitor", err);
	if (r < 0) {
		machine_kill(m, NULL);
		machine_free(m);
		return err_wrap(err, r, "start machine %s", s->instance);
	}
	*ret = m;
	return 0;
}

static int adopt(struct machine *m, struct err *err)
{
	struct fake_machine fm;
	int r = ask(m, "adopt", err);

	if (r < 0)
		return r;
	if (!fake_find(fake_of(m), m->instance, &fm) || !fm.n_nodes)
		return err_set(err, -EBADMSG, "it does not say which disk layer it writes to");
	snprintf(m->disk_layer, sizeof(m->disk_layer), "%s", fm.nodes[fm.n_nodes - 1]);
	return 0;
}

static void done(struct machine *m)
{
	(void)m;
}

static int prepare_disk(struct machine *m, const struct engine_chain *c, struct err *err)
{
	(void)c;
	return ask(m, "prepare disk", err);
}

static int open_all(struct machine *m, const struct engine_chain *c, struct err *err)
{
	for (size_t i = 0; i < c->n; i++) {
		autofd int fd = -1;
		int r = engine_open_layer(m->e, &c->l[i], &fd, err);

		if (r < 0)
			return r;
	}
	return 0;
}

static int open_top(struct engine *e, const struct machine_load *l, struct err *err)
{
	char path[PATH_MAX];
	autofd int rw = -1;
	autofd int ro = -1;

	if (!l->disk_layer_exists)
		return engine_new_disk(e, l->disk_layer, (uint64_t)l->disk_mb << 20, &rw, &ro, err);
	engine_layer_path(e, l->disk_layer, path, sizeof(path));
	rw = open(path, O_RDWR | O_CLOEXEC);
	return rw < 0 ? err_sys(err, -errno, "open disk layer '%s'", path) : 0;
}

static void remember(struct machine *m, const struct machine_load *l)
{
	struct fake *f = fake_of(m);
	struct fake_machine *fm;
	LOCK_SCOPE(&f->lock);

	fm = fake_get(f, m->instance);
	if (!fm)
		return;
	fm->n_nodes = 0;
	for (size_t i = 0; i < l->disk.n; i++)
		snprintf(fm->nodes[fm->n_nodes++], ID_SIZE, "%s", l->disk.l[i].id);
	snprintf(fm->nodes[fm->n_nodes++], ID_SIZE, "%s", l->disk_layer);
	snprintf(fm->token, sizeof(fm->token), "%s", l->point ? l->point->id : "");
}

static int load(struct machine *m, const struct machine_load *l, struct err *err)
{
	int r = ask(m, "load", err);

	if (r == 0 && m->boot != !l->point)
		return err_set(err, -EINVAL, "machine %s was started for the other kind of start",
		               m->instance);
	if (r == 0 && l->point && (r = engine_point_check(m->e, l->point, err)) == 0)
		r = open_all(m, &l->point->mem, err);
	if (r == 0)
		r = open_all(m, &l->disk, err);
	if (r == 0)
		r = open_top(m->e, l, err);
	if (r == 0)
		r = ask(m, "load state", err);
	if (r < 0) {
		if (!l->disk_layer_exists)
			engine_remove_layer(m->e, l->disk_layer);
		return err_wrap(err, r, "start machine %s", m->instance);
	}
	snprintf(m->disk_layer, sizeof(m->disk_layer), "%s", l->disk_layer);
	remember(m, l);
	return 0;
}

/* The guest continues, or is paused. */
static void let_run(struct machine *m, bool run)
{
	struct fake *f = fake_of(m);
	struct fake_machine *fm;
	LOCK_SCOPE(&f->lock);

	fm = fake_get(f, m->instance);
	if (!fm || fm->ended)
		return;
	fm->running = run;
	if (run)
		fm->stalled = false;
	kill(fm->agent, run ? SIGCONT : SIGSTOP);
}

static int cont(struct machine *m, struct err *err)
{
	int r = ask(m, "cont", err);

	if (r == 0)
		let_run(m, true);
	return r;
}

static int stop(struct machine *m, struct err *err)
{
	int r = ask(m, "stop", err);

	if (r == 0)
		let_run(m, false);
	return r;
}

static int status(struct machine *m, uint64_t deadline_ms, enum machine_status *ret,
                  struct err *err)
{
	struct fake_machine fm;
	int r = ask(m, "status", err);

	(void)deadline_ms;
	if (r < 0)
		return r;
	if (!fake_find(fake_of(m), m->instance, &fm))
		return err_set(err, -EPIPE, "the machine has ended");
	*ret = fm.stalled ? MACHINE_STALLED : fm.running ? MACHINE_RUNS : MACHINE_STOPPED;
	return 0;
}

static bool rebooted(struct machine *m)
{
	struct fake_machine fm;

	return fake_find(fake_of(m), m->instance, &fm) && fm.rebooted;
}

static int agent_socket(struct machine *m, int *ret_fd, struct err *err)
{
	struct fake *f = fake_of(m);
	int (*fn)(void *, int) = f->on_agent;
	char path[PATH_MAX];
	int r = ask(m, "agent socket", err);

	if (r < 0)
		return r;
	if ((r = machine_run_path(m->e, m->instance, "agent", path, sizeof(path), err)) < 0 ||
	    (r = sock_unix_connect(path, SOCK_STREAM, deadline_in(CONNECT_MS), err)) < 0)
		return r;
	*ret_fd = fn ? fn(f->ctx, r) : r;
	return *ret_fd < 0 ? *ret_fd : 0;
}

static int disk_layer(struct machine *m, char ret_id[ID_SIZE], struct err *err)
{
	struct fake_machine fm;
	int r = ask(m, "disk layer", err);

	if (r < 0)
		return r;
	if (!fake_find(fake_of(m), m->instance, &fm) || !fm.n_nodes)
		return err_set(err, -EBADMSG, "it does not say which disk layer it writes to");
	snprintf(ret_id, ID_SIZE, "%s", fm.nodes[fm.n_nodes - 1]);
	return 0;
}

static int disk_stats(struct machine *m, uint64_t deadline_ms, struct machine_disk_stats *ret,
                      struct err *err)
{
	int r = ask(m, "disk stats", err);

	(void)deadline_ms;
	if (r == 0)
		*ret = (struct machine_disk_stats){ .read_bytes = 4096, .write_bytes = 4096 };
	return r;
}

/* ---- freeze ---- */

struct freeze {
	struct machine *m;
	const struct machine_freeze *req;
	struct machine_frozen *ret;
	char part[PATH_MAX], layer[PATH_MAX], state[PATH_MAX];
	bool disk_made;
};

static int write_layer(struct freeze *f, struct err *err)
{
	uint8_t page[LAYER_PAGE], data[LAYER_PAGE] = { 0 };
	uint8_t table[sizeof(struct layer_disk_extent)];
	unsigned nth = (unsigned)f->m->next_token++;
	struct layer_extent x = { .guest_off = (uint64_t)(1 + nth % 64) * LAYER_PAGE,
		                  .file_off = LAYER_PAGE,
		                  .len = LAYER_PAGE };
	struct layer_info info = { .mem_bytes = (uint64_t)f->m->mem_mb << 20,
		                   .n_extents = 1,
		                   .data_pages = 1 };
	autofd int fd = open(f->part, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	int r;

	if (fd < 0)
		return err_sys(err, -errno, "create memory layer '%s'", f->part);
	snprintf((char *)data, sizeof(data), "%s", f->req->point_id);
	info.table_crc = layer_table_encode(&x, 1, table);
	info.data_crc = layer_crc32c(0, data, sizeof(data));
	layer_header_encode(&info, page);
	if ((r = io_write_all(fd, page, sizeof(page))) < 0 ||
	    (r = io_write_all(fd, data, sizeof(data))) < 0 ||
	    (r = io_write_all(fd, table, sizeof(table))) < 0)
		return err_sys(err, r, "write memory layer");
	f->ret->mem_bytes = sizeof(page) + sizeof(data) + sizeof(table);
	f->ret->mem_crc = info.data_crc;
	f->ret->mem_pages = 1;
	return 0;
}

static int write_state(struct freeze *f, struct err *err)
{
	char text[128];
	autofd int fd = open(f->state, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	int r;

	if (fd < 0)
		return err_sys(err, -errno, "create device state '%s'", f->state);
	snprintf(text, sizeof(text), "point %s of machine %s\n", f->req->point_id, f->m->instance);
	r = io_write_all(fd, text, strlen(text));
	if (r < 0)
		return err_sys(err, r, "write device state");
	return engine_file_crc(fd, &f->ret->state_bytes, &f->ret->state_crc, err);
}

static int prepare(struct freeze *f, struct err *err)
{
	struct engine *e = f->m->e;
	autofd int rw = -1;
	autofd int ro = -1;
	int r;

	if ((r = engine_path(e, f->part, sizeof(f->part), "layers", f->req->mem_layer, ".part",
	                     err)) < 0 ||
	    (r = engine_path(e, f->layer, sizeof(f->layer), "layers", f->req->mem_layer, "", err)) <
	            0 ||
	    (r = engine_path(e, f->state, sizeof(f->state), "points", f->req->point_id, ".state",
	                     err)) < 0)
		return r;
	if (!f->req->keep_running)
		return 0;
	r = engine_new_disk(e, f->req->disk_next, f->req->disk_bytes, &rw, &ro, err);
	f->disk_made = r == 0;
	return r < 0 ? r : ask(f->m, "freeze: add disk", err);
}

static void switch_disk(struct freeze *f)
{
	struct fake *k = fake_of(f->m);
	struct fake_machine *fm;
	LOCK_SCOPE(&k->lock);

	fm = fake_get(k, f->m->instance);
	if (fm && fm->n_nodes < FAKE_NODES_MAX)
		snprintf(fm->nodes[fm->n_nodes++], ID_SIZE, "%s", f->req->disk_next);
	snprintf(f->m->disk_layer, ID_SIZE, "%s", f->req->disk_next);
	f->ret->disk_switched = true;
}

static int in_the_stop(struct freeze *f, struct err *err)
{
	int r = write_state(f, err);

	if (r == 0)
		r = ask(f->m, "freeze: device state", err);
	if (r == 0 && f->req->keep_running) {
		r = ask(f->m, "freeze: switch disk", err);
		if (r == 0)
			switch_disk(f);
	}
	return r < 0 ? r : ask(f->m, "freeze: fork the writer", err);
}

static int freeze_run(struct freeze *f, struct err *err)
{
	int r = prepare(f, err);

	if (r == 0)
		r = stop(f->m, err);
	if (r < 0)
		return r;
	r = in_the_stop(f, err);
	if (r < 0 || f->req->keep_running) {
		int rc = cont(f->m, r < 0 ? NULL : err);

		r = r < 0 ? r : rc;
	}
	if (r < 0)
		return r;
	r = write_layer(f, err);
	if (r == 0)
		r = ask(f->m, "freeze: write memory", err);
	if (r == 0 && rename(f->part, f->layer) < 0)
		r = err_sys(err, -errno, "name memory layer");
	if (r < 0 && !f->req->keep_running)
		cont(f->m, NULL);
	return r;
}

static int freeze(struct machine *m, const struct machine_freeze *req, struct machine_frozen *ret,
                  struct err *err)
{
	struct freeze f = { .m = m, .req = req, .ret = ret };
	int r;

	*ret = (struct machine_frozen){ 0 };
	r = freeze_run(&f, err);
	if (r == 0)
		return 0;
	unlink(f.part);
	unlink(f.state);
	if (f.disk_made && !ret->disk_switched)
		engine_remove_layer(m->e, req->disk_next);
	return err_wrap(err, r, "freeze machine %s", m->instance);
}

static int rebase_disk(struct machine *m, const char *above, const struct engine_chain *old,
                       const struct engine_layer *to, struct err *err)
{
	struct fake *f = fake_of(m);
	struct fake_machine *fm;
	size_t at = 0;
	int r = ask(m, "rebase disk", err);

	(void)above;
	if (r < 0)
		return r;
	LOCK_SCOPE(&f->lock);
	fm = fake_get(f, m->instance);
	while (fm && at < fm->n_nodes && strcmp(fm->nodes[at], old->l[old->n - 1].id) != 0)
		at++;
	if (!fm || at == fm->n_nodes || at + 1 < old->n)
		return 0; /* it does not stand on that */
	/* old's bottom stays, `to` is all of it above that */
	snprintf(fm->nodes[at + 2 - old->n], ID_SIZE, "%s", to->id);
	memmove(fm->nodes[at + 3 - old->n], fm->nodes[at + 1], (fm->n_nodes - at - 1) * ID_SIZE);
	fm->n_nodes -= old->n - 2;
	return 1;
}

static int grow_disk(struct machine *m, uint64_t bytes, struct err *err)
{
	(void)bytes; /* its file has no size of its own: the next layer is made with the new one */
	return ask(m, "grow disk", err);
}

/* ---- seeds ---- */

static int seed(struct machine *m, const struct engine_point *p, struct err *err)
{
	struct fake *f = fake_of(m);
	struct fake_machine *fm;
	int r = ask(m, "seed: seal disk", err);

	if (r == 0 && (!p->disk.n || strcmp(p->disk.l[p->disk.n - 1].id, m->disk_layer) != 0))
		r = err_set(err, -EINVAL, "point %s does not end in disk layer %s", p->id,
		            m->disk_layer);
	if (r == 0)
		r = open_all(m, &p->mem, err);
	if (r == 0)
		r = ask(m, "seed: map memory", err);
	if (r < 0)
		return err_wrap(err, r, "make a seed of machine %s", m->instance);
	LOCK_SCOPE(&f->lock);
	fm = fake_get(f, m->instance);
	if (fm)
		fm->seed = true;
	return 0;
}

static int fork_process(struct machine *s, struct machine *m, int slot, struct err *err)
{
	struct fake *f = fake_of(m);
	autofd int pidfd = -1;
	struct priv_fork q = { .vm_id = m->instance,
		               .seed = s->instance,
		               .slot = slot,
		               .mem_mb = m->mem_mb,
		               .vcpus = m->vcpus,
		               .gate_fd = -1 };
	int r = ask(s, "fork", err);

	if (r == 0)
		r = fake_fork(f, m->instance, &pidfd, err);
	if (r < 0)
		return r;
	q.pidfd = pidfd;
	r = privc_fork(m->e->priv, &q, &m->proc, err);
	fake_fork_done(f, m->instance);
	return r < 0 ? r : ask(m, "fork: continue", err);
}

static int fork_steps(struct machine *s, struct machine *m, const struct machine_spawn *how,
                      const struct machine_load *l, struct err *err)
{
	char path[PATH_MAX];
	int r = ask(s, "fork: gather", err);

	if (r == 0)
		r = machine_run_path(m->e, m->instance, "", path, sizeof(path), err);
	if (r == 0)
		r = io_mkdirs(path, 0700, err);
	if (r == 0)
		r = fork_process(s, m, how->slot, err);
	if (r == 0)
		r = open_top(m->e, l, err);
	if (r < 0)
		return r;
	r = ask(m, "fork: add disk", err);
	if (r < 0) {
		engine_remove_layer(m->e, l->disk_layer);
		return r;
	}
	snprintf(m->disk_layer, sizeof(m->disk_layer), "%s", l->disk_layer);
	remember(m, l);
	return 0;
}

static int fork_seed(struct machine *s, const struct machine_spawn *how,
                     const struct machine_load *l, struct machine **ret, struct err *err)
{
	struct machine *m = machine_new(s->e, how->instance, s->vcpus, s->mem_mb);
	int r;

	if (!m)
		return err_set(err, -ENOMEM, "fork machine %s: out of memory", s->instance);
	r = fork_steps(s, m, how, l, err);
	if (r < 0) {
		machine_kill(m, NULL);
		machine_free(m);
		return err_wrap(err, r, "fork machine %s", s->instance);
	}
	*ret = m;
	return 0;
}

/* It is stopped, and goes on: what a sweep is for its manager. */
static int sweep(struct machine *m, uint64_t note, struct machine_swept *ret, struct err *err)
{
	int r = note ? ask(m, "sweep: look", err) : err_set(err, -ENOTSUP, "no note"), rc;

	if (r == 0)
		r = stop(m, err);
	if (r < 0)
		return r;
	ret->found_pages = 10000;
	r = ask(m, "sweep: give", err);
	if (r == 0)
		ret->given_pages = 10000;
	rc = cont(m, r < 0 ? NULL : err);
	return r < 0 ? r : rc;
}

static const struct engine_ops fake_ops = {
	.spawn = spawn,
	.adopt = adopt,
	.done = done,
	.prepare_disk = prepare_disk,
	.load = load,
	.cont = cont,
	.stop = stop,
	.status = status,
	.rebooted = rebooted,
	.agent_socket = agent_socket,
	.disk_layer = disk_layer,
	.disk_stats = disk_stats,
	.freeze = freeze,
	.seed = seed,
	.fork = fork_seed,
	.sweep = sweep,
	.grow_disk = grow_disk,
	.rebase_disk = rebase_disk,
};

int fake_engine_new(struct fake *f, struct privc *priv, struct engine **ret, struct err *err)
{
	struct engine_info info = { .accel = ACCEL_TCG,
		                    .accel_why = "there is no machine",
		                    .qemu_version = "0.0 (fake)",
		                    .machine = "fake",
		                    .cpu = "fake",
		                    .cmdline = "" };

	return engine_make(f->data_dir, priv, &fake_ops, f, &info, ret, err);
}
