/* SPDX-License-Identifier: Apache-2.0 */
/*
 * systemd_logs.c - what a service wrote to the journal
 *
 * journalctl prints one JSON object per line; a message that is not text comes as an array of
 * bytes. `since` is a time (RFC 3339, or seconds or milliseconds since the epoch) or what
 * journalctl understands itself ("-1h", "today").
 */
#include "api/vms/shared.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/auto.h"
#include "build/service.h"
#include "guest/guest.h"

#define LINES_DEFAULT 100
#define LINES_MAX 10000
#define SINCE_MAX 64
#define MS_FROM                                                                          \
	INT64_C(100000000000) /* numbers from here on are milliseconds: it is 1973 there \
	                       */

/* "2026-01-31T12:00:00.5+01:00" as seconds since the epoch; false when it is none. */
static bool parse_rfc3339(const char *s, long long *ret)
{
	struct tm tm = { 0 };
	const char *p = strptime(s, "%Y-%m-%dT%H:%M:%S", &tm);
	int sign = 0, h = 0, m = 0;

	if (!p)
		return false;
	if (*p == '.')
		p += 1 + strspn(p + 1, "0123456789");
	if (*p == '+' || *p == '-') {
		if (!isdigit((unsigned char)p[1]) || !isdigit((unsigned char)p[2]) || p[3] != ':' ||
		    !isdigit((unsigned char)p[4]) || !isdigit((unsigned char)p[5]) || p[6])
			return false;
		sign = *p == '-' ? -1 : 1;
		h = (p[1] - '0') * 10 + p[2] - '0';
		m = (p[4] - '0') * 10 + p[5] - '0';
	} else if (strcmp(p, "Z") != 0 && strcmp(p, "z") != 0) {
		return false;
	}
	*ret = (long long)timegm(&tm) - sign * (h * 3600LL + m * 60LL);
	return true;
}

/* As journalctl wants it. */
static int read_since(const char *s, char ret[SINCE_MAX], struct err *err)
{
	static const char chars[] =
	        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 :+.@-";
	long long sec;

	if (strlen(s) >= SINCE_MAX || s[strspn(s, chars)] != '\0')
		return err_tag(err, -EINVAL, ERR_INVALID_PARAMETERS, "'since' must be a time");
	if (parse_rfc3339(s, &sec)) {
		snprintf(ret, SINCE_MAX, "@%lld", sec);
	} else if (s[strspn(s, "0123456789")] == '\0' && strlen(s) < 16) {
		sec = strtoll(s, NULL, 10);
		snprintf(ret, SINCE_MAX, "@%lld", sec >= MS_FROM ? sec / 1000 : sec);
	} else {
		snprintf(ret, SINCE_MAX, "%s", s);
	}
	return 0;
}

static json_t *message_of(const json_t *m)
{
	autobuf struct buf b = { 0 };
	size_t i;
	json_t *v;

	if (json_is_string(m))
		return shape_output(json_string_value(m), json_string_length(m));
	json_array_foreach((json_t *)(uintptr_t)m, i, v)
	        buf_put_u8(&b, (uint8_t)json_integer_value(v));
	return shape_output(b.p ? b.p : (void *)"", b.len);
}

static json_t *entry_of(const json_t *e)
{
	const char *us = json_string_value(json_object_get(e, "__REALTIME_TIMESTAMP"));
	const char *prio = json_string_value(json_object_get(e, "PRIORITY"));
	const char *unit = json_string_value(json_object_get(e, "UNIT"));

	if (!unit)
		unit = json_string_value(json_object_get(e, "_SYSTEMD_UNIT"));
	return json_pack(
	        "{s:o, s:o, s:o, s:o}", "message", message_of(json_object_get(e, "MESSAGE")),
	        "timestamp", shape_time(us ? strtoll(us, NULL, 10) / 1000 : 0), "priority",
	        prio && prio[0] >= '0' && prio[0] <= '7' && !prio[1] ? json_integer(prio[0] - '0')
	                                                             : json_null(),
	        "unit", shape_text(unit ? unit : ""));
}

static int reply_entries(struct reply *res, const char *p, size_t n, struct err *err)
{
	autojson json_t *logs = json_array();

	while (n) {
		const char *nl = memchr(p, '\n', n);
		size_t len = nl ? (size_t)(nl - p) : n;
		autojson json_t *e = NULL;
		size_t values;

		if (json_text_check(p, len, JSON_VALUES_MAX, &values, NULL) == 0)
			e = json_loadb(p, len, JSON_ALLOW_NUL, NULL);

		if (json_is_object(e) && json_array_append_new(logs, entry_of(e)) < 0)
			return err_set(err, -ENOMEM, "out of memory");
		p += len + (nl ? 1 : 0);
		n -= len + (nl ? 1 : 0);
	}
	return reply_json(res, json_pack("{s:O}", "logs", logs), err);
}

int api_service_logs(struct request *req, struct reply *res, struct err *err)
{
	AUTO(guest_exec_result_done) struct guest_exec_result out = { 0 };
	autofree char *since = NULL;
	autobuf struct buf b = { 0 };
	char name[SERVICE_NAME_SIZE], when[SINCE_MAX] = "";
	struct guest_exec_req x = { 0 };
	uint32_t lines = LINES_DEFAULT;
	const char *nl;
	size_t head;
	int r;

	reply_extra(res, "serviceName", shape_output(req->match.arg[1], strlen(req->match.arg[1])));
	if ((r = service_name(req->match.arg[1], name, err)) < 0 ||
	    (r = request_query_u32(req, "lines", LINES_MAX, &lines, err)) < 0 ||
	    (r = request_query(req, "since", &since, err)) < 0 ||
	    (since && *since && (r = read_since(since, when, err)) < 0))
		return r;
	buf_printf(&b, "u=");
	shell_put_word(&b, name);
	buf_printf(&b,
	           ".service; systemctl show --property=LoadState --value -- \"$u\" && "
	           "exec journalctl --no-pager --quiet --output=json --lines=%u --unit=\"$u\"",
	           lines);
	if (*when) {
		buf_printf(&b, " --since=");
		shell_put_word(&b, when);
	}
	buf_put(&b, "", 1);
	if (b.failed)
		return err_set(err, -ENOMEM, "out of memory");
	x.command = (const char *)b.p;
	if ((r = service_run(req, &x, &out, err)) < 0)
		return r;
	if (out.exit_code != 0 && *when && strstr(out.errout, "timestamp"))
		return err_tag(err, -EINVAL, ERR_INVALID_PARAMETERS, "'since' must be a time");
	nl = memchr(out.out, '\n', out.out_len);
	head = nl ? (size_t)(nl - out.out) + 1 : out.out_len;
	if (out.exit_code != 0 || !nl)
		return service_failed(&out, "read the journal", err);
	if (head == out.out_len && strncmp(out.out, "not-found", head - 1) == 0)
		return err_tag(err, -ENOENT, ERR_SERVICE_NOT_FOUND,
		               "there is no service '%.200s' in the VM", name);
	return reply_entries(res, out.out + head, out.out_len - head, err);
}
