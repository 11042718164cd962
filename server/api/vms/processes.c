/* SPDX-License-Identifier: Apache-2.0 */
/* processes.c - processes of a VM by number: list, show, signal, stdin, delete */
#include "api/vms/shared.h"

#include <ctype.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "guest/guest.h"

#define STDIN_STALL_MS 600000 /* for the process to read more: it may be busy */

int process_error(int r, struct err *err)
{
	static const struct {
		int code;
		enum err_code tag;
	} tags[] = { { -ENOENT, ERR_NOT_FOUND },     { -ESRCH, ERR_CONFLICT },
		     { -EBUSY, ERR_CONFLICT },       { -EPIPE, ERR_CONFLICT },
		     { -EINVAL, ERR_BAD_REQUEST },   { -EACCES, ERR_BAD_REQUEST },
		     { -ENOTDIR, ERR_BAD_REQUEST },  { -E2BIG, ERR_BAD_REQUEST },
		     { -EAGAIN, ERR_LIMIT_EXCEEDED } };

	r = guest_call_error(r, err);
	if (err_code_status(err->tag))
		return r;
	if (err->tag == ERR_CWD_FAILED) {
		err->tag = ERR_BAD_REQUEST;
		return r;
	}
	for (size_t i = 0; i < ARRAY_SIZE(tags); i++)
		if (r == tags[i].code)
			err->tag = tags[i].tag;
	return r;
}

static json_t *shape_process(const struct guest_proc *p)
{
	json_t *j;
	char id[24];

	snprintf(id, sizeof(id), "proc-%u", p->proc);
	j = json_pack("{s:s, s:I, s:o, s:o, s:o, s:b, s:b, s:b, s:b, s:o, s:o, s:I, s:I, s:I, s:I, "
	              "s:I}",
	              "processId", id, "pid", (json_int_t)p->pid, "command",
	              shape_output(p->command, strlen(p->command)), "user",
	              shape_output(p->user, strlen(p->user)), "startedAt",
	              shape_time(p->started_ms), "running", p->running, "attached", p->attached,
	              "timedOut", p->timed_out, "stdinOpen", p->stdin_open, "statusCode",
	              p->running ? json_null() : json_integer(p->exit_code), "signal",
	              shape_signal(p->signal), "durationMs", (json_int_t)p->duration_ms,
	              "stdoutBytes", (json_int_t)p->end[1], "stderrBytes", (json_int_t)p->end[2],
	              "stdoutStart", (json_int_t)p->first[1], "stderrStart",
	              (json_int_t)p->first[2]);
	if (j && p->command_cut)
		json_object_set_new(j, "commandTruncated", json_true());
	return j;
}

/* "proc-12" of argument 1. */
static int process_id(struct request *req, uint32_t *ret, struct err *err)
{
	const char *s = req->match.arg[1];
	unsigned long v;
	char *end;

	*ret = 0;
	if (strncmp(s, "proc-", 5) == 0 && isdigit((unsigned char)s[5]) && strlen(s) <= 15) {
		v = strtoul(s + 5, &end, 10);
		if (!*end && v > 0 && v < UINT32_MAX) {
			*ret = (uint32_t)v;
			return 0;
		}
	}
	return err_tag(err, -ENOENT, ERR_NOT_FOUND, "there is no such process");
}

/* A token that may act as some Linux users sees only their processes. */
static bool may_touch(struct request *req, const struct guest_proc *p)
{
	return auth_permit(deps_of(req)->auth, who_of(req), SCOPE_VM_EXEC, req->match.arg[0],
	                   p->user, NULL) == 0;
}

static int check_owner(struct request *req, struct guest *g, uint32_t proc, struct err *err)
{
	struct guest_proc p;
	int r = *who_of(req)->identity ? guest_proc(g, proc, &p, err) : 0;

	if (r < 0 || !*who_of(req)->identity || may_touch(req, &p))
		return r;
	return err_tag(err, -ENOENT, ERR_NOT_FOUND, "there is no such process");
}

int process_find(struct request *req, struct guest **ret, uint32_t *ret_proc, struct err *err)
{
	AUTO(guest_unrefp) struct guest *g = NULL;
	const char *id;
	int r = request_vm_id(req, 0, &id, err);

	if (ret_proc)
		*ret_proc = 0;
	if (r == 0 && ret_proc)
		r = process_id(req, ret_proc, err);
	if (r < 0 || (r = vmm_guest(deps_of(req)->vmm, who_of(req)->account, id, &g, err)) < 0 ||
	    (ret_proc && (r = check_owner(req, g, *ret_proc, err)) < 0))
		return r;
	*ret = TAKE_PTR(g);
	return 0;
}

int api_process_list(struct request *req, struct reply *res, struct err *err)
{
	AUTO(guest_unrefp) struct guest *g = NULL;
	autofree struct guest_proc *all = NULL;
	autojson json_t *list = json_array();
	size_t n = 0;
	int r = process_find(req, &g, NULL, err);

	if (r < 0 || (r = guest_procs(g, &all, &n, err)) < 0)
		return process_error(r, err);
	for (size_t i = 0; i < n; i++)
		if (may_touch(req, &all[i]) &&
		    json_array_append_new(list, shape_process(&all[i])) < 0)
			return err_set(err, -ENOMEM, "out of memory");
	return reply_json(res, json_pack("{s:O}", "processes", list), err);
}

int api_process_get(struct request *req, struct reply *res, struct err *err)
{
	AUTO(guest_unrefp) struct guest *g = NULL;
	struct guest_proc p;
	uint32_t proc;
	int r = process_find(req, &g, &proc, err);

	if (r < 0 || (r = guest_proc(g, proc, &p, err)) < 0)
		return process_error(r, err);
	return reply_json(res, shape_process(&p), err);
}

int api_process_delete(struct request *req, struct reply *res, struct err *err)
{
	AUTO(guest_unrefp) struct guest *g = NULL;
	uint32_t proc;
	int r = process_find(req, &g, &proc, err);

	if (r < 0 || (r = guest_proc_forget(g, proc, err)) < 0)
		return process_error(r, err);
	return reply_json(res, json_object(), err);
}

/* 15, "TERM" or "SIGTERM". */
static int parse_signal(const json_t *j, unsigned *ret)
{
	const char *s = json_string_value(j);

	if (json_is_integer(j)) {
		json_int_t v = json_integer_value(j);

		*ret = (unsigned)v;
		return v >= 1 && v <= SIGRTMAX ? 0 : -EINVAL;
	}
	if (s && strncmp(s, "SIG", 3) == 0)
		s += 3;
	for (int i = 1; s && i < SIGRTMIN; i++) {
		const char *name = sigabbrev_np(i);

		if (name && strcmp(name, s) == 0) {
			*ret = (unsigned)i;
			return 0;
		}
	}
	return -EINVAL;
}

struct signal_body {
	json_t *signal;
};
static const struct json_field signal_fields[] = {
	JSON_FIELD(JSON_WANT_ANY, signal_body, signal, "signal", JSON_REQUIRED, 0, 0,
	           "string | int", "SIGTERM, TERM or 15"),
};
JSON_TABLE(Signal, signal_fields);

int api_process_signal(struct request *req, struct reply *res, struct err *err)
{
	AUTO(guest_unrefp) struct guest *g = NULL;
	struct signal_body b = { 0 };
	uint32_t proc;
	unsigned sig;
	int r = request_fields(req, ERR_BAD_REQUEST, signal_fields, ARRAY_SIZE(signal_fields), &b,
	                       err);

	if (r < 0)
		return r;
	if (parse_signal(b.signal, &sig) < 0)
		return err_tag(err, -EINVAL, ERR_BAD_REQUEST,
		               "'signal' must be a number or a name such as TERM");
	if ((r = process_find(req, &g, &proc, err)) < 0 ||
	    (r = guest_proc_signal(g, proc, sig, err)) < 0)
		return process_error(r, err);
	return reply_json(res, json_object(), err);
}

/* ---- stdin: the body, as it arrives ---- */

static int stdin_open(struct request *req, struct err *err)
{
	AUTO(guest_unrefp) struct guest *g = NULL;
	struct guest_flow *f;
	bool eof = false;
	uint32_t proc;
	int r;

	if ((r = request_query_bool(req, "eof", &eof, err)) < 0)
		return r;
	if ((r = process_find(req, &g, &proc, err)) < 0 ||
	    (r = guest_proc_stdin(g, proc, eof, &f, err)) < 0)
		return process_error(r, err);
	req->intake = f;
	return 0;
}

static int stdin_data(struct request *req, const void *p, size_t n, struct err *err)
{
	int r = guest_flow_write(req->intake, p, n, deadline_in(STDIN_STALL_MS), err);

	if (r == -ENODATA)
		r = guest_flow_result(req->intake, err);
	return r < 0 ? process_error(r, err) : 0;
}

static void stdin_drop(void *ctx)
{
	guest_flow_close(ctx);
}

const struct intake api_stdin_intake = { stdin_open, stdin_data, stdin_drop };

int api_process_stdin(struct request *req, struct reply *res, struct err *err)
{
	int r = guest_flow_finish(req->intake, deadline_in(STDIN_STALL_MS), err);

	return r < 0 ? process_error(r, err) : reply_json(res, json_object(), err);
}
