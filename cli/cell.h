/* SPDX-License-Identifier: Apache-2.0 */
/* cli/cell.h - running code in a kernel of a VM; for cli/ */
#pragma once

#include <stdbool.h>

#include "cli/cli.h"
#include "cli/image.h"

struct cell_opts {
	const char *vm, *user;
	const char *language; /* or NULL with a context */
	const char *context;  /* or NULL: the default one of the language */
	long long timeout_ms; /* 0: the server's default */
	enum image_protocol images;
	const char *save_dir; /* for images that are not shown */
	bool files;           /* name the files it wrote */
};
/* CLI_OK, 1 if the cell failed, or another status after an error message. Ctrl-C interrupts the
 * cell.
 */
int cell_run(struct cli *c, const struct cell_opts *o, const char *code);
/* "py", "python3", a file name with an extension: the language's name, or NULL. */
const char *cell_language(const char *name);
const char *cell_language_of_file(const char *path);
