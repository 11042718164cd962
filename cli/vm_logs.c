/* SPDX-License-Identifier: Apache-2.0 */
/* vm_logs.c - pando vm logs, pando vm stats: a VM's events and its resource usage */
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "cli/cli.h"
#include "cli/logs.h"
#include "cli/resolve.h"
#include "cli/stream.h"
#include "cli/tree.h"

#define FOLLOW_MS 1000
#define PAGES_MAX 64 /* between two looks, when lines come fast */
#define LINE_MAX_BYTES (64u << 10)

/* ---- logs.h ---- */

static void show_line(FILE *f, const json_t *line)
{
	const char *service = cli_str(line, "vmService");

	fprintf(f, "%s  ", cli_str(line, "timestamp"));
	if (*service)
		fprintf(f, "%s: ", service);
	cli_put_text(f, cli_str(line, "message"));
	fputc('\n', f);
}

static bool is_in(const json_t *lines, const json_t *line)
{
	size_t i;
	json_t *l;

	json_array_foreach(lines, i, l) if (json_equal(l, line)) return true;
	return false;
}

/* Pages come newest first, their lines in the order of time. */
static int fetch(struct cli *c, const struct logs_reader *r, json_t **ret)
{
	autojson json_t *lines = json_array();
	autofree char *token = NULL;
	int status;

	for (int i = 0; i < PAGES_MAX; i++) {
		autofree char *path = strdup(r->query);
		autojson json_t *reply = NULL;
		json_t *page;

		if (!path)
			cli_oom();
		cli_query(c, &path, "startTime", r->since);
		cli_query(c, &path, "pageToken", token);
		if ((status = cli_call(c, "GET", path, NULL, &reply)) != CLI_OK)
			return status;
		page = json_incref(json_object_get(reply, "logs"));
		json_array_extend(page, lines);
		json_decref(lines);
		lines = page;
		free(token);
		token = NULL;
		if (!r->whole || !*cli_str(reply, "nextPageToken"))
			break;
		token = strdup(cli_str(reply, "nextPageToken"));
	}
	*ret = TAKE_PTR(lines);
	return CLI_OK;
}

int logs_next(struct cli *c, struct logs_reader *r, FILE *f, json_t *out)
{
	autojson json_t *lines = NULL;
	size_t i;
	json_t *line;
	int status;

	if ((status = fetch(c, r, &lines)) != CLI_OK)
		return status;
	if (!r->seen)
		r->seen = json_array();
	json_array_foreach(lines, i, line)
	{
		const char *at = cli_str(line, "timestamp");

		if (is_in(r->seen, line))
			continue;
		if (f)
			show_line(f, line);
		if (out)
			json_array_append(out, line);
		if (!r->since || strcmp(at, r->since) != 0) {
			free(r->since);
			r->since = strdup(at);
			json_array_clear(r->seen);
		}
		json_array_append(r->seen, line);
	}
	if (f)
		fflush(f);
	return CLI_OK;
}

void logs_done(struct logs_reader *r)
{
	free(r->query);
	free(r->since);
	json_decref(r->seen);
}

/* ---- pando vm logs ---- */

enum { L_FOLLOW, L_SERVICE, L_SINCE, L_SEARCH, L_LINES };

/* --json -f: one object per line */
static void put_lines(const json_t *lines)
{
	size_t i;
	json_t *line;

	json_array_foreach(lines, i, line)
	{
		json_dumpf(line, stdout, JSON_COMPACT);
		putchar('\n');
	}
}

static int follow(struct cli *c, struct logs_reader *l, int fd)
{
	int status = CLI_OK;
	struct pollfd p = { .fd = fd, .events = POLLIN };

	while (status == CLI_OK) {
		autojson json_t *lines = json_array();

		if (poll(&p, 1, FOLLOW_MS) > 0) {
			int sig = signals_take(fd);

			if (sig && sig != SIGWINCH)
				status = 128 + sig;
			continue;
		}
		status = logs_next(c, l, cli_json(c) ? NULL : stdout, lines);
		if (cli_json(c))
			put_lines(lines);
		if (fflush(stdout) != 0)
			status = 128 + SIGPIPE;
	}
	return status;
}

int logs_show(struct cli *c, struct logs_reader *l, const char *n_lines, bool follow_on)
{
	autojson json_t *lines = json_array(), *whole = NULL;
	autofree char *all = strdup(l->query);
	int fd = follow_on ? signals_open() : -1, r;

	if (!all)
		cli_oom();
	cli_query(c, &l->query, "pageSize", n_lines);
	r = logs_next(c, l, cli_json(c) ? NULL : stdout, lines);
	if (r == CLI_OK && cli_json(c) && !follow_on) {
		whole = json_pack("{s:O}", "logs", lines);
		cli_dump(whole);
	}
	if (r == CLI_OK && cli_json(c) && follow_on)
		put_lines(lines);
	free(l->query);
	l->query = TAKE_PTR(all);
	l->whole = true;
	if (r == CLI_OK && follow_on)
		r = follow(c, l, fd);
	signals_close(fd);
	return r;
}

static int logs(struct cli *c, const struct cli_args *a)
{
	AUTO(logs_done) struct logs_reader l = { 0 };
	autofree char *id = cli_vm_id(c, a->arg[0]);
	char since[CLOCK_RFC3339_LEN];

	if (!id)
		return CLI_REFUSED;
	l.query = cli_path(c, "/observability/v1/logs?vmId=%s", id);
	cli_query(c, &l.query, "vmService", a->opt[L_SERVICE]);
	cli_query(c, &l.query, "search", a->opt[L_SEARCH]);
	if (a->opt[L_SINCE])
		l.since = strdup(clock_rfc3339(clock_wall_ms() - a->num[L_SINCE], since));
	return logs_show(c, &l, a->opt[L_LINES], a->opt[L_FOLLOW] != NULL);
}

/* ---- pando vm stats ---- */

struct stats {
	struct cli *c;
	struct buf line;
	long long left; /* lines still wanted; -1: no end */
	bool begun;
};

static long long member(const json_t *j, const char *a, const char *b)
{
	return json_integer_value(json_object_get(json_object_get(j, a), b));
}

static void show_sample(struct stats *s, const json_t *j)
{
	char m[16], p[16], r[16], w[16], in[16], out[16];

	if (!s->begun)
		printf("%-10s %6s %7s %8s %7s %7s %7s %7s\n", "STATE", "CPU %", "MEMORY", "PRIVATE",
		       "READ", "WRITTEN", "IN", "OUT");
	s->begun = true;
	printf("%-10s %6.1f %7s %8s %7s %7s %7s %7s\n", cli_str(j, "state"),
	       json_number_value(json_object_get(json_object_get(j, "cpu"), "percent")),
	       tree_size(member(j, "memory", "rssBytes"), m),
	       tree_size(member(j, "memory", "privateBytes"), p),
	       tree_size(member(j, "disk", "readBytes"), r),
	       tree_size(member(j, "disk", "writeBytes"), w),
	       tree_size(member(j, "network", "rxBytes"), in),
	       tree_size(member(j, "network", "txBytes"), out));
}

/* Lines of JSON, one per interval. */
static int on_stats(void *ctx, const void *bytes, size_t n)
{
	struct stats *s = ctx;
	const char *p = bytes;

	for (size_t i = 0; i < n; i++) {
		autojson json_t *j = NULL;

		if (p[i] != '\n') {
			buf_put(&s->line, p + i, 1);
			if (s->line.failed || s->line.len > LINE_MAX_BYTES)
				return cli_fail(CLI_UNREACHABLE,
				                "the server sent a line that is too long");
			continue;
		}
		j = json_loadb((const char *)s->line.p, s->line.len, 0, NULL);
		if (j && cli_json(s->c))
			printf("%.*s\n", (int)s->line.len, (const char *)s->line.p);
		else if (j)
			show_sample(s, j);
		buf_reset(&s->line);
		if (fflush(stdout) != 0)
			return 128 + SIGPIPE;
		if (s->left > 0 && --s->left == 0)
			return -1;
	}
	return 0;
}

static int stats(struct cli *c, const struct cli_args *a)
{
	autofree char *id = cli_vm_id(c, a->arg[0]), *path = NULL;
	struct stats s = { .c = c, .left = a->opt[1] ? a->num[1] : -1 };
	struct cli_stream st = { .method = "GET", .data = on_stats, .ctx = &s };
	char ms[24];
	int r;

	if (!id)
		return CLI_REFUSED;
	path = cli_path(c, "/v1/vms/%s/stats/stream", id);
	snprintf(ms, sizeof(ms), "%lld", a->opt[0] ? a->num[0] : 1000);
	cli_query(c, &path, "interval_ms", ms);
	st.path = path;
	r = cli_stream(c, &st);
	buf_done(&s.line);
	return r == -1 ? CLI_OK : r;
}

/* clang-format off */
static const struct cli_verb verbs[] = {
	{ "logs", "VM", "show a VM's events, or the journal of a service in it", logs,
	  { { "follow", NULL, "follow new lines", 'f' },
	    { "service", "NAME", "the journal of this systemd service" , 's'},
	    { "since", "TIME", "how far back, like 10m (1d)", .type = CLI_DURATION },
	    { "search", "TEXT", "only lines that contain this" },
	    { "lines", "N", "at most the last N", 'n', CLI_NUMBER, .min = 1, .max = 100000 } },
	  .examples = "pando vm logs web -s nginx -f # a service's journal, as it grows" },
	{ "stats", "VM", "show CPU, memory, disk and network over time", stats,
	  { { "interval", "TIME", "between two lines, like 500ms (1s)", 'i', CLI_DURATION },
	    { "count", "N", "end after N lines", 'n', CLI_NUMBER, .min = 1, .max = 1000000000 } },
	  .about = "Disk and network are totals since the VM was created. This neither wakes a VM nor "
	           "keeps it awake. With --json one object per line." },
};
/* clang-format on */
const struct cli_noun cli_vm_logs = { "vm", NULL, verbs, ARRAY_SIZE(verbs) };
