/* SPDX-License-Identifier: Apache-2.0 */
/*
 * serve_git.c - the real API over real repositories: for test_api_git.py and others
 *
 * Prints "PORT KEY DIRECTORY" and serves until its stdin ends. "leaf NAME" makes the certificate of
 * a name, as the edge does when it is asked for; "gone" and "back" say whether pando-priv answers.
 * With FX_DATA, DIRECTORY is that one, and all else is in it as well: who kills this program
 * removes it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/buf.h"
#include "tests/unit/api_fx.h"

static const char *make_leaf(struct fx *f, char *name)
{
	autobuf struct buf b = { 0 };
	uint64_t number;

	name[strcspn(name, "\n")] = '\0';
	return certs_get(f->certs, name, /* own= */ true, &b, &number, &err) == 0 ? "ok" : err.msg;
}

int main(int argc, char **argv)
{
	const char *keep = getenv("FX_DATA");
	void *state = NULL;
	char line[64];
	struct fx *f;
	int r;

	if (keep)
		setenv("TMPDIR", keep, /* overwrite= */ 1);
	r = rig_main_begin();
	if (r)
		return r;
	if (fx_setup(&state) < 0)
		return 1;
	f = state;
	printf("%u %s %s\n", f->port, f->key, f->dir.path);
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		if (strncmp(line, "leaf ", 5) == 0)
			puts(make_leaf(f, line + 5));
		if (strcmp(line, "gone\n") == 0 || strcmp(line, "back\n") == 0) {
			atomic_store(&f->helper_gone, line[0] == 'g');
			puts("ok");
		}
		fflush(stdout);
	}
	r = fx_teardown(&state) < 0;
	rig_main_end();
	return r;
}
