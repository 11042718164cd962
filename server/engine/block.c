/* SPDX-License-Identifier: Apache-2.0 */
/*
 * block.c - disk layers as QEMU's block nodes
 *
 * A layer "x" is a node named x over a file node f-x; QEMU opens the file
 * through an fdset, whose number it chooses itself, so that numbers cannot
 * collide after a restart of the server. A machine starts with a disk that is
 * empty space (ARGV_NO_DISK); block_attach() replaces it with the real one. All
 * nodes of one machine have the same options, which blockdev-reopen needs again.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "engine/argv.h"
#include "engine/engine_internal.h"

static int cmd(struct machine *m, const char *name, json_t *args, struct err *err)
{
	return qmp_cmd(m->qmp, name, args, deadline_in(QMP_STEP_MS), NULL, err);
}

int block_fdset_add(struct machine *m, int fd, unsigned *ret_set, struct err *err)
{
	json_t *body = NULL;
	json_int_t set;
	int r = qmp_cmd_fd(m->qmp, "add-fd", NULL, fd, deadline_in(QMP_STEP_MS), &body, err);

	if (r < 0)
		return r;
	set = json_integer_value(json_object_get(body, "fdset-id"));
	if (!json_is_integer(json_object_get(body, "fdset-id")) || set < 0 || set > INT32_MAX)
		r = err_set(err, -EBADMSG, "QEMU did not name an fdset");
	*ret_set = (unsigned)set;
	json_decref(body);
	return r;
}

void block_fdset_remove(struct machine *m, unsigned set)
{
	cmd(m, "remove-fd", json_pack("{s:i}", "fdset-id", (int)set), NULL);
}

/* The node of a layer; backing NULL: none. */
static int add_node(struct machine *m, const char *id, const char *format, unsigned set,
                    const char *backing, bool writable, struct err *err)
{
	char file_node[ID_SIZE + 8], name[32];
	json_t *node;

	snprintf(file_node, sizeof(file_node), "f-%s", id);
	snprintf(name, sizeof(name), "/dev/fdset/%u", set);
	node = json_pack("{s:s, s:s, s:b, s:s, s:{s:s, s:s, s:s, s:b, s:s, s:s}}", "driver", format,
	                 "node-name", id, "read-only", !writable, "discard", "unmap", "file",
	                 "driver", "file", "node-name", file_node, "filename", name, "read-only",
	                 !writable, "locking", "off", "discard", "unmap");
	if (node && strcmp(format, "raw") != 0)
		json_object_set_new(node, "backing", backing ? json_string(backing) : json_null());
	return cmd(m, "blockdev-add", node, err);
}

int block_add_layer(struct machine *m, const struct engine_layer *l, const char *backing,
                    struct err *err)
{
	autofd int fd = -1;
	unsigned set;
	int r = engine_open_layer(m->e, l, &fd, err);

	if (r < 0 || (r = block_fdset_add(m, fd, &set, err)) < 0)
		return r;
	r = add_node(m, l->id, l->format, set, backing, /* writable= */ false, err);
	if (r < 0) {
		block_fdset_remove(m, set);
		return err_wrap(err, r, "add disk layer %s", l->id);
	}
	return 0;
}

int block_add_top(struct machine *m, const char *id, const char *backing, int rw, int ro,
                  struct err *err)
{
	unsigned set;
	int r = block_fdset_add(m, rw, &set, err);

	if (r < 0)
		return r;
	/* read-only: for the reopen when it becomes a backing layer */
	r = qmp_cmd_fd(m->qmp, "add-fd", json_pack("{s:i}", "fdset-id", (int)set), ro,
	               deadline_in(QMP_STEP_MS), NULL, err);
	if (r == 0)
		r = add_node(m, id, "qcow2", set, backing, /* writable= */ true, err);
	if (r < 0) {
		block_fdset_remove(m, set);
		return err_wrap(err, r, "add disk layer %s", id);
	}
	return 0;
}

int block_attach(struct machine *m, const char *id, struct err *err)
{
	int r = cmd(m, "qom-set",
	            json_pack("{s:s, s:s, s:s}", "path", "/machine/peripheral/" ARGV_DISK_DEVICE,
	                      "property", "drive", "value", id),
	            err);

	return r < 0 ? err_wrap(err, r, "attach disk layer %s to the machine", id) : 0;
}

int qemu_grow_disk(struct machine *m, uint64_t bytes, struct err *err)
{
	int r = cmd(m, "block_resize",
	            json_pack("{s:s, s:I}", "node-name", m->disk_layer, "size", (json_int_t)bytes),
	            err);

	return r < 0 ? err_wrap(err, r, "enlarge disk layer %s", m->disk_layer) : 0;
}
