/* SPDX-License-Identifier: Apache-2.0 */
/* cli/exec_internal.h - for exec*.c */
#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "cli/cli.h"

struct exec_stdin {
	bool given;       /* there is stdin to pass on */
	bool whole;       /* all of it is in first */
	struct buf first; /* owned; read before the command started */
	char url[768], header[600], user[128];
};
void exec_stdin_begin(struct exec_stdin *in, bool none);
/* Starts sending the rest to .../processes/N/stdin. The thread uses *in until the program ends.
 */
int exec_stdin_pump(struct exec_stdin *in, struct cli *c, const char *user, const char *path);
