/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run.c - a script in a VM of its own
 *
 * The packages that a script needs are a spec layer (build/): built once for each account and list
 * of packages, by npm in a guest that may reach the registry it is set up with, then thawed. The
 * first use of the layer already makes it hot, so a ready VM of it waits for the second
 * (vm/pool.c). The run's own network policy holds for its VM, and not for the one in which the
 * packages are installed.
 *
 * A row is written before anything starts, and again before anything runs in the VM: after a crash
 * serverless_new() deletes the VMs of unfinished runs and says that they failed. They are not run
 * again: a script may have done half of its work.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/json_field.h"
#include "base/log.h"
#include "build/build.h"
#include "guest/guest.h"
#include "hook/hook.h"
#include "net/egress.h"
#include "net/egress_json.h"
#include "serverless/deploy_internal.h"
#include "serverless/serverless_internal.h"
#include "vm/vm.h"
#include "vm/vmm.h"

static void drop_vm(struct serverless *s, const char *account, const char *vm)
{
	struct err err = { 0 };
	int r = vmm_delete(s->conf.vmm, account, vm, NULL, &err);

	if (r < 0 && r != -ENOENT)
		log_obj(LOG_LV_WARN, "vm", vm, "created for a run, cannot be deleted: %s", err.msg);
}

static int sweep(struct serverless *s, struct err *err)
{
	struct store_run *v = NULL;
	size_t n = 0;
	int r = store_run_unfinished(s->conf.store, &v, &n, err);

	for (size_t i = 0; r == 0 && i < n; i++) {
		if (*v[i].vm)
			drop_vm(s, v[i].account, v[i].vm);
		v[i].state = RUN_COMPLETE;
		v[i].failed = true;
		v[i].ended_ms = clock_wall_ms();
		v[i].output =
		        strdup("{\"error\":{\"name\":\"Interrupted\",\"message\":\"the server "
		               "stopped while it ran\",\"stack\":\"\"},\"logs\":[]}");
		r = v[i].output ? store_run_put(s->conf.store, &v[i], err)
		                : err_set(err, -ENOMEM, "out of memory");
	}
	store_runs_free(v, n);
	return r;
}

int serverless_new(const struct serverless_conf *c, struct serverless **ret, struct err *err)
{
	struct serverless *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return err_set(err, -ENOMEM, "serverless: out of memory");
	s->conf = *c;
	if ((r = sweep(s, err)) < 0 || (r = deployer_new(s, err)) < 0 ||
	    (r = scaler_new(s, err)) < 0 || (r = cron_start(s, err)) < 0) {
		serverless_free(s);
		return r;
	}
	*ret = s;
	return 0;
}

struct serverless *serverless_free(struct serverless *s)
{
	if (s) {
		crew_close(s->cron);
		deployer_free(s);
		scaler_free(s);
	}
	free(s);
	return NULL;
}

void serverless_end(struct serverless *s)
{
	if (!s)
		return;
	crew_end(s->cron);
	deployer_end(s);
	scaler_end(s);
}

void run_done_free(struct run_done *d)
{
	json_decref(d->result);
	json_decref(d->logs);
	json_decref(d->extra);
	d->result = d->logs = d->extra = NULL;
}

/* ---- the layer with the packages ---- */

static const char install_sh[] =
        "set -e\n"
        "cd " RUN_DIR_IN_GUEST "\n"
        "export HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n"
        "# the settings of the site are in the environment of the agent's programs and in npm's "
        "file\n"
        "npm install --no-audit --no-fund --no-progress --omit=dev \"$@\"\n";

json_t *run_spec(const struct run_conf *c, const json_t *modules)
{
	autojson json_t *package = json_pack("{s:b, s:s, s:O}", "private", 1, "name", "script",
	                                     "dependencies", (json_t *)(uintptr_t)modules);
	autofree char *text = package ? json_dumps(package, JSON_SORT_KEYS | JSON_INDENT(2)) : NULL;

	return text ? json_pack("{s:{s:{s:{s:s}, s:{s:s}}, s:{s:[{s:s, s:s, s:[s], s:b, s:i}]}}}",
	                        "spec", "additionalFiles", RUN_DIR_IN_GUEST "/package.json",
	                        "content", text, RUN_DIR_IN_GUEST "/install.sh", "content",
	                        install_sh, "systemd", "services", "name", "pando-node-modules",
	                        "mode", "oneshot", "exec",
	                        c->no_peers ? "/bin/bash " RUN_DIR_IN_GUEST
	                                      "/install.sh --legacy-peer-deps"
	                                    : "/bin/bash " RUN_DIR_IN_GUEST "/install.sh",
	                        "deleteAfterSuccess", 1, "timeoutSec", 1200)
	            : NULL;
}

static int parse_spec(struct serverless *s, const struct run_conf *c, const json_t *modules,
                      struct spec *ret, json_t *extra, struct err *err)
{
	struct spec_ctx ctx = { .limits = builder_limits(s->conf.builder),
		                .tag = ERR_BAD_REQUEST,
		                .extra = extra };
	autojson json_t *body = NULL;

	if (!json_object_size(modules))
		return 0; /* the template has what it needs */
	body = run_spec(c, modules);
	return body ? spec_parse(body, &ctx, ret, err) : err_set(err, -ENOMEM, "out of memory");
}

static int make_vm(struct serverless *s, const struct run_req *q, const struct store_run *row,
                   const json_t *modules, json_t *extra, struct vm_info *ret, struct err *err)
{
	AUTO(egress_unrefp) struct egress *egress = NULL;
	struct vm_create_opts o = { .account = q->account,
		                    .name = row->name,
		                    .idle_timeout_s = -1,
		                    .count_exec = true,
		                    .eager = true,
		                    .delete_after_s = q->conf->timeout_s + 3600,
		                    .persistence = { .type = PERSIST_EPHEMERAL,
		                                     .delete_event = DELETE_ON_SUSPEND } };
	struct build_opts b = {
		.account = q->account, .request_id = q->request_id, .extra = extra, .fresh = true
	};
	autospec struct spec spec = { 0 };
	int r;

	if (q->conf->egress && ((r = egress_parse(q->conf->egress, &egress, err)) < 0 ||
	                        (r = egress_keep_secrets(egress, NULL, err)) < 0)) {
		err->tag = ERR_BAD_REQUEST;
		return r;
	}
	o.egress = egress;
	if ((r = vmm_wait_template(s->conf.vmm, err)) < 0 ||
	    (r = parse_spec(s, q->conf, modules, &spec, extra, err)) < 0)
		return r;
	r = build_vm(s->conf.builder, &spec, &b, &o, ret, err);
	if (r < 0 && err->tag == ERR_VM_SETUP_FAILED)
		err->tag = ERR_NODE_MODULES_INSTALL_FAILED;
	return r;
}

/* ---- a run ---- */

static char *request_text(const struct run_req *q)
{
	autojson json_t *j =
	        json_pack("{s:s, s:i, s:i, s:i}", "script", q->script, "logs", RUN_LOGS_MAX,
	                  "logBytes", (int)RUN_LOG_BYTES, "resultBytes", (int)RUN_RESULT_MAX);

	if (!j)
		return NULL;
	json_object_set_new(j, "env", q->conf->env ? json_incref(q->conf->env) : json_object());
	json_object_set_new(j, "headers",
	                    q->conf->headers ? json_incref(q->conf->headers) : json_object());
	if (q->payload)
		json_object_set(j, "payload", (json_t *)(uintptr_t)q->payload);
	return json_dumps(j, JSON_COMPACT);
}

/* What the row keeps of the request. */
static char *config_text(const struct run_req *q, const json_t *modules)
{
	autojson json_t *j =
	        json_pack("{s:s, s:i}", "script", q->script, "timeout", (int)q->conf->timeout_s);

	if (!j || q->conf->keep_nothing)
		return strdup("");
	if (q->conf->env)
		json_object_set(j, "envVars", q->conf->env);
	if (modules)
		json_object_set(j, "nodeModules", (json_t *)(uintptr_t)modules);
	if (q->conf->tags)
		json_object_set(j, "tags", q->conf->tags);
	return json_dumps(j, JSON_COMPACT);
}

static int run_in(struct serverless *s, const struct run_req *q, struct store_run *row,
                  struct run_outcome *o, struct err *err)
{
	AUTO(guest_unrefp) struct guest *g = NULL;
	autowipe char *request = request_text(q);
	int r;

	if (!request)
		return err_set(err, -ENOMEM, "out of memory");
	row->state = RUN_RUNNING;
	row->started_ms = clock_wall_ms();
	if ((r = store_run_put(s->conf.store, row, err)) < 0 ||
	    (r = vmm_guest(s->conf.vmm, row->account, row->vm, &g, err)) < 0)
		return r;
	return run_cell(g, request, q, o, err);
}

static int settle(struct serverless *s, const struct run_req *q, struct store_run *row,
                  const struct run_outcome *o, int r, const struct err *why, struct err *err)
{
	autojson json_t *out = json_object();

	row->state = RUN_COMPLETE;
	row->ended_ms = clock_wall_ms();
	row->failed = r < 0 || o->error;
	if (!out)
		return err_set(err, -ENOMEM, "out of memory");
	if (o->result)
		json_object_set(out, "result", o->result);
	if (o->error)
		json_object_set(out, "error", o->error);
	else if (r < 0)
		json_object_set_new(out, "error",
		                    json_pack("{s:s, s:o, s:s}", "name", err_code_name(why->tag),
		                              "message", json_text(why->msg, strlen(why->msg)),
		                              "stack", ""));
	json_object_set_new(out, "logs", o->logs ? json_incref(o->logs) : json_array());
	row->output = json_dumps(out, JSON_COMPACT);
	if (q->conf->keep_nothing) {
		free(row->output);
		row->output = strdup("");
	}
	return row->output ? store_run_put(s->conf.store, row, err)
	                   : err_set(err, -ENOMEM, "out of memory");
}

static int script_failed(const struct run_outcome *o, struct run_done *ret, struct err *err)
{
	const char *name = json_string_value(json_object_get(o->error, "name"));
	const char *message = json_string_value(json_object_get(o->error, "message"));
	json_t *stack = json_object_get(o->error, "stack");

	if (stack)
		json_object_set(ret->extra, "stack", stack);
	return err_tag(err, -EIO, ERR_EXECUTION_ERROR, "%s: %s", name ? name : "Error",
	               message ? message : "");
}

int run_script(struct serverless *s, const struct run_req *q, struct run_done *ret, struct err *err)
{
	struct store_run row = { .created_ms = clock_wall_ms() };
	AUTO(run_outcome_done) struct run_outcome o = { 0 };
	autojson json_t *modules = q->conf->modules ? json_copy(q->conf->modules) : NULL;
	struct err late = { 0 };
	struct vm_info vm;
	int r;

	*ret = (struct run_done){ .extra = json_object() };
	if (!ret->extra)
		return err_set(err, -ENOMEM, "out of memory");
	if (q->conf->infer && (r = run_infer(q->script, &modules, err)) < 0)
		return r;
	id_make("run-", row.id);
	snprintf(row.account, sizeof(row.account), "%s", q->account);
	snprintf(row.name, sizeof(row.name), "%s", q->name ? q->name : row.id);
	snprintf(row.schedule, sizeof(row.schedule), "%s", q->schedule ? q->schedule : "");
	row.config = config_text(q, modules);
	r = row.config ? store_run_add(s->conf.store, &row, err)
	               : err_set(err, -ENOMEM, "out of memory");
	if (r == 0) {
		snprintf(ret->name, sizeof(ret->name), "%s", row.name);
		json_object_set_new(ret->extra, "runId", json_string(row.name));
		r = make_vm(s, q, &row, modules, ret->extra, &vm, err);
		if (r == 0) {
			snprintf(row.vm, sizeof(row.vm), "%s", vm.id);
			r = run_in(s, q, &row, &o, err);
			drop_vm(s, row.account, vm.id);
		}
		if (settle(s, q, &row, &o, r, err, &late) < 0)
			log_warn("run %s: its result is not kept: %s", row.id, late.msg);
	}
	if (o.logs) {
		ret->logs = json_incref(o.logs);
		json_object_set(ret->extra, "logs", o.logs);
	}
	if (r == 0 && o.error)
		r = script_failed(&o, ret, err);
	if (r == 0)
		ret->result = o.result ? json_incref(o.result) : json_null();
	store_run_done(&row);
	return r;
}
