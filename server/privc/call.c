/* SPDX-License-Identifier: Apache-2.0 */
/*
 * privc/call.c - requests to pando-priv and their replies
 *
 * Theory of operation: a caller links a struct call on its stack into
 * the list of pending calls, sends its request, and waits on a condition variable
 * of its own. One reader thread takes replies from the socket, finds the call by
 * its id and completes it; replies may come in any order. A call that reaches
 * its deadline unlinks itself, so a late reply finds no call and its descriptors
 * are closed. When the socket ends, every pending and every later call fails
 * with -EPIPE.
 */
#include "privc/privc.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/lock.h"
#include "privc/privc_internal.h"

#define CALL_DEADLINE_MS 10000  /* all others are answered within milliseconds */
#define SPAWN_DEADLINE_MS 20000 /* a loaded host forks slowly */
#define KILL_DEADLINE_MS \
	60000 /* the kernel frees the memory of a large VM before the process ends */

#define SEND_TIMEOUT_S 10 /* pando-priv reads at once unless it hangs */

#define LATE_MAX 64 /* late answers that may still arrive */

struct call {
	struct call *next;
	uint32_t id;
	unsigned op;
	bool done;
	int result; /* of decoding */
	struct err err;
	struct privc_answer *answer; /* owned by the caller */
	struct cond cond;
};

struct sock {
	struct privc c;
	int fd; /* owned */
	pthread_t reader;
	bool reader_runs;
	struct mutex send_lock;
	struct mutex lock; /* guards what follows */
	struct call *pending;
	uint32_t next_id;
	uint32_t late[LATE_MAX]; /* ids of slot requests that timed out; 0: none */
	size_t n_late;
	bool gone;
};

void privc_answer_freep(struct privc_answer **a)
{
	if (!*a)
		return;
	for (size_t i = 0; i < (*a)->n_fds; i++)
		if ((*a)->fds[i] >= 0)
			close((*a)->fds[i]);
	free(*a);
	*a = NULL;
}

static struct call **find(struct sock *c, uint32_t id)
{
	struct call **p = &c->pending;

	while (*p && (*p)->id != id)
		p = &(*p)->next;
	return p;
}

static void complete(struct call *k, const uint8_t *p, size_t n, int *fds, size_t n_fds)
{
	struct privc_answer *a = k->answer;

	k->result = priv_rep_decode(p, n, k->op, &a->rep, &k->err);
	if (k->result == 0 && n_fds != priv_rep_fds(k->op, &a->rep))
		k->result = err_set(&k->err, -EBADMSG, "%s: reply with %zu descriptors",
		                    priv_op_name(k->op), n_fds);
	if (k->result == 0) {
		memcpy(a->fds, fds, n_fds * sizeof(int));
		a->n_fds = n_fds;
	} else {
		for (size_t i = 0; i < n_fds; i++)
			close(fds[i]);
	}
	k->done = true;
	cond_signal(&k->cond);
}

/* True: a caller was waiting for it. */
static bool hand_over(struct sock *c, uint32_t id, const uint8_t *p, size_t n, int *fds,
                      size_t n_fds)
{
	struct call **k, *found;
	LOCK_SCOPE(&c->lock);

	k = find(c, id);
	if (!(found = *k))
		return false;
	*k = found->next;
	complete(found, p, n, fds, n_fds);
	return true;
}

static int call_send(struct sock *c, const struct priv_req *m, const int *fds, size_t n_fds,
                     struct err *err);

/* A slot that arrives after its caller gave up would stay taken, so it is returned. Nobody waits
 * for the answer to that. */
static void give_back(struct sock *c, uint32_t id, const uint8_t *p, size_t n)
{
	autofree struct priv_req *m = calloc(1, sizeof(*m));
	autofree struct priv_rep *rep = calloc(1, sizeof(*rep));
	bool late = false;

	mutex_lock(&c->lock);
	for (size_t i = 0; i < LATE_MAX; i++)
		if (c->late[i] == id) {
			c->late[i] = 0;
			late = true;
		}
	if (m)
		m->id = ++c->next_id;
	mutex_unlock(&c->lock);
	if (!late || !m || !rep || priv_rep_decode(p, n, PRIV_SLOT_TAKE, rep, NULL) < 0 ||
	    rep->code < 0)
		return;
	m->op = PRIV_SLOT_FREE;
	m->slot = rep->slot;
	call_send(c, m, NULL, 0, NULL);
}

static void *reader_main(void *arg)
{
	struct sock *c = arg;
	uint8_t *p = malloc(PRIV_MSG_MAX);

	while (p) {
		int fds[SOCK_FDS_MAX];
		size_t n_fds = 0;
		uint32_t id;
		ssize_t n = sock_recv_fds(c->fd, p, PRIV_MSG_MAX, fds, SOCK_FDS_MAX, &n_fds);

		if (n <= 0)
			break;
		if (priv_rep_id(p, (size_t)n, &id) == 0 &&
		    hand_over(c, id, p, (size_t)n, fds, n_fds))
			continue;
		for (size_t i = 0; i < n_fds; i++)
			close(fds[i]); /* its caller gave up */
		give_back(c, id, p, (size_t)n);
	}
	free(p);
	LOCK_SCOPE(&c->lock);
	c->gone = true;
	for (struct call *k = c->pending; k; k = k->next) {
		k->result = err_set(&k->err, -EPIPE, "the connection to pando-priv was lost");
		k->done = true;
		cond_signal(&k->cond);
	}
	c->pending = NULL;
	return NULL;
}

static unsigned deadline_of(unsigned op)
{
	return op == PRIV_SPAWN || op == PRIV_SEED || op == PRIV_FORK ? SPAWN_DEADLINE_MS
	       : op == PRIV_KILL                                      ? KILL_DEADLINE_MS
	                                                              : CALL_DEADLINE_MS;
}

/* Sends the encoded request. The send lock is separate, so that replies can arrive meanwhile. */
static int call_send(struct sock *c, const struct priv_req *m, const int *fds, size_t n_fds,
                     struct err *err)
{
	autobuf struct buf b = { 0 };
	ssize_t n;
	int r = priv_req_encode(m, &b, err);

	if (r < 0)
		return r;
	LOCK_SCOPE(&c->send_lock);
	n = sock_send_fds(c->fd, b.p, b.len, fds, n_fds);
	if (n == -ECONNRESET || n == -EPIPE)
		return err_set(err, -EPIPE, "the connection to pando-priv was lost");
	if (n < 0)
		return err_sys(err, n == -EAGAIN ? -ETIMEDOUT : (int)n, "%s: ask pando-priv",
		               priv_op_name(m->op));
	return 0;
}

/* Assigns an id to k and links it; from here on the reader may complete it. */
static int call_begin(struct sock *c, struct call *k, struct err *err)
{
	LOCK_SCOPE(&c->lock);
	if (c->gone)
		return err_set(err, -EPIPE, "the connection to pando-priv was lost");
	k->id = ++c->next_id;
	k->next = c->pending;
	c->pending = k;
	return 0;
}

/* Waits until k is done, or unlinks it at the deadline; sent is the result of sending. */
static int call_end(struct sock *c, struct call *k, int sent, uint64_t deadline, struct err *err)
{
	struct call **p;
	int r = sent;

	LOCK_SCOPE(&c->lock);
	while (r == 0 && !k->done)
		r = cond_wait_until(&k->cond, &c->lock, deadline) ? 0 : -ETIMEDOUT;
	if (k->done) {
		if (k->result < 0 && err)
			*err = k->err;
		return k->result;
	}
	p = find(c, k->id);
	if (*p)
		*p = k->next;
	if (sent == 0 && k->op == PRIV_SLOT_TAKE)
		c->late[c->n_late++ % LATE_MAX] = k->id;
	return sent < 0 ? sent
	                : err_set(err, r, "%s: no reply from pando-priv within %u ms",
	                          priv_op_name(k->op), deadline_of(k->op));
}

static int sock_call(struct privc *p, struct priv_req *m, const int *fds, size_t n_fds,
                     struct privc_answer **ret, struct err *err)
{
	struct sock *c = (struct sock *)p;
	uint64_t deadline = deadline_in(deadline_of(m->op));
	autoanswer struct privc_answer *a = calloc(1, sizeof(*a));
	struct call k = { .op = m->op, .answer = a };
	int r;

	if (!a)
		return err_set(err, -ENOMEM, "%s: out of memory", priv_op_name(m->op));
	cond_init(&k.cond);
	r = call_begin(c, &k, err);
	if (r == 0) {
		m->id = k.id;
		r = call_send(c, m, fds, n_fds, err);
		r = call_end(c, &k, r, deadline, err);
	}
	cond_destroy(&k.cond);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(a);
	return 0;
}

static void sock_free(struct privc *p)
{
	struct sock *c = (struct sock *)p;

	if (c->reader_runs) {
		shutdown(c->fd, SHUT_RDWR);
		pthread_join(c->reader, NULL);
	}
	if (c->fd >= 0)
		close(c->fd);
	mutex_destroy(&c->lock);
	mutex_destroy(&c->send_lock);
	free(c);
}

static const struct priv_ops sock_ops = { .call = sock_call, .free = sock_free };

int privc_call(struct privc *c, struct priv_req *m, const int *fds, size_t n_fds,
               struct privc_answer **ret, struct err *err)
{
	autoanswer struct privc_answer *a = NULL;
	int r = c->ops->call(c, m, fds, n_fds, &a, err);

	if (r < 0)
		return r;
	if (a->rep.code < 0)
		return err_set(err, a->rep.code, "%s", a->rep.msg);
	if (ret)
		*ret = TAKE_PTR(a);
	return 0;
}

struct privc *privc_free(struct privc *c)
{
	if (c)
		c->ops->free(c);
	return NULL;
}

static void privc_freep(struct privc **c)
{
	privc_free(*c);
}

int privc_open(int fd_consume, struct privc **ret, struct priv_info *ret_info, struct err *err)
{
	AUTO(privc_freep) struct privc *made = NULL;
	struct sock *c = calloc(1, sizeof(*c));
	struct priv_req m = { .op = PRIV_HELLO };
	autoanswer struct privc_answer *a = NULL;
	int r;

	if (!c) {
		close(fd_consume);
		return err_set(err, -ENOMEM, "out of memory");
	}
	c->c.ops = &sock_ops;
	made = &c->c;
	c->fd = fd_consume;
	mutex_init(&c->lock, "privc calls");
	mutex_init(&c->send_lock, "privc send");
	setsockopt(c->fd, SOL_SOCKET, SO_SNDTIMEO, &(struct timeval){ .tv_sec = SEND_TIMEOUT_S },
	           sizeof(struct timeval));
	r = pthread_create(&c->reader, NULL, reader_main, c);
	if (r)
		return err_sys(err, -r, "start the reader of pando-priv");
	c->reader_runs = true;
	r = privc_call(made, &m, NULL, 0, &a, err);
	if (r < 0)
		return err_wrap(err, r, "open pando-priv");
	if (a->rep.info.version != PRIV_VERSION)
		return err_set(err, -EPROTO,
		               "pando-priv has protocol version %u, pandod %u: install both from "
		               "the same build",
		               a->rep.info.version, PRIV_VERSION);
	if (ret_info) {
		*ret_info = (struct priv_info){ .version = a->rep.info.version,
			                        .kvm = a->rep.info.kvm,
			                        .slots_max = a->rep.info.slots_max };
		memcpy(ret_info->tag, a->rep.info.tag, sizeof(ret_info->tag));
		memcpy(ret_info->limits, a->rep.info.limits, sizeof(ret_info->limits));
	}
	*ret = TAKE_PTR(made);
	return 0;
}
