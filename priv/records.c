/* SPDX-License-Identifier: Apache-2.0 */
/*
 * priv/records.c - records are written to a temporary file and renamed
 *
 * A reader sees a complete record or none. They are not synced to disk: they must
 * survive the death of pando-priv, not a crash of the host.
 */
#include "priv/records.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/io.h"
#include "base/log.h"
#include "priv/instance.h"
#include "wire/priv.h"

#define RECORD_MAX 256 /* bytes */

int record_write(const struct instance *in, const char *id, const struct record *rec,
                 struct err *err)
{
	char path[PRIV_VM_ID_MAX + 16], tmp[PRIV_VM_ID_MAX + 16], text[RECORD_MAX];
	int n = snprintf(text, sizeof(text), "%d %" PRIu64 " %u %" PRId32 " %u %u\n", (int)rec->pid,
	                 rec->start, (unsigned)rec->uid, rec->slot, rec->limits.mem_mb,
	                 rec->limits.vcpus);
	autofd int fd = -1;
	int r;

	snprintf(path, sizeof(path), "vm/%s", id);
	snprintf(tmp, sizeof(tmp), "vm/.%s", id); /* ids do not begin with a dot */
	fd = openat(in->dirfd, tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	r = fd < 0 ? -errno : io_write_all(fd, text, (size_t)n);
	if (r == 0 && renameat(in->dirfd, tmp, in->dirfd, path) < 0)
		r = -errno;
	if (r < 0)
		unlinkat(in->dirfd, tmp, 0);
	return r < 0 ? err_sys(err, r, "write the record of VM %s", id) : 0;
}

void record_remove(const struct instance *in, const char *id)
{
	char path[PRIV_VM_ID_MAX + 16];

	snprintf(path, sizeof(path), "vm/%s", id);
	if (unlinkat(in->dirfd, path, 0) < 0 && errno != ENOENT)
		log_obj(LOG_LV_WARN, "vm", id, "remove its record: %s, ignoring", err_name(errno));
}

static int record_read(const struct instance *in, const char *id, struct record *ret)
{
	char path[NAME_MAX + 16];
	autofree char *text = NULL;
	unsigned uid;
	int pid;

	if (!priv_vm_id_valid(id))
		return -EBADMSG;
	snprintf(path, sizeof(path), "vm/%s", id);
	if (io_read_file(in->dirfd, path, RECORD_MAX, &text, NULL) < 0 ||
	    sscanf(text, "%d %" SCNu64 " %u %" SCNd32 " %u %u", &pid, &ret->start, &uid, &ret->slot,
	           &ret->limits.mem_mb, &ret->limits.vcpus) != 6 ||
	    pid <= 1 || ret->slot < -1 || ret->slot >= (int32_t)PRIV_SLOTS_LIMIT)
		return -EBADMSG;
	ret->pid = pid;
	ret->uid = uid;
	return 0;
}

int records_read(const struct instance *in,
                 void (*fn)(const char *id, const struct record *r, void *ctx), void *ctx,
                 struct err *err)
{
	int fd = openat(in->dirfd, "vm", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	autodir DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *de;

	if (!d)
		return err_sys(err, -errno, "open '%s/vm'", in->dir);
	while ((de = readdir(d))) {
		struct record rec;

		if (!strcmp(de->d_name, ".") || !strcmp(de->d_name, ".."))
			continue;
		if (record_read(in, de->d_name, &rec) == 0)
			fn(de->d_name, &rec, ctx);
		else
			unlinkat(dirfd(d), de->d_name, 0);
	}
	return 0;
}
