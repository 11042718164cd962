/* SPDX-License-Identifier: Apache-2.0 */
/* tools_git.c - the tools for repositories: contents, history, commits without a clone, triggers */
#include "mcp/mcp_internal.h"
#include "mcp/schema.h"

#include "base/auto.h"

/* clang-format off */
#define REPO STRING("repo", "Id of the repository")
#define REV STRING("rev", "Branch, tag or commit; default: the default branch")
#define SEARCH REPO "," STRING("query", "What to look for") "," REV "," STRING("pathPattern", "Only in files that match this") "," \
	BOOL("isRegex", "The query is a regular expression") "," BOOL("caseSensitive", "Match case") "," \
	INTEGER("maxResults", "1", "1000", "At most this many")

const struct mcp_tool mcp_git_tools[] = {
	{ "repo_create", "Create a repository",
	  "Creates a Git repository and returns its id, empty or as a copy of one elsewhere. It is cloned from https://git.<domain>/<id>.",
	  METHOD_POST, "/git/v1/repo", MCP_OPEN_WORLD,
	  OBJECT("",
		STRING("name", "A label") "," STRING("defaultBranch", "Default main") "," BOOL("public", "Everyone may read it") ","
		OBJECT_OF("source", "{url, rev, allBranches}: import this one with its history")),
	  NULL, .keep = "repoId" },
	{ "repo_list", "List repositories", "Lists the Git repositories of this account.",
	  METHOD_GET, "/git/v1/repo", MCP_READS,
	  OBJECT("", STRING("search", "Part of a name") "," INTEGER("limit", "1", "1000", "At most this many")),
	  NULL, .translate = mcp_translate_query, .list = "repositories", .keep = "id name defaultBranch visibility createdAt" },
	{ "repo_get", "Show a repository", "Shows a repository: name, default branch, last push, size.",
	  METHOD_GET, "/git/v1/repo/{repo}", MCP_READS, OBJECT("\"repo\"", REPO), NULL },
	{ "repo_delete", "Delete a repository", "Deletes a repository with everything in it, permanently.",
	  METHOD_DELETE, "/git/v1/repo/{repo}", MCP_DESTROYS | MCP_IDEMPOTENT, OBJECT("\"repo\"", REPO), NULL },
	{ "repo_files", "List files", "Lists the top directory of a repository, or with recursive all files.",
	  METHOD_GET, "/git/v1/repo/{repo}/contents", MCP_READS,
	  OBJECT("\"repo\"", REPO "," REV "," BOOL("recursive", "With all directories")), NULL, .translate = mcp_translate_query },
	{ "repo_read", "Read a file or directory",
	  "Reads a file of a repository, with its content in base64, or lists one of its directories.",
	  METHOD_GET, "/git/v1/repo/{repo}/contents/{*path}", MCP_READS,
	  OBJECT("\"repo\",\"path\"", REPO "," STRING("path", "Path in the repository") "," REV), NULL, .translate = mcp_translate_query },
	{ "repo_branches", "List branches", "Lists the branches of a repository with their commits.",
	  METHOD_GET, "/git/v1/repo/{repo}/branches", MCP_READS, OBJECT("\"repo\"", REPO), NULL },
	{ "repo_branch", "Create a branch", "Creates a branch of a repository.",
	  METHOD_POST, "/git/v1/repo/{repo}/branches", 0,
	  OBJECT("\"repo\",\"name\"", REPO "," STRING("name", "Of the branch") "," STRING("sha", "Its commit; default: the default branch's")), NULL },
	{ "repo_tags", "List tags", "Lists the tags of a repository.",
	  METHOD_GET, "/git/v1/repo/{repo}/git/refs/tags", MCP_READS, OBJECT("\"repo\"", REPO), NULL },
	{ "repo_commits", "List commits", "Lists the commits of a branch, newest first.",
	  METHOD_GET, "/git/v1/repo/{repo}/git/commits", MCP_READS,
	  OBJECT("\"repo\"",
		REPO "," STRING("branch", "Default: the default branch") "," INTEGER("limit", "1", "1000", "At most this many") ","
		INTEGER("offset", "0", "1000000000", "Skip this many")),
	  NULL, .translate = mcp_translate_query },
	{ "repo_compare", "Compare revisions", "Tells how two revisions relate, and which files differ.",
	  METHOD_GET, "/git/v1/repo/{repo}/compare", MCP_READS,
	  OBJECT("\"repo\",\"base\",\"head\"", REPO "," STRING("base", "A branch, tag or commit") "," STRING("head", "Another")),
	  NULL, .translate = mcp_translate_query },
	{ "repo_commit", "Commit files",
	  "Commits changes of files to a branch, without a clone.",
	  METHOD_POST, "/git/v1/repo/{repo}/commits", 0,
	  OBJECT("\"repo\",\"message\",\"files\"",
		REPO "," STRING("message", "Of the commit") "," STRING("branch", "Default: the default branch") ","
		STRING("expectedSha", "Only if the branch is still at this commit") ","
		LIST_OF("files", "[{path, content, encoding: utf-8 or base64, executable, deleted: true to remove it}]", "object")),
	  NULL },
	{ "repo_search", "Search in files", "Searches the contents of a repository's files.",
	  METHOD_GET, "/git/v1/repo/{repo}/search", MCP_READS, OBJECT("\"repo\",\"query\"", SEARCH), NULL, .translate = mcp_translate_query },
	{ "repo_search_names", "Search names of files", "Searches the paths of a repository's files.",
	  METHOD_GET, "/git/v1/repo/{repo}/search/files", MCP_READS, OBJECT("\"repo\",\"query\"", SEARCH), NULL, .translate = mcp_translate_query },
	{ "repo_search_commits", "Search commit messages", "Searches the messages of commits.",
	  METHOD_GET, "/git/v1/repo/{repo}/search/commits", MCP_READS, OBJECT("\"repo\",\"query\"", SEARCH), NULL, .translate = mcp_translate_query },
	{ "repo_search_diffs", "Search history", "Searches what commits added and removed.",
	  METHOD_GET, "/git/v1/repo/{repo}/search/diffs", MCP_READS, OBJECT("\"repo\",\"query\"", SEARCH), NULL, .translate = mcp_translate_query },
	{ "trigger_create", "Act on pushes",
	  "Lets every push to a repository, or what happens to its branches and tags, send a webhook, or run a command in a new VM with a clone of it.",
	  METHOD_POST, "/git/v1/repo/{repo}/trigger", MCP_OPEN_WORLD,
	  OBJECT("\"repo\",\"trigger\",\"action\"",
		REPO "," OBJECT_OF("trigger", "{event: push, branchCreate, branchDelete, tag or tagDelete; branches or tags: [name, * is any text], globs: [pattern of changed files]}") ","
		OBJECT_OF("action", "{action: webhook, endpoint: URL} or {action: vm, command, snapshotId}")),
	  NULL },
	{ "trigger_list", "List triggers", "Lists what happens on pushes to a repository.",
	  METHOD_GET, "/git/v1/repo/{repo}/trigger", MCP_READS, OBJECT("\"repo\"", REPO), NULL },
	{ "trigger_delete", "Delete a trigger", "Deletes a trigger with its deliveries.",
	  METHOD_DELETE, "/git/v1/repo/{repo}/trigger/{trigger}", MCP_DESTROYS | MCP_IDEMPOTENT,
	  OBJECT("\"repo\",\"trigger\"", REPO "," STRING("trigger", "Id of the trigger")), NULL },
	{ "trigger_log", "Show what triggers did", "Lists deliveries of a trigger, newest first: state, status code, exit code.",
	  METHOD_GET, "/git/v1/repo/{repo}/trigger/{trigger}/deliveries", MCP_READS,
	  OBJECT("\"repo\",\"trigger\"", REPO "," STRING("trigger", "Id of the trigger")), NULL },
	{ "github_installations", "List GitHub installations",
	  "Lists where this account's GitHub Apps are installed: whose repositories they reach, and whether they are suspended.",
	  METHOD_GET, "/git/v1/github/installations", MCP_READS, OBJECT("", ""), NULL },
	{ "github_repositories", "List GitHub repositories", "Lists the GitHub repositories that an installation reaches; each can be mirrored.",
	  METHOD_GET, "/git/v1/github/installations/{installation}/repositories", MCP_READS,
	  OBJECT("\"installation\"", STRING("installation", "Id of the installation") "," INTEGER("limit", "1", "1000", "At most this many")),
	  NULL, .translate = mcp_translate_query },
	{ "commit_status", "Status of a commit", "Tells what the commands of triggers said about a commit, and their output.",
	  METHOD_GET, "/git/v1/repo/{repo}/git/commits/{hash}/status", MCP_READS,
	  OBJECT("\"repo\",\"hash\"", REPO "," STRING("hash", "Of the commit")), NULL },
};
/* clang-format on */
const size_t mcp_n_git_tools = ARRAY_SIZE(mcp_git_tools);
