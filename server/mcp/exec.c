/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exec.c - the tool exec: runs a command to its end, or starts one in the background
 *
 * A command that fails is an ordinary result with its exit code: only a timeout, or a VM that
 * went away, is an error.
 */
#include "mcp/mcp_internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "guest/guest.h"

#define COMMAND_MAX (128 << 10) /* bytes: what a shell takes as one argument */
#define PIECE (16u << 10)
#define LATEST_MAX 1024u

struct exec_args {
	const char *command, *cwd;
	json_t *env;
	int64_t timeout_ms, max;
};
static const struct json_field exec_fields[] = {
	JSON_FIELD(JSON_WANT_STRREF, exec_args, command, "command", JSON_REQUIRED, 0, COMMAND_MAX),
	JSON_FIELD(JSON_WANT_STRREF, exec_args, cwd, "cwd", JSON_NULLABLE, 0, PATH_MAX - 1),
	JSON_FIELD(JSON_WANT_OBJECT, exec_args, env, "env", JSON_NULLABLE, 0, 0),
	JSON_FIELD(JSON_WANT_I64, exec_args, timeout_ms, "timeoutMs", JSON_NULLABLE, 1,
	           MCP_TIMEOUT_MAX),
	JSON_FIELD(JSON_WANT_I64, exec_args, max, "maxOutputBytes", JSON_NULLABLE, 256,
	           MCP_OUTPUT_MAX),
};

struct exec {
	struct guest_flow *f; /* owned */
	struct mcp_clip out[3];
	struct buf latest;
	uint64_t start_ms;
	struct guest_exec_result end;
};

static void exec_free(void *ctx)
{
	struct exec *x = ctx;

	if (!x)
		return;
	guest_flow_close(x->f);
	mcp_clip_done(&x->out[1]);
	mcp_clip_done(&x->out[2]);
	buf_done(&x->latest);
	free(x);
}

static void exec_freep(struct exec **x)
{
	exec_free(*x);
}

static int exec_step(void *ctx, struct err *err)
{
	struct exec *x = ctx;
	uint8_t piece[PIECE];
	int chan = 1, r;
	ssize_t k = guest_flow_read(x->f, &chan, piece, sizeof(piece), err);

	if (k > 0) {
		size_t n = MIN((size_t)k, (size_t)LATEST_MAX);

		mcp_clip_put(&x->out[chan == 2 ? 2 : 1], piece, (size_t)k);
		buf_reset(&x->latest);
		buf_put(&x->latest, piece + k - n, n);
		return 1;
	}
	if (k != -ENODATA)
		return k < 0 ? guest_call_error((int)k, err) : 0;
	r = guest_run_result(x->f, &x->end, err);
	return r < 0 ? guest_call_error(r, err) : -ENODATA;
}

static int exec_fd(void *ctx)
{
	return guest_flow_fd(((struct exec *)ctx)->f);
}

static const struct buf *exec_latest(void *ctx)
{
	return &((struct exec *)ctx)->latest;
}

static json_t *exec_result(void *ctx)
{
	struct exec *x = ctx;
	json_t *out = mcp_clip_text(&x->out[1]), *errout = mcp_clip_text(&x->out[2]);
	json_t *content = json_array(), *s;
	char line[96];

	mcp_add_text(content, "", out);
	mcp_add_text(content, "[stderr]\n", errout);
	if (x->end.timed_out)
		snprintf(line, sizeof(line), "[the command was ended: it timed out]");
	else
		snprintf(line, sizeof(line), "[exit code %d]", x->end.exit_code);
	json_array_append_new(content, mcp_text(line, strlen(line)));
	s = json_pack("{s:i, s:o, s:o, s:I}", "exitCode", x->end.exit_code, "stdout", out, "stderr",
	              errout, "durationMs", (json_int_t)(clock_ms() - x->start_ms));
	if (x->end.signal)
		json_object_set_new(s, "signal", shape_signal(x->end.signal));
	if (x->end.timed_out)
		json_object_set_new(s, "timedOut", json_true());
	if (mcp_clip_cut(&x->out[1]))
		json_object_set_new(s, "stdoutTruncated", json_true());
	if (mcp_clip_cut(&x->out[2]))
		json_object_set_new(s, "stderrTruncated", json_true());
	return mcp_tool_result(content, s, x->end.timed_out);
}

static const struct mcp_job_ops exec_ops = { .step = exec_step,
	                                     .fd = exec_fd,
	                                     .result = exec_result,
	                                     .latest = exec_latest,
	                                     .free = exec_free };

int mcp_exec_open(struct request *req, struct mcp_work *ret, struct err *err)
{
	AUTO(guest_unrefp) struct guest *g = NULL;
	AUTO(exec_freep) struct exec *x = calloc(1, sizeof(*x));
	AUTO(env_list_done) struct env_list env = { 0 };
	struct exec_args a = { .timeout_ms = MCP_TIMEOUT_DEFAULT, .max = MCP_OUTPUT_DEFAULT };
	struct guest_exec_req q = { .env = (const char *const *)env.v };
	struct guest_started s;
	struct vm_info v;
	const char *id;
	int r;

	if (!x)
		return err_set(err, -ENOMEM, "out of memory");
	if ((r = request_vm_id(req, 0, &id, err)) < 0 ||
	    (r = request_user(req, ERR_BAD_REQUEST, &q.user, err)) < 0 ||
	    (r = request_fields(req, ERR_BAD_REQUEST, exec_fields, ARRAY_SIZE(exec_fields), &a,
	                        err)) < 0 ||
	    (r = parse_env(a.env, ENV_LIST_MAX, &env, err)) < 0)
		return r;
	if (a.cwd && a.cwd[0] != '/')
		return err_tag(err, -EINVAL, ERR_BAD_REQUEST, "'cwd' must be an absolute path");
	if ((r = vmm_guest(deps_of(req)->vmm, who_of(req)->account, id, &g, err)) < 0 ||
	    (r = vmm_get(deps_of(req)->vmm, who_of(req)->account, id, &v, err)) < 0)
		return r;
	q.command = a.command;
	q.timeout_ms = (unsigned)a.timeout_ms;
	q.cwd = a.cwd ? a.cwd : *v.workdir ? v.workdir : NULL;
	x->start_ms = clock_ms();
	x->out[1].max = x->out[2].max = (size_t)a.max;
	if ((r = guest_run(g, &q, /* with_stdin= */ false, &x->f, &s, err)) < 0)
		return process_error(r, err);
	*ret = (struct mcp_work){ &exec_ops, TAKE_PTR(x), (uint64_t)a.timeout_ms };
	return 0;
}
