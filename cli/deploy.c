/* SPDX-License-Identifier: Apache-2.0 */
/* deploy.c - pando deploy and pando deployment: servers that requests start */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"
#include "cli/cli.h"
#include "cli/logs.h"
#include "cli/stream.h"
#include "cli/vm_set.h"

#define FILE_MAX (16u << 20)
#define ALL_MAX (40u << 20) /* of all files: the server takes 64 MiB as JSON */
#define DEPTH_MAX 32

enum {
	D_ENV,
	D_DOMAIN,
	D_ENTRY,
	D_BUILD,
	D_OUT,
	D_BRANCH,
	D_DIR,
	D_NAME,
	D_IDLE,
	D_MAX,
	D_REQUESTS
};

static const struct cli_col list_cols[] = {
	{ "ID", "deploymentId" },     { "NAME", "name" },     { "STATE", "state" },
	{ "DEPLOYED", "deployedAt" }, { "DOMAINS", "names" },
};
static const struct cli_col show_cols[] = {
	{ "id", "deploymentId" },
	{ "name", "name" },
	{ "state", "state" },
	{ "why it failed", "failedReason" },
	{ "asked for", "provisionedAt" },
	{ "deployed", "deployedAt" },
	{ "domains", "names" },
	{ "port", "port" },
	{ "idle ms", "timeout" },
	{ "instances at most", "maxInstances" },
	{ "requests of an instance", "requestsPerInstance" },
	{ "instances", "running" },
	{ "snapshot", "snapshotId" },
	{ "build", "buildId" },
};

/* ---- the source ---- */

struct gather {
	json_t *files; /* owned by the caller */
	size_t bytes;
};

static bool left_out(const char *name)
{
	return !strcmp(name, ".git") || !strcmp(name, "node_modules") || !strcmp(name, ".env") ||
	       !strncmp(name, ".env.", 5);
}

static int add_file(struct gather *g, int dir, const char *name, const char *path, bool executable)
{
	autofree char *text = NULL, *encoded = NULL;
	autofd int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;
	size_t n = 0;
	ssize_t k = 1;

	if (fd < 0 || fstat(fd, &st) < 0)
		return cli_fail(CLI_USAGE, "'%s': %s", path, strerror(errno));
	g->bytes += (size_t)st.st_size;
	if ((uint64_t)st.st_size > FILE_MAX || g->bytes > ALL_MAX)
		return cli_fail(CLI_USAGE,
		                "'%s': files of at most %u MiB each and %u MiB together can be "
		                "sent; use a Git repository for more",
		                path, FILE_MAX >> 20, ALL_MAX >> 20);
	text = malloc((size_t)st.st_size + 1);
	if (!text)
		cli_oom();
	while (n < (size_t)st.st_size && k > 0) {
		k = read(fd, text + n, (size_t)st.st_size - n);
		n += k > 0 ? (size_t)k : 0;
	}
	if (k < 0)
		return cli_fail(CLI_USAGE, "'%s': %s", path, strerror(errno));
	encoded = base64_encode(text, n);
	if (!encoded)
		cli_oom();
	json_object_set_new(g->files, path,
	                    json_pack("{s:s, s:s, s:b}", "content", encoded, "encoding", "base64",
	                              "executable", executable));
	return CLI_OK;
}

static int add_dir(struct gather *g, int dir_consume, const char *prefix, unsigned depth)
{
	DIR *d = fdopendir(dir_consume);
	struct dirent *e;
	int r = CLI_OK;

	if (!d)
		return cli_fail(CLI_USAGE, "'%s': %s", prefix, strerror(errno));
	while (r == CLI_OK && (e = readdir(d))) {
		char path[1024];
		struct stat st;

		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..") || left_out(e->d_name) ||
		    fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		if (snprintf(path, sizeof(path), "%s%s%s", prefix, e->d_name,
		             S_ISDIR(st.st_mode) ? "/" : "") >= (int)sizeof(path))
			r = cli_fail(CLI_USAGE, "'%s': the path is too long", path);
		else if (S_ISREG(st.st_mode))
			r = add_file(g, dirfd(d), e->d_name, path, st.st_mode & 0100);
		else if (S_ISDIR(st.st_mode) && depth < DEPTH_MAX) {
			int sub = openat(dirfd(d), e->d_name,
			                 O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

			r = sub < 0 ? cli_fail(CLI_USAGE, "'%s': %s", path, strerror(errno))
			            : add_dir(g, sub, path, depth + 1);
		}
	}
	closedir(d);
	return r;
}

/* A directory, a file, or else a repository or an archive. */
static int source_of(const struct cli_args *a, json_t **ret)
{
	const char *what = a->arg[0];
	struct gather g = { .files = json_object() };
	const char *last = strrchr(what, '/');
	struct stat st;
	int r = CLI_OK;

	if (stat(what, &st) < 0) {
		size_t n = strlen(what);
		bool tar = (n > 4 && !strcmp(what + n - 4, ".tar")) ||
		           (n > 4 && !strcmp(what + n - 4, ".tgz")) ||
		           (n > 7 && !strcmp(what + n - 7, ".tar.gz"));

		json_decref(g.files);
		*ret = json_pack("{s:s, s:s, s:s*, s:s*}", "kind", tar ? "tar" : "git", "url", what,
		                 "branch", tar ? NULL : a->opt[D_BRANCH], "dir", a->opt[D_DIR]);
		return *ret ? CLI_OK : cli_fail(CLI_USAGE, "no such directory: '%s'", what);
	}
	if (S_ISDIR(st.st_mode)) {
		int fd = open(what, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		r = fd < 0 ? cli_fail(CLI_USAGE, "'%s': %s", what, strerror(errno))
		           : add_dir(&g, fd, "", 0);
	} else {
		r = add_file(&g, AT_FDCWD, what, last ? last + 1 : what, st.st_mode & 0100);
	}
	if (r != CLI_OK) {
		json_decref(g.files);
		return r;
	}
	*ret = json_pack("{s:s, s:o}", "kind", "files", "files", g.files);
	return CLI_OK;
}

static json_t *build_of(const struct cli_args *a)
{
	if (!a->opt[D_BUILD])
		return NULL;
	if (!*a->opt[D_BUILD])
		return json_true();
	return json_pack("{s:s, s:s*}", "command", a->opt[D_BUILD], "outDir", a->opt[D_OUT]);
}

static int deploy(struct cli *c, const struct cli_args *a)
{
	autojson json_t *reply = NULL;
	json_t *config = json_object(), *source = NULL, *domains = json_array(), *names;
	int r = vm_pairs(a, D_ENV, "env", "envVars", config);

	if (r == CLI_OK)
		r = source_of(a, &source);
	if (r != CLI_OK) {
		json_decref(config);
		json_decref(domains);
		return r;
	}
	for (size_t i = 0; i < a->list[D_DOMAIN].n; i++)
		json_array_append_new(domains, json_string(a->list[D_DOMAIN].v[i]));
	json_object_set_new(config, "domains", domains);
	if (a->opt[D_ENTRY])
		json_object_set_new(config, "entrypoint", json_string(a->opt[D_ENTRY]));
	if (a->opt[D_NAME])
		json_object_set_new(config, "name", json_string(a->opt[D_NAME]));
	if (build_of(a))
		json_object_set_new(config, "build", build_of(a));
	if (a->opt[D_IDLE])
		json_object_set_new(config, "timeout", json_integer(a->num[D_IDLE]));
	if (a->opt[D_MAX])
		json_object_set_new(config, "instances", json_integer(a->num[D_MAX]));
	if (a->opt[D_REQUESTS])
		json_object_set_new(config, "requestsPerInstance",
		                    json_integer(a->num[D_REQUESTS]));
	r = cli_call(c, "POST", "/web/v1/deployment",
	             json_pack("{s:o, s:o}", "source", source, "config", config), &reply);
	if (r != CLI_OK)
		return r;
	names = json_object_get(reply, "domains");
	cli_say(c, reply, "%s, %s%s%s", cli_str(reply, "deploymentId"), cli_str(reply, "state"),
	        json_array_size(names) ? ", https://" : "",
	        json_string_value(json_array_get(names, 0)) ?: "");
	return CLI_OK;
}

/* ---- what there is ---- */

/* Lists as one text, for tables. */
static void flatten(json_t *d)
{
	char text[1024] = "";
	size_t i, n = 0;
	json_t *v;

	json_array_foreach(json_object_get(d, "domains"), i, v) n += (size_t)snprintf(
	        text + MIN(n, sizeof(text) - 1), sizeof(text) - MIN(n, sizeof(text) - 1), "%s%s",
	        i ? " " : "", json_string_value(v));
	json_object_set_new(d, "names", json_string(text));
	json_object_set_new(
	        d, "running",
	        json_integer((json_int_t)json_array_size(json_object_get(d, "instances"))));
}

static int list(struct cli *c, const struct cli_args *a)
{
	autofree char *path = cli_path(c, "/web/v1/deployments");
	autojson json_t *reply = NULL;
	json_t *d;
	size_t i;
	int r;

	cli_query(c, &path, "search", a->opt[0]);
	cli_query(c, &path, "limit", a->opt[1]);
	r = cli_call(c, "GET", path, NULL, &reply);
	if (r != CLI_OK)
		return r;
	if (!cli_json(c))
		json_array_foreach(json_object_get(reply, "entries"), i, d) flatten(d);
	cli_table(c, reply, json_object_get(reply, "entries"), list_cols, ARRAY_SIZE(list_cols));
	return CLI_OK;
}

static int show(struct cli *c, const struct cli_args *a)
{
	autofree char *path = cli_path(c, "/web/v1/deployments/%s", a->arg[0]);
	autojson json_t *reply = NULL;
	int r = cli_call(c, "GET", path, NULL, &reply);

	if (r != CLI_OK)
		return r;
	if (!cli_json(c))
		flatten(json_object_get(reply, "info"));
	cli_show(c, cli_json(c) ? reply : json_object_get(reply, "info"), show_cols,
	         ARRAY_SIZE(show_cols));
	return CLI_OK;
}

static int logs(struct cli *c, const struct cli_args *a)
{
	AUTO(logs_done) struct logs_reader l = { 0 };
	char since[CLOCK_RFC3339_LEN];

	l.query = cli_path(c, "/observability/v1/logs?deploymentId=%s", a->arg[0]);
	cli_query(c, &l.query, "search", a->opt[0]);
	if (a->opt[2])
		l.since = strdup(clock_rfc3339(clock_wall_ms() - a->num[2], since));
	return logs_show(c, &l, a->opt[1], a->opt[3] != NULL);
}

static int drop(struct cli *c, const struct cli_args *a)
{
	autofree char *path = cli_path(c, "/web/v1/deployments/%s", a->arg[0]);
	autojson json_t *reply = NULL;
	int r = cli_call(c, "DELETE", path, NULL, &reply);

	if (r == CLI_OK)
		cli_say(c, reply, "deleted");
	return r;
}

/* clang-format off */
static const struct cli_verb deploy_verbs[] = {
	{ NULL, "SOURCE", "build and start a server, freeze it, and thaw it with the requests for its names", deploy,
	  { { "env", "NAME=VALUE", "a variable of the server", 'e', CLI_LIST },
	    { "domain", "NAME", "a name that leads to it from now on", 'd', CLI_LIST },
	    { "entrypoint", "FILE", "the server's file; found if absent" },
	    { "build", "COMMAND", "install packages and run this first; '' is the script 'build'" },
	    { "out-dir", "DIR", "where the build's command leaves what is deployed" },
	    { "branch", "REV", "of a repository: branch, tag or commit" },
	    { "dir", "DIR", "of a repository or an archive: only this directory" },
	    { "name", "NAME", "its name" },
	    { "idle", "TIME", "an instance ends when it had no request for so long, like 5m", .type = CLI_DURATION },
	    { "instances", "N", "VMs at a time, at most", 0, CLI_NUMBER, .min = 1, .max = 1000 },
	    { "requests", "N", "requests of an instance at a time", 0, CLI_NUMBER, .min = 1, .max = 1000 } },
	  .about = "SOURCE is a directory, a file, the id or URL of a Git repository, or the URL of a tar archive. "
	           "Of a directory '.git', 'node_modules' and '.env' stay here. The server must listen on "
	           "0.0.0.0, on the port in PORT (3000).",
	  .examples = "pando deploy ./site -d shop.style.dev # the name leads to it when it answers\n"
	              "pando deploy 3f1c7c1e-0d5e-4c44-9c3b-0a9e3a0f5d11 --branch main --build '' -e TOKEN=x\n" },
};
static const struct cli_verb verbs[] = {
	{ "list", "", "deployments, newest first", list,
	  { { "search", "TEXT", "a part of id, name or domain" },
	    { "limit", "N", "at most this many", 0, CLI_NUMBER, .min = 1, .max = 1000 } } },
	{ "show", "DEPLOYMENT", "state, names and instances", show },
	{ "logs", "DEPLOYMENT", "what its server printed, and requests for its names", logs,
	  { { "search", "TEXT", "only lines that contain this" },
	    { "lines", "N", "at most the last N", 'n', CLI_NUMBER, .min = 1, .max = 1000 },
	    { "since", "TIME", "how far back, like 10m (1d)", .type = CLI_DURATION },
	    { "follow", NULL, "follow new lines", 'f' } } },
	{ "delete", "DEPLOYMENT", "with its names, instances and snapshot; requests under way are cut", drop },
};
/* clang-format on */
const struct cli_noun cli_deploy = { "deploy", "put a server online that requests start",
	                             deploy_verbs, ARRAY_SIZE(deploy_verbs) };
const struct cli_noun cli_deployment = { "deployment", "servers that requests start", verbs,
	                                 ARRAY_SIZE(verbs) };
