/* SPDX-License-Identifier: Apache-2.0 */
/* store/store_backup.h - copies of the database for a backup; for vm/ and backup/ */
#pragma once

#include "store/store.h"

/* One instant of a database that may be in use; `to` must not exist. Mode 0600. */
int store_copy(const char *from, const char *to, struct err *err);
/* To change the copy; store_close() leaves one file. Its secrets stay sealed. */
int store_open_copy(const char *path, struct store **ret, struct err *err);
/* The VM rests on that point in the copy. */
int store_copy_rest(struct store *s, const char *vm, const char *point, struct err *err);
/* There is nothing of it that could be copied. */
int store_copy_lose(struct store *s, const char *vm, struct err *err);
/* It is being built: the copy has none of it. */
int store_copy_forget(struct store *s, const char *vm, struct err *err);
