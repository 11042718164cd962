/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_backup.c - a copy of a database that is in use, and what is changed in the copy
 *
 * The copy is made by VACUUM INTO on a connection of its own: one instant of the database, without
 * free pages, while others go on reading and writing. Secrets are copied as they are: sealed.
 */
#include "store/store_backup.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/err.h"
#include "store/store_internal.h"

int store_copy(const char *from, const char *to, struct err *err)
{
	sqlite3_stmt *st = NULL;
	sqlite3 *db = NULL;
	int rc = sqlite3_open_v2(from, &db, SQLITE_OPEN_READWRITE, NULL);

	if (rc == SQLITE_OK)
		rc = sqlite3_busy_timeout(db, STORE_BUSY_MS);
	if (rc == SQLITE_OK)
		rc = sqlite3_prepare_v2(db, "VACUUM INTO $1", -1, &st, NULL);
	if (rc == SQLITE_OK)
		rc = sqlite3_bind_text(st, 1, to, -1, SQLITE_STATIC);
	if (rc == SQLITE_OK)
		rc = sqlite3_step(st);
	if (rc != SQLITE_DONE)
		rc = err_set(err, rc == SQLITE_FULL ? -ENOSPC : -EIO,
		             "copy the database '%s' to '%s': %s", from, to,
		             db ? sqlite3_errmsg(db) : "out of memory");
	else
		rc = chmod(to, 0600) < 0 ? err_sys(err, -errno, "restrict '%s'", to) : 0;
	sqlite3_finalize(st);
	sqlite3_close(db);
	return rc;
}

int store_open_copy(const char *path, struct store **ret, struct err *err)
{
	return store_open_with(path, store_migrations, store_n_migrations, ret, err);
}

int store_copy_rest(struct store *s, const char *vm, const char *point, struct err *err)
{
	const char *args[] = { point, vm };
	autotx struct tx t = { 0 };
	int r;

	if ((r = tx_begin(&t, s, err)) < 0 ||
	    (r = run_text(s,
	                  "UPDATE vms SET state = 'suspended', point = $1, head = $1, slot = -1, "
	                  "disk_layer = (SELECT disk_layer FROM points WHERE id = $1) "
	                  "WHERE id = $2",
	                  args, 2, err)) < 0)
		return r;
	return tx_commit(&t, err);
}

int store_copy_lose(struct store *s, const char *vm, struct err *err)
{
	autotx struct tx t = { 0 };
	int r;

	if ((r = tx_begin(&t, s, err)) < 0 ||
	    (r = run_text(s,
	                  "UPDATE vms SET state = 'lost', point = NULL, disk_layer = NULL, "
	                  "slot = -1 WHERE id = $1",
	                  &vm, 1, err)) < 0)
		return r;
	return tx_commit(&t, err);
}

int store_copy_forget(struct store *s, const char *vm, struct err *err)
{
	autotx struct tx t = { 0 };
	int r;

	if ((r = tx_begin(&t, s, err)) < 0 || (r = net_drop_locked(s, vm, err)) < 0 ||
	    (r = run_text(s, "DELETE FROM vms WHERE id = $1", &vm, 1, err)) < 0)
		return r;
	return tx_commit(&t, err);
}
