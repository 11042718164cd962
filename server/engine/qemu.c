/* SPDX-License-Identifier: Apache-2.0 */
/*
 * qemu.c - machines as QEMU processes: sockets, monitor commands, the table
 *
 * QEMU listens on three sockets of the run directory: qmp, agent and layers.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/sock.h"
#include "engine/engine_internal.h"

static int connect_to(struct machine *m, const char *name, int type, struct err *err)
{
	char path[PATH_MAX];
	int r = machine_run_path(m->e, m->instance, name, path, sizeof(path), err);

	return r < 0 ? r : sock_unix_connect(path, type, deadline_in(QMP_STEP_MS), err);
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
	 * Before the device state is loaded: a channel that was connected at the
	 * freeze and is connected again looks unchanged to the guest.
	 */
	m->agent_fd = connect_to(m, "agent", SOCK_STREAM, err);
	return m->agent_fd < 0 ? m->agent_fd : 0;
}

static int adopt(struct machine *m, struct err *err)
{
	int r = machine_connect(m, QMP_STEP_MS, err);

	return r < 0 ? r : machine_disk_layer(m, m->disk_layer, err);
}

static void done(struct machine *m)
{
	qmp_free(m->qmp);
	if (m->layers_fd >= 0)
		close(m->layers_fd);
	if (m->agent_fd >= 0)
		close(m->agent_fd);
}

static int cont(struct machine *m, struct err *err)
{
	return qmp_cmd(m->qmp, "cont", NULL, deadline_in(QMP_STEP_MS), NULL, err);
}

static int stop(struct machine *m, struct err *err)
{
	return qmp_cmd(m->qmp, "stop", NULL, deadline_in(QMP_STEP_MS), NULL, err);
}

static bool rebooted(struct machine *m)
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

static int status(struct machine *m, uint64_t deadline_ms, enum machine_status *ret,
                  struct err *err)
{
	json_t *st = NULL;
	const char *word;
	int r = qmp_cmd(m->qmp, "query-status", NULL, deadline_ms, &st, err);

	if (r < 0)
		return r;
	word = json_string_value(json_object_get(st, "status"));
	*ret = word && !strcmp(word, "io-error")              ? MACHINE_STALLED
	       : json_is_true(json_object_get(st, "running")) ? MACHINE_RUNS
	                                                      : MACHINE_STOPPED;
	json_decref(st);
	return 0;
}

static int agent_socket(struct machine *m, int *ret_fd, struct err *err)
{
	int fd = m->agent_fd >= 0 ? TAKE_FD(m->agent_fd) : connect_to(m, "agent", SOCK_STREAM, err);

	if (fd < 0)
		return fd;
	*ret_fd = fd;
	return 0;
}

static int disk_layer(struct machine *m, char ret_id[ID_SIZE], struct err *err)
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
		r = err_set(err, -EBADMSG, "QEMU does not report which disk layer it writes to");
	else
		snprintf(ret_id, ID_SIZE, "%s", name);
	json_decref(list);
	return r;
}

const struct engine_ops engine_qemu = {
	.spawn = qemu_spawn,
	.adopt = adopt,
	.done = done,
	.prepare_disk = qemu_prepare_disk,
	.load = qemu_load,
	.seed = qemu_seed,
	.fork = qemu_fork,
	.cont = cont,
	.stop = stop,
	.status = status,
	.rebooted = rebooted,
	.agent_socket = agent_socket,
	.disk_layer = disk_layer,
	.disk_stats = qemu_disk_stats,
	.freeze = qemu_freeze,
	.sweep = qemu_sweep,
	.grow_disk = qemu_grow_disk,
	.rebase_disk = qemu_rebase_disk,
};
