/* SPDX-License-Identifier: Apache-2.0 */
/*
 * serve_git.c - the real API over real repositories, without machines: for test_api_git.py
 *
 * Prints "PORT KEY DIRECTORY" and serves until its stdin ends.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/api_fx.h"

int main(int argc, char **argv)
{
	void *state = NULL;
	char line[64];
	struct fx *f;

	signal(SIGPIPE, SIG_IGN);
	if (fx_setup(&state) < 0)
		return 1;
	f = state;
	printf("%u %s %s\n", f->port, f->key, f->dir.path);
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin))
		;
	return fx_teardown(&state) < 0;
}
