/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fault_store.c - a SQLite VFS over the usual one
 *
 * A file of ours has the real VFS's file behind it, in the same allocation. Calls that read or
 * change a file ask fault_hit(); locks and shared memory are passed on as they are. There is
 * no xFetch: memory maps would get around us.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <sqlite3.h>

#include "base/auto.h"
#include "tests/fault/fault.h"

struct file {
	sqlite3_file base;
	char name[48]; /* the last part of its path, for fault_what() */
	sqlite3_file *real;
};

static sqlite3_vfs *below; /* the VFS that was the default before */
static sqlite3_vfs vfs;
static sqlite3_mem_methods mem_below;

static sqlite3_file *real(sqlite3_file *f)
{
	return ((struct file *)f)->real;
}

/* SQLITE_OK, or the error that SQLite is to see. */
static int hit(sqlite3_file *f, const char *what, int ioerr)
{
	switch (fault_hit(FAULT_STORE, what, f ? ((struct file *)f)->name : "")) {
	case 0:
		return SQLITE_OK;
	case ENOSPC:
		return SQLITE_FULL;
	case ENOMEM:
		return SQLITE_IOERR_NOMEM;
	default:
		return ioerr;
	}
}

static int file_close(sqlite3_file *f)
{
	return real(f)->pMethods->xClose(real(f));
}

static int file_read(sqlite3_file *f, void *p, int n, sqlite3_int64 off)
{
	int rc = hit(f, "xRead", SQLITE_IOERR_READ);

	return rc ? rc : real(f)->pMethods->xRead(real(f), p, n, off);
}

static int file_write(sqlite3_file *f, const void *p, int n, sqlite3_int64 off)
{
	int rc = hit(f, "xWrite", SQLITE_IOERR_WRITE);

	return rc ? rc : real(f)->pMethods->xWrite(real(f), p, n, off);
}

static int file_truncate(sqlite3_file *f, sqlite3_int64 size)
{
	int rc = hit(f, "xTruncate", SQLITE_IOERR_TRUNCATE);

	return rc ? rc : real(f)->pMethods->xTruncate(real(f), size);
}

static int file_sync(sqlite3_file *f, int flags)
{
	int rc = hit(f, "xSync", SQLITE_IOERR_FSYNC);

	return rc ? rc : real(f)->pMethods->xSync(real(f), flags);
}

static int file_size(sqlite3_file *f, sqlite3_int64 *ret)
{
	return real(f)->pMethods->xFileSize(real(f), ret);
}

static int file_lock(sqlite3_file *f, int level)
{
	return real(f)->pMethods->xLock(real(f), level);
}

static int file_unlock(sqlite3_file *f, int level)
{
	return real(f)->pMethods->xUnlock(real(f), level);
}

static int file_reserved(sqlite3_file *f, int *ret)
{
	return real(f)->pMethods->xCheckReservedLock(real(f), ret);
}

static int file_control(sqlite3_file *f, int op, void *arg)
{
	return real(f)->pMethods->xFileControl(real(f), op, arg);
}

static int file_sector(sqlite3_file *f)
{
	return real(f)->pMethods->xSectorSize(real(f));
}

static int file_device(sqlite3_file *f)
{
	return real(f)->pMethods->xDeviceCharacteristics(real(f));
}

static int file_shm_map(sqlite3_file *f, int page, int size, int extend, void volatile **ret)
{
	return real(f)->pMethods->xShmMap(real(f), page, size, extend, ret);
}

static int file_shm_lock(sqlite3_file *f, int off, int n, int flags)
{
	return real(f)->pMethods->xShmLock(real(f), off, n, flags);
}

static void file_shm_barrier(sqlite3_file *f)
{
	real(f)->pMethods->xShmBarrier(real(f));
}

static int file_shm_unmap(sqlite3_file *f, int remove_it)
{
	return real(f)->pMethods->xShmUnmap(real(f), remove_it);
}

static const sqlite3_io_methods methods = {
	.iVersion = 2,
	.xClose = file_close,
	.xRead = file_read,
	.xWrite = file_write,
	.xTruncate = file_truncate,
	.xSync = file_sync,
	.xFileSize = file_size,
	.xLock = file_lock,
	.xUnlock = file_unlock,
	.xCheckReservedLock = file_reserved,
	.xFileControl = file_control,
	.xSectorSize = file_sector,
	.xDeviceCharacteristics = file_device,
	.xShmMap = file_shm_map,
	.xShmLock = file_shm_lock,
	.xShmBarrier = file_shm_barrier,
	.xShmUnmap = file_shm_unmap,
};

static int vfs_open(sqlite3_vfs *v, const char *path, sqlite3_file *f, int flags, int *ret_flags)
{
	struct file *o = (struct file *)f;
	const char *slash = path ? strrchr(path, '/') : NULL;
	int rc;

	memset(o, 0, sizeof(*o));
	snprintf(o->name, sizeof(o->name), "%s", slash ? slash + 1 : path ? path : "(temporary)");
	rc = hit(f, "xOpen", SQLITE_CANTOPEN);
	if (rc)
		return rc;
	o->real = (sqlite3_file *)(o + 1);
	rc = below->xOpen(below, path, o->real, flags, ret_flags);
	if (o->real->pMethods) /* to be closed, even when it failed */
		o->base.pMethods = &methods;
	return rc;
}

static int vfs_delete(sqlite3_vfs *v, const char *path, int sync)
{
	int rc = hit(NULL, "xDelete", SQLITE_IOERR_DELETE);

	return rc ? rc : below->xDelete(below, path, sync);
}

/* Memory: SQLite's own allocator, after fault_hit(). */
static void *mem_malloc(int n)
{
	return fault_hit(FAULT_STORE_MEMORY, "malloc", "") ? NULL : mem_below.xMalloc(n);
}

static void *mem_realloc(void *p, int n)
{
	return fault_hit(FAULT_STORE_MEMORY, "realloc", "") ? NULL : mem_below.xRealloc(p, n);
}

static int install_memory(void)
{
	sqlite3_mem_methods m;

	if (sqlite3_config(SQLITE_CONFIG_GETMALLOC, &mem_below) != SQLITE_OK)
		return -EBUSY;
	m = mem_below;
	m.xMalloc = mem_malloc;
	m.xRealloc = mem_realloc;
	return sqlite3_config(SQLITE_CONFIG_MALLOC, &m) == SQLITE_OK ? 0 : -EBUSY;
}

int fault_store_install(bool memory)
{
	int r = 0;

	if (below)
		return 0;
	if (memory)
		r = install_memory();
	if (r == 0 && sqlite3_initialize() != SQLITE_OK)
		r = -ENOMEM;
	if (r < 0)
		return r;
	below = sqlite3_vfs_find(NULL);
	vfs = *below; /* times, randomness, names: as they are */
	vfs.zName = "fault";
	vfs.szOsFile = (int)sizeof(struct file) + below->szOsFile;
	vfs.pNext = NULL;
	vfs.xOpen = vfs_open;
	vfs.xDelete = vfs_delete;
	return sqlite3_vfs_register(&vfs, /* default= */ 1) == SQLITE_OK ? 0 : -ENOMEM;
}
