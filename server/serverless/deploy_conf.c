/* SPDX-License-Identifier: Apache-2.0 */
/*
 * deploy_conf.c - what a deployment is to be: the description of a request, checked
 *
 * The members of `config` that the programs in the guest read are passed on as they are, once their
 * types are right; names of files are checked here, so that mistakes are told before anything is
 * built. Variables, packages and network are those of a run (run_conf.c).
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/json_field.h"
#include "serverless/deploy_build.h"

#define TAG ERR_INVALID_DEPLOYMENT_REQUEST
#define URL_MAX 2048
#define COMMAND_MAX 4096
#define RULES_MAX 200
#define IDLE_MIN_MS 1000
#define IDLE_MAX_MS 3600000
#define DOMAINS_MAX 20

struct body {
	const char *name, *entrypoint, *static_dir, *static_prefix, *public_dir, *prerender_dir;
	json_t *domains, *env, *modules, *permissions, *egress, *build, *redirects, *rewrites,
	        *dynamic, *headers, *trailing, *experimental;
	int64_t timeout, instances, requests;
	bool await, static_only, clean, check;
	enum json_presence await_seen;
};
#define PATH(member, name) JSON_FIELD(JSON_WANT_STRREF, body, member, name, JSON_NULLABLE, 0, 1024)
#define RULES(member, name, as) \
	JSON_FIELD(JSON_WANT_ARRAY, body, member, name, JSON_NULLABLE, 0, 0, as)
static const struct json_field fields[] = {
	JSON_FIELD(JSON_WANT_STRREF, body, name, "name", JSON_NULLABLE, 0, DEPLOY_NAME_SIZE - 1),
	JSON_FIELD(JSON_WANT_ARRAY, body, domains, "domains", JSON_NULLABLE, 0, 0, "string[]"),
	PATH(entrypoint, "entrypoint"),
	JSON_FIELD(JSON_WANT_OBJECT, body, env, "envVars", JSON_NULLABLE, 0, 0, "{*: string}"),
	JSON_FIELD(JSON_WANT_OBJECT, body, modules, "nodeModules", JSON_NULLABLE, 0, 0,
	           "{*: string}", "packages of npm with their versions"),
	JSON_FIELD(JSON_WANT_I64, body, timeout, "timeout", JSON_NULLABLE, 0, INT64_MAX, NULL,
	           "milliseconds without a request, then an instance ends"),
	JSON_FIELD(JSON_WANT_BOOL, body, check, "serverStartCheck", JSON_NULLABLE, 0, 0, NULL,
	           "always done"),
	JSON_FIELD(JSON_WANT_ARRAY, body, permissions, "networkPermissions", JSON_NULLABLE, 0, 0,
	           "{action: 'allow' | 'deny', query: string, behavior?: 'exact' | 'regex'}[]"),
	JSON_FIELD(JSON_WANT_OBJECT, body, egress, "egress", JSON_NULLABLE, 0, 0,
	           "{allow?: any, deny?: any}"),
	JSON_FIELD(JSON_WANT_ANY, body, build, "build", 0, 0, 0,
	           "bool | {command: string, outDir?: string | null, envVars?: {*: string} | null} "
	           "| null"),
	JSON_FIELD_P(JSON_WANT_BOOL, body, await, await_seen, "await", JSON_NULLABLE, 0, 0, NULL,
	             "false: answer before it is built"),
	PATH(static_dir, "staticDir"),
	PATH(static_prefix, "staticPathPrefix"),
	PATH(public_dir, "publicDir"),
	PATH(prerender_dir, "prerenderDir"),
	JSON_FIELD(JSON_WANT_BOOL, body, static_only, "staticOnly", JSON_NULLABLE, 0, 0),
	RULES(redirects, "redirects",
	      "{source: string, destination: string, statusCode?: int | null, permanent?: bool | "
	      "null}[]"),
	RULES(rewrites, "rewrites", "{source: string, destination: string}[]"),
	RULES(dynamic, "dynamic", "{source: string, methods?: string[] | null}[]"),
	RULES(headers, "headers", "{source: string, headers: {key: string, value: string}[]}[]"),
	JSON_FIELD(JSON_WANT_BOOL, body, clean, "cleanUrls", JSON_NULLABLE, 0, 0),
	JSON_FIELD(JSON_WANT_ANY, body, trailing, "trailingSlash", 0, 0, 0, "bool | null"),
	JSON_FIELD(JSON_WANT_OBJECT, body, experimental, "experimental", JSON_NULLABLE, 0, 0,
	           "{nextjsOptimization?: bool}", "changes nothing here"),
	JSON_FIELD(JSON_WANT_I64, body, instances, "instances", JSON_NULLABLE, 1, 1000, NULL,
	           "at most so many at a time"),
	JSON_FIELD(JSON_WANT_I64, body, requests, "requestsPerInstance", JSON_NULLABLE, 1,
	           DEPLOY_REQUESTS_MAX, NULL, "at a time"),
};
JSON_TABLE(DeploymentConfig, fields);

struct source {
	const char *kind, *url, *branch, *dir;
	json_t *files;
};
static const struct json_field source_fields[] = {
	JSON_FIELD(JSON_WANT_STRREF, source, kind, "kind", JSON_REQUIRED, 0, 16, NULL,
	           "files, git or tar"),
	JSON_FIELD(JSON_WANT_OBJECT, source, files, "files", JSON_NULLABLE, 0, 0,
	           "{*: {content: string, encoding?: string | null, executable?: bool | null}}",
	           "by their paths"),
	JSON_FIELD(JSON_WANT_STRREF, source, url, "url", JSON_NULLABLE, 0, URL_MAX, NULL,
	           "of a tar archive or a Git repository, or the id of one of this server"),
	JSON_FIELD(JSON_WANT_STRREF, source, branch, "branch", JSON_NULLABLE, 0, 256),
	JSON_FIELD(JSON_WANT_STRREF, source, dir, "dir", JSON_NULLABLE, 0, 1024),
};
JSON_TABLE(DeploymentSource, source_fields);

void deploy_plan_done(struct deploy_plan *p)
{
	json_decref(p->conf);
	json_decref(p->files);
	json_decref(p->egress);
	json_decref(p->domains);
	*p = (struct deploy_plan){ 0 };
}

static bool plain(const char *s)
{
	for (; *s; s++)
		if ((unsigned char)*s < 0x20 || *s == 0x7f)
			return false;
	return true;
}

/* A path in the source: relative, and inside of it. */
static bool path_ok(const char *s)
{
	if (!*s || *s == '/' || strlen(s) > 1024 || !plain(s))
		return false;
	for (const char *p = s; p; p = strchr(p, '/') ? strchr(p, '/') + 1 : NULL)
		if (!strncmp(p, "..", 2) && (p[2] == '/' || !p[2]))
			return false;
	return true;
}

static int check_path(const char *name, const char *s, struct err *err)
{
	return !s || !*s || path_ok(s)
	               ? 0
	               : err_tag(err, -EINVAL, TAG,
	                         "'%s' must be a path inside the source, without '..'", name);
}

/* ---- the source ---- */

static int check_files(const json_t *files, struct err *err)
{
	const char *path;
	json_t *f;

	if (!json_object_size(files))
		return err_tag(err, -EINVAL, TAG, "'source.files' has no files");
	if (json_object_size(files) > DEPLOY_FILES_MAX)
		return err_tag(err, -EINVAL, TAG, "'source.files' has more than %d files",
		               DEPLOY_FILES_MAX);
	json_object_foreach((json_t *)(uintptr_t)files, path, f)
	{
		const json_t *encoding = json_object_get(f, "encoding"),
		             *executable = json_object_get(f, "executable");
		const char *how = json_string_value(encoding);

		if (!path_ok(path) || path[strlen(path) - 1] == '/')
			return err_tag(err, -EINVAL, TAG,
			               "'source.files': '%.100s' is not a path inside the source",
			               path);
		if (!json_is_string(json_object_get(f, "content")))
			return err_tag(err, -EINVAL, TAG,
			               "'source.files[\"%.100s\"].content' must be a string", path);
		if ((encoding && !json_is_null(encoding) && !how) ||
		    (how && strcmp(how, "utf-8") != 0 && strcmp(how, "utf8") != 0 &&
		     strcmp(how, "base64") != 0))
			return err_tag(err, -EINVAL, TAG,
			               "'source.files[\"%.100s\"].encoding' must be utf-8 or "
			               "base64",
			               path);
		if (executable && !json_is_null(executable) && !json_is_boolean(executable))
			return err_tag(err, -EINVAL, TAG,
			               "'source.files[\"%.100s\"].executable' must be true or "
			               "false",
			               path);
	}
	return 0;
}

static int check_url(const char *url, bool git, struct err *err)
{
	if (url && *url && plain(url) && !strchr(url, ' ') && *url != '-' &&
	    (git || !strncmp(url, "https://", 8) || !strncmp(url, "http://", 7)))
		return 0;
	return err_tag(err, -EINVAL, TAG, "'source.url' must be %s",
	               git ? "the id or the URL of a Git repository" : "an http or https URL");
}

static int read_source(const json_t *j, struct deploy_plan *p, struct err *err)
{
	struct source s = { 0 };
	int r;

	if (!json_is_object(j))
		return err_tag(err, -EINVAL, TAG, "'source' must be an object");
	if ((r = json_fields_read(j, "source.", source_fields, ARRAY_SIZE(source_fields), &s,
	                          err)) < 0) {
		err->tag = TAG;
		return r;
	}
	if (!strcmp(s.kind, "files")) {
		r = check_files(s.files, err);
		p->files = json_incref(s.files);
	} else if (!strcmp(s.kind, "git") || !strcmp(s.kind, "tar")) {
		p->git = *s.kind == 'g';
		if ((r = check_url(s.url, p->git, err)) == 0)
			r = check_path("source.dir", s.dir, err);
	} else {
		r = err_tag(err, -EINVAL, TAG, "'source.kind' must be files, git or tar");
	}
	if (r < 0)
		return r;
	p->url = p->files ? NULL : s.url;
	p->branch = p->git && s.branch && *s.branch ? s.branch : NULL;
	json_object_set_new(p->conf, "source",
	                    json_pack("{s:s, s:s*, s:s*}", "kind", s.kind, "url", p->url, "dir",
	                              s.dir && *s.dir ? s.dir : NULL));
	return 0;
}

/* ---- the configuration ---- */

static int check_strings(const json_t *o, const char *name, struct err *err)
{
	const char *key;
	json_t *v;

	json_object_foreach((json_t *)(uintptr_t)o, key, v)
	{
		if (!json_is_string(v) || strlen(json_string_value(v)) != json_string_length(v))
			return err_tag(err, -EINVAL, TAG, "'%s.%.60s' must be a string", name, key);
	}
	return 0;
}

static int read_build(const json_t *j, struct deploy_plan *p, struct err *err)
{
	const json_t *command, *out, *env;
	int r;

	if (!j || json_is_null(j) || json_is_false(j))
		return 0;
	if (json_is_true(j)) {
		json_object_set_new(p->conf, "build", json_object());
		return 0;
	}
	command = json_object_get(j, "command");
	out = json_object_get(j, "outDir");
	env = json_object_get(j, "envVars");
	if (!json_string_length(command) || json_string_length(command) > COMMAND_MAX)
		return err_tag(err, -EINVAL, TAG,
		               "'config.build' must be true, false, or have a 'command' of at most "
		               "%d bytes",
		               COMMAND_MAX);
	if ((out && !json_is_null(out) && !json_is_string(out)) ||
	    (env && !json_is_null(env) && !json_is_object(env)))
		return err_tag(
		        err, -EINVAL, TAG,
		        "'config.build' has an 'outDir' that is no string, or 'envVars' that "
		        "are no object");
	if ((r = check_path("config.build.outDir", json_string_value(out), err)) < 0 ||
	    (r = check_strings(env, "config.build.envVars", err)) < 0)
		return r;
	json_object_set_new(p->conf, "build",
	                    json_pack("{s:O, s:s*, s:O*}", "command", command, "outDir",
	                              json_string_length(out) ? json_string_value(out) : NULL,
	                              "envVars", json_is_object(env) ? env : NULL));
	return 0;
}

/* Arrays of objects with a source; what else they have is of the types that hook.mjs takes. */
static int read_rules(const json_t *list, const char *name, const char *text, struct deploy_plan *p,
                      struct err *err)
{
	json_t *rule, *v, *h;
	size_t i, k;

	if (!json_array_size(list))
		return 0;
	if (json_array_size(list) > RULES_MAX)
		return err_tag(err, -EINVAL, TAG, "'config.%s' has more than %d members", name,
		               RULES_MAX);
	json_array_foreach((json_t *)(uintptr_t)list, i, rule)
	{
		const json_t *status = json_object_get(rule, "statusCode");
		bool ok = json_is_string(json_object_get(rule, "source")) &&
		          (!text || json_is_string(json_object_get(rule, text)));

		if (status && !json_is_null(status))
			ok &= json_is_integer(status) && json_integer_value(status) >= 300 &&
			      json_integer_value(status) <= 399;
		v = json_object_get(rule, "headers");
		if (!strcmp(name, "headers")) {
			ok &= json_is_array(v);
			json_array_foreach(v, k, h)
			{
				const char *value = json_string_value(json_object_get(h, "value"));

				ok &= json_string_length(json_object_get(h, "key")) && value &&
				      plain(value) &&
				      plain(json_string_value(json_object_get(h, "key")));
			}
		}
		v = json_object_get(rule, "methods");
		ok &= !v || json_is_null(v) || json_is_array(v);
		if (!ok)
			return err_tag(
			        err, -EINVAL, TAG,
			        "'config.%s[%zu]' is not as it should be: it needs 'source'%s%s",
			        name, i, text || !strcmp(name, "headers") ? " and " : "",
			        text                       ? text
			        : !strcmp(name, "headers") ? "'headers' with keys and values"
			                                   : "");
	}
	json_object_set(p->conf, name, (json_t *)(uintptr_t)list);
	return 0;
}

static int read_web(const struct body *b, struct deploy_plan *p, struct err *err)
{
	const struct {
		const char *name, *value;
	} dirs[] = { { "entrypoint", b->entrypoint },
		     { "staticDir", b->static_dir },
		     { "publicDir", b->public_dir },
		     { "prerenderDir", b->prerender_dir } };
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
		if ((r = check_path(dirs[i].name, dirs[i].value, err)) < 0)
			return r;
		if (dirs[i].value && *dirs[i].value)
			json_object_set_new(p->conf, dirs[i].name, json_string(dirs[i].value));
	}
	if (b->static_prefix && *b->static_prefix && *b->static_prefix != '/')
		return err_tag(err, -EINVAL, TAG, "'config.staticPathPrefix' must begin with '/'");
	if (b->static_prefix)
		json_object_set_new(p->conf, "staticPathPrefix", json_string(b->static_prefix));
	if (json_is_boolean(b->trailing))
		json_object_set(p->conf, "trailingSlash", b->trailing);
	json_object_set_new(p->conf, "staticOnly", json_boolean(b->static_only));
	json_object_set_new(p->conf, "cleanUrls", json_boolean(b->clean));
	if ((r = read_rules(b->redirects, "redirects", "destination", p, err)) < 0 ||
	    (r = read_rules(b->rewrites, "rewrites", "destination", p, err)) < 0 ||
	    (r = read_rules(b->dynamic, "dynamic", NULL, p, err)) < 0)
		return r;
	return read_rules(b->headers, "headers", NULL, p, err);
}

/* Variables, packages and network, as of a run. */
static int read_run(const struct body *b, struct deploy_plan *p, struct err *err)
{
	AUTO(run_conf_done) struct run_conf run = { 0 };
	autojson json_t *part =
	        json_pack("{s:O*, s:O*, s:O*, s:O*}", "envVars", b->env, "nodeModules", b->modules,
	                  "networkPermissions", b->permissions, "egress", b->egress);
	const char *port;
	char *end;
	int r;

	if (!part)
		return err_set(err, -ENOMEM, "out of memory");
	if ((r = run_conf_parse(part, "config.", &run, err)) < 0) {
		err->tag = TAG;
		return r;
	}
	p->egress = json_incref(run.egress);
	json_object_set_new(p->conf, "env", run.env ? json_incref(run.env) : json_object());
	if (run.modules)
		json_object_set(p->conf, "nodeModules", run.modules);
	port = json_string_value(json_object_get(run.env, "PORT"));
	p->port = port ? (uint32_t)strtoul(port, &end, 10) : DEPLOY_PORT;
	if (port && (*end || !*port || p->port < 1 || p->port > 65535))
		return err_tag(err, -EINVAL, TAG,
		               "'config.envVars.PORT' must be a number from 1 to 65535");
	return 0;
}

static int read_domains(const json_t *list, struct deploy_plan *p, struct err *err)
{
	json_t *v;
	size_t i;

	if (json_array_size(list) > DOMAINS_MAX)
		return err_tag(err, -EINVAL, TAG, "'config.domains' has more than %d names",
		               DOMAINS_MAX);
	json_array_foreach((json_t *)(uintptr_t)list, i, v)
	{
		if (!json_is_string(v))
			return err_tag(err, -EINVAL, TAG, "'config.domains[%zu]' must be a string",
			               i);
	}
	p->domains = json_is_array(list) ? json_incref((json_t *)(uintptr_t)list) : json_array();
	return p->domains ? 0 : err_set(err, -ENOMEM, "out of memory");
}

/* As guest/build.mjs decides it, as far as the names of the files tell. */
static bool has_server(const json_t *files)
{
	static const char *const usual[] = { "main",        "server",     "index",     "app",
		                             "src/main",    "src/server", "src/index", "dist/main",
		                             "dist/server", "dist/index" };
	static const char *const ends[] = { "ts", "mts", "js", "mjs", "cjs" };
	char name[32];

	if (json_object_get(files, "package.json") || json_object_get(files, "index.html"))
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(usual); i++)
		for (size_t k = 0; k < ARRAY_SIZE(ends); k++) {
			snprintf(name, sizeof(name), "%s.%s", usual[i], ends[k]);
			if (json_object_get(files, name))
				return true;
		}
	return false;
}

/* With files at hand, what is missing can be told now. */
static int check_entrypoint(const struct body *b, const struct deploy_plan *p, struct err *err)
{
	const char *dir = b->entrypoint && !strncmp(b->entrypoint, "./", 2) ? b->entrypoint + 2
	                                                                    : b->entrypoint;

	if (!p->files || json_object_get(p->conf, "build") || b->static_only)
		return 0;
	if (!dir || !*dir)
		return has_server(p->files)
		               ? 0
		               : err_tag(err, -EINVAL, ERR_NO_ENTRYPOINT_FOUND,
		                         "none of the files looks like a server: name one with "
		                         "'entrypoint'");
	return json_object_get(p->files, dir)
	               ? 0
	               : err_tag(err, -EINVAL, ERR_ENTRYPOINT_NOT_FOUND,
	                         "the source has no file '%.100s'", b->entrypoint);
}

int deploy_plan_read(const json_t *source, const json_t *config, const struct deploy_limits *l,
                     struct deploy_plan *ret, struct err *err)
{
	struct body b = { .check = true,
		          .requests = l->requests,
		          .instances = l->instances,
		          .timeout = (int64_t)l->idle_s * 1000 };
	int r;

	*ret = (struct deploy_plan){ .conf = json_object() };
	if (!ret->conf)
		return err_set(err, -ENOMEM, "out of memory");
	if (config && !json_is_null(config) && !json_is_object(config))
		return err_tag(err, -EINVAL, TAG, "'config' must be an object");
	if (json_is_object(config) &&
	    (r = json_fields_read(config, "config.", fields, ARRAY_SIZE(fields), &b, err)) < 0) {
		err->tag = TAG;
		return r;
	}
	if (b.timeout > IDLE_MAX_MS)
		return err_tag(err, -EINVAL, ERR_TIMEOUT_LIMIT_EXCEEDED,
		               "'config.timeout' is at most %d milliseconds", IDLE_MAX_MS);
	if (b.name && !plain(b.name))
		return err_tag(err, -EINVAL, TAG, "'config.name' must be one line");
	if ((r = read_source(source, ret, err)) < 0 || (r = read_run(&b, ret, err)) < 0 ||
	    (r = read_build(b.build, ret, err)) < 0 || (r = read_web(&b, ret, err)) < 0 ||
	    (r = read_domains(b.domains, ret, err)) < 0 || (r = check_entrypoint(&b, ret, err)) < 0)
		return r;
	ret->name = b.name;
	ret->idle_ms = (uint32_t)MAX(b.timeout, IDLE_MIN_MS);
	ret->instances = (uint32_t)MIN(b.instances, (int64_t)l->instances);
	ret->requests = (uint32_t)b.requests;
	ret->wait = b.await_seen != JSON_IS_GIVEN || b.await;
	return 0;
}

int deploy_egress_text(const struct store_deploy *row, char **ret, struct err *err)
{
	autojson json_t *conf =
	        row->config && *row->config ? json_loads(row->config, 0, NULL) : NULL;
	const json_t *egress = json_object_get(conf, "egress");

	*ret = NULL;
	if (!conf)
		return err_set(err, -EBADMSG, "the configuration of deployment '%s' is damaged",
		               row->id);
	if (!egress || json_is_null(egress))
		return 0;
	*ret = json_dumps(egress, JSON_COMPACT);
	return *ret ? 0 : err_set(err, -ENOMEM, "out of memory");
}
