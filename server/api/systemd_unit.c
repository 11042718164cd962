/* SPDX-License-Identifier: Apache-2.0 */
/*
 * systemd_unit.c - a ServiceSpec as a unit file
 *
 * Every value is one line without control characters, so none can add a setting of its own; names
 * of units have the characters units have. Entries of `exec` are command lines as ExecStart=
 * takes them. Only a oneshot may have several, so of a service that stays all but the last run
 * before it. What systemd would expand (%) in values of `env` and paths is doubled.
 */
#include "api/api_internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"

#define TAG "BAD_REQUEST"
#define TEXT_MAX 4096
#define EXEC_MAX 65536
#define SECONDS_MAX (INT64_C(365) * 24 * 3600)
#define UNIT_CHARS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789:_.@\\-"

struct service_spec {
	const char *name, *mode, *user, *group, *workdir;
	json_t *exec, *env, *after, *requires, *on_failure, *wanted_by, *restart;
	bool enable, delete_after_success, remain, ready;
	enum json_presence remain_seen;
	int64_t timeout, watchdog;
};
#define TEXT(member, name) \
	JSON_FIELD(JSON_WANT_STRREF, service_spec, member, name, JSON_NULLABLE, 0, TEXT_MAX)
#define LIST(member, name) \
	JSON_FIELD(JSON_WANT_ARRAY, service_spec, member, name, JSON_NULLABLE, 0, 0)
#define FLAG(member, name) \
	JSON_FIELD(JSON_WANT_BOOL, service_spec, member, name, JSON_NULLABLE, 0, 0)
static const struct json_field spec_fields[] = {
	JSON_FIELD(JSON_WANT_STRREF, service_spec, name, "name", JSON_REQUIRED, 0, TEXT_MAX),
	TEXT(mode, "mode"),
	TEXT(user, "user"),
	TEXT(group, "group"),
	TEXT(workdir, "workdir"),
	LIST(exec, "exec"),
	LIST(after, "after"),
	LIST(requires, "requires"),
	LIST(on_failure, "onFailure"),
	LIST(wanted_by, "wantedBy"),
	JSON_FIELD(JSON_WANT_OBJECT, service_spec, env, "env", JSON_NULLABLE, 0, 0),
	JSON_FIELD(JSON_WANT_OBJECT, service_spec, restart, "restartPolicy", JSON_NULLABLE, 0, 0),
	FLAG(enable, "enable"),
	FLAG(delete_after_success, "deleteAfterSuccess"),
	FLAG(ready, "readySignal"),
	JSON_FIELD_P(JSON_WANT_BOOL, service_spec, remain, remain_seen, "remainAfterExit",
	             JSON_NULLABLE, 0, 0),
	JSON_FIELD(JSON_WANT_I64, service_spec, timeout, "timeoutSec", JSON_NULLABLE, 0,
	           SECONDS_MAX),
	JSON_FIELD(JSON_WANT_I64, service_spec, watchdog, "watchdogSec", JSON_NULLABLE, 1,
	           SECONDS_MAX),
};

struct restart_spec {
	const char *policy;
	int64_t sec, burst, interval;
};
static const struct json_field restart_fields[] = {
	JSON_FIELD(JSON_WANT_STRREF, restart_spec, policy, "policy", JSON_REQUIRED, 0, 32),
	JSON_FIELD(JSON_WANT_I64, restart_spec, sec, "restartSec", JSON_NULLABLE, 0, SECONDS_MAX),
	JSON_FIELD(JSON_WANT_I64, restart_spec, burst, "startLimitBurst", JSON_NULLABLE, 0,
	           1000000),
	JSON_FIELD(JSON_WANT_I64, restart_spec, interval, "startLimitIntervalSec", JSON_NULLABLE, 0,
	           SECONDS_MAX),
};

void unit_done(struct unit *u)
{
	buf_done(&u->text);
}

int service_name(const char *s, char ret[SERVICE_NAME_SIZE], struct err *err)
{
	static const char suffix[] = ".service";
	size_t n = strlen(s), k = sizeof(suffix) - 1;

	if (n >= k && strcmp(s + n - k, suffix) == 0)
		n -= k;
	if (n == 0)
		return err_tag(err, -EINVAL, "SERVICE_NAME_EMPTY", "a service needs a name");
	if (n >= SERVICE_NAME_SIZE)
		return err_tag(err, -EINVAL, "SERVICE_NAME_TOO_LONG",
		               "the name of a service has at most %d bytes", SERVICE_NAME_SIZE - 1);
	if (strchr("-.@", s[0]))
		return err_tag(err, -EINVAL, "SERVICE_NAME_INVALID_PREFIX",
		               "the name of a service begins with a letter or a digit");
	if (strspn(s, UNIT_CHARS) < n)
		return err_tag(err, -EINVAL, "SERVICE_NAME_INVALID_CHARS",
		               "the name of a service has letters, digits and :_.@- only");
	snprintf(ret, SERVICE_NAME_SIZE, "%.*s", (int)n, s);
	return 0;
}

/* One line: no control characters. */
static bool one_line(const char *s)
{
	for (; *s; s++)
		if ((unsigned char)*s < 0x20 || *s == 0x7f)
			return false;
	return true;
}

/* The strings of an array, each checked; empty ones get the tag. */
static int check_strings(json_t *list, const char *name, size_t max, const char *empty_tag,
                         struct err *err)
{
	size_t i;
	json_t *v;

	json_array_foreach(list, i, v)
	{
		const char *s = json_string_value(v);

		if (!s || strlen(s) != json_string_length(v) || strlen(s) > max || !one_line(s))
			return err_tag(err, -EINVAL, TAG, "'%s[%zu]' must be one line of text",
			               name, i);
		if (!s[strspn(s, " ")])
			return err_tag(err, -EINVAL, empty_tag, "'%s[%zu]' is empty", name, i);
	}
	return 0;
}

/* "Key=a.service b.target" from a list of unit names. */
static int put_units(struct buf *b, const char *key, json_t *list, const char *name,
                     const char *empty_tag, struct err *err)
{
	int r = check_strings(list, name, SERVICE_NAME_SIZE, empty_tag, err);
	size_t i;
	json_t *v;

	if (r < 0 || !json_array_size(list))
		return r;
	buf_printf(b, "%s=", key);
	json_array_foreach(list, i, v)
	{
		const char *s = json_string_value(v);

		if (s[strspn(s, UNIT_CHARS)] != '\0' || s[0] == '-')
			return err_tag(err, -EINVAL, TAG, "'%s[%zu]' is no name of a unit", name,
			               i);
		buf_printf(b, "%s%s%s", i ? " " : "", s, strchr(s, '.') ? "" : ".service");
	}
	buf_printf(b, "\n");
	return 0;
}

static void put_escaped(struct buf *b, const char *s, bool quoted)
{
	for (; *s; s++) {
		if (*s == '%')
			buf_printf(b, "%%%%");
		else if (quoted && (*s == '"' || *s == '\\'))
			buf_printf(b, "\\%c", *s);
		else if (quoted && *s == '\n')
			buf_printf(b, "\\n");
		else
			buf_put(b, s, 1);
	}
}

static int put_env(struct buf *b, json_t *env, struct err *err)
{
	const char *key;
	json_t *v;

	json_object_foreach(env, key, v)
	{
		const char *s = json_string_value(v);

		if (!*key)
			return err_tag(err, -EINVAL, "ENV_KEY_EMPTY", "'env' has an empty name");
		if (strchr(key, '='))
			return err_tag(err, -EINVAL, "ENV_KEY_CONTAINS_EQUALS",
			               "'env': the name '%.60s' has a '='", key);
		if (!one_line(key) || strpbrk(key, " \"'\\") || strlen(key) > TEXT_MAX || !s ||
		    strlen(s) != json_string_length(v) || strlen(s) > EXEC_MAX)
			return err_tag(err, -EINVAL, TAG, "'env.%.60s' must be a string", key);
		for (const char *p = s; *p; p++)
			if (((unsigned char)*p < 0x20 && *p != '\n' && *p != '\t') || *p == 0x7f)
				return err_tag(err, -EINVAL, TAG,
				               "'env.%.60s' has a control character", key);
		buf_printf(b, "Environment=\"%s=", key);
		put_escaped(b, s, /* quoted= */ true);
		buf_printf(b, "\"\n");
	}
	return 0;
}

static int put_owner(struct buf *b, const char *key, const char *s, const char *name,
                     const char *empty_tag, struct err *err)
{
	static const char chars[] =
	        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
	bool path = strcmp(name, "workdir") == 0;

	if (!s)
		return 0;
	if (!*s)
		return err_tag(err, -EINVAL, empty_tag, "'%s' is empty", name);
	if (path ? s[0] != '/' || !one_line(s)
	         : s[0] == '-' || strlen(s) > 64 || s[strspn(s, chars)] != '\0')
		return err_tag(err, -EINVAL, TAG, "'%s' must be %s", name,
		               path ? "an absolute path" : "a name of this machine");
	buf_printf(b, "%s=", key);
	put_escaped(b, s, /* quoted= */ false);
	buf_printf(b, "\n");
	return 0;
}

static int read_restart(json_t *j, struct restart_spec *p, struct err *err)
{
	static const char *const policies[] = { "no", "on-failure", "always", "on-abnormal" };
	int r = json_fields_read(j, "restartPolicy.", restart_fields, ARRAY_SIZE(restart_fields), p,
	                         err);

	if (r < 0) {
		err->tag = TAG;
		return r;
	}
	for (size_t i = 0; i < ARRAY_SIZE(policies); i++)
		if (strcmp(p->policy, policies[i]) == 0)
			return 0;
	return err_tag(err, -EINVAL, TAG,
	               "'restartPolicy.policy' must be no, on-failure, always or on-abnormal");
}

static int put_service(struct buf *b, const struct service_spec *s, bool oneshot,
                       const struct restart_spec *p, struct err *err)
{
	size_t i, n = json_array_size(s->exec);
	bool remain = s->remain_seen == JSON_IS_GIVEN ? s->remain : oneshot;
	json_t *v;
	int r;

	if ((r = check_strings(s->exec, "exec", EXEC_MAX, "EXEC_EMPTY", err)) < 0)
		return r;
	if (!n)
		return err_tag(err, -EINVAL, "EXEC_EMPTY", "'exec' names no command");
	buf_printf(b, "\n[Service]\nType=%s\n", oneshot ? "oneshot" : s->ready ? "notify" : "exec");
	if (s->ready)
		buf_printf(b, "NotifyAccess=all\n");
	if (remain)
		buf_printf(b, "RemainAfterExit=yes\n");
	json_array_foreach(s->exec, i, v)
	{
		buf_printf(b, "%s=%s\n", oneshot || i + 1 == n ? "ExecStart" : "ExecStartPre",
		           json_string_value(v));
	}
	if ((r = put_owner(b, "User", s->user, "user", "USER_EMPTY", err)) < 0 ||
	    (r = put_owner(b, "Group", s->group, "group", "GROUP_EMPTY", err)) < 0 ||
	    (r = put_owner(b, "WorkingDirectory", s->workdir, "workdir", "WORKDIR_EMPTY", err)) <
	            0 ||
	    (r = put_env(b, s->env, err)) < 0)
		return r;
	if (s->timeout == 0)
		buf_printf(b, "TimeoutStartSec=infinity\n");
	else if (s->timeout > 0)
		buf_printf(b, "TimeoutStartSec=%lld\n", (long long)s->timeout);
	if (s->watchdog > 0)
		buf_printf(b, "WatchdogSec=%lld\n", (long long)s->watchdog);
	if (p->policy)
		buf_printf(b, "Restart=%s\n", p->policy);
	if (p->sec >= 0)
		buf_printf(b, "RestartSec=%lld\n", (long long)p->sec);
	return 0;
}

int unit_make(const json_t *spec, struct unit *ret, struct err *err)
{
	struct service_spec s = { .enable = true, .timeout = -1, .watchdog = -1 };
	struct restart_spec p = { .sec = -1, .burst = -1, .interval = -1 };
	struct buf *b = &ret->text;
	int r = json_fields_read(spec, "", spec_fields, ARRAY_SIZE(spec_fields), &s, err);

	if (r < 0) {
		err->tag = TAG;
		return r;
	}
	if ((r = service_name(s.name, ret->name, err)) < 0 ||
	    (s.restart && (r = read_restart(s.restart, &p, err)) < 0))
		return r;
	if (s.mode && strcmp(s.mode, "oneshot") != 0 && strcmp(s.mode, "service") != 0)
		return err_tag(err, -EINVAL, TAG, "'mode' must be oneshot or service");
	if (s.wanted_by && !json_array_size(s.wanted_by))
		return err_tag(err, -EINVAL, "WANTED_BY_EMPTY", "'wantedBy' is empty");
	ret->enable = s.enable;
	ret->oneshot = s.mode && s.mode[0] == 'o';
	ret->delete_after_success = s.delete_after_success;
	buf_printf(b, "[Unit]\nDescription=%s\n", ret->name);
	if ((r = put_units(b, "After", s.after, "after", "AFTER_ARRAY_CONTAINS_EMPTY", err)) < 0 ||
	    (r = put_units(b, "Requires", s.requires, "requires", "REQUIRES_ARRAY_CONTAINS_EMPTY",
	                   err)) < 0 ||
	    (r = put_units(b, "OnFailure", s.on_failure, "onFailure",
	                   "ON_FAILURE_ARRAY_CONTAINS_EMPTY", err)) < 0)
		return r;
	if (p.interval >= 0)
		buf_printf(b, "StartLimitIntervalSec=%lld\n", (long long)p.interval);
	if (p.burst >= 0)
		buf_printf(b, "StartLimitBurst=%lld\n", (long long)p.burst);
	if ((r = put_service(b, &s, ret->oneshot, &p, err)) < 0)
		return r;
	buf_printf(b, "\n[Install]\n");
	if (!s.wanted_by)
		buf_printf(b, "WantedBy=multi-user.target\n");
	else if ((r = put_units(b, "WantedBy", s.wanted_by, "wantedBy", "WANTED_BY_EMPTY", err)) <
	         0)
		return r;
	return b->failed ? err_set(err, -ENOMEM, "out of memory") : 0;
}
