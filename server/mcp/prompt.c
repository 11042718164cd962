/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prompt.c - prompts: tasks that people give often, as a client offers them to choose from
 *
 * A prompt is a text with places for its arguments, "{name}". It is one message of the user; what
 * the tools do is in their own descriptions, so a prompt says only which way to go.
 */
#include "mcp/mcp_internal.h"

#include <string.h>

#include "base/auto.h"

#define PROMPT_ARGS 3
#define ARG_MAX_BYTES 8192u

struct prompt {
	const char *name, *title, *about;
	struct prompt_arg {
		const char *name, *about;
		const char *otherwise; /* when it is left out; NULL: it is required */
	} arg[PROMPT_ARGS];
	const char *text;
};

/* clang-format off */
static const struct prompt prompts[] = {
	{ "run_safely", "Run a program safely", "Runs code that nobody has read, in a VM that reaches nothing",
	  { { "program", "The program, or where it is", NULL } },
	  "Run this program, which nobody has read, and tell what it does:\n\n{program}\n\n"
	  "Create a VM with vm_create, `ephemeral: true` and `egress: {\"mode\": \"closed\"}`, and run it there and nowhere else. Watch "
	  "what it writes and starts, and ask egress_blocked what it tried to reach. Delete the VM at the end." },
	{ "try_variants", "Try variants side by side", "Solves a task in several forks of one prepared VM and keeps the best",
	  { { "task", "What to solve", NULL }, { "vmId", "A VM that is prepared for it", "a new VM that you create and prepare first" },
	    { "count", "How many variants", "3" } },
	  "Solve this task in {count} different ways and compare them:\n\n{task}\n\n"
	  "Start from {vmId}. When everything that the variants share is there (dependencies installed, data loaded), copy it with "
	  "vm_fork: the copies have its memory, its files and its running programs. Try one way in each, measure each in the same way, compare them with vm_diff, "
	  "and say which is best and why. Delete the copies that lost." },
	{ "find_fault", "Find out what is wrong with a VM", "Looks at the logs, processes and network of a VM",
	  { { "vmId", "The VM", NULL }, { "symptom", "What was seen", "none was named: look for anything unusual" } },
	  "Find out what is wrong with the VM {vmId}. Symptom: {symptom}\n\n"
	  "Take a snapshot with vm_snapshot before you change anything. Read the resource pando://vm/{vmId}/logs; with exec look at "
	  "`systemctl --failed`, `journalctl -p warning -n 100`, processes, memory and disk; ask egress_blocked whether it was kept from "
	  "something it needs. Say what you found, with the lines that show it, before you propose a change." },
	{ "review_repository", "Review a repository", "Reads a repository, runs its tests in a VM, and reports",
	  { { "repo", "Id of the repository", NULL }, { "rev", "A branch, tag or commit", "its default branch" } },
	  "Review the repository {repo} at {rev}. Read it with repo_files, repo_read and repo_search; look at its recent history with "
	  "repo_commits. Clone it in a VM and run its tests. Report defects first, each with file and line and how you confirmed it." },
};
/* clang-format on */

static const struct prompt *find(const char *name)
{
	for (size_t i = 0; name && i < ARRAY_SIZE(prompts); i++)
		if (strcmp(prompts[i].name, name) == 0)
			return &prompts[i];
	return NULL;
}

static json_t *list(void)
{
	json_t *all = json_array();

	for (size_t i = 0; i < ARRAY_SIZE(prompts); i++) {
		const struct prompt *p = &prompts[i];
		json_t *args = json_array();

		for (size_t k = 0; k < PROMPT_ARGS && p->arg[k].name; k++)
			json_array_append_new(args,
			                      json_pack("{s:s, s:s, s:b}", "name", p->arg[k].name,
			                                "description", p->arg[k].about, "required",
			                                !p->arg[k].otherwise));
		json_array_append_new(all, json_pack("{s:s, s:s, s:s, s:o}", "name", p->name,
		                                     "title", p->title, "description", p->about,
		                                     "arguments", args));
	}
	return json_pack("{s:o}", "prompts", all);
}

/* The value of the argument whose place begins at p ("{name}"), and the place's length. */
static const char *value_at(const struct prompt *p, const json_t *args, const char *at, size_t *ret)
{
	for (size_t k = 0; k < PROMPT_ARGS && p->arg[k].name; k++) {
		size_t n = strlen(p->arg[k].name);
		const char *v = json_string_value(json_object_get(args, p->arg[k].name));

		if (strncmp(at + 1, p->arg[k].name, n) != 0 || at[1 + n] != '}')
			continue;
		*ret = n + 2;
		return v && *v ? v : p->arg[k].otherwise;
	}
	return NULL;
}

static json_t *get(const struct mcp_msg *m, const struct prompt *p, const json_t *args)
{
	autobuf struct buf b = { 0 };
	const char *value;
	size_t n;

	for (const char *c = p->text; *c; c++) {
		if (*c == '{' && (value = value_at(p, args, c, &n))) {
			buf_put(&b, value, strlen(value));
			c += n - 1;
		} else {
			buf_put(&b, c, 1);
		}
	}
	if (b.failed)
		return mcp_error(m->id, MCP_INTERNAL, "out of memory");
	return mcp_result(m->id,
	                  json_pack("{s:s, s:[{s:s, s:o}]}", "description", p->about, "messages",
	                            "role", "user", "content", mcp_text(b.p, b.len)));
}

/* Rejects unknown, missing and wrong arguments; NULL: they are fine. */
static json_t *check(const struct mcp_msg *m, const struct prompt *p, json_t *args)
{
	const char *name;
	json_t *v;

	if (args && !json_is_null(args) && !json_is_object(args))
		return mcp_error(m->id, MCP_INVALID_PARAMS, "'arguments' must be an object");
	json_object_foreach(args, name, v)
	{
		size_t k = 0;

		while (k < PROMPT_ARGS && p->arg[k].name && strcmp(p->arg[k].name, name) != 0)
			k++;
		if (k == PROMPT_ARGS || !p->arg[k].name)
			return mcp_error(m->id, MCP_INVALID_PARAMS, "%s has no argument '%.100s'",
			                 p->name, name);
		if (!json_is_string(v) || json_string_length(v) > ARG_MAX_BYTES)
			return mcp_error(m->id, MCP_INVALID_PARAMS,
			                 "'%s' must be a string of at most %u bytes", name,
			                 ARG_MAX_BYTES);
	}
	for (size_t k = 0; k < PROMPT_ARGS && p->arg[k].name; k++)
		if (!p->arg[k].otherwise &&
		    !json_string_length(json_object_get(args, p->arg[k].name)))
			return mcp_error(m->id, MCP_INVALID_PARAMS, "the argument '%s' is missing",
			                 p->arg[k].name);
	return NULL;
}

json_t *mcp_prompts(const struct mcp_msg *m)
{
	json_t *args = json_object_get(m->params, "arguments"), *wrong;
	const struct prompt *p;

	if (strcmp(m->method, "prompts/list") == 0)
		return mcp_result(m->id, list());
	if (strcmp(m->method, "prompts/get") != 0)
		return NULL;
	p = find(json_string_value(json_object_get(m->params, "name")));
	if (!p)
		return mcp_error(m->id, MCP_INVALID_PARAMS,
		                 "there is no such prompt: prompts/list lists all");
	wrong = check(m, p, args);
	return wrong ? wrong : get(m, p, args);
}
