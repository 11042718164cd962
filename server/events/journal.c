/* SPDX-License-Identifier: Apache-2.0 */
/*
 * journal.c - lines of one service, from the journal inside a running guest
 *
 * journalctl prints one JSON object per line. Root in the guest controls its contents: each line is
 * parsed separately under the usual limits, fields are accepted only in the expected form, and
 * everything else is left out. Times and names are the guest's own claims and are shown only to
 * its account.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json_field.h"
#include "base/utf8.h"
#include "events/logs_internal.h"
#include "guest/guest.h"

#define MESSAGE_MAX (16u << 10) /* bytes of one line that are shown */

static int make_command(const struct log_query *q, int64_t until_ms, char *buf, size_t size)
{
	/* The name was checked: letters, digits and :_.@- only. */
	int n = snprintf(buf, size,
	                 "journalctl --no-pager -q -r -o json "
	                 "--output-fields=MESSAGE,PRIORITY,_SYSTEMD_UNIT "
	                 "-u '%s' -n %zu --since=@%" PRId64 ".%03d --until=@%" PRId64 ".%03d",
	                 q->service, q->limit + 1, q->from_ms / 1000, (int)(q->from_ms % 1000),
	                 until_ms / 1000, (int)(until_ms % 1000));

	return n > 0 && (size_t)n < size ? 0 : -E2BIG;
}

/* A string, or an array of bytes when it is not UTF-8; NULL: neither. */
static char *message_of(const json_t *j)
{
	autobuf struct buf raw = { 0 }, clean = { 0 };

	if (json_is_string(j)) {
		buf_put(&raw, json_string_value(j), MIN(json_string_length(j), MESSAGE_MAX));
	} else if (json_is_array(j)) {
		size_t i;
		json_t *v;

		json_array_foreach(j, i, v) if (i < MESSAGE_MAX)
		        buf_put_u8(&raw, (uint8_t)json_integer_value(v));
	} else {
		return NULL;
	}
	for (size_t i = 0; i < raw.len; i++)
		if (raw.p[i] == '\0')
			raw.p[i] = ' ';
	utf8_put_clean(&clean, raw.p, raw.len);
	return raw.failed ? NULL : buf_take_str(&clean);
}

static const char *level_of(const json_t *priority)
{
	const char *s = json_string_value(priority);
	int p = s && s[0] >= '0' && s[0] <= '7' && !s[1] ? s[0] - '0' : 6;

	return p <= 3 ? "error" : p == 4 ? "warn" : p == 7 ? "debug" : "info";
}

/* Adds the line if it is valid and belongs to the page. */
static int add_line(const struct log_query *q, const char *text, size_t n, struct log_page *ret,
                    struct err *err)
{
	autojson json_t *j = NULL;
	autofree char *message = NULL;
	const char *at;
	struct log_line *line;
	int64_t us, before_ms, before_seq, ms;

	if (json_text_parse(text, n, &j, NULL) < 0 || !json_is_object(j))
		return 0;
	at = json_string_value(json_object_get(j, "__REALTIME_TIMESTAMP"));
	message = message_of(json_object_get(j, "MESSAGE"));
	if (!at || strspn(at, "0123456789") != strlen(at) || strlen(at) > 17 || !message)
		return 0;
	us = strtoll(at, NULL, 10);
	ms = us / 1000;
	log_place_for(&q->before, LOG_FROM_JOURNAL, &before_ms, &before_seq);
	if (ms < q->from_ms || ms > q->to_ms || ms > before_ms ||
	    (ms == before_ms && us >= before_seq) || !log_holds(message, q->search))
		return 0;
	line = log_page_add(ret);
	if (!line)
		return err_set(err, -ENOMEM, "out of memory");
	line->place = (struct log_place){ ms, LOG_FROM_JOURNAL, us };
	line->message = TAKE_PTR(message);
	snprintf(line->level, sizeof(line->level), "%s", level_of(json_object_get(j, "PRIORITY")));
	snprintf(line->source, sizeof(line->source), "journal");
	snprintf(line->vm, sizeof(line->vm), "%s", q->vm);
	snprintf(line->instance, sizeof(line->instance), "%s", q->instance);
	snprintf(line->service, sizeof(line->service), "%s", q->service);
	return 0;
}

int journal_read(const struct log_query *q, struct log_page *ret, struct err *err)
{
	AUTO(guest_exec_result_done) struct guest_exec_result out = { 0 };
	char command[LOGS_SERVICE_SIZE + 256];
	struct guest_exec_req req = { .command = command,
		                      .timeout_ms = JOURNAL_MS,
		                      .max_output = JOURNAL_OUT };
	int64_t until = MIN(q->to_ms, q->before.at_ms);
	int r;

	if (q->from_ms < 0 || until < q->from_ms)
		return 0;
	if (make_command(q, until, command, sizeof(command)) < 0)
		return err_tag(err, -EINVAL, ERR_INVALID_QUERY, "'vmService' is too long");
	if ((r = guest_exec(q->guest, &req, &out, err)) < 0)
		return r == -ECONNRESET || r == -ENOTCONN ? 0
		                                          : r; /* it was suspended: no journal */
	for (const char *p = out.out, *end = p ? p + out.out_len : NULL; p && p < end;) {
		const char *nl = memchr(p, '\n', (size_t)(end - p));
		size_t n = nl ? (size_t)(nl - p) : (size_t)(end - p);

		if (n && (r = add_line(q, p, n, ret, err)) < 0)
			return r;
		p += n + 1;
	}
	return 0;
}
