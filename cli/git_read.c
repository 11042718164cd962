/* SPDX-License-Identifier: Apache-2.0 */
/* git_read.c - pando git: what is in a repository */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "cli/git.h"
#include "cli/stream.h"

static const struct cli_col branch_cols[] = { { "NAME", "name" }, { "COMMIT", "commit" } };
static const struct cli_col tag_cols[] = {
	{ "NAME", "name" },
	{ "COMMIT", "target.sha" },
	{ "BY", "tagger.name" },
};
static const struct cli_col commit_cols[] = {
	{ "COMMIT", "sha" },
	{ "DATE", "author.date" },
	{ "BY", "author.name" },
	{ "MESSAGE", "line" },
};
static const struct cli_col commit_get_cols[] = {
	{ "commit", "sha" },        { "tree", "tree.sha" },    { "author", "author.name" },
	{ "mail", "author.email" }, { "date", "author.date" }, { "committer", "committer.name" },
};
static const struct cli_col found_commit_cols[] = {
	{ "COMMIT", "sha" },
	{ "DATE", "timestamp" },
	{ "BY", "authorName" },
	{ "MESSAGE", "line" },
};
static const struct cli_col file_cols[] = {
	{ "KIND", "type" },
	{ "SIZE", "size" },
	{ "PATH", "path" },
};
static const struct cli_col found_file_cols[] = { { "SIZE", "size" }, { "PATH", "path" } };
static const struct cli_col compare_cols[] = {
	{ "CHANGE", "status" },
	{ "ADDED", "additions" },
	{ "REMOVED", "deletions" },
	{ "FILE", "filename" },
};
static const struct cli_col run_cols[] = {
	{ "RUN", "id" },        { "TRIGGER", "triggerId" }, { "STATE", "state" },
	{ "EXIT", "exitCode" }, { "VM", "vmId" },           { "OUTCOME", "outcome" },
};

/* One GET whose reply is a table of its member `rows`. */
static int show_rows(struct cli *c, const char *repo, const char *tail, const char *rows,
                     const struct cli_col *cols, size_t n)
{
	autojson json_t *reply = NULL;
	int r = git_on_repo(c, repo, "GET", tail, NULL, &reply);

	if (r == CLI_OK)
		cli_table(c, reply, json_object_get(reply, rows), cols, n);
	return r;
}

/* A table shows the first line of a message; --json the reply as it came. */
static void first_lines(const struct cli *c, json_t *rows)
{
	size_t i;
	json_t *row;

	if (cli_json(c))
		return;
	json_array_foreach(rows, i, row)
	{
		const char *m = cli_str(row, "message");

		json_object_set_new(row, "line", json_stringn(m, strcspn(m, "\r\n")));
	}
}

static int branches(struct cli *c, const struct cli_args *a)
{
	return show_rows(c, a->arg[0], "/branches", "branches", branch_cols,
	                 ARRAY_SIZE(branch_cols));
}

static int tags(struct cli *c, const struct cli_args *a)
{
	return show_rows(c, a->arg[0], "/git/refs/tags", "tags", tag_cols, ARRAY_SIZE(tag_cols));
}

static int commits(struct cli *c, const struct cli_args *a)
{
	autofree char *tail = cli_path(c, "/git/commits");
	autojson json_t *reply = NULL;
	int r;

	cli_query(c, &tail, "branch", a->opt[0]);
	cli_query(c, &tail, "limit", a->opt[1] ? a->opt[1] : "30");
	cli_query(c, &tail, "offset", a->opt[2]);
	r = git_on_repo(c, a->arg[0], "GET", tail, NULL, &reply);
	if (r != CLI_OK)
		return r;
	first_lines(c, json_object_get(reply, "commits"));
	cli_table(c, reply, json_object_get(reply, "commits"), commit_cols,
	          ARRAY_SIZE(commit_cols));
	return CLI_OK;
}

static int show(struct cli *c, const struct cli_args *a)
{
	autofree char *tail = cli_path(c, "/git/commits/%s", a->arg[1]);
	autojson json_t *reply = NULL;
	json_t *parent;
	size_t i;
	int r = git_on_repo(c, a->arg[0], "GET", tail, NULL, &reply);

	if (r != CLI_OK)
		return r;
	cli_show(c, reply, commit_get_cols, ARRAY_SIZE(commit_get_cols));
	if (cli_json(c))
		return CLI_OK;
	json_array_foreach(json_object_get(reply, "parents"), i, parent)
	        printf("parent %s\n", cli_str(parent, "sha"));
	putchar('\n');
	cli_put_text(stdout, cli_str(reply, "message"));
	putchar('\n');
	return CLI_OK;
}

static char *contents_path(struct cli *c, const char *path, const char *rev)
{
	char *tail = path ? cli_path(c, "/contents/%s", path) : cli_path(c, "/contents");

	cli_query(c, &tail, "rev", rev);
	return tail;
}

/* Entries and those of the directories among them, to one list. */
static void add_entries(json_t *rows, const json_t *entries)
{
	json_t *e;
	size_t i;

	json_array_foreach(entries, i, e)
	{
		json_array_append(rows, e);
		add_entries(rows, json_object_get(e, "entries"));
	}
}

static int ls(struct cli *c, const struct cli_args *a)
{
	autofree char *tail = contents_path(c, a->arg[1], a->opt[0]);
	autojson json_t *reply = NULL, *rows = json_array();
	int r;

	cli_query(c, &tail, "recursive", a->opt[1] ? "true" : NULL);
	r = git_on_repo(c, a->arg[0], "GET", tail, NULL, &reply);
	if (r != CLI_OK)
		return r;
	if (json_object_get(reply, "entries"))
		add_entries(rows, json_object_get(reply, "entries"));
	else
		json_array_append(rows, reply);
	cli_table(c, reply, rows, file_cols, ARRAY_SIZE(file_cols));
	return CLI_OK;
}

static int cat(struct cli *c, const struct cli_args *a)
{
	autofree char *tail = contents_path(c, a->arg[1], a->opt[0]);
	autofree unsigned char *bytes = NULL;
	autojson json_t *reply = NULL;
	size_t n;
	int r = git_on_repo(c, a->arg[0], "GET", tail, NULL, &reply);

	if (r != CLI_OK)
		return r;
	if (cli_json(c)) {
		cli_dump(reply);
		return CLI_OK;
	}
	if (strcmp(cli_str(reply, "type"), "file") != 0)
		return cli_fail(CLI_REFUSED, "'%s' is a directory: 'pando git ls' lists it",
		                a->arg[1]);
	bytes = base64_decode(cli_str(reply, "content"), &n);
	if (!bytes)
		return cli_fail(CLI_REFUSED, "the server's reply is not base64");
	return fwrite(bytes, 1, n, stdout) == n ? CLI_OK
	                                        : cli_fail(CLI_REFUSED, "cannot write the output");
}

static int compare(struct cli *c, const struct cli_args *a)
{
	autofree char *tail = cli_path(c, "/compare?base=%s&head=%s", a->arg[1], a->arg[2]);
	autojson json_t *reply = NULL;
	int r = git_on_repo(c, a->arg[0], "GET", tail, NULL, &reply);

	if (r != CLI_OK)
		return r;
	if (!cli_json(c))
		printf("%s: %lld ahead, %lld behind\n", cli_str(reply, "status"),
		       (long long)json_integer_value(json_object_get(reply, "ahead_by")),
		       (long long)json_integer_value(json_object_get(reply, "behind_by")));
	cli_table(c, reply, json_object_get(reply, "files"), compare_cols,
	          ARRAY_SIZE(compare_cols));
	return CLI_OK;
}

static int status(struct cli *c, const struct cli_args *a)
{
	autofree char *tail = cli_path(c, "/git/commits/%s/status", a->arg[1]);

	return show_rows(c, a->arg[0], tail, "runs", run_cols, ARRAY_SIZE(run_cols));
}

static int put_bytes(void *ctx, const void *p, size_t n)
{
	return fwrite(p, 1, n, stdout) == n ? 0 : cli_fail(CLI_REFUSED, "cannot write the output");
}

static int archive(struct cli *c, const struct cli_args *a)
{
	autofree char *id = NULL, *path = NULL;
	struct cli_stream s = { .method = "GET", .data = put_bytes };
	int r;

	if (isatty(STDOUT_FILENO))
		return cli_fail(CLI_USAGE,
		                "an archive is not for a terminal: redirect it, as in "
		                "'pando git archive %s >%s.tar'",
		                a->arg[0], a->arg[0]);
	id = git_repo_id(c, a->arg[0]);
	if (!id)
		return CLI_REFUSED;
	path = a->opt[1] ? cli_path(c, "/git/v1/repo/%s/zip", id)
	                 : cli_path(c, "/git/v1/repo/%s/tarball", id);
	cli_query(c, &path, "rev", a->opt[0]);
	s.path = path;
	r = cli_stream(c, &s);
	if (r == CLI_OK && s.cut)
		r = cli_fail(CLI_UNREACHABLE, "the archive was cut off: do not use it");
	return r;
}

static void show_matches(const json_t *files)
{
	json_t *f, *m;
	size_t i, k;

	json_array_foreach(files, i, f)
	{
		json_array_foreach(json_object_get(f, "matches"), k, m)
		{
			cli_put_text(stdout, cli_str(f, "path"));
			printf(":%lld: ",
			       (long long)json_integer_value(json_object_get(m, "lineNumber")));
			cli_put_text(stdout, cli_str(m, "line"));
			putchar('\n');
		}
	}
}

/* Lines that commits added or removed, each with the commit that did. */
static void show_diffs(const json_t *commits)
{
	json_t *k, *f, *m;
	size_t i, j, l;

	json_array_foreach(commits, i, k)
	{
		json_array_foreach(json_object_get(k, "files"), j, f)
		{
			json_array_foreach(json_object_get(f, "matches"), l, m)
			{
				printf("%.12s ", cli_str(k, "sha"));
				cli_put_text(stdout, cli_str(f, "path"));
				printf(": %c ",
				       json_is_true(json_object_get(m, "isAddition")) ? '+' : '-');
				cli_put_text(stdout, cli_str(m, "line"));
				putchar('\n');
			}
		}
	}
}

enum { S_REV, S_PATH, S_REGEX, S_CASE, S_WORD, S_IN };

static int search(struct cli *c, const struct cli_args *a)
{
	const char *in = a->opt[S_IN] ? a->opt[S_IN] : "contents";
	autojson json_t *reply = NULL;
	autofree char *tail = NULL;
	json_t *commits;
	int r;

	if (strcmp(in, "names") == 0)
		tail = cli_path(c, "/search/files?query=%s", a->arg[1]);
	else if (strcmp(in, "commits") == 0)
		tail = cli_path(c, "/search/commits?query=%s", a->arg[1]);
	else if (strcmp(in, "diffs") == 0)
		tail = cli_path(c, "/search/diffs?query=%s", a->arg[1]);
	else
		tail = cli_path(c, "/search?query=%s", a->arg[1]);
	cli_query(c, &tail, "rev", a->opt[S_REV]);
	cli_query(c, &tail, "pathPattern", a->opt[S_PATH]);
	cli_query(c, &tail, "isRegex", a->opt[S_REGEX] ? "true" : NULL);
	cli_query(c, &tail, "caseSensitive", a->opt[S_CASE] ? "true" : NULL);
	cli_query(c, &tail, "wholeWord", a->opt[S_WORD] ? "true" : NULL);
	r = git_on_repo(c, a->arg[0], "GET", tail, NULL, &reply);
	if (r != CLI_OK)
		return r;
	commits = json_object_get(reply, "commits");
	if (cli_json(c)) {
		cli_dump(reply);
	} else if (strcmp(in, "names") == 0) {
		cli_table(c, reply, json_object_get(reply, "files"), found_file_cols,
		          ARRAY_SIZE(found_file_cols));
	} else if (strcmp(in, "commits") == 0) {
		first_lines(c, commits);
		cli_table(c, reply, commits, found_commit_cols, ARRAY_SIZE(found_commit_cols));
	} else if (commits) {
		show_diffs(commits);
	} else {
		show_matches(json_object_get(reply, "files"));
	}
	return CLI_OK;
}

/* clang-format off */
#define REV { "rev", "REV", "in this branch, tag or commit; default: the default branch" }
static const struct cli_verb verbs[] = {
	{ "branches", "REPO", "list its branches", branches },
	{ "tags", "REPO", "list its tags", tags },
	{ "commits", "REPO", "list commits of a branch, newest first", commits,
	  { { "branch", "NAME", "of this one; default: the default branch" },
	    { "limit", "N", "at most this many (30)", 'n', CLI_NUMBER, .min = 1, .max = 1000 },
	    { "skip", "N", "skip this many", .type = CLI_NUMBER, .min = 0, .max = 1000000000 } } },
	{ "show", "REPO COMMIT", "show a commit", show },
	{ "ls", "REPO [PATH]", "list a directory", ls,
	  { REV, { "recursive", NULL, "with all directories below it", 'r' } } },
	{ "cat", "REPO PATH", "print a file", cat, { REV } },
	{ "compare", "REPO BASE HEAD", "how two revisions relate, and which files differ", compare },
	{ "status", "REPO COMMIT", "what the commands of triggers said about a commit", status },
	{ "archive", "REPO", "write its files as a tar archive to stdout", archive,
	  { REV, { "zip", NULL, "as a zip archive" } },
	  .examples = "pando git archive app | tar x -C src # its files without its history\n" },
	{ "search", "REPO TEXT", "search its files, their names, or its history", search,
	  { REV,
	    { "path", "GLOB", "only in files that match this pattern" },
	    { "regex", NULL, "TEXT is a regular expression" },
	    { "case", NULL, "match case" },
	    { "word", NULL, "whole words only" },
	    { "in", "WHERE", "in the contents of files, their names, the messages of commits, or what commits changed",
	      .type = CLI_CHOICE, .choices = "contents names commits diffs" } } },
};
/* clang-format on */
const struct cli_noun cli_git_read = { "git", NULL, verbs, ARRAY_SIZE(verbs) };
