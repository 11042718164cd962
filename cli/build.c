/* SPDX-License-Identifier: Apache-2.0 */
/*
 * build.c - a create that may take minutes
 *
 * The server is asked to answer within a second; if it is not done by then, it returns the id of
 * the request, and we poll for new log lines and the result. Ctrl-C leaves the build to the server:
 * layers that are built are in its cache next time.
 */
#include "cli/build.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/io.h"
#include "cli/cli.h"
#include "cli/logs.h"
#include "cli/stream.h"

#define SPEC_MAX (16u << 20)
#define AFTER "x-freestyle-background-after-secs: 1"
#define POLL_MS 500

/* Top-level members of a request; an object without any of them is a layer. */
static const char *const body_members[] = { "spec", "template", "snapshotId", "persistence" };

int build_json(const char *file, json_t **ret)
{
	autofree char *text = NULL;
	struct err err = { 0 };
	json_error_t at;
	json_t *j;

	if (io_read_file(AT_FDCWD, strcmp(file, "-") == 0 ? "/dev/stdin" : file, SPEC_MAX, &text,
	                 &err) < 0)
		return cli_fail(CLI_USAGE, "%s", err.msg);
	j = json_loads(text, JSON_REJECT_DUPLICATES, &at);
	if (!json_is_object(j)) {
		const char *why = j ? "expected a JSON object" : at.text;

		json_decref(j);
		return cli_fail(CLI_USAGE, "%s, line %d: %s", file, at.line, why);
	}
	*ret = j;
	return CLI_OK;
}

int build_body(const char *file, json_t **ret)
{
	autojson json_t *j = NULL;
	int r = build_json(file, &j);

	if (r != CLI_OK)
		return r;
	for (size_t i = 0; i < ARRAY_SIZE(body_members); i++)
		if (json_object_get(j, body_members[i])) {
			*ret = TAKE_PTR(j);
			return CLI_OK;
		}
	*ret = json_pack("{s:O}", "spec", j);
	return CLI_OK;
}

/* Shows what a failed build left for inspection. */
static int build_failed(struct cli *c, long status, const json_t *reply)
{
	static const char *const lists[] = { "failedServiceLogs", "additionalFailedServiceLogs" };
	const char *snapshot = cli_str(reply, "snapshotId");
	const json_t *diag = json_object_get(reply, "diagnostics");
	int r = cli_refused(c, status, reply);

	for (size_t k = 0; k < ARRAY_SIZE(lists); k++) {
		size_t i;
		json_t *row;

		json_array_foreach(json_object_get(diag, lists[k]), i, row) fprintf(
		        stderr, "--- %s\n%s\n", cli_str(row, "unitName"), cli_str(row, "log"));
	}
	if (*snapshot)
		fprintf(stderr, "To inspect it: pando vm create --snapshot %s\n", snapshot);
	return r;
}

static const char *request_id(const json_t *reply)
{
	return json_string_value(json_object_get(reply, "requestId"));
}

/* Waits for the next poll, or for a signal. */
static int pause_poll(int signals)
{
	struct pollfd p = { .fd = signals, .events = POLLIN };
	int sig;

	if (poll(&p, 1, POLL_MS) <= 0 || signals < 0)
		return 0;
	while ((sig = signals_take(signals)))
		if (sig != SIGWINCH)
			return 128 + sig;
	return 0;
}

static int follow(struct cli *c, const char *id, bool quiet, int signals, json_t **ret)
{
	autofree char *path = cli_path(c, "/auth/v1/background-requests/%s", id);
	AUTO(logs_done) struct logs_reader logs = { 0 };
	struct err err = { 0 };
	int status, r;

	logs.query = cli_path(c, "/observability/v1/logs?requestId=%s", id);
	for (;;) {
		autojson json_t *reply = NULL;

		status = cli_try(c, NULL, "GET", path, NULL, &reply, &err);
		if (!quiet && logs_next(c, &logs, stderr, NULL) != CLI_OK)
			quiet = true; /* it has printed the reason */
		if (status < 0)
			return cli_fail(CLI_UNREACHABLE, "%s", err.msg);
		if (status >= 300)
			return build_failed(c, status, reply);
		if (status != 202) {
			*ret = TAKE_PTR(reply);
			return CLI_OK;
		}
		if ((r = pause_poll(signals)))
			return cli_fail(r, "the server continues the build as request %s", id);
	}
}

int build_request(struct cli *c, const char *path, json_t *body, bool quiet, json_t **ret)
{
	struct cli_stream s = {
		.method = "POST", .path = path, .header = { AFTER }, .body = body, .keep = true
	};
	autojson json_t *first = NULL;
	int signals, r = cli_stream(c, &s);

	first = s.reply;
	if (r != CLI_OK)
		return r;
	if (s.status > 299)
		return build_failed(c, s.status, first);
	if (s.status != 202 || !request_id(first)) {
		*ret = TAKE_PTR(first);
		return CLI_OK;
	}
	signals = signals_open();
	r = follow(c, request_id(first), quiet, signals, ret);
	signals_close(signals);
	return r;
}
