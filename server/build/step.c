/* SPDX-License-Identifier: Apache-2.0 */
/*
 * step.c - one command of a build in the guest
 *
 * Scripts are constants; everything from the spec reaches them through the environment, never as
 * part of the text. The build's deadline applies to every step.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "build/build_internal.h"

#define ENV_MAX 24
#define FILE_MS 120000 /* for one file of a spec */

static int out_of_time(struct run *run, struct err *err)
{
	run->setup_failed = true;
	return err_set(err, -ETIMEDOUT,
	               "%s: the build did not finish within %u s (PANDO_BUILD_TIMEOUT_S)",
	               run->step, run->b->conf.timeout_s);
}

static int full_env(const char *const *env, const char *script_var, const char *ret[ENV_MAX])
{
	size_t n = 0;

	ret[n++] = script_var;
	ret[n++] = "HOME=/root";
	ret[n++] = "LC_ALL=C.UTF-8";
	ret[n++] = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
	for (size_t i = 0; env && env[i]; i++) {
		if (n + 1 == ENV_MAX)
			return -E2BIG;
		ret[n++] = env[i];
	}
	ret[n] = NULL;
	return 0;
}

static int run_script(struct run *run, const char *script, const char *const *env,
                      guest_output_fn on_output, size_t max, struct guest_exec_result *ret,
                      struct err *err)
{
	autofree char *script_var = NULL;
	const char *vars[ENV_MAX];
	int left = deadline_left(run->deadline_ms);
	struct guest_exec_req req = { .command = "exec bash -c \"$PANDO_STEP\"",
		                      .cwd = "/",
		                      .env = vars,
		                      .timeout_ms = (unsigned)left,
		                      .max_output = max,
		                      .on_output = on_output,
		                      .ctx = run };
	int r;

	if (left <= 0)
		return out_of_time(run, err);
	if (asprintf(&script_var, "PANDO_STEP=%s", script) < 0)
		return err_set(err, -ENOMEM, "build: out of memory");
	if (full_env(env, script_var, vars) < 0)
		return err_set(err, -E2BIG, "build: a step has too many variables");
	r = guest_exec(run->guest, &req, ret, err);
	if (r == 0 && ret->timed_out)
		return out_of_time(run, err);
	return r;
}

int step_run(struct run *run, const struct step *s, struct err *err)
{
	AUTO(guest_exec_result_done) struct guest_exec_result res = { 0 };
	int r = run_script(run, s->script, s->env, record_output, 0, &res, err);

	if (r < 0)
		return r;
	if (res.exit_code == 0 || (s->ok_code && res.exit_code == s->ok_code))
		return res.exit_code;
	record_output(run, 1, (const uint8_t *)"\n", 1);
	record_output(run, 2, (const uint8_t *)"\n", 1);
	run->setup_failed = true;
	return err_set(err, -EIO, "%s ended with %d%s%s", run->step, res.exit_code,
	               *run->last_line ? ": " : "", run->last_line);
}

int step_read(struct run *run, const char *script, const char *const *env, size_t max, char **ret,
              struct err *err)
{
	AUTO(guest_exec_result_done) struct guest_exec_result res = { 0 };
	int r = run_script(run, script, env, NULL, max, &res, err);

	if (r < 0)
		return r;
	*ret = strndup(res.out ? res.out : "", res.out_len);
	return *ret ? res.exit_code : err_set(err, -ENOMEM, "build: out of memory");
}

int step_write(struct run *run, const char *path, uint32_t mode, const void *p, size_t n,
               struct err *err)
{
	struct guest_bytes b = { p, n };
	autofree char *dir = strdup(path);
	char *slash = dir ? strrchr(dir, '/') : NULL;
	int left = deadline_left(run->deadline_ms), r = 0;

	if (!slash)
		return err_set(err, -ENOMEM, "build: out of memory");
	if (left <= 0)
		return out_of_time(run, err);
	*slash = '\0';
	if (*dir)
		r = guest_mkdir(run->guest, NULL, dir, 0755, /* parents= */ true, run->deadline_ms,
		                err);
	if (r == 0)
		r = guest_write_file(run->guest, NULL, path, mode, guest_bytes_source, &b,
		                     deadline_in((unsigned)MIN(left, FILE_MS)), err);
	if (r < 0) {
		run->setup_failed = true;
		return err_wrap(err, r, "write '%.100s'", path);
	}
	return 0;
}
