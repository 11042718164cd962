/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/engine.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"
#include "engine/argv.h"
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
		return err_wrap(err, r, "ask '%s' for its version", e->qemu);
	v = r == 0 && out ? strstr(out, "version ") : NULL;
	if (!v)
		return err_set(err, -EINVAL, "'%s' does not look like QEMU", e->qemu);
	v += strlen("version ");
	v[strcspn(v, "\n")] = '\0';
	snprintf(e->info.qemu_version, sizeof(e->info.qemu_version), "%s", v);
	return 0;
}

#define TSC_SAMPLES 5
#define BOOT_VCPUS_MIN 2
#define TSC_SAMPLE_US 10000

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* Ticks of the host's TSC against its clock: the median of a few short samples. */
static uint32_t measure_tsc_khz(void)
{
	uint64_t khz[TSC_SAMPLES];

	for (int i = 0; i < TSC_SAMPLES; i++) {
		uint64_t t0 = clock_us(), c0 = __builtin_ia32_rdtsc(), t1, c1;

		usleep(TSC_SAMPLE_US);
		t1 = clock_us();
		c1 = __builtin_ia32_rdtsc();
		khz[i] = (c1 - c0) * 1000 / (t1 - t0);
	}
	qsort(khz, TSC_SAMPLES, sizeof(*khz), by_value);
	return (uint32_t)khz[TSC_SAMPLES / 2];
}

int engine_make(const char *data_dir, struct privc *priv, const struct engine_ops *ops, void *impl,
                const struct engine_info *info, struct engine **ret, struct err *err)
{
	static const char *const dirs[] = { "layers", "points", "run" };
	struct engine *e = calloc(1, sizeof(*e));
	char path[PATH_MAX];
	int r = 0;

	if (!e)
		return err_set(err, -ENOMEM, "engine: out of memory");
	mutex_unshared(&e->lock);
	if (!(e->verified = calloc(VERIFIED_MAX, sizeof(*e->verified)))) {
		free(e);
		return err_set(err, -ENOMEM, "engine: out of memory");
	}
	mutex_init(&e->lock, "engine verified");
	e->priv = priv;
	e->ops = ops;
	e->impl = impl;
	if (info)
		e->info = *info;
	snprintf(e->data_dir, sizeof(e->data_dir), "%s", data_dir);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(dirs); i++) {
		snprintf(path, sizeof(path), "%s/%s", e->data_dir, dirs[i]);
		r = io_mkdirs(path, 0700, err);
	}
	if (r < 0) {
		engine_free(e);
		return r;
	}
	*ret = e;
	return 0;
}

void *engine_impl(const struct engine *e)
{
	return e->impl;
}

/*
 * An emulated guest with more vCPUs than the host has processors does not get through its boot:
 * whatever all of them have to answer waits until the host has run each in turn, and while a guest
 * boots that is nearly everything. With as many as the host has it boots in its usual time, and one
 * that is idle costs nothing when it is switched on later. docs/decisions/0020.
 */
static uint32_t boot_vcpus(void)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);

	return cpus > BOOT_VCPUS_MIN ? (uint32_t)cpus : BOOT_VCPUS_MIN;
}

int engine_new(const struct engine_conf *c, struct privc *priv, struct engine **ret,
               struct err *err)
{
	struct engine *e;
	int r = engine_make(c->data_dir, priv, &engine_qemu, NULL, NULL, &e, err);

	if (r < 0)
		return r;
	snprintf(e->image_dir, sizeof(e->image_dir), "%s", c->image_dir);
	snprintf(e->qemu, sizeof(e->qemu), "%s", c->qemu);
	snprintf(e->probe_file, sizeof(e->probe_file), "%s", c->probe_file);
	e->probe_s = c->probe_s;
	r = read_version(e, err);
	if (r == 0)
		r = engine_probe(e, c->accel, err);
	e->info.cmdline = argv_cmdline(e->info.accel);
	if (r == 0 && e->info.accel == ACCEL_TCG) {
		e->tsc_khz = measure_tsc_khz();
		e->info.tsc_mhz = (e->tsc_khz + 5000) / 10000 * 10;
		e->info.boot_vcpus = boot_vcpus();
	}
	if (r == 0)
		r = engine_cpu_identity(e, err);
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
	mutex_unshared(&e->lock);
	mutex_destroy(&e->lock);
	free(e->verified);
	free(e);
	return NULL;
}

const struct engine_info *engine_info(const struct engine *e)
{
	return &e->info;
}
