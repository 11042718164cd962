/* SPDX-License-Identifier: Apache-2.0 */
/*
 * apply.c - applies one layer in a guest, in a fixed order
 *
 * Groups before their users, files before the commands that read them, packages
 * before what needs them, services last. Each part is a phase of the build.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "build/build_internal.h"
#include "runs/clone.h"

#define EXISTS 66 /* exit code of a step: it already exists */

static const char group_script[] = "set -e\n"
                                   "if getent group \"$NAME\" >/dev/null; then exit 66; fi\n"
                                   "[ -z \"$GID_NUM\" ] || set -- \"$@\" --gid \"$GID_NUM\"\n"
                                   "[ -z \"$SYSTEM\" ] || set -- \"$@\" --system\n"
                                   "exec groupadd \"$@\" \"$NAME\"\n";

static const char user_script[] =
        "set -e\n"
        "if getent passwd \"$NAME\" >/dev/null; then exit 66; fi\n"
        "set -- --home-dir \"$USER_HOME\" --shell \"$USER_SHELL\"\n"
        "[ -z \"$UID_NUM\" ] || set -- \"$@\" --uid \"$UID_NUM\"\n"
        "[ -z \"$GECOS\" ] || set -- \"$@\" --comment \"$GECOS\"\n"
        "[ -z \"$GROUPS_OF\" ] || set -- \"$@\" --groups \"$GROUPS_OF\"\n"
        "if [ -n \"$SYSTEM\" ]; then set -- \"$@\" --system --no-create-home; "
        "else set -- \"$@\" --create-home; fi\n"
        "if getent group \"$NAME\" >/dev/null; then set -- \"$@\" --gid \"$NAME\"; "
        "else set -- \"$@\" --user-group; fi\n"
        "exec useradd \"$@\" \"$NAME\"\n";

/*
 * Packages that are already installed need no network. Their files are not flushed one by one,
 * which takes minutes for thousands of small ones, but all at the end: nobody has a layer before.
 */
static const char apt_script[] =
        "set -f\n"
        "missing=\n"
        "for p in $PACKAGES; do\n"
        "  case $p in\n"
        "  *[:=/]*) missing=$p ;;\n"
        "  *) [ \"$(dpkg-query -W -f='${db:Status-Status}' \"$p\" 2>/dev/null)\" = installed ] "
        "|| missing=$p ;;\n"
        "  esac\n"
        "done\n"
        "[ -n \"$missing\" ] || { echo 'all packages are already installed'; exit 0; }\n"
        "export DEBIAN_FRONTEND=noninteractive\n"
        "apt-get -q -o Acquire::Retries=3 update &&\n"
        "apt-get -q -y -o Acquire::Retries=3 -o Dpkg::Use-Pty=0 -o "
        "Dpkg::Options::=--force-unsafe-io "
        "--no-install-recommends install $PACKAGES && apt-get clean && sync\n";

static const char runtime_script[] = "set -e\n"
                                     "tar -x --zstd -f \"$FILE\" -C / --no-overwrite-dir\n"
                                     "rm \"$FILE\"\n";

static const char clone_url_script[] =
        "set -e\n"
        "export GIT_TERMINAL_PROMPT=0\n"
        "git clone --quiet -- \"$REPO\" \"$DEST\"\n"
        "[ -z \"$REV\" ] || git -C \"$DEST\" checkout --quiet \"$REV\" --\n"
        "git -C \"$DEST\" log -1 --format='%H %s'\n";

static const char *text(const json_t *o, const char *name)
{
	const char *s = json_string_value(json_object_get(o, name));

	return s ? s : "";
}

/* "NAME=value", owned, into v[*n]. The caller adds the final NULL. */
static int var(char **v, size_t *n, const char *name, const char *value)
{
	if (asprintf(&v[*n], "%s=%s", name, value) < 0) {
		v[*n] = NULL;
		return -ENOMEM;
	}
	(*n)++;
	return 0;
}

static int var_num(char **v, size_t *n, const char *name, const json_t *o, const char *member)
{
	char num[24] = "";
	const json_t *j = json_object_get(o, member);

	if (j)
		snprintf(num, sizeof(num), "%" PRId64, (int64_t)json_integer_value(j));
	return var(v, n, name, num);
}

/* The strings of an array with `sep` between them; caller frees. */
static char *joined(const json_t *list, const char *sep)
{
	autobuf struct buf b = { 0 };
	size_t i;
	json_t *v;

	json_array_foreach((json_t *)(uintptr_t)list, i, v)
	        buf_printf(&b, "%s%s", i ? sep : "", json_string_value(v));
	return buf_take_str(&b);
}

#define VARS_MAX 12
static void vars_done(char *(*v)[VARS_MAX])
{
	for (size_t i = 0; i < VARS_MAX; i++)
		free((*v)[i]);
}
#define autovars AUTO(vars_done)

static int run_with(struct run *run, const char *script, char *const *vars, int made, int ok_code,
                    struct err *err)
{
	if (made < 0)
		return err_set(err, -ENOMEM, "build: out of memory");
	return step_run(run,
	                &(struct step){ .script = script,
	                                .env = (const char *const *)vars,
	                                .ok_code = ok_code },
	                err);
}

static int apply_groups(struct run *run, const struct spec_layer *l, struct err *err)
{
	size_t i;
	json_t *g;

	json_array_foreach(l->groups, i, g)
	{
		autovars char *v[VARS_MAX] = { 0 };
		size_t n = 0;
		int r = var(v, &n, "NAME", text(g, "name"));

		r |= var_num(v, &n, "GID_NUM", g, "gid");
		r |= var(v, &n, "SYSTEM", json_is_true(json_object_get(g, "system")) ? "1" : "");
		snprintf(run->step, sizeof(run->step), "group '%s'", text(g, "name"));
		r = run_with(run, group_script, v, r, EXISTS, err);
		if (r == EXISTS) {
			json_object_set_new(run->o->extra, "groupName",
			                    json_string(text(g, "name")));
			return err_tag(err, -EEXIST, ERR_GROUP_ALREADY_EXISTS,
			               "group '%s' already exists", text(g, "name"));
		}
		if (r < 0)
			return r;
	}
	return 0;
}

static int apply_users(struct run *run, const struct spec_layer *l, struct err *err)
{
	size_t i;
	json_t *u;

	json_array_foreach(l->users, i, u)
	{
		autovars char *v[VARS_MAX] = { 0 };
		autofree char *groups = joined(json_object_get(u, "groups"), ",");
		size_t n = 0;
		int r = var(v, &n, "NAME", text(u, "name"));

		r |= var(v, &n, "USER_HOME", text(u, "home"));
		r |= var(v, &n, "USER_SHELL", text(u, "shell"));
		r |= var(v, &n, "GECOS", text(u, "gecos"));
		r |= var(v, &n, "GROUPS_OF", groups ? groups : "");
		r |= var_num(v, &n, "UID_NUM", u, "uid");
		r |= var(v, &n, "SYSTEM", json_is_true(json_object_get(u, "system")) ? "1" : "");
		snprintf(run->step, sizeof(run->step), "user '%s'", text(u, "name"));
		r = run_with(run, user_script, v, r, EXISTS, err);
		if (r == EXISTS) {
			json_object_set_new(run->o->extra, "userName",
			                    json_string(text(u, "name")));
			return err_tag(err, -EEXIST, ERR_USER_ALREADY_EXISTS,
			               "user '%s' already exists", text(u, "name"));
		}
		if (r < 0)
			return r;
	}
	return 0;
}

static int write_base64(struct run *run, const char *path, uint32_t mode, const json_t *content,
                        struct err *err)
{
	const char *s = json_string_value(content);
	size_t n = json_string_length(content), pad = 0;
	autofree unsigned char *raw = malloc(n / 4 * 3 + 1);
	int len;

	if (!raw)
		return err_set(err, -ENOMEM, "build: out of memory");
	while (pad < 2 && pad < n && s[n - 1 - pad] == '=')
		pad++;
	len = n ? EVP_DecodeBlock(raw, (const unsigned char *)s, (int)n) : 0;
	if (len < 0 || (size_t)len < pad)
		return err_set(err, -EINVAL, "'%.100s': bad base64", path);
	return step_write(run, path, mode, raw, (size_t)len - pad, err);
}

static int apply_files(struct run *run, const struct spec_layer *l, struct err *err)
{
	const char *path;
	json_t *f;

	json_object_foreach(l->files, path, f)
	{
		const json_t *content = json_object_get(f, "content");
		uint32_t mode = json_is_true(json_object_get(f, "executable")) ? 0755 : 0644;
		int r = json_is_true(json_object_get(f, "base64"))
		                ? write_base64(run, path, mode, content, err)
		                : step_write(run, path, mode, json_string_value(content),
		                             json_string_length(content), err);

		if (r < 0)
			return r;
		record_line(run, "wrote %s", path);
	}
	return 0;
}

/* As guest_source_fn; ctx: a descriptor. */
static ssize_t file_source(void *ctx, uint8_t *p, size_t n)
{
	ssize_t k = read(*(const int *)ctx, p, n);

	return k < 0 ? -errno : k;
}

/* The image that the template is of has them beside it. */
static int apply_runtimes(struct run *run, const struct spec_layer *l, struct err *err)
{
	const char *dir = run->b->conf.limits.image_dir;
	size_t i;
	json_t *v;
	int r = 0;

	json_array_foreach(l->runtimes, i, v)
	{
		autovars char *vars[VARS_MAX] = { 0 };
		char from[PATH_MAX], to[64];
		autofd int fd = -1;
		size_t n = 0;

		snprintf(run->step, sizeof(run->step), "runtime '%s'", json_string_value(v));
		snprintf(from, sizeof(from), "%s/%s.tar.zst", dir ? dir : "", json_string_value(v));
		snprintf(to, sizeof(to), "/var/tmp/pando-%s.tar.zst", json_string_value(v));
		fd = open(from, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			return err_sys(err, -errno, "open '%s'", from);
		r = guest_write_file(run->guest, NULL, to, 0600, file_source, &fd, run->deadline_ms,
		                     err);
		if (r < 0)
			return err_wrap(err, r, "%s", run->step);
		if ((r = var(vars, &n, "FILE", to)) == 0)
			r = run_with(run, runtime_script, vars, r, 0, err);
		if (r < 0)
			return r;
	}
	return 0;
}

static int apply_apt(struct run *run, const struct spec_layer *l, struct err *err)
{
	autovars char *v[VARS_MAX] = { 0 };
	autofree char *list = joined(l->apt, " ");
	size_t n = 0;
	int r = var(v, &n, "PACKAGES", list ? list : "");

	snprintf(run->step, sizeof(run->step), "apt-get install");
	r = run_with(run, apt_script, v, r, 0, err);
	return r < 0 ? r : 0;
}

/* A repository of this server: it is copied into the guest through the agent. */
static int apply_own_repo(struct run *run, const json_t *p, char **v, size_t n, int made,
                          struct err *err)
{
	struct store_repo repo;
	struct clone c;
	int r = repo_find(run->b->conf.repos, run->o->account, text(p, "repo"), REPO_READ, &repo,
	                  err);

	if (r == 0)
		r = clone_put(run->b->conf.repos, run->guest, &repo, run->deadline_ms, &c, err);
	if (r < 0) {
		run->setup_failed = true;
		return r;
	}
	made |= var(v, &n, "BUNDLE", c.bundle);
	made |= var(v, &n, "BRANCH", c.branch);
	made |= var(v, &n, "URL", c.url);
	made |= var(v, &n, "COMMIT", text(p, "commit"));
	return run_with(run, clone_script, v, made, 0, err);
}

static int apply_git(struct run *run, const struct spec_layer *l, struct err *err)
{
	const char *key;
	json_t *value, *p;
	size_t i;
	int r;

	json_object_foreach(l->git_config, key, value)
	{
		autovars char *v[VARS_MAX] = { 0 };
		size_t n = 0;

		r = var(v, &n, "KEY", key);
		r |= var(v, &n, "VALUE", json_string_value(value));
		snprintf(run->step, sizeof(run->step), "git config");
		r = run_with(run, "git config --system \"$KEY\" \"$VALUE\"", v, r, 0, err);
		if (r < 0)
			return r;
	}
	json_array_foreach(l->repos, i, p)
	{
		autovars char *v[VARS_MAX] = { 0 };
		size_t n = 0;

		r = var(v, &n, "REPO", text(p, "repo"));
		r |= var(v, &n, "DEST", text(p, "path"));
		r |= var(v, &n, "REV", text(p, "rev"));
		snprintf(run->step, sizeof(run->step), "git clone to '%.40s'", text(p, "path"));
		if (repo_id_valid(text(p, "repo")))
			r = apply_own_repo(run, p, v, n, r, err);
		else
			r = run_with(run, clone_url_script, v, r, 0, err);
		if (r < 0)
			return r;
	}
	return 0;
}

static int apply_workdir(struct run *run, const struct spec_layer *l, struct err *err)
{
	int r = guest_mkdir(run->guest, NULL, l->workdir, 0755, /* parents= */ true,
	                    run->deadline_ms, err);

	if (r < 0) {
		run->setup_failed = true;
		return err_wrap(err, r, "create the working directory '%s'", l->workdir);
	}
	return 0;
}

int layer_apply(struct run *run, size_t i, struct err *err)
{
	const struct spec_layer *l = &run->spec->layers[i];
	const struct {
		bool given;
		const char *name;
		int (*apply)(struct run *run, const struct spec_layer *l, struct err *err);
	} parts[] = { { l->groups, "groups", apply_groups },
		      { l->users, "users", apply_users },
		      { l->files, "files", apply_files },
		      { l->runtimes, "runtimes", apply_runtimes },
		      { l->apt, "apt", apply_apt },
		      { l->git_config || l->repos, "git", apply_git },
		      { l->workdir[0], "workdir", apply_workdir },
		      { l->services || l->patched, "systemd", apply_units } };
	int r = 0;

	for (size_t k = 0; r == 0 && k < ARRAY_SIZE(parts); k++) {
		if (!parts[k].given)
			continue;
		r = record_phase(run, i, parts[k].name, err);
		if (r == 0)
			r = parts[k].apply(run, l, err);
	}
	return r;
}
