/* SPDX-License-Identifier: Apache-2.0 */
/*
 * share.c - limits the connections of one account, so that some are left for others
 *
 * A connection has one request at a time, and a stream or a terminal is a request that lasts. Only
 * requests with a valid key count; other clients are bounded by the deadlines of
 * timeouts.c.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "http/http_internal.h"

#define SHARE_MAX (HTTP_CONNECTIONS_MAX / 4 * 3)

struct share {
	struct mutex lock;
	size_t n GUARDED_BY(lock);
	/* Each entry has at least one request and each request a connection, so there are enough
	 * entries. */
	struct {
		char account[REQUEST_ACCOUNT_SIZE];
		unsigned running;
	} v[HTTP_CONNECTIONS_MAX] GUARDED_BY(lock);
};

int share_new(struct share **ret, struct err *err)
{
	struct share *s = calloc(1, sizeof(*s));

	if (!s)
		return err_set(err, -ENOMEM, "out of memory");
	mutex_init(&s->lock, "http share");
	*ret = s;
	return 0;
}

void share_free(struct share *s)
{
	if (!s)
		return;
	mutex_destroy(&s->lock);
	free(s);
}

/* Its index, or n. */
static size_t find(const struct share *s, const char *account) REQUIRES(&s->lock)
{
	size_t i = 0;

	while (i < s->n && strcmp(s->v[i].account, account) != 0)
		i++;
	return i;
}

int share_in(struct share *s, const char *account, struct err *err)
{
	LOCK_SCOPE(&s->lock);
	size_t i = find(s, account);

	if (i < s->n && s->v[i].running >= SHARE_MAX)
		return err_tag(
		        err, -EAGAIN, ERR_LIMIT_EXCEEDED,
		        "account %s has %u requests open, counting streams and terminals; one "
		        "account may use %d of the server's %d connections: wait for one to end",
		        account, s->v[i].running, SHARE_MAX, HTTP_CONNECTIONS_MAX);
	if (i == s->n) {
		if (s->n == HTTP_CONNECTIONS_MAX)
			return err_tag(err, -EAGAIN, ERR_UNAVAILABLE, "too many requests are open");
		snprintf(s->v[s->n++].account, sizeof(s->v[i].account), "%s", account);
		s->v[i].running = 0;
	}
	s->v[i].running++;
	return 0;
}

void share_out(struct share *s, const char *account)
{
	LOCK_SCOPE(&s->lock);
	size_t i = find(s, account);

	if (i < s->n && --s->v[i].running == 0)
		s->v[i] = s->v[--s->n];
}
