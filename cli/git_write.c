/* SPDX-License-Identifier: Apache-2.0 */
/* git_write.c - pando git: commits and branches without a clone, who may see a repository */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "cli/git.h"
#include "cli/stream.h"

#define FILE_MAX (32u << 20) /* bytes; the rest is for a clone */
#define PIECE 65536

static const struct cli_col grant_cols[] = {
	{ "REPOSITORY", "id" },
	{ "NAME", "name" },
	{ "MAY", "permissions" },
};

static int branch(struct cli *c, const struct cli_args *a)
{
	autojson json_t *reply = NULL;
	json_t *body = json_pack("{s:s}", "name", a->arg[1]);
	int r;

	if (a->opt[0])
		json_object_set_new(body, "sha", json_string(a->opt[0]));
	r = git_on_repo(c, a->arg[0], "POST", "/branches", body, &reply);
	if (r == CLI_OK)
		cli_say(c, reply, "%s", cli_str(reply, "sha"));
	return r;
}

static int read_all(int fd, const char *file, struct buf *b)
{
	uint8_t piece[PIECE];
	ssize_t n;

	while ((n = read(fd, piece, sizeof(piece))) > 0 && b->len <= FILE_MAX)
		buf_put(b, piece, (size_t)n);
	if (n < 0)
		return cli_fail(CLI_USAGE, "%s cannot be read: %s", file, err_name(errno));
	if (b->len > FILE_MAX)
		return cli_fail(CLI_USAGE, "%s has more than %u MiB: commit it in a clone", file,
		                FILE_MAX >> 20);
	if (b->failed)
		cli_oom();
	return CLI_OK;
}

/* "PATH=FILE" as a changed file; "PATH" alone: the file of that name here. */
static int add_file(json_t *files, const char *text)
{
	const char *equals = strchr(text, '='), *file = equals ? equals + 1 : text;
	bool in = equals && strcmp(file, "-") == 0;
	autofree char *path = NULL, *base64 = NULL;
	autobuf struct buf b = { 0 };
	autofd int fd = -1;
	struct stat st;
	int r;

	path = equals ? strndup(text, (size_t)(equals - text)) : strdup(text);
	if (!path)
		cli_oom();
	fd = in ? dup(STDIN_FILENO) : open(file, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return cli_fail(CLI_USAGE, "%s cannot be read: %s", file, err_name(errno));
	if (S_ISDIR(st.st_mode))
		return cli_fail(CLI_USAGE, "%s is a directory: name its files", file);
	if ((r = read_all(fd, file, &b)) != CLI_OK)
		return r;
	base64 = base64_encode(b.p ? b.p : (uint8_t *)"", b.len);
	json_array_append_new(files, json_pack("{s:s, s:s, s:s, s:b}", "path", path, "content",
	                                       base64, "encoding", "base64", "executable",
	                                       S_ISREG(st.st_mode) && (st.st_mode & 0111)));
	return CLI_OK;
}

static int commit(struct cli *c, const struct cli_args *a)
{
	autojson json_t *reply = NULL;
	json_t *files = json_array(), *body;
	int r = CLI_OK;

	for (size_t i = 0; r == CLI_OK && i < a->n_rest; i++)
		r = add_file(files, a->rest[i]);
	for (size_t i = 0; r == CLI_OK && i < a->list[2].n; i++)
		json_array_append_new(
		        files, json_pack("{s:s, s:b}", "path", a->list[2].v[i], "deleted", 1));
	if (r == CLI_OK && !a->opt[0])
		r = cli_fail(CLI_USAGE, "the message is missing: -m MESSAGE");
	if (r == CLI_OK && !json_array_size(files))
		r = cli_fail(CLI_USAGE, "nothing to commit: name files, or --delete PATH");
	if (r != CLI_OK) {
		json_decref(files);
		return r;
	}
	body = json_pack("{s:s, s:o}", "message", a->opt[0], "files", files);
	if (a->opt[1])
		json_object_set_new(body, "branch", json_string(a->opt[1]));
	if (a->opt[3])
		json_object_set_new(body, "expectedSha", json_string(a->opt[3]));
	r = git_on_repo(c, a->arg[0], "POST", "/commits", body, &reply);
	if (r == CLI_OK)
		cli_say(c, reply, "%s", cli_str(json_object_get(reply, "commit"), "sha"));
	return r;
}

/* A setting of a repository: shown, or changed when a value is given. */
static int setting(struct cli *c, const struct cli_args *a, const char *tail, const char *member)
{
	autojson json_t *reply = NULL;
	const char *value = a->arg[1];
	int r;

	if (value)
		r = git_on_repo(c, a->arg[0], "PUT", tail, json_pack("{s:s}", member, value),
		                &reply);
	else
		r = git_on_repo(c, a->arg[0], "GET", tail, NULL, &reply);
	if (r == CLI_OK)
		cli_say(c, reply, "%s", value ? value : cli_str(reply, member));
	return r;
}

static int visibility(struct cli *c, const struct cli_args *a)
{
	return setting(c, a, "/visibility", "visibility");
}

static int default_branch(struct cli *c, const struct cli_args *a)
{
	return setting(c, a, "/default-branch", "defaultBranch");
}

static int grants(struct cli *c, const struct cli_args *a)
{
	autofree char *path = cli_path(c, "/identity/v1/identities/%s/permissions/git", a->arg[0]);
	autojson json_t *reply = NULL;
	int r = cli_call(c, "GET", path, NULL, &reply);

	if (r == CLI_OK)
		cli_table(c, reply, json_object_get(reply, "repositories"), grant_cols,
		          ARRAY_SIZE(grant_cols));
	return r;
}

static int permission(struct cli *c, const struct cli_args *a, const char *method, json_t *body,
                      const char *done)
{
	autofree char *id = git_repo_id(c, a->arg[0]), *path = NULL;
	autojson json_t *reply = NULL;
	int r;

	if (!id) {
		json_decref(body);
		return CLI_REFUSED;
	}
	path = cli_path(c, "/identity/v1/identities/%s/permissions/git/%s", a->arg[1], id);
	r = cli_call(c, method, path, body, &reply);
	if (r == CLI_OK)
		cli_say(c, reply, "%s", done);
	return r;
}

static int grant(struct cli *c, const struct cli_args *a)
{
	return permission(c, a, a->opt[1] ? "PUT" : "POST",
	                  json_pack("{s:s}", "permission", a->opt[0] ? "write" : "read"),
	                  a->opt[0] ? "may write" : "may read");
}

static int revoke_grant(struct cli *c, const struct cli_args *a)
{
	return permission(c, a, "DELETE", NULL, "revoked");
}

static int rotate(struct cli *c, const struct cli_args *a)
{
	autojson json_t *reply = NULL;
	int r = cli_call(c, "POST", "/git/v1/signing-keys", NULL, &reply);

	if (r == CLI_OK)
		cli_say(c, reply,
		        "webhooks are signed with a new key; the old one stays published "
		        "for a week");
	return r;
}

/* clang-format off */
static const struct cli_verb verbs[] = {
	{ "commit", "REPO [PATH=FILE]...", "commit files without a clone and print the commit", commit,
	  { { "message", "TEXT", "the commit's message", 'm' },
	    { "branch", "NAME", "on this branch; default: the default branch" },
	    { "delete", "PATH", "remove this file; may be repeated", .type = CLI_LIST },
	    { "expect", "COMMIT", "only if the branch is still at this commit" } },
	  .about = "PATH is where the file goes in the repository, FILE the local file ('-': stdin); "
	           "without '=' both are the same.",
	  .examples = "pando git commit app -m 'First' README.md src/main.c # two files\n"
	              "date | pando git commit app -m Stamp stamp.txt=- --branch log # what a command prints\n" },
	{ "branch", "REPO NAME", "create a branch and print its commit", branch,
	  { { "from", "COMMIT", "at this commit; default: the default branch's" } } },
	{ "visibility", "REPO [public|private]", "show or change whether everyone may read it", visibility },
	{ "default-branch", "REPO [NAME]", "show or change its default branch", default_branch },
	{ "grant", "REPO IDENTITY", "let an identity read a repository", grant,
	  { { "write", NULL, "and write to it" },
	    { "update", NULL, "change an existing grant" } } },
	{ "revoke", "REPO IDENTITY", "revoke an identity's grant on a repository", revoke_grant },
	{ "grants", "IDENTITY", "list the repositories an identity may use", grants },
	{ "rotate-signing-key", "", "sign webhooks with a new key (operator)", rotate },
};
/* clang-format on */
const struct cli_noun cli_git_write = { "git", NULL, verbs, ARRAY_SIZE(verbs) };
