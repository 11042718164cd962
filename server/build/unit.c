/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unit.c - writes a service's unit file
 *
 * Every value was checked to be one line. `exec` entries are command lines in the syntax of
 * ExecStart=; for a long-running service all but the last run before it (ExecStartPre=), since only
 * a oneshot may have several. Values of `env` are quoted and nothing in them is expanded.
 */
#include <inttypes.h>
#include <string.h>

#include "build/build_internal.h"
#include "build/spec_internal.h"

static bool listed(const json_t *list, const char *name)
{
	size_t i;
	json_t *v;

	json_array_foreach((json_t *)(uintptr_t)list, i,
	                   v) if (strcmp(json_string_value(v), name) == 0) return true;
	return false;
}

/* without: names to leave out, or NULL */
static void put_list(struct buf *b, const char *key, const json_t *list, const json_t *without)
{
	bool any = false;
	size_t i;
	json_t *v;

	json_array_foreach((json_t *)(uintptr_t)list, i, v)
	{
		if (listed(without, json_string_value(v)))
			continue;
		if (!any)
			buf_printf(b, "%s=", key);
		buf_printf(b, "%s%s", any ? " " : "", json_string_value(v));
		any = true;
	}
	if (any)
		buf_printf(b, "\n");
}

/* For values in which systemd expands %: paths. */
static void put_plain(struct buf *b, const char *key, const char *value)
{
	if (!value)
		return;
	buf_printf(b, "%s=", key);
	for (; *value; value++)
		buf_printf(b, "%s%c", *value == '%' ? "%" : "", *value);
	buf_printf(b, "\n");
}

static void put_env(struct buf *b, const json_t *env)
{
	const char *key;
	json_t *v;

	json_object_foreach((json_t *)(uintptr_t)env, key, v)
	{
		buf_printf(b, "Environment=\"%s=", key);
		for (const char *p = json_string_value(v); *p; p++)
			switch (*p) {
			case '%':
				buf_printf(b, "%%%%");
				break;
			case '\n':
				buf_printf(b, "\\n");
				break;
			case '\t':
				buf_printf(b, "\\t");
				break;
			case '"':
			case '\\':
				buf_printf(b, "\\%c", *p);
				break;
			default:
				buf_printf(b, "%c", *p);
			}
		buf_printf(b, "\"\n");
	}
}

static void put_unit_section(struct buf *b, const struct service *s, const json_t *done)
{
	put_list(b, "After", s->after, done);
	put_list(b, "Requires", s->requires, done);
	put_list(b, "OnFailure", s->on_failure, done);
	if (s->interval_s >= 0)
		buf_printf(b, "StartLimitIntervalSec=%" PRId64 "\n", s->interval_s);
	if (s->burst >= 0)
		buf_printf(b, "StartLimitBurst=%" PRId64 "\n", s->burst);
}

static void put_exec(struct buf *b, const struct service *s, bool oneshot)
{
	size_t i, n = json_array_size(s->exec);
	json_t *v;

	json_array_foreach(s->exec, i, v)
	        buf_printf(b, "%s=%s\n", oneshot || i + 1 == n ? "ExecStart" : "ExecStartPre",
	                   json_string_value(v));
}

static void put_rest(struct buf *b, const struct service *s)
{
	put_plain(b, "User", s->user);
	put_plain(b, "Group", s->group);
	put_plain(b, "WorkingDirectory", s->workdir);
	put_env(b, s->env);
	if (s->timeout_s == 0)
		buf_printf(b, "TimeoutStartSec=infinity\n");
	else if (s->timeout_s > 0)
		buf_printf(b, "TimeoutStartSec=%" PRId64 "\n", s->timeout_s);
	if (s->watchdog_s > 0)
		buf_printf(b, "WatchdogSec=%" PRId64 "\n", s->watchdog_s);
	if (s->restart)
		buf_printf(b, "Restart=%s\n", s->restart);
	if (s->restart_s >= 0)
		buf_printf(b, "RestartSec=%" PRId64 "\n", s->restart_s);
}

void unit_text(const struct service *s, const json_t *done, struct buf *b)
{
	buf_printf(b, "[Unit]\nDescription=%s\n", s->name);
	put_unit_section(b, s, done);
	buf_printf(b, "\n[Service]\nType=%s\n",
	           s->oneshot        ? "oneshot"
	           : s->ready_signal ? "notify"
	                             : "exec");
	if (s->ready_signal)
		buf_printf(b, "NotifyAccess=all\n");
	if (s->oneshot && s->remain)
		buf_printf(b, "RemainAfterExit=yes\n");
	put_exec(b, s, s->oneshot);
	put_rest(b, s);
	buf_printf(b, "\n[Install]\n");
	if (json_array_size(s->wanted_by))
		put_list(b, "WantedBy", s->wanted_by, NULL);
	else
		buf_printf(b, "WantedBy=multi-user.target\n");
}

void unit_patch_text(const struct service *s, const json_t *done, struct buf *b)
{
	buf_printf(b, "[Unit]\n");
	put_unit_section(b, s, done);
	buf_printf(b, "\n[Service]\n");
	if (s->mode_given || s->ready_signal)
		buf_printf(b, "Type=%s\n",
		           s->oneshot        ? "oneshot"
		           : s->ready_signal ? "notify"
		                             : "exec");
	if (json_array_size(s->exec)) {
		/* replaces the unit's own, instead of adding to it */
		buf_printf(b, "ExecStartPre=\nExecStart=\n");
		put_exec(b, s, s->oneshot);
	}
	put_rest(b, s);
}
