/* SPDX-License-Identifier: Apache-2.0 */
/* cli/transfer.h - copying one file or directory between here and a VM; for cli/ */
#pragma once

#include <stdbool.h>

#include "cli/cli.h"

enum remote_kind { REMOTE_NONE, REMOTE_FILE, REMOTE_DIR, REMOTE_ERROR };

struct transfer {
	struct cli *c;
	const char *vm, *user;
	bool progress;
};
/* The kind of file at a path of the VM; REMOTE_ERROR after an error message. */
enum remote_kind transfer_look(const struct transfer *t, const char *path);
/* Copies an open local file ("-": whatever fd is) to a path of the VM. mode -1: the server's
 * default. */
int transfer_put(const struct transfer *t, int fd, const char *name, int mode, const char *path);
/* Copies a file of the VM to a local one, atomically. "-": stdout. */
int transfer_get(const struct transfer *t, const char *path, const char *local);
/* Directories; the target is created if missing. */
int transfer_put_dir(const struct transfer *t, const char *local, const char *path);
int transfer_get_dir(const struct transfer *t, const char *path, const char *local);
