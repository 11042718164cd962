/* SPDX-License-Identifier: Apache-2.0 */
/* cli/transfer.h - one file or directory between here and a VM; for cli/ */
#pragma once

#include <stdbool.h>

#include "cli/cli.h"

enum remote_kind { REMOTE_NONE, REMOTE_FILE, REMOTE_DIR, REMOTE_ERROR };

struct transfer {
	struct cli *c;
	const char *vm, *user;
	bool progress;
};
/* What is at a path of the VM; REMOTE_ERROR after a sentence. */
enum remote_kind transfer_look(const struct transfer *t, const char *path);
/* An open file of ours ("-": whatever fd is) to a path of the VM. mode -1: the server's default. */
int transfer_put(const struct transfer *t, int fd, const char *name, int mode, const char *path);
/* A file of the VM to one of ours, whole or not at all. "-": stdout. */
int transfer_get(const struct transfer *t, const char *path, const char *local);
/* Directories; the target is made when it is missing. */
int transfer_put_dir(const struct transfer *t, const char *local, const char *path);
int transfer_get_dir(const struct transfer *t, const char *path, const char *local);
