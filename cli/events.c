/* SPDX-License-Identifier: Apache-2.0 */
/*
 * events.c - pando events: what happens in the account, as it happens
 *
 * The server numbers events, so a connection that was lost is made again from the last number and
 * nothing is missed or shown twice. If the server does not keep that much, it says so.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "cli/cli.h"
#include "cli/stream.h"

#define AGAIN_S 2 /* before a lost connection is made again */

enum { O_FOLLOW, O_TYPES, O_AFTER };

struct watching {
	struct cli *c;
	json_int_t last; /* number of the last event, -1: none yet */
	bool begun;      /* the server has answered since the last connection */
};

/* What it is about: the first member that is an object. */
static const json_t *about(const json_t *e, const char **ret_kind)
{
	const char *name;
	json_t *v;

	json_object_foreach((json_t *)e, name, v)
	{
		if (json_is_object(v)) {
			*ret_kind = name;
			return v;
		}
	}
	return NULL;
}

static void put(const char *before, const char *text)
{
	if (!*text)
		return;
	fputs(before, stdout);
	cli_put_text(stdout, text);
}

static void show(const json_t *e)
{
	static const char *const ids[] = { "id", "domain", "repoId" };
	const char *kind = "", *id = "";
	const json_t *o = about(e, &kind);

	cli_put_text(stdout, cli_str(e, "createdAt"));
	printf("  %-18s", cli_str(e, "type"));
	for (size_t i = 0; i < ARRAY_SIZE(ids) && !*id; i++)
		id = cli_str(o, ids[i]);
	put(" ", id);
	put(" ", cli_str(o, "name"));
	put(" ", cli_str(o, "repoName"));
	put(" ", cli_str(o, "ref"));
	put(" ", cli_str(o, "state"));
	put(" ", cli_str(o, "phase"));
	put(": ", cli_str(o, "reason"));
	putchar('\n');
}

static int on_event(void *ctx, const char *event, const json_t *data)
{
	struct watching *w = ctx;
	const json_t *id = json_object_get(data, "id");

	w->begun = true;
	if (strcmp(event, "hello") == 0) {
		if (w->last < 0)
			w->last = json_integer_value(json_object_get(data, "lastId"));
		return 0;
	}
	if (strcmp(event, "gap") == 0) {
		w->last = json_integer_value(json_object_get(data, "lastId"));
		fprintf(stderr, "pando: events are missing here: the server keeps no older ones\n");
		return 0;
	}
	if (json_is_integer(id))
		w->last = json_integer_value(id);
	if (cli_json(w->c)) {
		json_dumpf(data, stdout, JSON_COMPACT);
		putchar('\n');
	} else {
		show(data);
	}
	return fflush(stdout) != 0 ? 128 + SIGPIPE : 0;
}

static int once(struct watching *w, const struct cli_args *a, bool again)
{
	autofree char *path = cli_path(w->c, "/v1/events"), *after = NULL;
	struct sse_reader r = { .fn = on_event, .ctx = w };
	struct cli_stream s = { .method = "GET", .data = sse_data, .ctx = &r };
	int status;

	if (again && asprintf(&after, "%" JSON_INTEGER_FORMAT, w->last) < 0)
		cli_oom();
	cli_query(w->c, &path, "types", a->opt[O_TYPES]);
	cli_query(w->c, &path, "after",
	          after               ? after
	          : a->opt[O_AFTER]   ? a->opt[O_AFTER]
	          : !a->opt[O_FOLLOW] ? "0"
	                              : NULL);
	cli_query(w->c, &path, "follow", a->opt[O_FOLLOW] ? NULL : "false");
	s.path = path;
	w->begun = false;
	status = cli_stream(w->c, &s);
	sse_done(&r);
	return status;
}

static int events(struct cli *c, const struct cli_args *a)
{
	struct watching w = { .c = c, .last = -1 };
	int r = once(&w, a, /* again= */ false);

	if (!a->opt[O_FOLLOW])
		return r;
	/* The server was restarted, or the network failed: it goes on until it is interrupted. */
	while ((r == CLI_OK || r == CLI_UNREACHABLE) && w.last >= 0) {
		sleep(AGAIN_S);
		r = once(&w, a, /* again= */ true);
	}
	return r;
}

/* clang-format off */
static const struct cli_verb verbs[] = {
	{ NULL, "", "show what happens in the account", events,
	  { { "follow", NULL, "those that come, until interrupted", 'f' },
	    { "types", "LIST", "only these, like vm.created,build.*", 't' },
	    { "after", "ID", "those after this event (0: all that are kept)", .type = CLI_NUMBER, .min = 0, .max = INT64_MAX } },
	  .about = "One line for each event: VMs, snapshots, builds, pushes, names and networks. Without "
	           "--follow: those that are kept, a day or a few thousand. With --follow a lost connection is "
	           "made again where it ended. With --json one object per line; docs/EVENTS.md describes them.",
	  .examples = "pando events -f # as they happen\n"
	              "pando events -f --types vm.crashed,vm.lost,build.failed --json" },
};
/* clang-format on */
const struct cli_noun cli_events = { "events", "show what happens in the account", verbs,
	                             ARRAY_SIZE(verbs) };
