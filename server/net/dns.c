/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net/dns.c - the DNS forwarder: its thread, slots and resolver
 *
 * Theory of operation: one thread waits on all sockets; one lock guards all
 * tables. Other threads add and remove slots under that lock and close sockets
 * themselves, so a removed slot is closed when dns_remove() returns. All tables
 * have fixed sizes and are shared by accounts (base/budget.h): a guest that asks too much loses its
 * own queries, and all guests of one account leave something for the others. The thread
 * never waits for a guest: every socket is non-blocking and every entry has
 * a deadline.
 */
#include "net/dns.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"
#include "base/sock.h"
#include "net/dns_internal.h"
#include "net/resolv.h"

#define RESOLV_CONF "/etc/resolv.conf"
#define RESOLV_CHECK_MS 1000 /* between checks of its modification time */
#define TICK_MS 250          /* precision of deadlines while anything is under way */
#define EVENTS_MAX 64
#define GEN_MASK 0x0fffffffu

int dns_poll(struct dns *d, int fd, enum dns_kind kind, uint32_t idx, uint32_t gen, uint32_t events,
             bool add)
{
	struct epoll_event ev = { .events = events,
		                  .data.u64 = (uint64_t)kind << 56 | (uint64_t)idx << 32 | gen };

	return epoll_ctl(d->epoll, add ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, fd, &ev) < 0 ? -errno : 0;
}

struct dns_slot *dns_slot_of(struct dns *d, uint32_t idx, uint32_t gen)
{
	struct dns_slot *s = idx < SLOTS_MAX ? &d->slot[idx] : NULL;

	return s && s->used && s->gen == gen ? s : NULL;
}

/* ---- the resolver ---- */

bool dns_upstream(struct dns *d)
{
	uint64_t now = clock_ms();
	struct stat st;

	if (!d->fixed && (!d->up_checked || now - d->up_checked >= RESOLV_CHECK_MS)) {
		int64_t mtime =
		        stat(RESOLV_CONF, &st) < 0
		                ? -1
		                : (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;

		if (!d->up_checked || mtime != d->up_mtime_ns)
			d->up_len = resolv_host(&d->up, &d->up_len) < 0 ? 0 : d->up_len;
		d->up_mtime_ns = mtime;
		d->up_checked = now;
	}
	return d->up_len != 0;
}

/* ---- the thread ---- */

static void on_event(struct dns *d, const struct epoll_event *ev) REQUIRES(&d->lock)
{
	uint64_t data = ev->data.u64;
	uint32_t idx = data >> 32 & 0xffffff, gen = (uint32_t)data;

	switch ((enum dns_kind)(data >> 56)) {
	case DNS_WAKE:
		break;
	case DNS_SLOT_UDP:
		if (dns_slot_of(d, idx, gen))
			dns_on_slot_udp(d, idx);
		break;
	case DNS_SLOT_TCP:
		if (dns_slot_of(d, idx, gen))
			dns_on_slot_tcp(d, idx);
		break;
	case DNS_PENDING:
		if (d->pending[idx].used && d->pending[idx].gen == gen)
			dns_on_pending(d, idx);
		break;
	case DNS_TCP_DOWN:
	case DNS_TCP_UP:
		if (d->conn[idx].used && d->conn[idx].gen == gen)
			dns_on_conn(d, idx, ev->events, data >> 56 == DNS_TCP_UP);
		break;
	}
}

static bool busy(const struct dns *d) REQUIRES(&d->lock)
{
	for (size_t i = 0; i < PENDING_MAX; i++)
		if (d->pending[i].used)
			return true;
	for (size_t i = 0; i < TCP_MAX; i++)
		if (d->conn[i].used)
			return true;
	return false;
}

static void *dns_main(void *arg)
{
	struct dns *d = arg;
	uint64_t tick = 0;
	int timeout = -1;

	for (;;) {
		struct epoll_event ev[EVENTS_MAX];
		int n = epoll_wait(d->epoll, ev, EVENTS_MAX, timeout);
		uint64_t now = clock_ms();

		LOCK_SCOPE(&d->lock);
		if (d->stop)
			return NULL;
		for (int i = 0; i < n; i++)
			on_event(d, &ev[i]);
		if (now - tick >= TICK_MS) {
			dns_pending_tick(d, now);
			dns_conn_tick(d, now);
			tick = now;
		}
		timeout = busy(d) ? TICK_MS : -1;
	}
}

/* ---- slots ---- */

static void slot_close(struct dns *d, uint32_t idx) REQUIRES(&d->lock)
{
	struct dns_slot *s = &d->slot[idx];

	for (size_t i = 0; i < PENDING_MAX; i++)
		if (d->pending[i].used && d->pending[i].slot == idx)
			dns_pending_close(d, &d->pending[i]);
	for (size_t i = 0; i < TCP_MAX; i++)
		if (d->conn[i].used && d->conn[i].slot == idx)
			dns_conn_close(d, &d->conn[i]);
	close(s->udp);
	close(s->tcp);
	*s = (struct dns_slot){ .udp = -1, .tcp = -1 };
}

static void remove_key(struct dns *d, uint32_t key) REQUIRES(&d->lock)
{
	for (uint32_t i = 0; i < SLOTS_MAX; i++)
		if (d->slot[i].used && d->slot[i].key == key)
			slot_close(d, i);
}

int dns_add(struct dns *d, uint32_t key, const char *holder, int udp_fd_consume, int tcp_fd_consume)
{
	autofd int udp = udp_fd_consume;
	autofd int tcp = tcp_fd_consume;
	uint32_t idx = 0;
	struct dns_slot *s;
	int r;

	if (fcntl(udp, F_SETFL, O_RDWR | O_NONBLOCK) < 0 ||
	    fcntl(tcp, F_SETFL, O_RDWR | O_NONBLOCK) < 0)
		return -errno;
	LOCK_SCOPE(&d->lock);
	remove_key(d, key);
	while (idx < SLOTS_MAX && d->slot[idx].used)
		idx++;
	if (idx == SLOTS_MAX)
		return -ENOSPC;
	s = &d->slot[idx];
	*s = (struct dns_slot){
		.used = true, .gen = ++d->next_gen & GEN_MASK, .key = key, .udp = udp, .tcp = tcp
	};
	snprintf(s->holder, sizeof(s->holder), "%s", holder ? holder : "");
	if ((r = dns_poll(d, udp, DNS_SLOT_UDP, idx, s->gen, EPOLLIN, /* add= */ true)) < 0 ||
	    (r = dns_poll(d, tcp, DNS_SLOT_TCP, idx, s->gen, EPOLLIN, /* add= */ true)) < 0) {
		*s = (struct dns_slot){ .udp = -1, .tcp = -1 };
		return r;
	}
	udp = tcp = -1; /* now owned by the slot */
	return 0;
}

void dns_remove(struct dns *d, uint32_t key)
{
	LOCK_SCOPE(&d->lock);
	remove_key(d, key);
}

void dns_set_hooks(struct dns *d, const struct dns_hooks *hooks)
{
	LOCK_SCOPE(&d->lock);
	d->hooks = *hooks;
}

void dns_stats(struct dns *d, struct dns_stats *ret)
{
	LOCK_SCOPE(&d->lock);
	*ret = d->stats;
}

/* ---- start and stop ---- */

static struct dns *dns_free(struct dns *d)
{
	mutex_unshared(&d->lock);
	for (uint32_t i = 0; i < SLOTS_MAX; i++)
		if (d->slot[i].used)
			slot_close(d, i);
	if (d->epoll >= 0)
		close(d->epoll);
	if (d->wake >= 0)
		close(d->wake);
	dns_pin_drop(d);
	budget_free(d->share_pending);
	budget_free(d->share_tcp);
	cond_destroy(&d->pin_work);
	mutex_destroy(&d->lock);
	free(d);
	return NULL;
}

static void end_thread(struct dns *d)
{
	mutex_lock(&d->lock);
	d->stop = true;
	cond_signal(&d->pin_work);
	mutex_unlock(&d->lock);
	eventfd_write(d->wake, 1);
	pthread_join(d->thread, NULL);
}

int dns_start(struct dns **ret, const char *upstream, struct err *err)
{
	struct dns *d = calloc(1, sizeof(*d));
	int r = 0;

	if (!d)
		return err_set(err, -ENOMEM, "DNS forwarder: out of memory");
	mutex_init(&d->lock, "dns");
	cond_init(&d->pin_work);
	mutex_lock(&d->lock);
	d->pins_end = &d->pins;
	d->epoll = epoll_create1(EPOLL_CLOEXEC);
	d->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (upstream) {
		d->fixed = true;
		if (!resolv_parse(upstream, &d->up, &d->up_len))
			r = sock_parse(upstream, &d->up, &d->up_len, err);
	}
	mutex_unlock(&d->lock);
	if (r == 0)
		r = budget_new(&(struct budget_conf){ .all = PENDING_MAX }, &d->share_pending, err);
	if (r == 0)
		r = budget_new(&(struct budget_conf){ .all = TCP_MAX }, &d->share_tcp, err);
	if (r == 0 && (d->epoll < 0 || d->wake < 0))
		r = err_sys(err, -errno, "name forwarder");
	if (r == 0 && (r = dns_poll(d, d->wake, DNS_WAKE, 0, 0, EPOLLIN, /* add= */ true)) < 0)
		err_sys(err, r, "name forwarder");
	if (r == 0 && (r = -pthread_create(&d->thread, NULL, dns_main, d)) < 0)
		err_sys(err, r, "start the DNS forwarder");
	if (r < 0) {
		dns_free(d);
		return r;
	}
	if ((r = -pthread_create(&d->pin_thread, NULL, dns_pin_main, d)) < 0) {
		end_thread(d);
		dns_free(d);
		return err_sys(err, r, "start the DNS forwarder");
	}
	*ret = d;
	return 0;
}

struct dns *dns_stop(struct dns *d)
{
	if (!d)
		return NULL;
	end_thread(d);
	pthread_join(d->pin_thread, NULL);
	return dns_free(d);
}
