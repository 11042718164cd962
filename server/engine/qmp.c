/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/qmp.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"
#include "base/sock.h"

#define QMP_EVENTS_MAX 32 /* kept for qmp_wait_event(); the oldest is dropped */

struct qmp {
	int fd; /* owned */
	uint64_t next_id;
	struct buf in; /* bytes received, not yet parsed */
	struct qmp_msg events[QMP_EVENTS_MAX];
	size_t n_events;
};

void qmp_msg_done(struct qmp_msg *m)
{
	json_decref(m->body);
	m->body = NULL;
}

static void copy_str(char *dst, size_t size, const json_t *v)
{
	const char *s = json_string_value(v);

	snprintf(dst, size, "%s", s ? s : "");
}

int qmp_parse(const char *line, size_t n, struct qmp_msg *ret, struct err *err)
{
	static const struct {
		const char *member;
		enum qmp_kind kind;
	} kinds[] = { { "return", QMP_RETURN },
		      { "error", QMP_ERROR },
		      { "event", QMP_EVENT },
		      { "QMP", QMP_GREETING } };
	json_error_t je;
	json_t *root = json_loadb(line, n, JSON_REJECT_DUPLICATES, &je);
	json_t *v = NULL;
	size_t i;

	if (!json_is_object(root)) {
		json_decref(root);
		return err_set(err, -EBADMSG,
		               "QEMU's monitor sent something that is not a JSON object: %s",
		               je.text);
	}
	for (i = 0; i < ARRAY_SIZE(kinds); i++)
		if ((v = json_object_get(root, kinds[i].member)))
			break;
	if (!v) {
		json_decref(root);
		return err_set(err, -EBADMSG, "QEMU's monitor sent an object of unknown kind");
	}
	*ret = (struct qmp_msg){ .kind = kinds[i].kind };
	ret->id = (uint64_t)json_integer_value(json_object_get(root, "id"));
	if (ret->kind == QMP_ERROR) {
		copy_str(ret->name, sizeof(ret->name), json_object_get(v, "class"));
		copy_str(ret->desc, sizeof(ret->desc), json_object_get(v, "desc"));
	} else if (ret->kind == QMP_EVENT) {
		copy_str(ret->name, sizeof(ret->name), v);
		v = json_object_get(root, "data");
	}
	ret->body = v ? json_incref(v) : json_null();
	json_decref(root);
	return 0;
}

/* The next message from the wire. */
static int qmp_read(struct qmp *q, uint64_t deadline_ms, struct qmp_msg *ret, struct err *err)
{
	for (;;) {
		uint8_t *nl = q->in.len ? memchr(q->in.p, '\n', q->in.len) : NULL;
		uint8_t *room;
		ssize_t k;
		int r;

		if (nl) {
			size_t n = (size_t)(nl - q->in.p);

			r = qmp_parse((char *)q->in.p, n, ret, err);
			q->in.len -= n + 1;
			memmove(q->in.p, nl + 1, q->in.len);
			return r;
		}
		if (q->in.len > QMP_LINE_MAX)
			return err_set(err, -EMSGSIZE, "QEMU's monitor sent an endless line");
		r = io_wait(q->fd, POLLIN, deadline_ms);
		if (r == 0)
			return err_set(err, -ETIMEDOUT, "QEMU's monitor did not answer in time");
		if (r < 0)
			return err_sys(err, r, "wait for QEMU's monitor");
		room = buf_reserve(&q->in, 16384);
		if (!room)
			return err_set(err, -ENOMEM, "QEMU's monitor: out of memory");
		k = recv(q->fd, room, 16384, 0);
		if (k == 0)
			return err_set(err, -EPIPE, "QEMU has ended");
		if (k < 0 && errno != EINTR)
			return err_sys(err, errno == ECONNRESET ? -EPIPE : -errno,
			               "read QEMU's monitor");
		if (k > 0)
			q->in.len += (size_t)k;
	}
}

static void event_keep(struct qmp *q, struct qmp_msg *m)
{
	if (q->n_events == QMP_EVENTS_MAX) {
		qmp_msg_done(&q->events[0]);
		memmove(q->events, q->events + 1, --q->n_events * sizeof(*q->events));
	}
	q->events[q->n_events++] = *m;
}

int qmp_cmd_fd(struct qmp *q, const char *name, json_t *args_consume, int fd, uint64_t deadline_ms,
               json_t **ret_body, struct err *err)
{
	json_t *cmd = json_pack("{s:s, s:I}", "execute", name, "id", (json_int_t)++q->next_id);
	autofree char *text = NULL;
	size_t len, sent = 0;

	if (!cmd || (args_consume && json_object_set_new(cmd, "arguments", args_consume) < 0)) {
		json_decref(cmd);
		return err_set(err, -ENOMEM, "monitor command %s: out of memory", name);
	}
	text = json_dumps(cmd, JSON_COMPACT);
	json_decref(cmd);
	if (!text)
		return err_set(err, -ENOMEM, "monitor command %s: out of memory", name);
	len = strlen(text);
	while (sent < len) {
		ssize_t k = sock_send_fds(q->fd, text + sent, len - sent, &fd, fd >= 0 && !sent);

		if (k < 0)
			return err_sys(err, k == -ECONNRESET ? -EPIPE : (int)k,
			               "monitor command %s", name);
		sent += (size_t)k;
	}
	for (;;) {
		struct qmp_msg m = { 0 };
		int r = qmp_read(q, deadline_ms, &m, err);

		if (r < 0)
			return err_wrap(err, r, "monitor command %s", name);
		if (m.kind == QMP_EVENT) {
			event_keep(q, &m);
			continue;
		}
		if (m.id != q->next_id) { /* the late reply to a command that timed out */
			qmp_msg_done(&m);
			continue;
		}
		if (m.kind == QMP_ERROR) {
			r = err_set(err, -EREMOTEIO, "monitor command %s: %s", name, m.desc);
			qmp_msg_done(&m);
			return r;
		}
		if (ret_body)
			*ret_body = TAKE_PTR(m.body);
		qmp_msg_done(&m);
		return 0;
	}
}

int qmp_wait_event(struct qmp *q, const char *name, uint64_t deadline_ms, json_t **ret_data,
                   struct err *err)
{
	for (size_t i = 0;; i++) {
		if (i == q->n_events) {
			struct qmp_msg m = { 0 };
			int r = qmp_read(q, deadline_ms, &m, err);

			if (r < 0)
				return err_wrap(err, r, "wait for %s", name);
			if (m.kind != QMP_EVENT) {
				qmp_msg_done(&m);
				i--;
				continue;
			}
			if (q->n_events == QMP_EVENTS_MAX)
				i--;
			event_keep(q, &m);
		}
		if (strcmp(q->events[i].name, name) != 0)
			continue;
		if (ret_data)
			*ret_data = TAKE_PTR(q->events[i].body);
		qmp_msg_done(&q->events[i]);
		memmove(q->events + i, q->events + i + 1, (--q->n_events - i) * sizeof(*q->events));
		return 0;
	}
}

int qmp_open(int fd_consume, uint64_t deadline_ms, struct qmp **ret, struct err *err)
{
	struct qmp *q = calloc(1, sizeof(*q));
	struct qmp_msg m = { 0 };
	int r;

	if (!q) {
		close(fd_consume);
		return err_set(err, -ENOMEM, "QEMU's monitor: out of memory");
	}
	q->fd = fd_consume;
	r = qmp_read(q, deadline_ms, &m, err);
	if (r == 0 && m.kind != QMP_GREETING)
		r = err_set(err, -EBADMSG, "QEMU's monitor sent no greeting");
	qmp_msg_done(&m);
	if (r == 0)
		r = qmp_cmd(q, "qmp_capabilities", NULL, deadline_ms, NULL, err);
	if (r < 0) {
		qmp_free(q);
		return r;
	}
	*ret = q;
	return 0;
}

int qmp_open_greeted(int fd_consume, struct qmp **ret, struct err *err)
{
	struct qmp *q = calloc(1, sizeof(*q));

	if (!q) {
		close(fd_consume);
		return err_set(err, -ENOMEM, "QEMU's monitor: out of memory");
	}
	q->fd = fd_consume;
	*ret = q;
	return 0;
}

struct qmp *qmp_free(struct qmp *q)
{
	if (!q)
		return NULL;
	for (size_t i = 0; i < q->n_events; i++)
		qmp_msg_done(&q->events[i]);
	buf_done(&q->in);
	close(q->fd);
	free(q);
	return NULL;
}
