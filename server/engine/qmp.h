/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine/qmp.h - QEMU's monitor, one blocking command at a time
 *
 * Not thread-safe: the machine's lock is held around every call. Events that
 * arrive between commands are kept in a short queue until they are
 * requested; the oldest are dropped. The monitor belongs to QEMU, which may be
 * controlled by its guest: a line longer than QMP_LINE_MAX or one that is not a JSON
 * object ends the session with an error, nothing worse.
 */
#pragma once

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct qmp;

#define QMP_LINE_MAX \
	(1u << 20) /* bytes of one reply; query-named-block-nodes has the longest reply we use */

enum qmp_kind { QMP_GREETING, QMP_RETURN, QMP_ERROR, QMP_EVENT };
struct qmp_msg {
	enum qmp_kind kind;
	json_t *body; /* owned: value of return, error, QMP or the event's data; may be JSON null */
	char name[64];  /* event name or error class */
	char desc[256]; /* of an error */
	uint64_t id;    /* of return and error; 0: none */
};
/* Pure; the fuzz target's entry. */
int qmp_parse(const char *line, size_t n, struct qmp_msg *ret, struct err *err);
void qmp_msg_done(struct qmp_msg *m);

/* Takes a connected socket, waits for the greeting, leaves negotiation mode. */
int qmp_open(int fd_consume, uint64_t deadline_ms, struct qmp **ret, struct err *err);
/* The same for one that has left it before, on another connection. */
int qmp_open_greeted(int fd_consume, struct qmp **ret, struct err *err);
struct qmp *qmp_free(struct qmp *q);
/* args_consume may be NULL; fd >= 0 is sent with the command. ret_body NULL: not wanted. */
int qmp_cmd_fd(struct qmp *q, const char *name, json_t *args_consume, int fd, uint64_t deadline_ms,
               json_t **ret_body, struct err *err);
static inline int qmp_cmd(struct qmp *q, const char *name, json_t *args_consume,
                          uint64_t deadline_ms, json_t **ret_body, struct err *err)
{
	return qmp_cmd_fd(q, name, args_consume, -1, deadline_ms, ret_body, err);
}
/* The next event of that name, from the queue or the socket. The caller owns its data (ret NULL:
 * dropped). */
int qmp_wait_event(struct qmp *q, const char *name, uint64_t deadline_ms, json_t **ret_data,
                   struct err *err);
