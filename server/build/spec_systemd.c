/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spec_systemd.c - services of a layer
 *
 * Everything that goes into a unit file is one line without control characters, so no value can add
 * a setting of its own. Names of other units are completed with ".service" here.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "build/service.h"
#include "build/spec_internal.h"

struct restart {
	const char *policy;
	int64_t sec, burst, interval;
};
static const struct json_field restart_fields[] = {
	JSON_FIELD(JSON_WANT_STRREF, restart, policy, "policy", JSON_REQUIRED, 0, 32),
	JSON_FIELD(JSON_WANT_I64, restart, sec, "restartSec", JSON_NULLABLE, 0, SPEC_TIMEOUT_MAX),
	JSON_FIELD(JSON_WANT_I64, restart, burst, "startLimitBurst", JSON_NULLABLE, 0, 1000000),
	JSON_FIELD(JSON_WANT_I64, restart, interval, "startLimitIntervalSec", JSON_NULLABLE, 0,
	           SPEC_TIMEOUT_MAX),
};
JSON_TABLE(ServiceRestart, restart_fields);

struct raw {
	const char *name, *mode, *user, *group, *workdir;
	json_t *exec, *env, *after, *requires, *on_failure, *wanted_by, *restart;
	bool enable, remove, remain, ready;
	enum json_presence enable_seen, remain_seen, timeout_seen, watchdog_seen, user_seen,
	        group_seen, workdir_seen;
	int64_t timeout, watchdog;
};
#define TEXT(member, seen, name) \
	JSON_FIELD_P(JSON_WANT_STRREF, raw, member, seen, name, JSON_NULLABLE, 0, SPEC_TEXT_MAX)
#define LIST(member, name) \
	JSON_FIELD(JSON_WANT_ARRAY, raw, member, name, JSON_NULLABLE, 0, 0, "string[]")
static const struct json_field raw_fields[] = {
	JSON_FIELD(JSON_WANT_STRREF, raw, name, "name", JSON_REQUIRED, 0, SPEC_TEXT_MAX),
	JSON_FIELD(JSON_WANT_STRREF, raw, mode, "mode", JSON_NULLABLE, 0, 32),
	TEXT(user, user_seen, "user"),
	TEXT(group, group_seen, "group"),
	TEXT(workdir, workdir_seen, "workdir"),
	LIST(exec, "exec"),
	LIST(after, "after"),
	LIST(requires, "requires"),
	LIST(on_failure, "onFailure"),
	LIST(wanted_by, "wantedBy"),
	JSON_FIELD(JSON_WANT_OBJECT, raw, env, "env", JSON_NULLABLE, 0, 0, "{*: string}"),
	JSON_FIELD(JSON_WANT_OBJECT, raw, restart, "restartPolicy", JSON_NULLABLE, 0, 0,
	           "ServiceRestart"),
	JSON_FIELD_P(JSON_WANT_BOOL, raw, enable, enable_seen, "enable", JSON_NULLABLE, 0, 0),
	JSON_FIELD(JSON_WANT_BOOL, raw, remove, "deleteAfterSuccess", JSON_NULLABLE, 0, 0),
	JSON_FIELD_P(JSON_WANT_BOOL, raw, remain, remain_seen, "remainAfterExit", JSON_NULLABLE, 0,
	             0),
	JSON_FIELD(JSON_WANT_BOOL, raw, ready, "readySignal", JSON_NULLABLE, 0, 0),
	JSON_FIELD_P(JSON_WANT_I64, raw, timeout, timeout_seen, "timeoutSec", JSON_NULLABLE, 0,
	             SPEC_TIMEOUT_MAX),
	JSON_FIELD_P(JSON_WANT_I64, raw, watchdog, watchdog_seen, "watchdogSec", JSON_NULLABLE, 1,
	             SPEC_TIMEOUT_MAX),
};
JSON_TABLE(ServiceNew, raw_fields);

/* Names of units: checked, completed, as a new array. */
static int check_units(const json_t *j, const char *where, const char *name,
                       enum err_code empty_tag, struct spec_ctx *c, json_t *out, struct err *err)
{
	json_t *list, *v;
	size_t i;
	int r = spec_strings(j, where, name, SERVICE_NAME_SIZE + 15, empty_tag, c, err);

	if (r < 0 || !json_array_size(j))
		return r;
	list = json_array();
	json_object_set_new(out, name, list);
	json_array_foreach((json_t *)(uintptr_t)j, i, v)
	{
		const char *s = json_string_value(v);

		if (s[strspn(s, UNIT_CHARS)] != '\0' || s[0] == '-')
			return spec_bad(c, ERR_NONE, err, "'%s%s[%zu]': '%.40s' is not a unit name",
			                where, name, i, s);
		json_array_append_new(list, strchr(s, '.') ? json_incref(v)
		                                           : json_sprintf("%s.service", s));
	}
	return 0;
}

static int check_env(const json_t *env, const char *where, struct spec_ctx *c, json_t *out,
                     struct err *err)
{
	const char *key;
	json_t *v;

	if (!json_object_size(env))
		return 0;
	json_object_foreach((json_t *)(uintptr_t)env, key, v)
	{
		const char *s = json_string_value(v);

		if (!*key)
			return spec_bad(c, ERR_ENV_KEY_EMPTY, err, "'%senv' has an empty name",
			                where);
		if (strchr(key, '='))
			return spec_bad(c, ERR_ENV_KEY_CONTAINS_EQUALS, err,
			                "'%senv': the name '%.40s' contains '='", where, key);
		if (!spec_text_ok(key) || strpbrk(key, " \"'\\") || !s ||
		    strlen(s) != json_string_length(v) || strlen(s) > SPEC_EXEC_MAX)
			return spec_bad(c, ERR_NONE, err, "'%senv.%.40s' must be a string", where,
			                key);
		for (const char *p = s; *p; p++)
			if (((unsigned char)*p < 0x20 && *p != '\n' && *p != '\t') || *p == 0x7f)
				return spec_bad(c, ERR_NONE, err,
				                "'%senv.%.40s' has a control character", where,
				                key);
	}
	json_object_set(out, "env", (json_t *)(uintptr_t)env);
	return 0;
}

static int check_restart(const json_t *j, const char *where, struct spec_ctx *c, json_t *out,
                         struct err *err)
{
	static const char *const policies[] = { "no", "on-failure", "always", "on-abnormal" };
	struct restart p = { .sec = -1, .burst = -1, .interval = -1 };
	char at[160];
	int r;

	if (!j)
		return 0;
	snprintf(at, sizeof(at), "%.120srestartPolicy.", where);
	if ((r = spec_fields(j, at, restart_fields, ARRAY_SIZE(restart_fields), &p, c, err)) < 0)
		return r;
	for (size_t i = 0; i < ARRAY_SIZE(policies); i++)
		if (strcmp(p.policy, policies[i]) == 0)
			json_object_set_new(out, "restart", json_string(policies[i]));
	if (!json_object_get(out, "restart"))
		return spec_bad(c, ERR_NONE, err,
		                "'%spolicy' must be no, on-failure, always or on-abnormal", at);
	if (p.sec >= 0)
		json_object_set_new(out, "restartSec", json_integer(p.sec));
	if (p.burst >= 0)
		json_object_set_new(out, "burst", json_integer(p.burst));
	if (p.interval >= 0)
		json_object_set_new(out, "interval", json_integer(p.interval));
	return 0;
}

static int check_owner(const char *s, enum json_presence seen, const char *where, const char *name,
                       enum err_code empty_tag, struct spec_ctx *c, json_t *out, struct err *err)
{
	if (seen != JSON_IS_GIVEN)
		return 0;
	if (!*s)
		return spec_bad(c, empty_tag, err, "'%s%s' is empty", where, name);
	if (strcmp(name, "workdir") == 0
	            ? !spec_path_ok(s)
	            : strlen(s) > SPEC_NAME_MAX || s[0] == '-' ||
	                      s[strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	                                  "0123456789_-")] != '\0')
		return spec_bad(c, ERR_NONE, err, "'%s%s': '%.60s' is not allowed", where, name, s);
	json_object_set_new(out, name, json_string(s));
	return 0;
}

static int check_values(const struct raw *w, const char *at, bool patch, struct spec_ctx *c,
                        json_t *o, struct err *err)
{
	int r;

	if ((r = spec_strings(w->exec, at, "exec", SPEC_EXEC_MAX, ERR_EXEC_EMPTY, c, err)) < 0)
		return r;
	if (!patch && !json_array_size(w->exec))
		return spec_bad(c, ERR_EXEC_EMPTY, err, "'%sexec' is empty", at);
	if (json_array_size(w->exec))
		json_object_set(o, "exec", w->exec);
	if (w->wanted_by && !json_array_size(w->wanted_by))
		return spec_bad(c, ERR_WANTED_BY_EMPTY, err, "'%swantedBy' is empty", at);
	if ((r = check_units(w->after, at, "after", ERR_AFTER_ARRAY_CONTAINS_EMPTY, c, o, err)) <
	            0 ||
	    (r = check_units(w->requires, at, "requires", ERR_REQUIRES_ARRAY_CONTAINS_EMPTY, c, o,
	                     err)) < 0 ||
	    (r = check_units(w->on_failure, at, "onFailure", ERR_ON_FAILURE_ARRAY_CONTAINS_EMPTY, c,
	                     o, err)) < 0 ||
	    (r = check_units(w->wanted_by, at, "wantedBy", ERR_WANTED_BY_EMPTY, c, o, err)) < 0 ||
	    (r = check_env(w->env, at, c, o, err)) < 0 ||
	    (r = check_owner(w->user, w->user_seen, at, "user", ERR_USER_EMPTY, c, o, err)) < 0 ||
	    (r = check_owner(w->group, w->group_seen, at, "group", ERR_GROUP_EMPTY, c, o, err)) <
	            0 ||
	    (r = check_owner(w->workdir, w->workdir_seen, at, "workdir", ERR_WORKDIR_EMPTY, c, o,
	                     err)) < 0)
		return r;
	return check_restart(w->restart, at, c, o, err);
}

int spec_service(const json_t *j, const char *at, bool patch, struct spec_ctx *c, json_t **ret,
                 struct err *err)
{
	autojson json_t *o = json_object();
	struct raw w = { 0 };
	char name[SERVICE_NAME_SIZE];
	int r = spec_fields(j, at, raw_fields, ARRAY_SIZE(raw_fields), &w, c, err);

	if (r < 0 || (r = service_name(w.name, name, err)) < 0)
		return r;
	json_object_set_new(o, "name", json_string(name));
	if (w.mode && strcmp(w.mode, "oneshot") != 0 && strcmp(w.mode, "service") != 0)
		return spec_bad(c, ERR_NONE, err, "'%smode' must be oneshot or service", at);
	if (w.mode || !patch)
		json_object_set_new(o, "oneshot",
		                    json_boolean(w.mode && strcmp(w.mode, "oneshot") == 0));
	if ((r = check_values(&w, at, patch, c, o, err)) < 0)
		return r;
	if (w.enable_seen == JSON_IS_GIVEN)
		json_object_set_new(o, "enable", json_boolean(w.enable));
	if (w.remain_seen == JSON_IS_GIVEN && !patch)
		json_object_set_new(o, "remain", json_boolean(w.remain));
	if (w.remove)
		json_object_set_new(o, "deleteAfterSuccess", json_true());
	if (w.ready)
		json_object_set_new(o, "readySignal", json_true());
	if (w.timeout_seen == JSON_IS_GIVEN)
		json_object_set_new(o, "timeoutSec", json_integer(w.timeout));
	if (w.watchdog_seen == JSON_IS_GIVEN)
		json_object_set_new(o, "watchdogSec", json_integer(w.watchdog));
	*ret = TAKE_PTR(o);
	return 0;
}

static int check_services(const json_t *j, const char *where, const char *name, bool patch,
                          struct spec_ctx *c, json_t **ret, struct err *err)
{
	autojson json_t *out = json_array();
	json_t *v, *s;
	size_t i, k;
	int r;

	if (!j)
		return 0;
	if ((r = spec_array(j, where, name, c, err)) < 0)
		return r;
	json_array_foreach((json_t *)(uintptr_t)j, i, v)
	{
		char at[160];
		json_t *o = NULL;

		snprintf(at, sizeof(at), "%.100s%s[%zu].", where, name, i);
		if ((r = spec_service(v, at, patch, c, &o, err)) < 0)
			return r;
		json_array_foreach(out, k, s) if (json_equal(json_object_get(s, "name"),
		                                             json_object_get(o, "name")))
		{
			r = spec_bad(c, ERR_NONE, err, "service '%s' is listed twice",
			             json_string_value(json_object_get(o, "name")));
			json_decref(o);
			return r;
		}
		json_array_append_new(out, o);
	}
	if (json_array_size(out))
		*ret = TAKE_PTR(out);
	return 0;
}

struct systemd {
	json_t *services, *patched;
};
static const struct json_field systemd_fields[] = {
	JSON_FIELD(JSON_WANT_ARRAY, systemd, services, "services", JSON_NULLABLE, 0, 0,
	           "ServiceNew[]"),
	JSON_FIELD(JSON_WANT_ARRAY, systemd, patched, "patchedServices", JSON_NULLABLE, 0, 0,
	           "ServiceNew[]"),
};
JSON_TABLE(SpecSystemd, systemd_fields);

int spec_systemd(const json_t *j, const char *where, struct spec_ctx *c, json_t **ret_services,
                 json_t **ret_patched, struct err *err)
{
	struct systemd s = { 0 };
	char at[128];
	int r;

	snprintf(at, sizeof(at), "%.100ssystemd.", where);
	if ((r = spec_fields(j, at, systemd_fields, ARRAY_SIZE(systemd_fields), &s, c, err)) < 0 ||
	    (r = check_services(s.services, at, "services", /* patch= */ false, c, ret_services,
	                        err)) < 0)
		return r;
	return check_services(s.patched, at, "patchedServices", /* patch= */ true, c, ret_patched,
	                      err);
}

static int64_t number(const json_t *j, const char *name)
{
	const json_t *v = json_object_get(j, name);

	return v ? json_integer_value(v) : -1;
}

void service_read(const json_t *j, struct service *ret)
{
	const json_t *v;

	*ret = (struct service){ .name = json_string_value(json_object_get(j, "name")),
		                 .exec = json_object_get(j, "exec"),
		                 .after = json_object_get(j, "after"),
		                 .requires = json_object_get(j, "requires"),
		                 .on_failure = json_object_get(j, "onFailure"),
		                 .wanted_by = json_object_get(j, "wantedBy"),
		                 .env = json_object_get(j, "env"),
		                 .user = json_string_value(json_object_get(j, "user")),
		                 .group = json_string_value(json_object_get(j, "group")),
		                 .workdir = json_string_value(json_object_get(j, "workdir")),
		                 .enable = true,
		                 .restart = json_string_value(json_object_get(j, "restart")),
		                 .timeout_s = number(j, "timeoutSec"),
		                 .watchdog_s = number(j, "watchdogSec"),
		                 .restart_s = number(j, "restartSec"),
		                 .burst = number(j, "burst"),
		                 .interval_s = number(j, "interval") };
	ret->mode_given = (v = json_object_get(j, "oneshot")) != NULL;
	ret->oneshot = json_is_true(v);
	if ((v = json_object_get(j, "enable"))) {
		ret->enable_given = true;
		ret->enable = json_is_true(v);
	}
	ret->remain = ret->oneshot;
	if ((v = json_object_get(j, "remain")))
		ret->remain = json_is_true(v);
	ret->delete_after_success = json_is_true(json_object_get(j, "deleteAfterSuccess"));
	ret->ready_signal = json_is_true(json_object_get(j, "readySignal"));
}
