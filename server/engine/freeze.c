/* SPDX-License-Identifier: Apache-2.0 */
/*
 * freeze.c - freezes a running process into a point
 *
 * Before the stop: everything that can be prepared (files, the next disk
 * layer as a block node). During the stop: device state, switch of the disk
 * layer, fork of the memory writer. Then the guest continues, and the writer (a
 * frozen copy of the process made by the layer library) takes the time it
 * needs. So memory, disk and device state describe one instant.
 *
 * A machine that is not to continue (suspend) is left stopped with its disk
 * flushed and released, and no new disk layer is created; the caller ends the process once the
 * point is in the store. After any failure the machine continues as before.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"
#include "engine/engine_internal.h"
#include "layers/format.h"

#define STATE_ROOM (16 << 10)    /* bytes reserved for a device state */
#define STATE_ROOM_CPU (8 << 10) /* and for each vCPU */

struct freeze {
	struct machine *m;
	const struct machine_freeze *req;
	struct machine_frozen *ret;
	char part[PATH_MAX], layer[PATH_MAX], state[PATH_MAX];
	int mem_fd, state_fd;
	struct layer_kernel kernel;
	unsigned state_set;
	bool node_added;
};

/* The layer the guest will write to after the freeze, as a node without backing. */
static int prepare_disk(struct freeze *f, struct err *err)
{
	struct machine *m = f->m;
	const char *id = f->req->disk_next;
	autofd int rw = -1;
	autofd int ro = -1;
	int r = engine_new_disk(m->e, id, f->req->disk_bytes, &rw, &ro, err);

	if (r < 0)
		return r;
	f->node_added = true; /* or at least its file */
	return block_add_top(m, id, /* backing= */ NULL, rw, ro, err);
}

static int prepare_files(struct freeze *f, struct err *err)
{
	struct engine *e = f->m->e;
	autofd int wr = -1;
	int r;

	if ((r = engine_path(e, f->part, sizeof(f->part), "layers", f->req->mem_layer, ".part",
	                     err)) < 0 ||
	    (r = engine_path(e, f->layer, sizeof(f->layer), "layers", f->req->mem_layer, "", err)) <
	            0 ||
	    (r = engine_path(e, f->state, sizeof(f->state), "points", f->req->point_id, ".state",
	                     err)) < 0)
		return r;
	f->mem_fd = open(f->part, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (f->mem_fd < 0)
		return err_sys(err, -errno, "create memory layer '%s'", f->part);
	f->state_fd = open(f->state, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (f->state_fd < 0)
		return err_sys(err, -errno, "create device state '%s'", f->state);
	/* Reserved beforehand, because QEMU's own error would not say why. */
	if (fallocate(f->state_fd, FALLOC_FL_KEEP_SIZE, 0,
	              STATE_ROOM + (off_t)f->m->vcpus * STATE_ROOM_CPU) < 0 &&
	    (errno == ENOSPC || errno == EDQUOT))
		return err_sys(err, -errno, "write device state '%s'", f->state);
	wr = open(f->state, O_WRONLY | O_CLOEXEC); /* an fdset matches access modes exactly */
	if (wr < 0)
		return err_sys(err, -errno, "open device state '%s'", f->state);
	return block_fdset_add(f->m, wr, &f->state_set, err);
}

/* The part during which the guest is paused. */
static int in_the_stop(struct freeze *f, uint64_t token, struct err *err)
{
	struct machine *m = f->m;
	uint64_t deadline = deadline_in(QMP_STEP_MS);
	char name[32];
	int r;

	snprintf(name, sizeof(name), "/dev/fdset/%u", f->state_set);
	/* live=true on a stopped machine also flushes and releases the disks: for suspend only */
	r = qmp_cmd(m->qmp, "xen-save-devices-state",
	            json_pack("{s:s, s:b}", "filename", name, "live",
	                      !f->req->keep_running && !f->req->seed),
	            deadline, NULL, err);
	if (r < 0)
		return err_wrap(err, r, "save device state");
	if (f->req->keep_running) {
		r = qmp_cmd(m->qmp, "blockdev-snapshot",
		            json_pack("{s:s, s:s}", "node", m->disk_layer, "overlay",
		                      f->req->disk_next),
		            deadline, NULL, err);
		if (r < 0)
			return err_wrap(err, r, "close disk layer %s", m->disk_layer);
		snprintf(m->disk_layer, sizeof(m->disk_layer), "%s", f->req->disk_next);
		f->ret->disk_switched = true;
	}
	return layerctl_freeze(m->layers_fd, f->mem_fd, token, f->req->durable, &f->kernel,
	                       deadline, &f->ret->fork_us, err);
}

static int finish_files(struct freeze *f, struct err *err)
{
	struct machine_frozen *ret = f->ret;
	uint8_t page[LAYER_PAGE];
	struct layer_info h;
	const char *why = "";
	struct stat st;
	int r = io_pread_all(f->mem_fd, page, sizeof(page), 0);

	if (r < 0 || fstat(f->mem_fd, &st) < 0)
		return err_sys(err, r < 0 ? r : -errno, "read back memory layer");
	if (layer_header_decode(page, (uint64_t)st.st_size, &h, &why) < 0)
		return err_set(err, -EIO, "memory layer came out damaged: %s", why);
	ret->mem_bytes = (uint64_t)st.st_size;
	ret->mem_crc = h.data_crc;
	r = engine_file_crc(f->state_fd, &ret->state_bytes, &ret->state_crc, err);
	if (r < 0)
		return r;
	if (!ret->state_bytes)
		return err_set(err, -EIO, "device state came out empty");
	if (ftruncate(f->state_fd, (off_t)ret->state_bytes) < 0) /* the unused rest */
		return err_sys(err, -errno, "cut device state");
	if (f->req->durable && fsync(f->state_fd) < 0)
		return err_sys(err, -errno, "sync device state");
	if (rename(f->part, f->layer) < 0)
		return err_sys(err, -errno, "name memory layer");
	if (f->req->durable && ((r = io_sync_parent(AT_FDCWD, f->layer)) < 0 ||
	                        (r = io_sync_parent(AT_FDCWD, f->state)) < 0)) {
		unlink(f->layer);
		return err_sys(err, r, "sync the directory of a layer");
	}
	fchmod(f->mem_fd, 0400);
	return 0;
}

static void undo(struct freeze *f)
{
	if (f->mem_fd >= 0)
		unlink(f->part);
	if (f->state_fd >= 0)
		unlink(f->state);
	if (f->node_added && !f->ret->disk_switched) {
		qmp_cmd(f->m->qmp, "blockdev-del",
		        json_pack("{s:s}", "node-name", f->req->disk_next),
		        deadline_in(QMP_STEP_MS), NULL, NULL);
		engine_remove_layer(f->m->e, f->req->disk_next);
	}
}

static int freeze_run(struct freeze *f, struct err *err)
{
	struct machine *m = f->m;
	uint64_t token = ++m->next_token, t0;
	struct layer_done done;
	int r, rc;

	if (f->req->keep_running && (r = prepare_disk(f, err)) < 0)
		return r;
	r = prepare_files(f, err);
	if (r < 0)
		return r;
	f->kernel = qemu_kernel(m, f->req->note);
	t0 = clock_us();
	r = qmp_cmd(m->qmp, "stop", NULL, deadline_in(QMP_STEP_MS), NULL, err);
	if (r == 0)
		r = in_the_stop(f, token, err);
	if (r < 0 || f->req->keep_running) {
		rc = machine_cont(m, r < 0 ? NULL : err);
		if (r == 0)
			r = rc;
		f->ret->pause_us = clock_us() - t0;
	}
	block_fdset_remove(m, f->state_set);
	if (r < 0)
		return r;
	r = layerctl_wait_done(m->layers_fd, token, deadline_in(LAYER_WRITE_MS), &done, err);
	if (r == 0 && done.error)
		r = err_sys(err, -done.error, "write memory layer");
	if (r == 0) {
		f->ret->mem_pages = done.pages;
		f->ret->free_pages = done.free_bytes / LAYER_PAGE;
		f->ret->write_us = done.write_us;
		r = finish_files(f, err);
	}
	if (r < 0 && !f->req->keep_running)
		machine_cont(m, NULL);
	return r;
}

int qemu_freeze(struct machine *m, const struct machine_freeze *req, struct machine_frozen *ret,
                struct err *err)
{
	struct freeze f = { .m = m, .req = req, .ret = ret, .mem_fd = -1, .state_fd = -1 };
	int r;

	*ret = (struct machine_frozen){ 0 };
	r = freeze_run(&f, err);
	if (r < 0) {
		undo(&f);
		err_wrap(err, r, "freeze machine %s", m->instance);
	}
	if (f.mem_fd >= 0)
		close(f.mem_fd);
	if (f.state_fd >= 0)
		close(f.state_fd);
	return r;
}
