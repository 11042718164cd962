/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spawn.c - starts a blank QEMU process: a machine without disk, memory and state
 *
 * Order: the run directory, the three listening sockets and the console's
 * file, then pando-priv starts the jailed QEMU with these descriptors, then its
 * monitor and channels are connected. It becomes a particular VM later
 * (load.c), so blank processes can be started ahead of need.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
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
#include "privc/privc.h"

/* Descriptors to be passed to QEMU: add() returns the number each will have there. */
struct fd_list {
	int fd[PRIV_SPAWN_FDS_MAX]; /* owned */
	size_t n;
};

static int fd_add(struct fd_list *l, int fd_consume)
{
	if (l->n == PRIV_SPAWN_FDS_MAX) {
		close(fd_consume);
		return -1;
	}
	l->fd[l->n] = fd_consume;
	return PRIV_FD_FIRST + (int)l->n++;
}

static void fd_list_done(struct fd_list *l)
{
	while (l->n)
		close(l->fd[--l->n]);
}

static int listen_at(struct engine *e, const char *instance, const char *name, int type,
                     struct err *err)
{
	char path[PATH_MAX];
	int r = machine_run_path(e, instance, name, path, sizeof(path), err);

	return r < 0 ? r : sock_unix_listen(path, type, err);
}

static int image_fd(struct engine *e, const char *name, struct err *err)
{
	char path[PATH_MAX];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", e->image_dir, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return err_sys(err, -errno, "open '%s' of the base image", path);
	return fd;
}

/* All descriptors and the arguments that name them. */
static int gather(struct engine *e, const struct machine_spawn *s, struct fd_list *fds,
                  struct argv_spec *a, int *ret_layers_no, struct err *err)
{
	int fd;

	if ((fd = listen_at(e, s->instance, "qmp", SOCK_STREAM, err)) < 0)
		return fd;
	a->fd_qmp = fd_add(fds, fd);
	if ((fd = listen_at(e, s->instance, "agent", SOCK_STREAM, err)) < 0)
		return fd;
	a->fd_agent = fd_add(fds, fd);
	if ((fd = listen_at(e, s->instance, "layers", SOCK_SEQPACKET, err)) < 0)
		return fd;
	*ret_layers_no = fd_add(fds, fd);
	if ((fd = guestlog_create(e, s->instance, "console", err)) < 0)
		return fd;
	a->fd_console = fd_add(fds, fd);
	a->fd_kernel = a->fd_initrd = -1;
	if (s->boot) {
		if ((fd = image_fd(e, "vmlinux", err)) < 0)
			return fd;
		a->fd_kernel = fd_add(fds, fd);
		if ((fd = image_fd(e, "initrd", err)) < 0)
			return fd;
		a->fd_initrd = fd_add(fds, fd);
	}
	return 0;
}

static int spawn(struct machine *m, const struct machine_spawn *s, struct err *err)
{
	struct argv_spec a = { .accel = m->e->info.accel,
		               .machine = argv_machine(m->e->info.accel),
		               .cpu = argv_cpu(m->e->info.accel),
		               .vcpus = s->vcpus,
		               .mem_mb = s->mem_mb,
		               .thaw = !s->boot,
		               .boot_vcpus = m->e->info.boot_vcpus,
		               .tsc_khz = m->e->tsc_khz,
		               .tap = s->slot >= 0,
		               .seed = s->seed };
	AUTO(fd_list_done) struct fd_list fds = { 0 };
	AUTO(argv_done) struct argv argv = { 0 };
	char env_fd[48], env_mem[48];
	const char *env[] = { env_fd, env_mem, s->seed ? "PANDO_LAYERS_SEED=1" : NULL, NULL };
	autofd int log_fd = -1;
	int layers_no = -1, r;

	r = gather(m->e, s, &fds, &a, &layers_no, err);
	if (r < 0 || (r = argv_build(&a, &argv, err)) < 0)
		return r;
	log_fd = guestlog_create(m->e, s->instance, "qemu.log", err);
	if (log_fd < 0)
		return log_fd;
	snprintf(env_fd, sizeof(env_fd), "PANDO_LAYERS_FD=%d", layers_no);
	snprintf(env_mem, sizeof(env_mem), "PANDO_LAYERS_MEM=%llu",
	         (unsigned long long)s->mem_mb << 20);
	struct priv_spawn p = { .vm_id = s->instance,
		                .slot = s->slot,
		                .argv = (const char *const *)argv.v,
		                .env = env,
		                .fds = fds.fd,
		                .n_fds = fds.n,
		                .log_fd = log_fd,
		                .mem_mb = s->mem_mb,
		                .vcpus = s->vcpus,
		                .seed = s->seed,
		                .kvm = m->e->info.accel == ACCEL_KVM };
	m->times.prepared = clock_us() - m->started_us;
	r = privc_spawn(m->e->priv, &p, &m->proc, err);
	m->times.spawned = clock_us() - m->started_us;
	return r;
}

/* QEMU's last message, if it ended before its monitor answered. */
static void add_qemu_log(struct machine *m, int r, struct err *err)
{
	char text[4096];
	size_t n;

	machine_qemu_tail(m->e, m->instance, text, sizeof(text));
	n = strlen(text);
	while (n && text[n - 1] == '\n')
		text[--n] = '\0';
	char *line = strrchr(text, '\n');
	if (*text)
		err_wrap(err, r, "QEMU said '%.160s'", line ? line + 1 : text);
}

int qemu_spawn(struct engine *e, const struct machine_spawn *s, struct machine **ret,
               struct err *err)
{
	uint64_t t0 = clock_us();
	struct machine *m;
	char path[PATH_MAX];
	int r;

	if (s->vcpus < 1 || s->vcpus > ENGINE_VCPUS_MAX || s->mem_mb < ENGINE_MEM_MIN_MB ||
	    s->mem_mb > ENGINE_MEM_MAX_MB)
		return err_set(err, -EINVAL, "%u vCPUs and %u MB: allowed are 1 to %d and %d to %d",
		               s->vcpus, s->mem_mb, ENGINE_VCPUS_MAX, ENGINE_MEM_MIN_MB,
		               ENGINE_MEM_MAX_MB);
	m = machine_new(e, s->instance, s->vcpus, s->mem_mb);
	if (!m)
		return err_set(err, -ENOMEM, "start machine: out of memory");
	m->boot = s->boot;
	m->started_us = t0;
	r = machine_run_path(e, s->instance, "", path, sizeof(path), err);
	if (r == 0)
		r = io_mkdirs(path, 0700, err);
	if (r == 0)
		r = spawn(m, s, err);
	if (r == 0) {
		r = machine_connect(m, QEMU_START_MS, err);
		if (r < 0)
			add_qemu_log(m, r, err);
	}
	/* Queried now, so that loading a state need not wait for it. */
	if (r == 0 && !s->boot)
		r = qmp_cmd(m->qmp, "migrate-set-capabilities",
		            json_pack("{s:[{s:s,s:b}]}", "capabilities", "capability", "events",
		                      "state", 1),
		            deadline_in(QMP_STEP_MS), NULL, err);
	/* The announcement on the network comes first after a thaw; the slot has only this
	 * guest, so once is enough. (Without any, QEMU 7.2 crashes when the guest powers
	 * off.) */
	if (r == 0 && !s->boot)
		r = qmp_cmd(m->qmp, "migrate-set-parameters",
		            json_pack("{s:i}", "announce-rounds", 1), deadline_in(QMP_STEP_MS),
		            NULL, err);
	m->times.monitor = clock_us() - t0;
	if (r < 0) {
		machine_kill(m, NULL);
		machine_free(m);
		return err_wrap(err, r, "start machine %s", s->instance);
	}
	*ret = m;
	return 0;
}
