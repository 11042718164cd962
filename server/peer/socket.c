/* SPDX-License-Identifier: Apache-2.0 */
/*
 * socket.c - a question and an answer at the beginning of a connection; sockets of VMs of other
 * nodes, for the edge
 *
 * For the edge the asking node sends one record of fixed size, with the name that a client wants.
 * The owner decides for itself where that name leads, wakes the VM, connects, and answers with a
 * record of fixed size; from then on both only copy bytes. So a node can reach what the edge can
 * reach, and no other port.
 *
 * Whoever asks gets an ordinary socket: one end of a pair, whose other end a thread copies to and
 * from the connection.
 */
#include "peer/peer_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/log.h"

#define ASK_MS 10000   /* for the record, once there is a connection */
#define OPEN_MS 180000 /* for the answer: the VM may have to be fetched and woken */
#define MSG_SIZE 160

struct ask {
	char name[PEER_NAME_SIZE];
};
struct answer {
	int32_t code; /* 0 or -errno */
	uint32_t tag; /* enum err_code, if they have the same version; checked */
	uint32_t value;
	char msg[MSG_SIZE];
};

static bool ends(const char *text, size_t size)
{
	return memchr(text, '\0', size) != NULL;
}

/* ---- one question, one answer: of every connection but those with requests ---- */

int peer_hear(struct peer *c, void *record, size_t n, struct err *err)
{
	return tls_read_all(c, record, n, deadline_in(ASK_MS), err);
}

int peer_tell(struct peer *c, int r, const struct err *e, uint32_t value)
{
	struct answer a = { .code = MIN(r, 0), .value = value };
	struct err err = { 0 };

	if (r < 0) {
		a.tag = (uint32_t)e->tag;
		snprintf(a.msg, sizeof(a.msg), "%s", e->msg);
	}
	return peer_write(c, &a, sizeof(a), &err);
}

int peer_ask(struct peer *c, const void *record, size_t n, uint32_t *ret_value, struct err *err)
{
	struct answer a;
	int r;

	if ((r = peer_write(c, record, n, err)) < 0 ||
	    (r = tls_read_all(c, &a, sizeof(a), deadline_in(OPEN_MS), err)) < 0)
		return r == -ENODATA ? -EHOSTUNREACH : r;
	if (a.code > 0 || !ends(a.msg, sizeof(a.msg)))
		return peer_unavailable(c, err, "gave an answer that is not one");
	if (a.code < 0)
		return err_code_status((enum err_code)a.tag)
		               ? err_tag(err, a.code, (enum err_code)a.tag, "%s", a.msg)
		               : err_set(err, a.code, "%s", a.msg);
	*ret_value = a.value;
	return 0;
}

/* ---- the owner ---- */

static int open_here(struct peers *p, const char *name, struct peer_socket *ret, int *ret_fd,
                     struct err *err)
{
	int (*open)(void *, const char *, struct peer_socket *, int *, struct err *);
	void *ctx;
	int r;

	mutex_lock(&p->lock);
	open = p->open;
	ctx = p->open_ctx;
	p->opening++;
	mutex_unlock(&p->lock);
	r = open ? open(ctx, name, ret, ret_fd, err)
	         : err_tag(err, -ESHUTDOWN, ERR_UNAVAILABLE, "the node has no edge just now");
	LOCK_SCOPE(&p->lock);
	p->opening--;
	cond_broadcast(&p->changed);
	return r;
}

void socket_serve(struct peers *p, struct peer *c)
{
	struct peer_socket s = { .fresh_ms = 0 };
	struct err err = { 0 };
	autofd int fd = -1;
	struct ask q;
	int r;

	if (peer_hear(c, &q, sizeof(q), &err) < 0 || !ends(q.name, sizeof(q.name)))
		return;
	r = open_here(p, q.name, &s, &fd, &err);
	if (peer_tell(c, r, &err, s.fresh_ms) == 0 && r == 0)
		peer_relay(c, fd);
}

/* ---- whoever asks ---- */

struct carrier {
	struct peer *c; /* owned */
	int fd;         /* owned */
	int type;       /* SOCK_STREAM or SOCK_SEQPACKET */
};

static void *carry_main(void *arg)
{
	static const struct peer_carry packets;
	struct carrier *k = arg;
	struct peers *p = k->c->peers;
	struct err err = { 0 };

	if (k->type == SOCK_STREAM)
		peer_relay(k->c, k->fd);
	else
		peer_carry(k->c, k->fd, &packets, &err);
	close(k->fd);
	peer_drop(k->c);
	free(k);
	LOCK_SCOPE(&p->lock);
	p->n_carriers--;
	cond_broadcast(&p->changed);
	return NULL;
}

int peer_hand_over(struct peer *c_consume, int type, int *ret_fd, struct err *err)
{
	struct carrier *k = malloc(sizeof(*k));
	struct peers *p = c_consume->peers;
	int fd[2] = { -1, -1 };

	if (!k || socketpair(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fd) < 0) {
		free(k);
		peer_drop(c_consume);
		return err_set(err, -ENOMEM, "out of memory or descriptors");
	}
	*k = (struct carrier){ c_consume, fd[0], type };
	mutex_lock(&p->lock);
	p->n_carriers++;
	mutex_unlock(&p->lock);
	if (peers_thread(carry_main, k)) {
		*ret_fd = fd[1];
		return 0;
	}
	mutex_lock(&p->lock);
	p->n_carriers--;
	mutex_unlock(&p->lock);
	peer_drop(c_consume);
	free(k);
	close(fd[0]);
	close(fd[1]);
	return err_set(err, -EAGAIN, "cannot start a thread");
}

int peer_open(struct peers *p, const char *node, const char *name, struct peer_socket *ret,
              int *ret_fd, struct err *err)
{
	struct ask q = { 0 };
	struct peer *c;
	int r = peer_dial(p, node, PEER_SOCKET, &c, err);

	if (r < 0)
		return r;
	snprintf(q.name, sizeof(q.name), "%s", name);
	if ((r = peer_ask(c, &q, sizeof(q), &ret->fresh_ms, err)) < 0) {
		peer_drop(c);
		return r;
	}
	return peer_hand_over(c, SOCK_STREAM, ret_fd, err);
}
