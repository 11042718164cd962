/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/engine.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/io.h"
#include "engine/engine_internal.h"

/* "QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+...)" -> what comes after "version " */
static int read_version(struct engine *e, struct err *err)
{
	const char *argv[] = { e->qemu, "--version", NULL };
	autofree char *out = NULL;
	char *v;
	int r = proc_run(&(struct proc_run_opts){ .argv = argv, .deadline_ms = 20000 }, &out, NULL,
	                 err);

	if (r < 0)
		return err_wrap(err, "ask '%s' for its version", e->qemu);
	v = r == 0 && out ? strstr(out, "version ") : NULL;
	if (!v)
		return err_set(err, -EINVAL, "'%s' does not look like QEMU", e->qemu);
	v += strlen("version ");
	v[strcspn(v, "\n")] = '\0';
	snprintf(e->info.qemu_version, sizeof(e->info.qemu_version), "%s", v);
	return 0;
}

int engine_new(const struct engine_conf *c, struct privc *priv, struct engine **ret,
               struct err *err)
{
	static const char *const dirs[] = { "layers", "points", "run" };
	struct engine *e = calloc(1, sizeof(*e));
	char path[PATH_MAX];
	int r = 0;

	if (!e || !(e->verified = calloc(VERIFIED_MAX, sizeof(*e->verified)))) {
		free(e);
		return err_set(err, -ENOMEM, "engine: out of memory");
	}
	pthread_mutex_init(&e->lock, NULL);
	e->priv = priv;
	snprintf(e->data_dir, sizeof(e->data_dir), "%s", c->data_dir);
	snprintf(e->image_dir, sizeof(e->image_dir), "%s", c->image_dir);
	snprintf(e->qemu, sizeof(e->qemu), "%s", c->qemu);
	snprintf(e->probe_file, sizeof(e->probe_file), "%s", c->probe_file);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(dirs); i++) {
		snprintf(path, sizeof(path), "%s/%s", e->data_dir, dirs[i]);
		r = io_mkdirs(path, 0700, err);
	}
	if (r == 0)
		r = read_version(e, err);
	if (r == 0)
		r = engine_probe(e, c->accel, err);
	if (r < 0) {
		engine_free(e);
		return r;
	}
	*ret = e;
	return 0;
}

struct engine *engine_free(struct engine *e)
{
	if (!e)
		return NULL;
	pthread_mutex_destroy(&e->lock);
	free(e->verified);
	free(e);
	return NULL;
}

const struct engine_info *engine_info(const struct engine *e)
{
	return &e->info;
}
