/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exec.c - runs a command in a VM to its end
 *
 * Clients give up when no headers came for about 300 s, so a command without a limit of its own
 * gets EXEC_DEFAULT_MS: its partial output then arrives as EXEC_TIMED_OUT instead of a broken
 * connection. Commands are never repeated: one that was cut off by a suspend is reported, because
 * it may have run. With `terminal`, which clients always send and mostly as null, the output is
 * also kept under that name (terminals.c).
 *
 * The output is kept in memory until the reply is out, so it is counted as it comes, with what it
 * will be in JSON: a control character is six bytes there. What is too much of one command, or
 * finds no room because others have too much on their way, is dropped, the command runs on, and
 * the reply says stdoutTruncated or stderrTruncated.
 */
#include "api/vms/shared.h"

#include <errno.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/utf8.h"
#include "guest/guest.h"
#include "metrics/metrics.h"

#define EXEC_DEFAULT_MS 290000 /* below the clients' own 300 s */
#define EXEC_MAX_MS 600000
#define COMMAND_MAX (2 << 20)           /* bytes */
#define OUTPUT_MAX GUEST_OUTPUT_DEFAULT /* bytes kept of stdout, and of stderr, */
#define OUTPUT_JSON_MAX (32u << 20)     /* and bytes of it in the reply */

struct exec_body {
	const char *command;
	const char *terminal;
	int64_t timeout_ms;
};
static const struct json_field exec_fields[] = {
	JSON_FIELD(JSON_WANT_STRREF, exec_body, command, "command", JSON_REQUIRED, 0, COMMAND_MAX),
	JSON_FIELD(JSON_WANT_STRREF, exec_body, terminal, "terminal", JSON_NULLABLE, 0, 128, NULL,
	           "keeps the output under this name: /terminals"),
	JSON_FIELD(JSON_WANT_I64, exec_body, timeout_ms, "timeoutMs", JSON_NULLABLE, 1,
	           EXEC_MAX_MS),
};
JSON_TABLE(Exec, exec_fields);

struct output {
	struct request *req;
	struct buf kept[3]; /* [1] stdout, [2] stderr */
	size_t json_n[3];
	bool truncated[3];
};

static void output_done(struct output *o)
{
	buf_done(&o->kept[1]);
	buf_done(&o->kept[2]);
}

/* Bytes that it takes in a JSON string, at most. */
static size_t json_len(const uint8_t *p, size_t n)
{
	size_t len = 0;

	for (size_t i = 0, k; i < n; i += k) {
		k = 1;
		if (p[i] >= 0x80) {
			k = utf8_char_len(p + i, n - i);
			len += k ? k : 3; /* U+FFFD */
			k += k == 0;
		} else if (p[i] >= 0x20) {
			len += p[i] == '"' || p[i] == '\\' ? 2 : 1;
		} else {
			len += strchr("\b\f\n\r\t", p[i]) && p[i] ? 2 : 6;
		}
	}
	return len;
}

static int on_output(void *ctx, int chan, const uint8_t *p, size_t n)
{
	struct output *o = ctx;
	size_t k = MIN(n, OUTPUT_MAX - o->kept[chan].len), len;

	if (o->truncated[chan])
		return 0;
	o->truncated[chan] = k < n;
	len = json_len(p, k);
	if (o->json_n[chan] + len > OUTPUT_JSON_MAX ||
	    request_hold_output(o->req, k + len, NULL) < 0) {
		o->truncated[chan] = true;
		return 0;
	}
	o->json_n[chan] += len;
	buf_put(&o->kept[chan], p, k);
	return o->kept[chan].failed ? -ENOMEM : 0;
}

/* As JSON; of the bytes nothing is left. */
static json_t *output_take(struct output *o, int chan)
{
	json_t *j = shape_output(o->kept[chan].p, o->kept[chan].len);

	buf_done(&o->kept[chan]);
	return j;
}

int api_vm_exec(struct request *req, struct reply *res, struct err *err)
{
	AUTO(guest_unrefp) struct guest *g = NULL;
	AUTO(guest_exec_result_done) struct guest_exec_result out = { 0 };
	AUTO(output_done) struct output o = { .req = req };
	struct exec_body b = { .timeout_ms = EXEC_DEFAULT_MS };
	struct guest_exec_req x = { .on_output = on_output, .ctx = &o };
	uint64_t t0 = clock_us();
	struct vm_info v;
	const char *id;
	json_t *j;
	int r;

	if ((r = request_vm_id(req, 0, &id, err)) < 0 ||
	    (r = request_user(req, ERR_BAD_REQUEST, &x.user, err)) < 0 ||
	    (r = request_fields(req, ERR_BAD_REQUEST, exec_fields, ARRAY_SIZE(exec_fields), &b,
	                        err)) < 0)
		return r;
	if (b.terminal && !terminal_name_valid(b.terminal))
		return err_tag(err, -EINVAL, ERR_BAD_REQUEST,
		               "'terminal' must be 1 to 64 letters, digits, '.', '_' or '-'");
	if ((r = vmm_guest(deps_of(req)->vmm, who_of(req)->account, id, &g, err)) < 0 ||
	    (r = vmm_get(deps_of(req)->vmm, who_of(req)->account, id, &v, err)) < 0)
		return r;
	x.cwd = *v.workdir ? v.workdir : NULL;
	x.command = b.command;
	x.terminal = b.terminal;
	x.timeout_ms = (unsigned)b.timeout_ms;
	if ((r = guest_exec(g, &x, &out, err)) < 0)
		return guest_call_error(r, err);
	metrics_since(METRIC_VM_EXEC, 0, t0);
	if (out.timed_out) {
		reply_extra(res, "timeoutMs", json_integer(b.timeout_ms));
		reply_extra(res, "stdout", output_take(&o, 1));
		reply_extra(res, "stderr", output_take(&o, 2));
		return err_tag(err, -ETIMEDOUT, ERR_EXEC_TIMED_OUT,
		               "the command did not end within %lld ms", (long long)b.timeout_ms);
	}
	j = json_pack("{s:o, s:o, s:i}", "stdout", output_take(&o, 1), "stderr", output_take(&o, 2),
	              "statusCode", out.exit_code);
	if (o.truncated[1])
		json_object_set_new(j, "stdoutTruncated", json_true());
	if (o.truncated[2])
		json_object_set_new(j, "stderrTruncated", json_true());
	return reply_json(res, j, err);
}
