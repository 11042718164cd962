/* SPDX-License-Identifier: Apache-2.0 */
/* spec_parts.c - files, packages, Git repositories and the working directory of a layer */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "build/spec_internal.h"
#include "git/git.h"

#define SPEC_RUNTIME_NAME_MAX 32

#define B64_CHARS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

struct file {
	json_t *content;
	const char *encoding;
	bool executable;
};
static const struct json_field file_fields[] = {
	JSON_FIELD(JSON_WANT_ANY, file, content, "content", JSON_REQUIRED, 0, 0, "string"),
	JSON_FIELD(JSON_WANT_STRREF, file, encoding, "encoding", JSON_NULLABLE, 0, 16,
	           "'utf-8' | 'utf8' | 'base64'"),
	JSON_FIELD(JSON_WANT_BOOL, file, executable, "executable", JSON_NULLABLE, 0, 0),
};
JSON_TABLE(SpecFile, file_fields);

/* Complete groups of four, so that decoding cannot fail later. */
static bool base64_ok(const char *s, size_t n)
{
	size_t body;

	if (n % 4 || strlen(s) != n)
		return false;
	body = strspn(s, B64_CHARS);
	return body == n || (n - body <= 2 && strspn(s + body, "=") == n - body);
}

static int check_file(const char *path, const json_t *v, struct spec_ctx *c, json_t **ret,
                      struct err *err)
{
	struct file f = { 0 };
	char at[160];
	bool b64;
	int r;

	if (!spec_path_ok(path) || path[strlen(path) - 1] == '/')
		return spec_bad(c, ERR_NONE, err,
		                "'%.120s' in additionalFiles is not an absolute file path", path);
	snprintf(at, sizeof(at), "additionalFiles[\"%.100s\"].", path);
	if ((r = spec_fields(v, at, file_fields, ARRAY_SIZE(file_fields), &f, c, err)) < 0)
		return r;
	if (!json_is_string(f.content))
		return spec_bad(c, ERR_NONE, err, "'%scontent' must be a string", at);
	b64 = f.encoding && strcmp(f.encoding, "base64") == 0;
	if (f.encoding && !b64 && strcmp(f.encoding, "utf-8") != 0 &&
	    strcmp(f.encoding, "utf8") != 0)
		return spec_bad(c, ERR_NONE, err, "'%sencoding' must be utf-8 or base64", at);
	if (b64 && !base64_ok(json_string_value(f.content), json_string_length(f.content)))
		return spec_bad(c, ERR_NONE, err, "'%scontent' is not base64", at);
	*ret = json_pack("{s:O, s:b, s:b}", "content", f.content, "base64", b64, "executable",
	                 f.executable);
	return *ret ? 0 : err_set(err, -ENOMEM, "out of memory");
}

int spec_files(const json_t *j, const char *where, struct spec_ctx *c, json_t **ret,
               struct err *err)
{
	autojson json_t *out = json_object();
	const char *path;
	json_t *v, *f = NULL;
	int r;

	if (!json_is_object(j))
		return spec_bad(c, ERR_NONE, err, "'%sadditionalFiles' must be an object", where);
	if (json_object_size(j) > SPEC_FILES_MAX)
		return spec_bad(c, ERR_NONE, err, "'%sadditionalFiles' has more than %d files",
		                where, SPEC_FILES_MAX);
	json_object_foreach((json_t *)(uintptr_t)j, path, v)
	{
		if ((r = check_file(path, v, c, &f, err)) < 0)
			return r;
		json_object_set_new(out, path, f);
	}
	if (json_object_size(out))
		*ret = TAKE_PTR(out);
	return 0;
}

/* name[:arch][=version] or name/suite, as apt-get accepts them; never an option */
static bool package_ok(const char *s)
{
	size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789+.-");

	if (n < 2 || n > 128 || s[0] == '-' || s[0] == '+' || s[0] == '.' || s[n - 1] == '-')
		return false;
	if (s[n] == '\0')
		return true;
	if (!strchr(":=/", s[n]))
		return false;
	return s[n + 1] && s[n + 1 +
	                     strspn(s + n + 1, "abcdefghijklmnopqrstuvwxyz"
	                                       "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	                                       "0123456789+.:=/~_-*")] == '\0';
}

int spec_apt(const json_t *j, const char *where, struct spec_ctx *c, json_t **ret, struct err *err)
{
	size_t i;
	json_t *v;
	int r = spec_strings(j, where, "aptDeps", 200, ERR_NONE, c, err);

	if (r < 0)
		return r;
	json_array_foreach((json_t *)(uintptr_t)j, i, v) if (
	        !package_ok(json_string_value(
	                v))) return spec_bad(c, ERR_NONE, err,
	                                     "'%saptDeps[%zu]': '%.80s' is not a package name",
	                                     where, i, json_string_value(v));
	if (json_array_size(j))
		*ret = json_incref((json_t *)(uintptr_t)j);
	return 0;
}

int spec_runtimes(const json_t *j, const char *where, struct spec_ctx *c, json_t **ret,
                  struct err *err)
{
	int r = spec_strings(j, where, "runtimes", SPEC_RUNTIME_NAME_MAX, ERR_NONE, c, err);
	char path[PATH_MAX];
	size_t i;
	json_t *v;

	if (r < 0)
		return r;
	json_array_foreach((json_t *)(uintptr_t)j, i, v)
	{
		const char *name = json_string_value(v), *dir = c->limits->image_dir;

		snprintf(path, sizeof(path), "%s/%s.tar.zst", dir ? dir : "", name);
		if (name[strspn(name, "abcdefghijklmnopqrstuvwxyz")])
			return spec_bad(c, ERR_NONE, err,
			                "'%sruntimes[%zu]': '%.40s' is not the name of a runtime: "
			                "bun and deno are",
			                where, i, name);
		if (!dir || access(path, R_OK) < 0)
			return spec_bad(
			        c, ERR_NONE, err,
			        "'%sruntimes[%zu]': this server's image has no '%s'. Images have "
			        "bun "
			        "and deno if npm's registry could be reached when they were built",
			        where, i, name);
	}
	if (json_array_size(j))
		*ret = json_incref((json_t *)(uintptr_t)j);
	return 0;
}

struct repo {
	const char *repo, *path, *rev;
};
static const struct json_field repo_fields[] = {
	JSON_FIELD(JSON_WANT_STRREF, repo, repo, "repo", JSON_REQUIRED, 1, SPEC_TEXT_MAX),
	JSON_FIELD(JSON_WANT_STRREF, repo, path, "path", JSON_NULLABLE, 0, SPEC_TEXT_MAX),
	JSON_FIELD(JSON_WANT_STRREF, repo, rev, "rev", JSON_NULLABLE, 0, 256),
};
JSON_TABLE(SpecRepo, repo_fields);
#define GIT_TAG ERR_INVALID_GIT_REPO_SPEC_ERROR

#define REPO_HOME "/root/" /* where a repository without a path goes */

/* As git clone does: the last part of its URL, without ".git". */
static bool path_of_repo(const char *url, char *ret, size_t size)
{
	size_t n = strcspn(url, "?#"), from;

	while (n && url[n - 1] == '/')
		n--;
	if (n > 4 && !memcmp(url + n - 4, ".git", 4))
		n -= 4;
	for (from = n; from && !strchr("/:", url[from - 1]);)
		from--;
	return n > from &&
	       snprintf(ret, size, REPO_HOME "%.*s", (int)(n - from), url + from) < (int)size &&
	       spec_path_ok(ret);
}

static int check_url(const char *url, struct spec_ctx *c, struct err *err)
{
	static const char *const schemes[] = { "https://", "http://", "git://", "ssh://",
		                               "file:///" };

	for (size_t i = 0; i < ARRAY_SIZE(schemes); i++)
		if (strncmp(url, schemes[i], strlen(schemes[i])) == 0 && spec_text_ok(url) &&
		    !strchr(url, ' '))
			return 0;
	if (repo_id_valid(url))
		return 0;
	return spec_bad(c, GIT_TAG, err,
	                "'%.80s' is neither the id of a repository nor an https, http, git, ssh or "
	                "file URL of one",
	                url);
}

static int check_repos(const json_t *j, const char *where, struct spec_ctx *c, json_t **ret,
                       struct err *err)
{
	autojson json_t *out = json_array();
	json_t *v, *o;
	size_t i;
	int r = spec_array(j, where, "repos", c, err);

	if (r < 0)
		return r;
	json_array_foreach((json_t *)(uintptr_t)j, i, v)
	{
		struct repo p = { 0 };
		char at[128], home[SPEC_TEXT_MAX];

		snprintf(at, sizeof(at), "%.90srepos[%zu].", where, i);
		if ((r = spec_fields(v, at, repo_fields, ARRAY_SIZE(repo_fields), &p, c, err)) <
		    0) {
			err->tag = GIT_TAG;
			return r;
		}
		if ((r = check_url(p.repo, c, err)) < 0)
			return r;
		if ((!p.path || !*p.path) && path_of_repo(p.repo, home, sizeof(home)))
			p.path = home;
		if (!p.path || !spec_path_ok(p.path) || strcmp(p.path, "/") == 0)
			return spec_bad(c, GIT_TAG, err, "'%spath' must be an absolute path", at);
		if (p.rev && *p.rev && (p.rev[0] == '-' || !spec_text_ok(p.rev)))
			return spec_bad(c, GIT_TAG, err, "'%srev' is not a revision", at);
		o = json_pack("{s:s, s:s}", "repo", p.repo, "path", p.path);
		if (p.rev && *p.rev)
			json_object_set_new(o, "rev", json_string(p.rev));
		json_array_append_new(out, o);
	}
	if (json_array_size(out))
		*ret = TAKE_PTR(out);
	return 0;
}

struct git_user {
	const char *name, *email, *signingkey;
};
static const struct json_field git_user_fields[] = {
	JSON_FIELD(JSON_WANT_STRREF, git_user, name, "name", JSON_NULLABLE, 0, 256),
	JSON_FIELD(JSON_WANT_STRREF, git_user, email, "email", JSON_NULLABLE, 0, 256),
	JSON_FIELD(JSON_WANT_STRREF, git_user, signingkey, "signingkey", JSON_NULLABLE, 0, 1024),
};
JSON_TABLE(SpecGitUser, git_user_fields);

static int check_config(const json_t *config, const char *where, struct spec_ctx *c, json_t **ret,
                        struct err *err)
{
	const json_t *user = json_object_get(config, "user");
	struct git_user u = { 0 };
	autojson json_t *out = json_object();
	int r;

	if (!user || json_is_null(user))
		return 0;
	if ((r = spec_fields(user, where, git_user_fields, ARRAY_SIZE(git_user_fields), &u, c,
	                     err)) < 0)
		return r;
	const struct {
		const char *key, *value;
	} entries[] = { { "user.name", u.name },
		        { "user.email", u.email },
		        { "user.signingkey", u.signingkey } };
	for (size_t i = 0; i < ARRAY_SIZE(entries); i++) {
		if (!entries[i].value || !*entries[i].value)
			continue;
		if (!spec_text_ok(entries[i].value))
			return spec_bad(c, ERR_NONE, err, "'%s%s' must be one line", where,
			                entries[i].key);
		json_object_set_new(out, entries[i].key, json_string(entries[i].value));
	}
	if (json_object_size(out))
		*ret = TAKE_PTR(out);
	return 0;
}

struct git {
	json_t *config, *repos;
};
static const struct json_field git_fields[] = {
	JSON_FIELD(JSON_WANT_OBJECT, git, config, "config", JSON_NULLABLE, 0, 0,
	           "{user?: SpecGitUser}"),
	JSON_FIELD(JSON_WANT_ARRAY, git, repos, "repos", JSON_NULLABLE, 0, 0, "SpecRepo[]"),
};
JSON_TABLE(SpecGit, git_fields);

int spec_git(const json_t *git, const json_t *repos, const char *where, struct spec_ctx *c,
             json_t **ret_config, json_t **ret_repos, struct err *err)
{
	struct git g = { 0 };
	char at[128];
	int r;

	snprintf(at, sizeof(at), "%.100sgit.", where);
	if (git && (r = spec_fields(git, at, git_fields, ARRAY_SIZE(git_fields), &g, c, err)) < 0)
		return r;
	if (json_array_size(g.repos) && json_array_size(repos))
		return spec_bad(c, GIT_TAG, err,
		                "'%sgitRepos' and '%srepos' cannot be used together", where, at);
	if (g.config && (r = check_config(g.config, at, c, ret_config, err)) < 0)
		return r;
	if (repos && json_array_size(repos))
		return check_repos(repos, at, c, ret_repos, err);
	return g.repos ? check_repos(g.repos, at, c, ret_repos, err) : 0;
}

int spec_workdir(const char *s, const char *where, struct spec_ctx *c, char ret[WORKDIR_SIZE],
                 struct err *err)
{
	if (!*s)
		return spec_bad(c, ERR_WORKDIR_EMPTY, err, "'%sworkdir' is empty", where);
	if (strlen(s) >= WORKDIR_SIZE || !spec_path_ok(s))
		return spec_bad(c, ERR_NONE, err,
		                "'%sworkdir' must be an absolute path of at most %d bytes", where,
		                WORKDIR_SIZE - 1);
	snprintf(ret, WORKDIR_SIZE, "%s", s);
	return 0;
}
