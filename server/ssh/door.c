/* SPDX-License-Identifier: Apache-2.0 */
/*
 * door.c - the listening thread, the table of connections, shutdown
 *
 * Every connection is a thread and a process, so their number is bounded: in total, per account,
 * and, because anyone can open one, before login, in total and per address. Any connection above
 * that is closed at once.
 */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/sock.h"
#include "ssh/ssh_internal.h"

#define ACCEPT_PAUSE_MS 200 /* after an accept failed for lack of descriptors */
#define KEEP_IDLE_S 30
#define KEEP_BETWEEN_S 10
#define KEEP_COUNT 3

/* TCP keep-alive detects a vanished client even if both sides are idle. */
static void tune(int fd)
{
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &(int){ 1 }, sizeof(int));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &(int){ KEEP_IDLE_S }, sizeof(int));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &(int){ KEEP_BETWEEN_S }, sizeof(int));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &(int){ KEEP_COUNT }, sizeof(int));
	setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &(unsigned){ SSHD_DEAD_MS },
	           sizeof(unsigned));
}

static struct conn *conn_new(struct sshd *d, int fd, const struct sockaddr_storage *peer,
                             socklen_t len)
{
	struct conn *c = calloc(1, sizeof(*c));
	char port[8] = "0";

	if (!c || !(c->chunk = malloc(SSHW_FRAME_MAX)) || !(c->packet = malloc(SSHW_MSG_MAX))) {
		if (c)
			free(c->chunk);
		free(c);
		return NULL;
	}
	c->d = d;
	c->speaker = SPEAKER_NONE;
	c->fd = fd;
	c->peer = *peer;
	c->began = clock_ms();
	if (getnameinfo((const struct sockaddr *)peer, len, c->remote, sizeof(c->remote), port,
	                sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV) != 0)
		snprintf(c->remote, sizeof(c->remote), "unknown");
	c->remote_port = (uint16_t)strtoul(port, NULL, 10);
	return c;
}

static void conn_free(struct conn *c)
{
	free(c->packet);
	free(c->chunk);
	free(c);
}

static void enlist(struct sshd *d, struct conn *c) REQUIRES(&d->lock)
{
	c->next = d->conns;
	d->conns = c;
	d->n_conns++;
	d->n_strangers++;
}

/* With the lock held: may that address have another connection before login? */
static bool admit(struct sshd *d, struct conn *c) REQUIRES(&d->lock)
{
	unsigned same = 0;

	for (const struct conn *o = d->conns; o; o = o->next)
		same += !o->in && o->fd >= 0 && strcmp(o->remote, c->remote) == 0;
	if (d->stopping || d->n_conns >= SSHD_CONNS_MAX || d->n_strangers >= SSHD_STRANGERS_MAX ||
	    same >= SSHD_STRANGERS_FROM)
		return false;
	enlist(d, c);
	return true;
}

bool sshd_door_login(struct conn *c)
{
	struct sshd *d = c->d;
	unsigned same = 0;
	LOCK_SCOPE(&d->lock);

	for (const struct conn *o = d->conns; o; o = o->next)
		same += o->in && strcmp(o->who.account, c->who.account) == 0;
	if (same >= SSHD_CONNS_ACCOUNT)
		return false;
	c->in = true;
	d->n_strangers--;
	return true;
}

bool sshd_door_talk(struct conn *c)
{
	unsigned n = 0;
	LOCK_SCOPE(&c->d->lock);

	for (const struct conn *o = c->d->conns; o; o = o->next)
		if (o->in && strcmp(o->who.account, c->who.account) == 0)
			n += o->n_talks;
	if (n >= SSHD_TALKS_ACCOUNT)
		return false;
	c->n_talks++;
	return true;
}

void sshd_door_talk_over(struct conn *c)
{
	LOCK_SCOPE(&c->d->lock);
	c->n_talks--;
}

void sshd_door_leave(struct conn *c)
{
	struct sshd *d = c->d;
	LOCK_SCOPE(&d->lock);

	for (struct conn **at = &d->conns; *at; at = &(*at)->next) {
		if (*at != c)
			continue;
		*at = c->next;
		break;
	}
	d->n_conns--;
	if (!c->in)
		d->n_strangers--;
	explicit_bzero(c->secret, sizeof(c->secret));
	conn_free(c);
	cond_broadcast(&d->left);
}

int sshd_door_of_node(struct sshd *d, const struct sockaddr_storage *from, socklen_t len,
                      int sock_consume, struct conn **ret, struct err *err)
{
	struct conn *c = conn_new(d, -1, from, len);

	if (!c) {
		close(sock_consume);
		return err_set(err, -ENOMEM, "out of memory");
	}
	c->speaker.sock = sock_consume;
	c->speaker.ready = true;
	mutex_lock(&d->lock);
	/* Strangers are counted where they come to. */
	if (!d->stopping && d->n_conns < SSHD_CONNS_MAX) {
		enlist(d, c);
		*ret = c;
	}
	mutex_unlock(&d->lock);
	if (*ret)
		return 0;
	close(c->speaker.sock);
	conn_free(c);
	return err_tag(err, -EAGAIN, ERR_UNAVAILABLE,
	               "the VM's node has too many SSH connections: try again in a moment");
}

int sshd_door_run(struct conn *c, struct err *err)
{
	pthread_attr_t at;
	pthread_t t;
	int r;

	pthread_attr_init(&at);
	pthread_attr_setdetachstate(&at, PTHREAD_CREATE_DETACHED);
	r = pthread_create(&t, &at, conn_main, c);
	pthread_attr_destroy(&at);
	if (r == 0)
		return 0;
	if (c->fd >= 0)
		close(c->fd);
	if (c->speaker.sock >= 0)
		close(c->speaker.sock);
	sshd_door_leave(c);
	return err_sys(err, -r, "SSH: start a thread");
}

static void let_in(struct sshd *d, int fd_consume, const struct sockaddr_storage *peer,
                   socklen_t len)
{
	struct conn *c = conn_new(d, fd_consume, peer, len);
	struct err err = { 0 };
	bool room;

	if (!c) {
		close(fd_consume);
		return;
	}
	mutex_lock(&d->lock);
	room = admit(d, c);
	mutex_unlock(&d->lock);
	if (!room) {
		conn_log(c, LOG_LV_DEBUG, "too many connections: closed");
		close(fd_consume);
		conn_free(c);
		return;
	}
	tune(fd_consume);
	if (sshd_door_run(c, &err) < 0)
		log_warn("%s", err.msg);
}

static void *door_main(void *arg)
{
	struct sshd *d = arg;

	for (;;) {
		struct pollfd p[2] = { { .fd = d->listen_fd, .events = POLLIN },
			               { .fd = d->stop_fd, .events = POLLIN } };
		struct sockaddr_storage peer;
		socklen_t len = sizeof(peer);
		int fd;

		if (poll(p, ARRAY_SIZE(p), -1) < 0 && errno != EINTR)
			break;
		if (p[1].revents)
			break;
		if (!p[0].revents)
			continue;
		fd = accept4(d->listen_fd, (struct sockaddr *)&peer, &len,
		             SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd >= 0) {
			let_in(d, fd, &peer, len);
		} else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM) {
			log_warn("SSH: cannot accept a connection: %s", err_name(errno));
			poll(&p[1], 1, ACCEPT_PAUSE_MS);
		}
	}
	return NULL;
}

int sshd_listen(const char *address, struct err *err)
{
	int fd = sock_tcp_listen(address, err);

	return fd < 0 ? err_wrap(err, fd, "PANDO_SSH_LISTEN") : fd;
}

void sshd_free(struct sshd *d)
{
	char how[64];

	if (!d)
		return;

	mutex_lock(&d->lock);
	speaker_end(&d->spare, 0, how);
	mutex_unlock(&d->lock);
	hostkey_free(d);
	if (d->listen_fd >= 0)
		close(d->listen_fd);
	if (d->stop_fd >= 0)
		close(d->stop_fd);
	cond_destroy(&d->left);
	mutex_destroy(&d->lock);
	free(d);
}

static void sshd_freep(struct sshd **d)
{
	sshd_free(*d);
}

static struct sshd *sshd_new(const struct sshd_deps *deps)
{
	struct sshd *d = calloc(1, sizeof(*d));

	if (!d)
		return NULL;
	d->deps = *deps;
	d->listen_fd = deps->listen_fd;
	d->store = deps->store;
	snprintf(d->data_dir, sizeof(d->data_dir), "%s", deps->data_dir);
	d->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	mutex_init(&d->lock, "ssh door");
	mutex_unshared(&d->lock);
	d->spare = SPEAKER_NONE;
	cond_init(&d->left);
	return d;
}

static int write_address(struct sshd *d, struct err *err)
{
	struct sockaddr_storage sa = { 0 };
	socklen_t len = sizeof(sa);
	char host[48], port[8];

	if (getsockname(d->listen_fd, (struct sockaddr *)&sa, &len) < 0 ||
	    fcntl(d->listen_fd, F_SETFL, O_NONBLOCK) < 0)
		return err_sys(err, -errno, "SSH socket");
	if (getnameinfo((struct sockaddr *)&sa, len, host, sizeof(host), port, sizeof(port),
	                NI_NUMERICHOST | NI_NUMERICSERV) != 0)
		return err_set(err, -EIO, "the SSH socket has no address");
	snprintf(d->address, sizeof(d->address), sa.ss_family == AF_INET6 ? "[%s]:%s" : "%s:%s",
	         host, port);
	return 0;
}

int sshd_start(const struct sshd_deps *deps, struct sshd **ret, struct err *err)
{
	AUTO(sshd_freep) struct sshd *d = sshd_new(deps);
	int r;

	if (!d || d->stop_fd < 0)
		return err_set(err, -ENOMEM, "out of memory for the SSH server");
	if ((r = write_address(d, err)) < 0 || (r = hostkey_load(d, err)) < 0 ||
	    (r = speaker_try(d, err)) < 0)
		return r;
	r = pthread_create(&d->door, NULL, door_main, d);
	if (r)
		return err_sys(err, -r, "start the SSH server");
	d->door_runs = true;
	peers_serve(d->deps.peers, PEER_SSH, other_come, d);
	*ret = TAKE_PTR(d);
	return 0;
}

int sshd_stop(struct sshd *d, unsigned drain_ms, struct err *err)
{
	uint64_t until = deadline_in(drain_ms);
	unsigned left;

	if (!d)
		return 0;
	mutex_lock(&d->lock);
	d->stopping = true;
	mutex_unlock(&d->lock);
	eventfd_write(d->stop_fd, 1);
	if (d->door_runs) {
		pthread_join(d->door, NULL);
		d->door_runs = false;
	}
	mutex_lock(&d->lock);
	while (d->n_conns && cond_wait_until(&d->left, &d->lock, until))
		;
	left = d->n_conns;
	mutex_unlock(&d->lock);
	if (left)
		return err_set(err, -EBUSY, "%u SSH connections did not end", left);
	return 0;
}
