/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fork.c - a stopped, warm process becomes a seed, and is forked into machines
 *
 * What comes out is what machine_spawn() and machine_load() of the seed's point make, but warm: the
 * code that QEMU translated comes along. The layer library in the seed forks it (layers/seed.c);
 * the new process waits until pando-priv has made it a VM like any other, then continues as a copy
 * of the seed, stopped, with descriptors of its own: those that the run directory of a machine has,
 * and one end each of three socket pairs in the place of the seed's connections to us. QEMU's
 * monitor is past its greeting there. A seed has no disk, but the nodes of the point's layers: a
 * fork gets a layer of its own on top of them.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"
#include "base/sock.h"
#include "engine/argv.h"
#include "engine/engine_internal.h"
#include "layers/control.h"
#include "privc/privc.h"

/*
 * The layer it wrote to is part of the point now, and is opened anew to be read only: QEMU opens a
 * node that was made to be written to for writing again and again, which a fork could not. The disk
 * is away meanwhile; the guest, which is stopped, does not notice.
 */
static int seal_disk(struct machine *m, const struct engine_point *p, struct err *err)
{
	size_t n = p->disk.n;
	int r;

	if (!n || strcmp(p->disk.l[n - 1].id, m->disk_layer) != 0)
		return err_set(err, -EINVAL, "point %s does not end in disk layer %s", p->id,
		               m->disk_layer);
	r = block_attach(m, ARGV_NO_DISK, err);
	if (r == 0)
		r = qmp_cmd(m->qmp, "blockdev-del", json_pack("{s:s}", "node-name", m->disk_layer),
		            deadline_in(QMP_STEP_MS), NULL, err);
	if (r == 0)
		r = block_add_layer(m, &p->disk.l[n - 1], n > 1 ? p->disk.l[n - 2].id : NULL, err);
	return r;
}

int qemu_seed(struct machine *m, const struct engine_point *p, struct err *err)
{
	int fds[ENGINE_CHAIN_MAX];
	size_t n = 0;
	int r = seal_disk(m, p, err);

	while (r == 0 && n < p->mem.n &&
	       (r = engine_open_layer(m->e, &p->mem.l[n], &fds[n], err)) == 0)
		n++;
	if (r == 0)
		r = layerctl_seed(m->layers_fd, fds, n, deadline_in(QMP_STEP_MS), err);
	while (n)
		close(fds[--n]);
	return r < 0 ? err_wrap(err, r, "make a seed of machine %s", m->instance) : 0;
}

/* What the process is given, and our ends. */
struct parts {
	int given[LAYERS_FORK_FDS];   /* owned; -1: none yet */
	int gate, qmp, agent, layers; /* owned: our ends */
};

static void parts_done(struct parts *p)
{
	int *ours[] = { &p->gate, &p->qmp, &p->agent, &p->layers };

	for (size_t i = 0; i < LAYERS_FORK_FDS; i++)
		if (p->given[i] >= 0)
			close(p->given[i]);
	for (size_t i = 0; i < ARRAY_SIZE(ours); i++)
		if (*ours[i] >= 0)
			close(*ours[i]);
}

static int pair(int type, int *ret_ours, int *ret_theirs, struct err *err)
{
	int fd[2];

	if (socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, fd) < 0)
		return err_sys(err, -errno, "socket pair");
	*ret_ours = fd[0];
	*ret_theirs = fd[1];
	return 0;
}

static int listen_at(struct machine *m, const char *name, int type, int *ret, struct err *err)
{
	char path[PATH_MAX];
	int r = machine_run_path(m->e, m->instance, name, path, sizeof(path), err);

	if (r < 0)
		return r;
	*ret = sock_unix_listen(path, type, err);
	return *ret < 0 ? *ret : 0;
}

/* A file of the seed's, to be read only. */
static int open_ro(struct machine *m, const char *dir, const char *name, const char *suffix,
                   int *ret, struct err *err)
{
	char path[PATH_MAX];
	int r = engine_path(m->e, path, sizeof(path), dir, name, suffix, err);

	if (r < 0)
		return r;
	*ret = open(path, O_RDONLY | O_CLOEXEC);
	return *ret < 0 ? err_sys(err, -errno, "open '%s'", path) : 0;
}

static int gather(struct machine *m, const char *disk, const char *point, struct parts *p,
                  struct err *err)
{
	int *g = p->given, r;

	if ((r = pair(SOCK_SEQPACKET, &p->gate, &g[LAYERS_FORK_GATE], err)) < 0 ||
	    (r = pair(SOCK_STREAM, &p->qmp, &g[LAYERS_FORK_QMP], err)) < 0 ||
	    (r = pair(SOCK_STREAM, &p->agent, &g[LAYERS_FORK_AGENT], err)) < 0 ||
	    (r = pair(SOCK_SEQPACKET, &p->layers, &g[LAYERS_FORK_LAYERS], err)) < 0 ||
	    (r = listen_at(m, "qmp", SOCK_STREAM, &g[LAYERS_FORK_QMP_LISTEN], err)) < 0 ||
	    (r = listen_at(m, "agent", SOCK_STREAM, &g[LAYERS_FORK_AGENT_LISTEN], err)) < 0 ||
	    (r = listen_at(m, "layers", SOCK_SEQPACKET, &g[LAYERS_FORK_LAYERS_LISTEN], err)) < 0 ||
	    (r = g[LAYERS_FORK_CONSOLE] = guestlog_create(m->e, m->instance, "console", err)) < 0 ||
	    (r = g[LAYERS_FORK_LOG] = guestlog_create(m->e, m->instance, "qemu.log", err)) < 0 ||
	    (r = open_ro(m, "layers", disk, "", &g[LAYERS_FORK_DISK], err)) < 0)
		return r;
	return open_ro(m, "points", point, ".state", &g[LAYERS_FORK_STATE], err);
}

static int take_process(struct machine *seed, struct machine *m, const struct machine_spawn *s,
                        struct parts *p, struct err *err)
{
	struct priv_fork f = { .vm_id = s->instance,
		               .seed = seed->instance,
		               .slot = s->slot,
		               .mem_mb = m->mem_mb,
		               .vcpus = m->vcpus,
		               .gate_fd = p->gate };
	autofd int pidfd = -1;
	int r;

	mutex_lock(&seed->fork_lock);
	r = layerctl_fork(seed->layers_fd, p->given, deadline_in(QMP_STEP_MS), &pidfd, err);
	mutex_unlock(&seed->fork_lock);
	if (r < 0)
		return r;
	m->times.prepared = clock_us() - m->started_us;
	f.pidfd = pidfd;
	r = privc_fork(m->e->priv, &f, &m->proc, err);
	/* pando-priv has opened the gate, or nobody does: then the process ends */
	close(TAKE_FD(p->gate));
	m->times.spawned = clock_us() - m->started_us;
	return r < 0 ? r : layerctl_forked(p->layers, deadline_in(QMP_STEP_MS), err);
}

/* A layer of its own on top of the one it has. */
static int attach_disk(struct machine *m, const char *below, const struct machine_load *l,
                       struct err *err)
{
	autofd int rw = -1;
	autofd int ro = -1;
	int r = engine_new_disk(m->e, l->disk_layer, (uint64_t)l->disk_mb << 20, &rw, &ro, err);

	if (r < 0)
		return r;
	r = block_add_top(m, l->disk_layer, below, rw, ro, err);
	if (r == 0)
		r = block_attach(m, l->disk_layer, err);
	if (r < 0)
		engine_remove_layer(m->e, l->disk_layer);
	else
		snprintf(m->disk_layer, sizeof(m->disk_layer), "%s", l->disk_layer);
	return r;
}

static int fork_steps(struct machine *seed, struct machine *m, const struct machine_spawn *s,
                      const struct machine_load *l, struct err *err)
{
	AUTO(parts_done) struct parts p = { .gate = -1, .qmp = -1, .agent = -1, .layers = -1 };
	char path[PATH_MAX];
	int r;

	for (size_t i = 0; i < LAYERS_FORK_FDS; i++)
		p.given[i] = -1;
	if ((r = machine_run_path(m->e, s->instance, "", path, sizeof(path), err)) < 0 ||
	    (r = io_mkdirs(path, 0700, err)) < 0 ||
	    (r = gather(m, seed->disk_layer, l->point->id, &p, err)) < 0 ||
	    (r = take_process(seed, m, s, &p, err)) < 0 ||
	    (r = qmp_open_greeted(TAKE_FD(p.qmp), &m->qmp, err)) < 0)
		return r;
	m->layers_fd = TAKE_FD(p.layers);
	m->agent_fd = TAKE_FD(p.agent);
	m->times.monitor = clock_us() - m->started_us;
	m->load_us = clock_us();
	r = attach_disk(m, seed->disk_layer, l, err);
	m->times.disk = clock_us() - m->load_us;
	return r;
}

int qemu_fork(struct machine *seed, const struct machine_spawn *s, const struct machine_load *l,
              struct machine **ret, struct err *err)
{
	struct machine *m = machine_new(seed->e, s->instance, seed->vcpus, seed->mem_mb);
	int r;

	if (!m)
		return err_set(err, -ENOMEM, "fork machine %s: out of memory", seed->instance);
	m->started_us = clock_us();
	r = fork_steps(seed, m, s, l, err);
	if (r < 0) {
		machine_kill(m, NULL);
		machine_free(m);
		return err_wrap(err, r, "fork machine %s", seed->instance);
	}
	*ret = m;
	return 0;
}
