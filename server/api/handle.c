/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handle.c - runs a route's handler and names the members of its body that were not understood
 *
 * Handlers read bodies with tables of fields (base/json_field.h), which are noted while they do.
 * Afterwards the members of those objects that no table has are named in a header and in the log:
 * an option that is misspelt, or that only other servers know, is not dropped in silence. Objects
 * that no table reads (environments, files by path, metadata) may have any members.
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "api/call.h"
#include "base/auto.h"
#include "base/buf.h"

#define NAMED_MAX 8 /* members; the rest is counted */
#define NAME_MAX_BYTES 48

/* What other servers and people call it. */
static const struct {
	const char *word, *ours;
} aliases[] = {
	{ "memory", "memSizeGb" },
	{ "mem", "memSizeGb" },
	{ "ram", "memSizeGb" },
	{ "memoryMb", "memSizeGb" },
	{ "cpu", "vcpuCount" },
	{ "cpus", "vcpuCount" },
	{ "vcpus", "vcpuCount" },
	{ "disk", "rootfsSizeGb" },
	{ "storage", "rootfsSizeGb" },
	{ "diskSize", "rootfsSizeGb" },
	{ "labels", "tags" },
	{ "annotations", "metadata" },
	{ "environment", "env" },
	{ "envVars", "env" },
	{ "ttl", "deleteAfterSeconds" },
	{ "autoDelete", "deleteAfterSeconds" },
	{ "timeout", "timeoutMs" },
	{ "cmd", "command" },
	{ "image", "baseImage" },
	{ "packages", "aptDeps" },
	{ "files", "additionalFiles" },
	{ "cwd", "workdir" },
};

struct warning {
	struct buf text;
	const struct json_seen *seen;
	unsigned n;
};

/* Is the other name one that some table of this call has? */
static const char *other_name(const struct warning *w, const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(aliases); i++) {
		if (strcasecmp(aliases[i].word, name) != 0)
			continue;
		for (size_t k = 0; k < w->seen->n_names; k++)
			if (strcmp(w->seen->names[k].name, aliases[i].ours) == 0)
				return aliases[i].ours;
	}
	return NULL;
}

static void on_unknown(void *ctx, const char *prefix, const char *name, const char *near)
{
	struct warning *w = ctx;
	const char *other = other_name(w, name);

	if (++w->n > NAMED_MAX)
		return;
	near = other ? other : near;
	buf_printf(&w->text, "%s'%s%.*s'", w->n > 1 ? ", " : "unknown and ignored: ", prefix,
	           NAME_MAX_BYTES, name);
	if (near)
		buf_printf(&w->text, " (did you mean '%s'?)", near);
}

int api_handle(struct request *req, struct reply *res, struct err *err)
{
	autofree struct json_seen *seen = malloc(sizeof(*seen));
	struct warning w = { .seen = seen };
	autofree char *text = NULL;
	int r;

	if (seen) {
		seen->n_objects = seen->n_names = 0;
		seen->full = false;
	}
	json_seen_watch(seen);
	r = req->match.route->handler(req, res, err);
	json_seen_watch(NULL);
	if (!seen || !req->json)
		return r;
	json_seen_unknown(seen, req->json, on_unknown, &w);
	if (w.n > NAMED_MAX)
		buf_printf(&w.text, " and %u more", w.n - NAMED_MAX);
	text = w.n ? buf_take_str(&w.text) : NULL;
	if (text)
		reply_warn(req, res, text);
	return r;
}
