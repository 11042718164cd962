/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session.c - sessions of MCP clients, and the calls that run in them
 *
 * A session is a random name for the negotiated version; it grants no access, the
 * key does that with each request. It belongs to an account and identity and does not exist
 * for others. Sessions are in memory only: after a restart clients are told that theirs is
 * unknown and open another. An account that opens too many loses those it used least recently;
 * sessions unused for a day are dropped.
 *
 * A running call is in a list while it runs, so that calls can be counted and one can be
 * cancelled from another connection. One lock for both; nothing blocks under it.
 */
#include "mcp/mcp_internal.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/queue.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/lock.h"

#define SESSIONS_MAX 4096       /* of all accounts */
#define SESSIONS_PER_ACCOUNT 64 /* more: the one used least recently ends */
#define SESSION_IDLE_MS (UINT64_C(24) * 3600 * 1000)
#define RUNNING_PER_ACCOUNT 64 /* calls at a time; each holds a connection's thread */

struct session {
	TAILQ_ENTRY(session) link; /* used least recently first */
	char id[MCP_SESSION_SIZE];
	char account[ACCOUNT_SIZE], identity[ID_SIZE];
	enum mcp_version version;
	uint64_t used_ms; /* clock_ms() */
};

struct mcp_running {
	TAILQ_ENTRY(mcp_running) link;
	struct mcp *m; /* weak: outlives its calls */
	char session[MCP_SESSION_SIZE];
	char account[ACCOUNT_SIZE];
	json_t *id; /* owned: a copy, because the original document belongs to another thread */
	int fd;     /* owned */
	atomic_bool cancelled;
};

struct mcp {
	struct mutex lock;
	TAILQ_HEAD(, session) sessions GUARDED_BY(lock);
	TAILQ_HEAD(, mcp_running) running GUARDED_BY(lock);
	size_t n_sessions GUARDED_BY(lock);
};

int mcp_new(struct mcp **ret, struct err *err)
{
	struct mcp *m = calloc(1, sizeof(*m));

	if (!m)
		return err_set(err, -ENOMEM, "out of memory");
	mutex_init(&m->lock, "mcp sessions");
	TAILQ_INIT(&m->sessions);
	TAILQ_INIT(&m->running);
	*ret = m;
	return 0;
}

static void drop(struct mcp *m, struct session *s) REQUIRES(&m->lock)
{
	TAILQ_REMOVE(&m->sessions, s, link);
	m->n_sessions--;
	free(s);
}

struct mcp *mcp_free(struct mcp *m)
{
	struct session *s;

	if (!m)
		return NULL;
	mutex_unshared(&m->lock);
	while ((s = TAILQ_FIRST(&m->sessions)))
		drop(m, s);
	mutex_destroy(&m->lock);
	free(m);
	return NULL;
}

static void cancel(struct mcp_running *c)
{
	atomic_store(&c->cancelled, true);
	eventfd_write(c->fd, 1); /* can only fail if it is already readable */
}

static void cancel_all(struct mcp *m, const char *session)
{
	struct mcp_running *c;

	TAILQ_FOREACH(c, &m->running, link)
	{
		if (strcmp(c->session, session) == 0)
			cancel(c);
	}
}

/* Drops sessions unused for long, and one of this account if it has too many. */
static void make_room(struct mcp *m, const char *account) REQUIRES(&m->lock)
{
	struct session *s, *next, *oldest = NULL;
	uint64_t now = clock_ms();
	size_t own = 0;

	for (s = TAILQ_FIRST(&m->sessions); s; s = next) {
		next = TAILQ_NEXT(s, link);
		if (now - s->used_ms > SESSION_IDLE_MS) {
			drop(m, s);
		} else if (strcmp(s->account, account) == 0) {
			own++;
			oldest = oldest ? oldest : s;
		}
	}
	if (own >= SESSIONS_PER_ACCOUNT) {
		cancel_all(m, oldest->id);
		drop(m, oldest);
	}
}

int mcp_session_open(struct mcp *m, const struct auth_who *who, enum mcp_version v,
                     const char *node, char ret[MCP_SESSION_SIZE], struct err *err)
{
	struct session *s = calloc(1, sizeof(*s));
	uint8_t random[MCP_SESSION_HEX / 2];

	if (!s)
		return err_set(err, -ENOMEM, "out of memory");
	random_bytes(random, sizeof(random));
	hex_encode(random, sizeof(random), s->id);
	snprintf(s->id + MCP_SESSION_HEX, sizeof(s->id) - MCP_SESSION_HEX, "%s%s", *node ? "-" : "",
	         node);
	snprintf(s->account, sizeof(s->account), "%s", who->account);
	snprintf(s->identity, sizeof(s->identity), "%s", who->identity);
	s->version = v;
	s->used_ms = clock_ms();
	memcpy(ret, s->id, MCP_SESSION_SIZE);
	LOCK_SCOPE(&m->lock);
	make_room(m, who->account);
	if (m->n_sessions == SESSIONS_MAX) {
		free(s);
		return err_tag(err, -EAGAIN, ERR_UNAVAILABLE, "there are too many MCP sessions");
	}
	TAILQ_INSERT_TAIL(&m->sessions, s, link);
	m->n_sessions++;
	return 0;
}

static struct session *find(struct mcp *m, const struct auth_who *who, const char *id)
{
	struct session *s;

	TAILQ_FOREACH(s, &m->sessions, link)
	{
		if (strcmp(s->id, id) == 0 && strcmp(s->account, who->account) == 0 &&
		    strcmp(s->identity, who->identity) == 0)
			return s;
	}
	return NULL;
}

int mcp_session_use(struct mcp *m, const struct auth_who *who, const char *id,
                    enum mcp_version *ret)
{
	struct session *s;

	LOCK_SCOPE(&m->lock);
	s = find(m, who, id);
	if (!s)
		return -ENOENT;
	s->used_ms = clock_ms();
	TAILQ_REMOVE(&m->sessions, s, link);
	TAILQ_INSERT_TAIL(&m->sessions, s, link);
	*ret = s->version;
	return 0;
}

int mcp_session_end(struct mcp *m, const struct auth_who *who, const char *id)
{
	struct session *s;

	LOCK_SCOPE(&m->lock);
	s = find(m, who, id);
	if (!s)
		return -ENOENT;
	cancel_all(m, s->id);
	drop(m, s);
	return 0;
}

/* ---- calls ---- */

static void running_free(struct mcp_running *c)
{
	if (c->fd >= 0)
		close(c->fd);
	json_decref(c->id);
	free(c);
}

int mcp_running_begin(struct mcp *m, const struct auth_who *who, const char *session,
                      const json_t *id, struct mcp_running **ret, struct err *err)
{
	struct mcp_running *c = calloc(1, sizeof(*c)), *other;
	unsigned n = 0;

	if (!c)
		return err_set(err, -ENOMEM, "out of memory");
	c->m = m;
	c->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	c->id = json_copy((json_t *)id); /* a new object with its own reference count */
	snprintf(c->session, sizeof(c->session), "%s", session);
	snprintf(c->account, sizeof(c->account), "%s", who->account);
	if (c->fd < 0 || !c->id) {
		running_free(c);
		return err_set(err, -ENOMEM, "out of memory or descriptors");
	}
	LOCK_SCOPE(&m->lock);
	TAILQ_FOREACH(other, &m->running, link)
	{
		n += strcmp(other->account, who->account) == 0;
	}
	if (n >= RUNNING_PER_ACCOUNT) {
		running_free(c);
		return err_set(err, -EBUSY, "%d calls are running already: wait for one to end",
		               RUNNING_PER_ACCOUNT);
	}
	TAILQ_INSERT_TAIL(&m->running, c, link);
	*ret = c;
	return 0;
}

void mcp_running_end(struct mcp_running *c)
{
	if (!c)
		return;
	mutex_lock(&c->m->lock);
	TAILQ_REMOVE(&c->m->running, c, link);
	mutex_unlock(&c->m->lock);
	running_free(c);
}

int mcp_running_fd(const struct mcp_running *c)
{
	return c->fd;
}

bool mcp_running_cancelled(struct mcp_running *c)
{
	return atomic_load(&c->cancelled);
}

void mcp_cancel(struct mcp *m, const struct auth_who *who, const char *session, const json_t *id)
{
	struct mcp_running *c;

	if (!*session)
		return;
	LOCK_SCOPE(&m->lock);
	TAILQ_FOREACH(c, &m->running, link)
	{
		if (strcmp(c->session, session) == 0 && strcmp(c->account, who->account) == 0 &&
		    json_equal(c->id, id))
			cancel(c);
	}
}
