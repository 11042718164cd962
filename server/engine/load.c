/* SPDX-License-Identifier: Apache-2.0 */
/*
 * load.c - turns a blank process into a machine: disk and memory, then device state
 *
 * The point is checked before anything of it is used. Memory is mapped by a separate thread of
 * QEMU while its main loop opens the disk. Loading the device state
 * reads guest memory, so the layers come first. The result is paused. A failure leaves an unusable
 * process: the caller ends it.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "engine/engine_internal.h"

static int map_begin(struct machine *m, const struct engine_point *p, struct err *err)
{
	int fds[ENGINE_CHAIN_MAX];
	size_t n = 0;
	int r = 0;

	while (n < p->mem.n && (r = engine_open_layer(m->e, &p->mem.l[n], &fds[n], err)) == 0)
		n++;
	if (r == 0)
		r = layerctl_map(m->layers_fd, fds, n, err);
	while (n)
		close(fds[--n]);
	return r;
}

static int map_end(struct machine *m, struct err *err)
{
	int r = layerctl_mapped(m->layers_fd, deadline_in(QMP_STEP_MS), err);

	m->times.mapped = clock_us() - m->load_us;
	return r;
}

/*
 * Loads the device state. The end is reported by an event: with "events" on,
 * QEMU sends MIGRATION completed or failed, so nothing is polled.
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
	r = qmp_cmd_fd(m->qmp, "getfd", json_pack("{s:s}", "fdname", "state"), fd, deadline, NULL,
	               err);
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
			r = err_set(err, -EIO, "QEMU rejected the device state");
		if (done)
			break;
	}
	m->times.loaded = clock_us() - m->load_us;
	return r < 0 ? err_wrap(err, r, "load device state of point %s", p->id) : 0;
}

/* The layer the guest writes to: a new file or an existing one. */
static int open_top(struct engine *e, const struct machine_load *l, int *ret_rw, int *ret_ro,
                    struct err *err)
{
	char path[PATH_MAX];
	autofd int rw = -1;
	autofd int ro = -1;

	if (!l->disk_layer_exists)
		return engine_new_disk(e, l->disk_layer, (uint64_t)l->disk_mb << 20, ret_rw, ret_ro,
		                       err);
	engine_layer_path(e, l->disk_layer, path, sizeof(path));
	rw = open(path, O_RDWR | O_CLOEXEC);
	ro = rw < 0 ? -1 : open(path, O_RDONLY | O_CLOEXEC);
	if (ro < 0)
		return err_sys(err, -errno, "open disk layer '%s'", path);
	*ret_rw = TAKE_FD(rw);
	*ret_ro = TAKE_FD(ro);
	return 0;
}

static int attach_disk(struct machine *m, const struct machine_load *l, struct err *err)
{
	const char *below = NULL;
	autofd int rw = -1;
	autofd int ro = -1;
	int r = 0;

	for (size_t i = 0; r == 0 && i < l->disk.n; i++) {
		const char *id = l->disk.l[i].id;

		/* The bottom layers may already be open. */
		if (i >= m->n_base || strcmp(m->base[i], id) != 0) {
			m->n_base = MIN(m->n_base, i);
			r = block_add_layer(m, &l->disk.l[i], below, err);
		}
		below = id;
	}
	if (r == 0)
		r = open_top(m->e, l, &rw, &ro, err);
	if (r == 0)
		r = block_add_top(m, l->disk_layer, below, rw, ro, err);
	if (r == 0)
		r = block_attach(m, l->disk_layer, err);
	snprintf(m->disk_layer, sizeof(m->disk_layer), "%s", l->disk_layer);
	m->times.disk = clock_us() - m->load_us;
	return r;
}

int qemu_prepare_disk(struct machine *m, const struct engine_chain *c, struct err *err)
{
	for (size_t i = 0; i < MIN(c->n, (size_t)MACHINE_BASE_MAX); i++) {
		int r = block_add_layer(m, &c->l[i], i ? c->l[i - 1].id : NULL, err);

		if (r < 0)
			return r;
		snprintf(m->base[m->n_base++], ID_SIZE, "%s", c->l[i].id);
	}
	return 0;
}

int qemu_load(struct machine *m, const struct machine_load *l, struct err *err)
{
	int r;

	m->load_us = clock_us();
	if (m->boot != !l->point)
		return err_set(err, -EINVAL, "machine %s was not prepared for this kind of start",
		               m->instance);
	if (l->point && (r = engine_point_check(m->e, l->point, err)) < 0)
		return r;
	r = l->point ? map_begin(m, l->point, err) : 0;
	if (r == 0)
		r = attach_disk(m, l, err);
	if (r == 0 && l->point && (r = map_end(m, err)) == 0)
		r = load_state(m, l->point, err);
	if (r < 0) {
		if (!l->disk_layer_exists)
			engine_remove_layer(m->e, l->disk_layer);
		return err_wrap(err, r, "start machine %s", m->instance);
	}
	return 0;
}
