/* SPDX-License-Identifier: Apache-2.0 */
/*
 * systemd.c - services of a VM, through systemctl
 *
 * Each call is one command in the guest, run as the user of the request: root manages the system,
 * another user may do what systemd lets it do. Names are checked against a grammar first and
 * quoted anyway. Services created here are unit files in /etc/systemd/system.
 */
#include "api/vms/shared.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "build/service.h"
#include "guest/guest.h"

#define UNIT_DIR "/etc/systemd/system/"
#define SERVICE_MS 280000 /* for one request: clients give up after 300 s */
#define LIST_BYTES (4u << 20)
#define SERVICES_MAX 64 /* of one start, stop or restart */
#define EXIT_EXISTS 17  /* of our own scripts */
#define EXIT_DENIED 13
#define EXIT_MISSING 2
#define REMOVE                                                                        \
	"systemctl stop -- \"$u\"; systemctl disable --quiet --no-reload -- \"$u\"; " \
	"rm -rf -- \"$f\" \"$f.d\" && systemctl daemon-reload"

void shell_put_word(struct buf *b, const char *s)
{
	buf_put(b, "'", 1);
	for (; *s; s++) {
		if (*s == '\'')
			buf_put(b, "'\\''", 4);
		else
			buf_put(b, s, 1);
	}
	buf_put(b, "'", 1);
}

int service_run(struct request *req, struct guest_exec_req *x, struct guest_exec_result *ret,
                struct err *err)
{
	AUTO(guest_unrefp) struct guest *g = NULL;
	const char *id;
	int r;

	if ((r = request_vm_id(req, 0, &id, err)) < 0 ||
	    (r = request_user(req, ERR_BAD_REQUEST, &x->user, err)) < 0 ||
	    (r = vmm_guest(deps_of(req)->vmm, who_of(req)->account, id, &g, err)) < 0)
		return r;
	if (!x->timeout_ms)
		x->timeout_ms = SERVICE_MS;
	x->max_output = LIST_BYTES;
	r = guest_exec(g, x, ret, err);
	return guest_call_error(r, err);
}

/* The text of the buffer as the command; the buffer keeps it. */
static int run_text(struct request *req, struct buf *b, const void *in, size_t in_len,
                    unsigned timeout_ms, struct guest_exec_result *ret, struct err *err)
{
	struct guest_exec_req x = { .stdin_data = in,
		                    .stdin_len = in_len,
		                    .timeout_ms = timeout_ms };

	buf_put(b, "", 1);
	if (b->failed)
		return err_set(err, -ENOMEM, "out of memory");
	x.command = (const char *)b->p;
	return service_run(req, &x, ret, err);
}

/* The command's output, without the final newline. */
static json_t *said(const struct guest_exec_result *x, const char *otherwise)
{
	size_t n = x->errout_len;

	while (n && strchr("\n\r ", x->errout[n - 1]))
		n--;
	return n ? shape_output(x->errout, n) : json_string(otherwise);
}

int service_failed(const struct guest_exec_result *x, const char *what, struct err *err)
{
	const char *text = x->errout_len ? x->errout : "no reason given";
	int n = (int)MIN(strcspn(text, "\n"), 250u);
	bool denied = strstr(text, "ermission") || strstr(text, "ccess denied");

	if (x->timed_out)
		return err_tag(err, -ETIMEDOUT, ERR_INTERNAL_ERROR, "%s took too long", what);
	return err_tag(err, denied ? -EACCES : -EIO, denied ? ERR_FORBIDDEN : ERR_INTERNAL_ERROR,
	               "%s: %.*s", what, n, text);
}

static int service_of_path(struct request *req, struct reply *res, char name[SERVICE_NAME_SIZE],
                           struct err *err)
{
	const char *s = req->match.arg[1];

	reply_extra(res, "serviceName", shape_output(s, strlen(s)));
	return service_name(s, name, err);
}

static int not_found(const char *name, struct err *err)
{
	return err_tag(err, -ENOENT, ERR_SERVICE_NOT_FOUND,
	               "there is no service '%.200s' in the VM", name);
}

/* ---- list ---- */

/* Without ".service"; NULL for templates, which are not services. */
static json_t *short_name(const json_t *unit)
{
	const char *s = json_string_value(unit);
	size_t n = s ? strlen(s) : 0;

	if (n <= 8 || strcmp(s + n - 8, ".service") != 0 || s[n - 9] == '@')
		return NULL;
	return json_stringn(s, n - 8);
}

/* The service of that unit in all, added if it is new; NULL if the unit is not a service. */
static json_t *service_in(json_t *all, const json_t *unit)
{
	autojson json_t *name = short_name(unit);
	json_t *s;

	if (!name)
		return NULL;
	s = json_object_get(all, json_string_value(name));
	if (!s) {
		s = json_pack("{s:O}", "name", name);
		json_object_set_new(all, json_string_value(name), s);
	}
	return s;
}

static void add_loaded(json_t *all, const json_t *unit)
{
	static const char *const members[][2] = { { "load", "loadState" },
		                                  { "active", "activeState" },
		                                  { "sub", "subState" },
		                                  { "description", "description" } };
	json_t *s = service_in(all, json_object_get(unit, "unit"));

	for (size_t i = 0; s && i < ARRAY_SIZE(members); i++) {
		json_t *v = json_object_get(unit, members[i][0]);

		if (json_is_string(v))
			json_object_set(s, members[i][1], v);
	}
}

/* One name per line. */
static void add_files(json_t *all, const char *p, size_t n)
{
	while (n) {
		const char *nl = memchr(p, '\n', n);
		size_t len = nl ? (size_t)(nl - p) : n;
		autojson json_t *unit = json_stringn(p, len);

		service_in(all, unit);
		p += len + (nl ? 1 : 0);
		n -= len + (nl ? 1 : 0);
	}
}

/* Units that systemd has loaded, and those created here that are not loaded. */
int api_service_list(struct request *req, struct reply *res, struct err *err)
{
	AUTO(guest_exec_result_done) struct guest_exec_result out = { 0 };
	struct guest_exec_req x = {
		.command = "systemctl list-units --type=service --all --output=json --no-pager && "
		           "cd " UNIT_DIR " && ls"
	};
	autojson json_t *all = json_object(), *units = NULL, *items = json_array();
	json_error_t je;
	json_t *v;
	const char *key;
	size_t i;
	int r = service_run(req, &x, &out, err);

	if (r < 0)
		return r;
	if (out.exit_code != 0)
		return service_failed(&out, "list services", err);
	if (json_text_check(out.out, out.out_len, VALUES_MANY, &i, NULL) == 0)
		units = json_loadb(out.out, out.out_len, JSON_DISABLE_EOF_CHECK, &je);
	if (!json_is_array(units))
		return err_tag(err, -EPROTO, ERR_INTERNAL_ERROR,
		               "cannot parse the output of systemctl");
	json_array_foreach(units, i, v) add_loaded(all, v);
	add_files(all, out.out + je.position, out.out_len - (size_t)je.position);
	json_object_foreach(all, key, v) json_array_append(items, v);
	return reply_json(res, json_pack("{s:O}", "services", items), err);
}

/* ---- create, delete ---- */

static void put_create(struct buf *b, const struct unit *u)
{
	buf_printf(b, "u=");
	shell_put_word(b, u->name);
	buf_printf(b,
	           ".service; f=" UNIT_DIR "$u; "
	           "systemctl cat -- \"$u\" >/dev/null 2>&1 && exit %d; set -C; "
	           "cat >\"$f\" || { [ -e \"$f\" ] && exit %d; exit %d; }; ",
	           EXIT_EXISTS, EXIT_EXISTS, EXIT_DENIED);
	/* systemd finds a new unit by itself; reloading all others takes seconds when
	 * emulated. */
	if (u->enable)
		buf_printf(b, "systemctl enable --quiet --no-reload -- \"$u\" && "
		              "systemctl start -- \"$u\"");
	if (u->enable && u->oneshot && u->delete_after_success)
		buf_printf(b, " && { " REMOVE "; }");
}

int api_service_create(struct request *req, struct reply *res, struct err *err)
{
	AUTO(guest_exec_result_done) struct guest_exec_result out = { 0 };
	AUTO(unit_done) struct unit u = { 0 };
	autobuf struct buf b = { 0 };
	json_t *spec, *message;
	bool ok;
	int r;

	if ((r = request_json(req, ERR_BAD_REQUEST, &spec, err)) < 0 ||
	    (r = unit_make(spec, &u, err)) < 0)
		return r;
	reply_extra(res, "serviceName", json_string(u.name));
	put_create(&b, &u);
	if ((r = run_text(req, &b, u.text.p, u.text.len, SERVICE_MS, &out, err)) < 0)
		return r;
	if (!out.timed_out && out.exit_code == EXIT_EXISTS)
		return err_tag(err, -EEXIST, ERR_SERVICE_ALREADY_EXISTS,
		               "service '%s' already exists", u.name);
	if (!out.timed_out && out.exit_code == EXIT_DENIED)
		return err_tag(err, -EACCES, ERR_FORBIDDEN, "the user may not write to " UNIT_DIR);
	ok = out.timed_out || out.exit_code == 0;
	message = out.timed_out ? json_string("the service is still starting")
	          : ok          ? json_string(u.enable ? "created and started" : "created")
	                        : said(&out, "the service was created but does not start");
	return reply_json(res,
	                  json_pack("{s:b, s:o, s:s}", "success", ok, "message", message,
	                            "serviceName", u.name),
	                  err);
}

int api_service_delete(struct request *req, struct reply *res, struct err *err)
{
	AUTO(guest_exec_result_done) struct guest_exec_result out = { 0 };
	char name[SERVICE_NAME_SIZE];
	autobuf struct buf b = { 0 };
	int r = service_of_path(req, res, name, err);

	if (r < 0)
		return r;
	buf_printf(&b, "u=");
	shell_put_word(&b, name);
	buf_printf(&b,
	           ".service; f=" UNIT_DIR "$u; "
	           "[ -e \"$f\" ] || { systemctl cat -- \"$u\" >/dev/null 2>&1 && exit %d; exit "
	           "%d; }; "
	           "[ -w " UNIT_DIR " ] || exit %d; " REMOVE
	           " && { systemctl reset-failed -- \"$u\" 2>/dev/null; :; }",
	           EXIT_EXISTS, EXIT_MISSING, EXIT_DENIED);
	if ((r = run_text(req, &b, NULL, 0, SERVICE_MS, &out, err)) < 0)
		return r;
	if (out.exit_code == EXIT_MISSING)
		return not_found(name, err);
	if (out.exit_code == EXIT_EXISTS)
		return err_tag(err, -EACCES, ERR_FORBIDDEN,
		               "service '%s' belongs to the image: stop or mask it instead", name);
	if (out.exit_code == EXIT_DENIED)
		return err_tag(err, -EACCES, ERR_FORBIDDEN, "the user may not write to " UNIT_DIR);
	if (out.exit_code != 0)
		return service_failed(&out, "delete the service", err);
	return reply_json(res, json_pack("{s:b, s:s}", "success", 1, "message", "deleted"), err);
}

/* ---- status ---- */

/* The value of "Key=..." in systemctl's lines. */
static json_t *property(const struct guest_exec_result *x, const char *key)
{
	size_t n = strlen(key);
	const char *p = x->out, *end = x->out + x->out_len;

	while (p < end) {
		const char *nl = memchr(p, '\n', (size_t)(end - p));
		size_t len = nl ? (size_t)(nl - p) : (size_t)(end - p);

		if (len > n && p[n] == '=' && memcmp(p, key, n) == 0)
			return shape_output(p + n + 1, len - n - 1);
		p += len + 1;
	}
	return json_string("");
}

int api_service_status(struct request *req, struct reply *res, struct err *err)
{
	AUTO(guest_exec_result_done) struct guest_exec_result out = { 0 };
	char name[SERVICE_NAME_SIZE];
	autobuf struct buf b = { 0 };
	autojson json_t *load = NULL;
	int r = service_of_path(req, res, name, err);

	if (r < 0)
		return r;
	buf_printf(&b, "systemctl show --no-pager --property=LoadState,ActiveState,SubState,"
	               "Description,MainPID,Result,UnitFileState -- ");
	shell_put_word(&b, name);
	buf_printf(&b, ".service");
	if ((r = run_text(req, &b, NULL, 0, SERVICE_MS, &out, err)) < 0)
		return r;
	if (out.exit_code != 0)
		return service_failed(&out, "ask for the service", err);
	load = property(&out, "LoadState");
	if (strcmp(json_string_value(load) ? json_string_value(load) : "", "not-found") == 0)
		return not_found(name, err);
	return reply_json(
	        res,
	        json_pack("{s:s, s:o, s:o, s:O, s:o, s:o, s:o}", "name", name, "activeState",
	                  property(&out, "ActiveState"), "subState", property(&out, "SubState"),
	                  "loadState", load, "description", property(&out, "Description"), "result",
	                  property(&out, "Result"), "enablement", property(&out, "UnitFileState")),
	        err);
}

/* ---- start, stop, restart ---- */

struct services_body {
	json_t *services;
};
static const struct json_field services_fields[] = {
	JSON_FIELD(JSON_WANT_ARRAY, services_body, services, "services", JSON_REQUIRED, 0, 0,
	           "{id: string}[]"),
};
JSON_TABLE(ServiceNames, services_fields);

static int change_one(struct request *req, const char *verb, const char *done, const char *name,
                      uint64_t until_ms, json_t *results, struct err *err)
{
	AUTO(guest_exec_result_done) struct guest_exec_result out = { 0 };
	autobuf struct buf b = { 0 };
	bool ok;
	int r;

	buf_printf(&b, "systemctl %s -- ", verb);
	shell_put_word(&b, name);
	buf_printf(&b, ".service");
	if ((r = run_text(req, &b, NULL, 0, (unsigned)MAX(deadline_left(until_ms), 1), &out, err)) <
	    0)
		return r;
	ok = !out.timed_out && out.exit_code == 0;
	return json_array_append_new(
	        results,
	        json_pack("{s:s, s:b, s:o}", "serviceId", name, "success", ok, "message",
	                  ok              ? json_string(done)
	                  : out.timed_out ? json_string("not done in time; systemd continues")
	                                  : said(&out, "systemctl failed")));
}

static int change(struct request *req, struct reply *res, const char *verb, const char *done,
                  struct err *err)
{
	autojson json_t *results = json_array();
	struct services_body b = { 0 };
	struct vm_info vm;
	const char *id;
	char(*names)[SERVICE_NAME_SIZE];
	autofree void *room = calloc(SERVICES_MAX, SERVICE_NAME_SIZE);
	uint64_t until =
	        deadline_in(SERVICE_MS); /* for all of them together: one client is waiting */
	size_t i, n;
	json_t *v;
	int r;

	if (!room)
		return err_set(err, -ENOMEM, "out of memory");
	names = room;
	/* An empty list needs nothing from the VM, but another account's VM must still be rejected.
	 */
	if ((r = request_vm_id(req, 0, &id, err)) < 0 ||
	    (r = vmm_get(deps_of(req)->vmm, who_of(req)->account, id, &vm, err)) < 0 ||
	    (r = request_fields(req, ERR_BAD_REQUEST, services_fields, ARRAY_SIZE(services_fields),
	                        &b, err)) < 0)
		return r;
	n = json_array_size(b.services);
	if (n > SERVICES_MAX)
		return err_tag(err, -EINVAL, ERR_BAD_REQUEST, "at most %d services in one call",
		               SERVICES_MAX);
	json_array_foreach(b.services, i, v)
	{
		const char *name = json_string_value(json_object_get(v, "id"));

		if (!name)
			return err_tag(err, -EINVAL, ERR_BAD_REQUEST,
			               "'services[%zu].id' must be a string", i);
		if ((r = service_name(name, names[i], err)) < 0)
			return r;
	}
	for (i = 0; i < n; i++)
		if ((r = change_one(req, verb, done, names[i], until, results, err)) < 0)
			return r;
	return reply_json(res, json_pack("{s:O}", "results", results), err);
}

int api_service_start(struct request *req, struct reply *res, struct err *err)
{
	return change(req, res, "start", "started", err);
}

int api_service_stop(struct request *req, struct reply *res, struct err *err)
{
	return change(req, res, "stop", "stopped", err);
}

int api_service_restart(struct request *req, struct reply *res, struct err *err)
{
	return change(req, res, "restart", "restarted", err);
}
