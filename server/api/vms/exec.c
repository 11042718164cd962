/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exec.c - runs a command in a VM to its end
 *
 * Clients give up when no headers came for about 300 s, so a command without a limit of its own
 * gets EXEC_DEFAULT_MS: its partial output then arrives as EXEC_TIMED_OUT instead of a broken
 * connection. Commands are never repeated: one that was cut off by a suspend is reported, because
 * it may have run. With `terminal`, which clients always send and mostly as null, the output is
 * also kept under that name (terminals.c).
 */
#include "api/vms/shared.h"

#include <errno.h>
#include <string.h>

#include "base/auto.h"
#include "guest/guest.h"

#define EXEC_DEFAULT_MS 290000 /* below the clients' own 300 s */
#define EXEC_MAX_MS 600000
#define COMMAND_MAX (2 << 20) /* bytes */

struct exec_body {
	const char *command;
	const char *terminal;
	int64_t timeout_ms;
};
static const struct json_field exec_fields[] = {
	JSON_FIELD(JSON_WANT_STRREF, exec_body, command, "command", JSON_REQUIRED, 0, COMMAND_MAX),
	JSON_FIELD(JSON_WANT_STRREF, exec_body, terminal, "terminal", JSON_NULLABLE, 0, 128),
	JSON_FIELD(JSON_WANT_I64, exec_body, timeout_ms, "timeoutMs", JSON_NULLABLE, 1,
	           EXEC_MAX_MS),
};

int api_vm_exec(struct request *req, struct reply *res, struct err *err)
{
	AUTO(guest_unrefp) struct guest *g = NULL;
	AUTO(guest_exec_result_done) struct guest_exec_result out = { 0 };
	struct exec_body b = { .timeout_ms = EXEC_DEFAULT_MS };
	struct guest_exec_req x = { 0 };
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
	if (out.timed_out) {
		reply_extra(res, "timeoutMs", json_integer(b.timeout_ms));
		reply_extra(res, "stdout", shape_output(out.out, out.out_len));
		reply_extra(res, "stderr", shape_output(out.errout, out.errout_len));
		return err_tag(err, -ETIMEDOUT, ERR_EXEC_TIMED_OUT,
		               "the command did not end within %lld ms", (long long)b.timeout_ms);
	}
	j = json_pack("{s:o, s:o, s:i}", "stdout", shape_output(out.out, out.out_len), "stderr",
	              shape_output(out.errout, out.errout_len), "statusCode", out.exit_code);
	if (out.truncated[1])
		json_object_set_new(j, "stdoutTruncated", json_true());
	if (out.truncated[2])
		json_object_set_new(j, "stderrTruncated", json_true());
	return reply_json(res, j, err);
}
