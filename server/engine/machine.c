/* SPDX-License-Identifier: Apache-2.0 */
/*
 * machine.c - a QEMU process as we hold it: its run directory and sockets, adoption, its end
 *
 * The run directory of an instance has the sockets QEMU listens on (qmp, agent,
 * layers) and its logs. They outlive the server, so that the next one finds the
 * process again.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
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
#include "base/log.h"
#include "base/sock.h"
#include "engine/engine_internal.h"
#include "privc/privc.h"

#define CONSOLE_MAX (1 << 20) /* bytes */

int machine_run_path(struct engine *e, const char *instance, const char *name, char *buf,
                     size_t size, struct err *err)
{
	if ((size_t)snprintf(buf, size, "%s/run/%s%s%s", e->data_dir, instance, *name ? "/" : "",
	                     name) >= size)
		return err_set(err, -ENAMETOOLONG, "path below '%s' is too long", e->data_dir);
	return 0;
}

static int connect_to(struct machine *m, const char *name, int type, struct err *err)
{
	char path[PATH_MAX];
	int r = machine_run_path(m->e, m->instance, name, path, sizeof(path), err);

	return r < 0 ? r : sock_unix_connect(path, type, deadline_in(QMP_STEP_MS), err);
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
	snprintf(m->instance, sizeof(m->instance), "%s", instance);
	return m;
}

int machine_connect(struct machine *m, unsigned start_ms, struct err *err)
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
	r = machine_connect(m, QMP_STEP_MS, err);
	if (r == 0)
		r = machine_disk_layer(m, m->disk_layer, err);
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

	if (machine_run_path(m->e, m->instance, "", path, sizeof(path), NULL) == 0)
		io_remove_tree(AT_FDCWD, path, NULL);
	return r;
}

int machine_cont(struct machine *m, struct err *err)
{
	return qmp_cmd(m->qmp, "cont", NULL, deadline_in(QMP_STEP_MS), NULL, err);
}

int machine_stop(struct machine *m, struct err *err)
{
	return qmp_cmd(m->qmp, "stop", NULL, deadline_in(QMP_STEP_MS), NULL, err);
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

int machine_stalled(struct machine *m, uint64_t deadline_ms, struct err *err)
{
	json_t *st = NULL;
	const char *status;
	int r = qmp_cmd(m->qmp, "query-status", NULL, deadline_ms, &st, err);

	if (r < 0)
		return r;
	status = json_string_value(json_object_get(st, "status"));
	r = status && !strcmp(status, "io-error");
	json_decref(st);
	return r;
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
	if (machine_run_path(e, instance, "console", path, sizeof(path), NULL) < 0)
		return;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return;
	k = pread(fd, buf, size - 1, MAX(0, st.st_size - (off_t)(size - 1)));
	buf[k > 0 ? k : 0] = '\0';
}

void machine_console_trim(struct engine *e, const char *instance)
{
	char path[PATH_MAX];
	struct stat st;

	/* QEMU appends: what it writes next is at the new end. */
	if (machine_run_path(e, instance, "console", path, sizeof(path), NULL) == 0 &&
	    stat(path, &st) == 0 && st.st_size > CONSOLE_MAX && truncate(path, 0) < 0)
		log_warn("'%s' was not cut, ignoring: %s", path, err_name(errno));
}
