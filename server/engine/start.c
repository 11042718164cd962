/* SPDX-License-Identifier: Apache-2.0 */
/*
 * start.c - from a point, or from disk layers alone, to a process
 *
 * Order: check the point, open every layer, make the disk layer to write to,
 * make the three listening sockets, have pando-priv start the jailed QEMU with
 * these descriptors, connect to its monitor, and for a thaw: map the memory
 * layers, then load the device state (loading reads guest memory, so the
 * layers come first). The result stands still. Any failure ends the process
 * and leaves no file behind.
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
#include "engine/argv.h"
#include "engine/engine_internal.h"
#include "privc/privc.h"

#define CONSOLE_MAX                                                                           \
	(4 << 20) /* bytes of console log a guest may leave; QEMU appends, the file is cut at \
	             start */

/* Descriptors on their way to QEMU: add() gives the number each will have there. */
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

static int run_path(struct engine *e, const char *instance, const char *name, char *buf,
                    size_t size, struct err *err)
{
	if ((size_t)snprintf(buf, size, "%s/run/%s%s%s", e->data_dir, instance, *name ? "/" : "",
	                     name) >= size)
		return err_set(err, -ENAMETOOLONG, "path below '%s' is too long", e->data_dir);
	return 0;
}

static int listen_at(struct engine *e, const char *instance, const char *name, int type,
                     struct err *err)
{
	char path[PATH_MAX];
	int r = run_path(e, instance, name, path, sizeof(path), err);

	return r < 0 ? r : sock_unix_listen(path, type, err);
}

static int connect_to(struct machine *m, const char *name, int type, struct err *err)
{
	char path[PATH_MAX];
	int r = run_path(m->e, m->instance, name, path, sizeof(path), err);

	return r < 0 ? r : sock_unix_connect(path, type, deadline_in(QMP_STEP_MS), err);
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

/* All descriptors and the words that name them. */
static int gather(struct engine *e, const struct machine_start *s, struct fd_list *fds,
                  struct argv_spec *a, int *ret_layers_no, struct err *err)
{
	char path[PATH_MAX];
	int fd, rw, ro, r;

	if ((fd = listen_at(e, s->instance, "qmp", SOCK_STREAM, err)) < 0)
		return fd;
	a->fd_qmp = fd_add(fds, fd);
	if ((fd = listen_at(e, s->instance, "agent", SOCK_STREAM, err)) < 0)
		return fd;
	a->fd_agent = fd_add(fds, fd);
	if ((fd = listen_at(e, s->instance, "layers", SOCK_SEQPACKET, err)) < 0)
		return fd;
	*ret_layers_no = fd_add(fds, fd);
	r = run_path(e, s->instance, "console", path, sizeof(path), err);
	if (r < 0)
		return r;
	fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_sys(err, -errno, "create '%s'", path);
	a->fd_console = fd_add(fds, fd);
	for (size_t i = 0; i < s->disk.n; i++) {
		r = engine_open_layer(e, &s->disk.l[i], &fd, err);
		if (r < 0)
			return r;
		a->fd_disk_ro[i] = fd_add(fds, fd);
	}
	if (s->disk_layer_exists) {
		engine_layer_path(e, s->disk_layer, path, sizeof(path));
		rw = open(path, O_RDWR | O_CLOEXEC);
		if (rw < 0)
			return err_sys(err, -errno, "open disk layer '%s'", path);
		a->fd_top_rw = fd_add(fds, rw);
		ro = open(path, O_RDONLY | O_CLOEXEC);
		if (ro < 0)
			return err_sys(err, -errno, "open disk layer '%s'", path);
	} else {
		r = engine_new_disk(e, s->disk_layer, (uint64_t)s->disk_mb << 20, &rw, &ro, err);
		if (r < 0)
			return r;
		a->fd_top_rw = fd_add(fds, rw);
	}
	a->fd_top_ro = fd_add(fds, ro);
	a->fd_kernel = a->fd_initrd = -1;
	if (!s->point) {
		if ((fd = image_fd(e, "vmlinux", err)) < 0)
			return fd;
		a->fd_kernel = fd_add(fds, fd);
		if ((fd = image_fd(e, "initrd", err)) < 0)
			return fd;
		a->fd_initrd = fd_add(fds, fd);
	}
	if (fds->n == PRIV_SPAWN_FDS_MAX)
		return err_set(err, -E2BIG, "disk chain of %zu layers is too long", s->disk.n);
	return 0;
}

static int spawn(struct machine *m, const struct machine_start *s, struct err *err)
{
	struct argv_spec a = { .accel = m->e->info.accel,
		               .machine = m->e->info.machine,
		               .cpu = m->e->info.cpu,
		               .vcpus = s->vcpus,
		               .mem_mb = s->mem_mb,
		               .thaw = s->point != NULL,
		               .tsc_khz = m->e->tsc_khz,
		               .disk = &s->disk,
		               .disk_layer = s->disk_layer,
		               .tap = s->slot >= 0 };
	AUTO(fd_list_done) struct fd_list fds = { 0 };
	AUTO(argv_done) struct argv argv = { 0 };
	char env_fd[48], env_mem[48], log_path[PATH_MAX];
	const char *env[] = { env_fd, env_mem, NULL };
	autofd int log_fd = -1;
	int layers_no = -1, r;

	r = gather(m->e, s, &fds, &a, &layers_no, err);
	if (r < 0 || (r = argv_build(&a, &argv, err)) < 0 ||
	    (r = run_path(m->e, s->instance, "qemu.log", log_path, sizeof(log_path), err)) < 0)
		return r;
	log_fd = open(log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	if (log_fd < 0)
		return err_sys(err, -errno, "create '%s'", log_path);
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
		                .kvm = m->e->info.accel == ACCEL_KVM };
	m->times.prepared = clock_us() - m->started_us;
	r = privc_spawn(m->e->priv, &p, &m->proc, err);
	m->times.spawned = clock_us() - m->started_us;
	return r;
}

/* What QEMU said last, when it ended before its monitor spoke. */
static void add_qemu_log(struct machine *m, struct err *err)
{
	char path[PATH_MAX];
	autofree char *text = NULL;
	size_t n;

	if (run_path(m->e, m->instance, "qemu.log", path, sizeof(path), NULL) < 0 ||
	    io_read_file(AT_FDCWD, path, 1 << 20, &text, NULL) < 0)
		return;
	n = strlen(text);
	while (n && text[n - 1] == '\n')
		text[--n] = '\0';
	char *line = strrchr(text, '\n');
	if (*text)
		err_wrap(err, "QEMU said '%.160s'", line ? line + 1 : text);
}

static int connect_all(struct machine *m, unsigned start_ms, struct err *err)
{
	int fd = connect_to(m, "qmp", SOCK_STREAM, err);
	int r;

	if (fd < 0)
		return fd;
	r = qmp_open(fd, deadline_in(start_ms), &m->qmp, err);
	if (r < 0)
		return r;
	m->times.monitor = clock_us() - m->started_us;
	m->layers_fd = connect_to(m, "layers", SOCK_SEQPACKET, err);
	if (m->layers_fd < 0)
		return m->layers_fd;
	/*
	 * Before the device state is loaded: a channel that was connected when the
	 * guest was frozen and is so again is no news to it.
	 */
	m->agent_fd = connect_to(m, "agent", SOCK_STREAM, err);
	return m->agent_fd < 0 ? m->agent_fd : 0;
}

static int map_memory(struct machine *m, const struct engine_point *p, struct err *err)
{
	int fds[ENGINE_CHAIN_MAX];
	size_t n = 0;
	int r = 0;

	while (n < p->mem.n && (r = engine_open_layer(m->e, &p->mem.l[n], &fds[n], err)) == 0)
		n++;
	if (r == 0)
		r = layerctl_map(m->layers_fd, fds, n, deadline_in(QMP_STEP_MS), err);
	m->times.mapped = clock_us() - m->started_us;
	while (n)
		close(fds[--n]);
	return r;
}

/*
 * Loads the device state. Events tell when it is done: with "events" on,
 * QEMU sends MIGRATION completed or failed; nothing is polled.
 */
static int load_state(struct machine *m, const struct engine_point *p, struct err *err)
{
	uint64_t deadline = deadline_in(STATE_LOAD_MS);
	char path[PATH_MAX];
	autofd int fd = -1;
	int r;

	r = engine_path(m->e, path, sizeof(path), "points", p->id, ".state", err);
	if (r < 0)
		return r;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return err_sys(err, -errno, "open device state of point %s", p->id);
	r = qmp_cmd(
	        m->qmp, "migrate-set-capabilities",
	        json_pack("{s:[{s:s,s:b}]}", "capabilities", "capability", "events", "state", 1),
	        deadline, NULL, err);
	if (r == 0)
		r = qmp_cmd_fd(m->qmp, "getfd", json_pack("{s:s}", "fdname", "state"), fd, deadline,
		               NULL, err);
	if (r == 0)
		r = qmp_cmd(m->qmp, "migrate-incoming", json_pack("{s:s}", "uri", "fd:state"),
		            deadline, NULL, err);
	while (r == 0) {
		json_t *data = NULL;
		const char *status;
		bool done, failed;

		r = qmp_wait_event(m->qmp, "MIGRATION", deadline, &data, err);
		status = json_string_value(json_object_get(data, "status"));
		done = status && !strcmp(status, "completed");
		failed = status && !strcmp(status, "failed");
		json_decref(data);
		if (failed)
			r = err_set(err, -EIO, "QEMU refused the device state");
		if (done)
			break;
	}
	m->times.loaded = clock_us() - m->started_us;
	return r < 0 ? err_wrap(err, "load device state of point %s", p->id) : 0;
}

int machine_start(struct engine *e, const struct machine_start *s, struct machine **ret,
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
	if (s->point && (r = engine_point_check(e, s->point, err)) < 0)
		return r;
	m = calloc(1, sizeof(*m));
	if (!m)
		return err_set(err, -ENOMEM, "start machine: out of memory");
	*m = (struct machine){ .e = e,
		               .vcpus = s->vcpus,
		               .mem_mb = s->mem_mb,
		               .proc = PROC_NONE,
		               .agent_fd = -1,
		               .layers_fd = -1,
		               .next_set = FDSET_RUNTIME,
		               .started_us = t0 };
	snprintf(m->instance, sizeof(m->instance), "%s", s->instance);
	snprintf(m->disk_layer, sizeof(m->disk_layer), "%s", s->disk_layer);
	r = run_path(e, s->instance, "", path, sizeof(path), err);
	if (r == 0)
		r = io_mkdirs(path, 0700, err);
	if (r == 0)
		r = spawn(m, s, err);
	if (r == 0) {
		r = connect_all(m, QEMU_START_MS, err);
		if (r < 0)
			add_qemu_log(m, err);
	}
	if (r == 0 && s->point && (r = map_memory(m, s->point, err)) == 0)
		r = load_state(m, s->point, err);
	if (r < 0) {
		machine_kill(m, NULL);
		if (!s->disk_layer_exists)
			engine_remove_layer(e, s->disk_layer);
		machine_free(m);
		return err_wrap(err, "start machine %s", s->instance);
	}
	*ret = m;
	return 0;
}

int machine_adopt(struct engine *e, const char *instance, struct proc proc_consume, uint32_t vcpus,
                  uint32_t mem_mb, struct machine **ret, struct err *err)
{
	struct machine *m = calloc(1, sizeof(*m));
	int r;

	if (!m) {
		proc_close(&proc_consume);
		return err_set(err, -ENOMEM, "adopt machine: out of memory");
	}
	*m = (struct machine){ .e = e,
		               .vcpus = vcpus,
		               .mem_mb = mem_mb,
		               .proc = proc_consume,
		               .agent_fd = -1,
		               .layers_fd = -1,
		               .next_set = FDSET_RUNTIME };
	snprintf(m->instance, sizeof(m->instance), "%s", instance);
	r = connect_all(m, QMP_STEP_MS, err);
	if (r == 0)
		r = machine_disk_layer(m, m->disk_layer, err);
	if (r < 0) {
		machine_free(m);
		return err_wrap(err, "adopt machine %s", instance);
	}
	*ret = m;
	return 0;
}

struct machine *machine_free(struct machine *m)
{
	if (!m)
		return NULL;
	qmp_free(m->qmp);
	if (m->layers_fd >= 0)
		close(m->layers_fd);
	if (m->agent_fd >= 0)
		close(m->agent_fd);
	proc_close(&m->proc);
	free(m);
	return NULL;
}

int machine_kill(struct machine *m, struct err *err)
{
	char path[PATH_MAX];
	int r = privc_kill(m->e->priv, m->instance, err);

	if (run_path(m->e, m->instance, "", path, sizeof(path), NULL) == 0)
		io_remove_tree(AT_FDCWD, path, NULL);
	return r;
}

int machine_cont(struct machine *m, struct err *err)
{
	return qmp_cmd(m->qmp, "cont", NULL, deadline_in(QMP_STEP_MS), NULL, err);
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

bool machine_rebooted(struct machine *m)
{
	json_t *data = NULL;
	const char *reason;
	bool yes;

	if (qmp_wait_event(m->qmp, "SHUTDOWN", deadline_in(1000), &data, NULL) < 0)
		return false;
	reason = json_string_value(json_object_get(data, "reason"));
	yes = reason && !strcmp(reason, "guest-reset");
	json_decref(data);
	return yes;
}

int machine_cont_if_stopped(struct machine *m, struct err *err)
{
	json_t *st = NULL;
	bool running;
	int r = qmp_cmd(m->qmp, "query-status", NULL, deadline_in(QMP_STEP_MS), &st, err);

	if (r < 0)
		return r;
	running = json_is_true(json_object_get(st, "running"));
	json_decref(st);
	return running ? 0 : machine_cont(m, err);
}

int machine_agent_socket(struct machine *m, int *ret_fd, struct err *err)
{
	int fd = m->agent_fd >= 0 ? TAKE_FD(m->agent_fd) : connect_to(m, "agent", SOCK_STREAM, err);

	if (fd < 0)
		return fd;
	*ret_fd = fd;
	return 0;
}

int machine_disk_layer(struct machine *m, char ret_id[ID_SIZE], struct err *err)
{
	json_t *list = NULL;
	const char *name = NULL;
	json_t *b;
	size_t i;
	int r = qmp_cmd(m->qmp, "query-block", NULL, deadline_in(QMP_STEP_MS), &list, err);

	if (r < 0)
		return r;
	json_array_foreach(list, i, b)
	{
		const char *qdev = json_string_value(json_object_get(b, "qdev"));

		if (qdev && strstr(qdev, "disk"))
			name = json_string_value(
			        json_object_get(json_object_get(b, "inserted"), "node-name"));
	}
	if (!name || !id_valid("ly-", name))
		r = err_set(err, -EBADMSG, "QEMU does not say which disk layer it writes to");
	else
		snprintf(ret_id, ID_SIZE, "%s", name);
	json_decref(list);
	return r;
}

void machine_console_tail(struct engine *e, const char *instance, char *buf, size_t size)
{
	char path[PATH_MAX];
	autofd int fd = -1;
	struct stat st;
	ssize_t k;

	buf[0] = '\0';
	if (run_path(e, instance, "console", path, sizeof(path), NULL) < 0)
		return;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return;
	k = pread(fd, buf, size - 1, MAX(0, st.st_size - (off_t)(size - 1)));
	buf[k > 0 ? k : 0] = '\0';
}
