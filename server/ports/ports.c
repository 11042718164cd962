/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ports.c - which port leads where, and who listens on it
 *
 * Every change goes to the store first; then the table is read from it again and sockets are opened
 * and closed accordingly, so that the two cannot diverge: the same code runs at start. One thread
 * accepts on all of them. A VM that was deleted has no rows any more; the manager says that it
 * changed, and the thread reads the table again. Several nodes listen on the same ports, whoever
 * has the VM (far.c), and look now and then what the others have mapped.
 */
#include "ports/ports.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/budget.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/id.h"
#include "base/log.h"
#include "base/rate.h"
#include "ports/ports_internal.h"
#include "vm/vm.h"
#include "vm/vmm.h"

#define CLIENTS_PER_S 20 /* of one address, for long; 100 at once */
#define CLIENTS_BURST 100
#define RANGE_MAX 10000
#define POLLS_UDP (1u << 16) /* beside a port */
#define TROUBLE_MS 100       /* after descriptors ran out */

int ports_range_parse(const char *text, uint32_t *ret_first, uint32_t *ret_last)
{
	unsigned a, b;
	char more;

	*ret_first = *ret_last = 0;
	if (strcmp(text, "none") == 0)
		return 0;
	if (strspn(text, "0123456789-") != strlen(text) ||
	    sscanf(text, "%5u-%5u%c", &a, &b, &more) != 2 || a < 1024 || b > UINT16_MAX || a > b ||
	    b - a >= RANGE_MAX)
		return -EINVAL;
	*ret_first = a;
	*ret_last = b;
	return 0;
}

const char *ports_range(const struct ports *p)
{
	return p->first ? p->range : "";
}

static bool in_range(const struct ports *p, uint32_t port)
{
	return p->first && port >= p->first && port <= p->last;
}

/* ---- the table ---- */

static int listen_at(struct ports *p, bool udp, uint32_t port, struct err *err)
{
	char at[96];
	int fd;

	snprintf(at, sizeof(at), strchr(p->listen, ':') ? "[%s]:%u" : "%s:%u", p->listen, port);
	fd = udp ? sock_udp_bind(at, err) : sock_tcp_listen(at, err);
	if (fd >= 0) /* who came may have left again */
		fcntl(fd, F_SETFL, O_NONBLOCK);
	return fd;
}

static bool same_port(const struct store_port *a, const struct store_port *b)
{
	return a->port == b->port && strcmp(a->protocol, b->protocol) == 0 &&
	       strcmp(a->vm, b->vm) == 0;
}

static bool had_error(struct ports *p, const struct entry *e)
{
	LOCK_SCOPE(&p->lock);
	for (size_t i = 0; i < p->n; i++)
		if (same_port(&p->entries[i].row, &e->row))
			return strcmp(p->entries[i].error, e->error) == 0;
	return false;
}

static void open_entry(struct ports *p, struct entry *e)
{
	struct err err = { 0 };

	if (e->row.port == PORTS_OWN_NAME)
		return;
	if (!in_range(p, e->row.port)) {
		snprintf(e->error, sizeof(e->error), "it is not in PANDO_PORT_RANGE any more");
		return;
	}
	e->fd = listen_at(p, port_is_udp(&e->row), e->row.port, &err);
	if (e->fd >= 0)
		return;
	e->fd = -1;
	snprintf(e->error, sizeof(e->error), "%.120s", err.msg);
	if (!had_error(p, e)) /* it is tried again with every change */
		log_warn("port %u of VM %s: %s", e->row.port, e->row.vm, err.msg);
}

static bool has_socket(struct ports *p, const struct store_port *row)
{
	LOCK_SCOPE(&p->lock);
	for (size_t i = 0; i < p->n; i++)
		if (p->entries[i].fd >= 0 && same_port(&p->entries[i].row, row))
			return true;
	return false;
}

/* Sockets stay with their rows. The accepting thread knows them by port, never by number. */
static int reload(struct ports *p, struct err *err) REQUIRES(&p->change)
{
	autofree struct store_port *rows = NULL;
	struct entry *now, *was;
	size_t n = 0, n_was;
	int r = store_port_list(p->store, &rows, &n, err);

	if (r < 0)
		return r;
	now = calloc(n + 1, sizeof(*now));
	if (!now)
		return err_set(err, -ENOMEM, "out of memory");
	for (size_t i = 0; i < n; i++) {
		now[i] = (struct entry){ .row = rows[i], .fd = -1 };
		if (!has_socket(p, &rows[i]))
			open_entry(p, &now[i]);
	}
	mutex_lock(&p->lock);
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < p->n && now[i].fd < 0; k++)
			if (same_port(&p->entries[k].row, &rows[i]))
				now[i].fd = TAKE_FD(p->entries[k].fd);
	was = p->entries;
	n_was = p->n;
	p->entries = now;
	p->n = n;
	mutex_unlock(&p->lock);
	for (size_t i = 0; i < n_was; i++)
		if (was[i].fd >= 0)
			close(was[i].fd);
	free(was);
	(void)!eventfd_write(p->wake_fd, 1);
	return 0;
}

/* Changes with what the own names of VMs lead to. */
static uint64_t names_sum(struct ports *p)
{
	uint64_t sum = 0;
	LOCK_SCOPE(&p->lock);

	for (size_t i = 0; i < p->n; i++) {
		const struct store_port *row = &p->entries[i].row;
		uint64_t h = 14695981039346656037u ^ row->target;

		if (row->port != PORTS_OWN_NAME)
			continue;
		for (const char *s = row->vm; *s; s++)
			h = (h ^ (uint8_t)*s) * 1099511628211u;
		sum += (h ^ (uint8_t)row->protocol[1]) * 1099511628211u;
	}
	return sum;
}

int ports_check(struct ports *p, const char *protocol, uint32_t port, uint32_t target,
                struct err *err)
{
	bool udp = strcmp(protocol, "udp") == 0, tls = strcmp(protocol, "tls") == 0;

	if (!udp && !tls && strcmp(protocol, "tcp") != 0)
		return err_tag(err, -EINVAL, ERR_INVALID_PARAMETERS,
		               "'protocol' must be \"tcp\", \"udp\", or \"tls\" with port 443");
	if (tls && port != PORTS_OWN_NAME)
		return err_tag(err, -EINVAL, ERR_INVALID_PARAMETERS,
		               "\"tls\" is for port 443, the VM's own name: other ports are told "
		               "apart by their number, so map this one as \"tcp\"");
	if (udp && port == PORTS_OWN_NAME)
		return err_tag(
		        err, -EINVAL, ERR_INVALID_PARAMETERS,
		        "port 443 is the VM's own name, by TCP alone: leave 'port' out to get "
		        "one for UDP");
	if (target > UINT16_MAX || (!target && port != PORTS_OWN_NAME))
		return err_tag(err, -EINVAL, ERR_INVALID_PARAMETERS,
		               "'targetPort' must be a number from 1 to 65535");
	if (port == PORTS_OWN_NAME)
		return 0;
	if (!p->first)
		return err_tag(
		        err, -EINVAL, ERR_INVALID_PARAMETERS,
		        "'port' must be 443, the VM's own name: this server has no ports for "
		        "others (PANDO_PORT_RANGE)");
	if (port && !in_range(p, port))
		return err_tag(err, -EINVAL, ERR_INVALID_PARAMETERS,
		               "'port' is %u: allowed are 443, the VM's own name, and %s "
		               "(PANDO_PORT_RANGE); without it a free one is taken",
		               port, p->range);
	return 0;
}

static bool is_mapped(struct ports *p, const char *protocol, uint32_t port)
{
	LOCK_SCOPE(&p->lock);
	for (size_t i = 0; i < p->n; i++)
		if (p->entries[i].row.port == port &&
		    strcmp(p->entries[i].row.protocol, protocol) == 0)
			return true;
	return false;
}

/* A port of the range that is nobody's, neither here nor on the host. */
static int find_free(struct ports *p, const char *protocol, uint32_t *ret, struct err *err)
{
	uint32_t size = p->last - p->first + 1, at;
	struct err none = { 0 };

	random_bytes(&at, sizeof(at));
	for (uint32_t i = 0; i < size; i++) {
		uint32_t port = p->first + (at + i) % size;
		int fd = is_mapped(p, protocol, port)
		                 ? -EADDRINUSE
		                 : listen_at(p, strcmp(protocol, "udp") == 0, port, &none);

		if (fd < 0)
			continue;
		close(fd);
		*ret = port;
		return 0;
	}
	return err_tag(err, -EAGAIN, ERR_UNAVAILABLE,
	               "all ports of %s are taken (PANDO_PORT_RANGE)", p->range);
}

static int find(struct ports *p, const char *vm, const char *protocol, uint32_t port,
                struct port_info *ret)
{
	LOCK_SCOPE(&p->lock);
	for (size_t i = 0; i < p->n; i++) {
		const struct entry *e = &p->entries[i];

		if (e->row.port != port || strcmp(e->row.vm, vm) != 0 ||
		    strcmp(e->row.protocol, protocol) != 0)
			continue;
		*ret = (struct port_info){ .row = e->row, .listening = e->fd >= 0 };
		memcpy(ret->error, e->error, sizeof(ret->error));
		return 0;
	}
	return -ENOENT;
}

static int put(struct ports *p, const struct store_port *row, struct err *err) REQUIRES(&p->change)
{
	int r = store_port_put(p->store, row, err);

	if (r == 0)
		r = reload(p, err);
	if (r == 0 && row->port == PORTS_OWN_NAME && p->name_fn)
		p->name_fn(p->name_ctx);
	return r;
}

int ports_set(struct ports *p, const char *account, const char *vm, const char *protocol,
              uint32_t port, uint32_t target, struct port_info *ret, struct err *err)
{
	struct store_port row = { .port = port, .target = target, .created_ms = clock_wall_ms() };
	struct vm_info v;
	int r;

	if ((r = ports_check(p, protocol, port, target, err)) < 0 ||
	    (r = vmm_get(p->vmm, account, vm, &v, err)) < 0)
		return r;
	snprintf(row.account, sizeof(row.account), "%s", v.account);
	snprintf(row.vm, sizeof(row.vm), "%s", vm);
	snprintf(row.protocol, sizeof(row.protocol), "%s", protocol);
	LOCK_SCOPE(&p->change);
	if ((!port && (r = find_free(p, protocol, &row.port, err)) < 0) ||
	    (r = put(p, &row, err)) < 0)
		return r;
	if (find(p, vm, protocol, row.port, ret) < 0)
		return err_tag(err, -ENOENT, ERR_VM_NOT_FOUND, "no VM '%s'", vm);
	if (row.port == PORTS_OWN_NAME || ret->listening)
		return 0;
	store_port_delete(p->store, vm, protocol, row.port, NULL);
	reload(p, NULL);
	return err_tag(err, -EEXIST, ERR_CONFLICT, "port %u cannot be had: %s", row.port,
	               ret->error);
}

int ports_delete(struct ports *p, const char *account, const char *vm, const char *protocol,
                 uint32_t port, struct err *err)
{
	struct store_port row = { .port = port, .created_ms = clock_wall_ms() };
	struct vm_info v;
	int r = vmm_get(p->vmm, account, vm, &v, err);

	if (r < 0)
		return r;
	LOCK_SCOPE(&p->change);
	if (port != PORTS_OWN_NAME) {
		r = store_port_delete(p->store, vm, protocol, port, err);
		if (r == 0)
			r = reload(p, err);
		mutex_lock(&p->lock);
		for (struct port_conn *c = p->conns; r == 0 && c; c = c->next)
			if (c->row.port == port && strcmp(c->row.vm, vm) == 0 &&
			    strcmp(c->row.protocol, protocol) == 0)
				port_conn_cut(c);
		mutex_unlock(&p->lock);
		return r;
	}
	snprintf(row.account, sizeof(row.account), "%s", v.account);
	snprintf(row.vm, sizeof(row.vm), "%s", vm);
	snprintf(row.protocol, sizeof(row.protocol), "tcp");
	return put(p, &row, err);
}

int ports_list(struct ports *p, const char *vm, struct port_info **ret, size_t *ret_n,
               struct err *err)
{
	struct port_info *v;
	size_t n = 0;
	LOCK_SCOPE(&p->lock);

	v = calloc(p->n + 1, sizeof(*v));
	if (!v)
		return err_set(err, -ENOMEM, "out of memory");
	for (size_t i = 0; i < p->n; i++) {
		const struct entry *e = &p->entries[i];

		if (strcmp(e->row.vm, vm) != 0)
			continue;
		v[n] = (struct port_info){ .row = e->row, .listening = e->fd >= 0 };
		memcpy(v[n++].error, e->error, sizeof(e->error));
	}
	*ret = v;
	*ret_n = n;
	return 0;
}

int ports_name(struct ports *p, const char *vm, uint16_t *ret_port, bool *ret_tls)
{
	LOCK_SCOPE(&p->lock);
	for (size_t i = 0; i < p->n; i++)
		if (p->entries[i].row.port == PORTS_OWN_NAME &&
		    strcmp(p->entries[i].row.vm, vm) == 0) {
			*ret_port = (uint16_t)p->entries[i].row.target;
			*ret_tls = strcmp(p->entries[i].row.protocol, "tls") == 0;
			return 1;
		}
	return 0;
}

void ports_on_name(struct ports *p, void (*fn)(void *ctx), void *ctx)
{
	LOCK_SCOPE(&p->change);
	p->name_fn = fn;
	p->name_ctx = ctx;
}

/* ---- the accepting thread ---- */

/* Under the manager's lock: marks only. */
static void vm_changed(void *ctx, const char *vm, const char *ended)
{
	struct ports *p = ctx;
	bool ours = false;
	LOCK_SCOPE(&p->lock);

	for (struct port_conn *c = p->conns; ended && c; c = c->next)
		if (strcmp(c->instance, ended) == 0)
			port_conn_cut(c);
	/* A new one may be a copy of one whose name leads elsewhere. */
	for (size_t i = 0; i < p->n && !ours; i++)
		ours = p->entries[i].row.port == PORTS_OWN_NAME ||
		       strcmp(p->entries[i].row.vm, vm) == 0;
	if (ours) {
		atomic_store(&p->dirty, true);
		(void)!eventfd_write(p->wake_fd, 1);
	}
}

/* Who came to a port; false: descriptors ran out, or the like. */
static bool take_client(struct ports *p, uint32_t port, bool udp)
{
	struct sockaddr_storage from = { 0 };
	socklen_t len = sizeof(from);
	struct store_port row = { .port = 0 };
	struct port_conn *c = NULL;
	int fd = -1, error = 0;

	mutex_lock(&p->lock);
	for (size_t i = 0; i < p->n; i++) {
		const struct entry *e = &p->entries[i];

		if (e->fd < 0 || e->row.port != port || port_is_udp(&e->row) != udp)
			continue;
		if (udp)
			c = udp_take(p, e);
		else
			fd = accept4(e->fd, (struct sockaddr *)&from, &len,
			             SOCK_CLOEXEC | SOCK_NONBLOCK);
		error = fd < 0 && !udp ? errno : 0;
		row = e->row;
		break;
	}
	mutex_unlock(&p->lock);
	if (fd >= 0 && (c = port_conn_new(&row, &from, len)))
		c->client = fd;
	else if (fd >= 0)
		close(fd);
	if (c)
		port_conn_begin(p, c);
	return error != EMFILE && error != ENFILE && error != ENOMEM;
}

void ports_refresh(struct ports *p)
{
	struct err err = { 0 };
	uint64_t before;
	LOCK_SCOPE(&p->change);

	before = names_sum(p);
	if (reload(p, &err) < 0)
		log_warn("ports: %s", err.msg);
	else if (names_sum(p) != before && p->name_fn)
		p->name_fn(p->name_ctx);
}

static void look_again(struct ports *p)
{
	struct err err = { 0 };

	if (!atomic_exchange(&p->dirty, false))
		return;
	LOCK_SCOPE(&p->change);
	if (reload(p, &err) < 0) {
		log_warn("ports: %s", err.msg);
		atomic_store(&p->dirty, true);
	}
}

static void *accept_main(void *arg)
{
	struct ports *p = arg;

	while (!atomic_load(&p->ending)) {
		autofree struct pollfd *v = NULL;
		autofree uint32_t *port = NULL;
		size_t n = 1;
		eventfd_t unused;

		mutex_lock(&p->lock);
		v = calloc(p->n + 1, sizeof(*v));
		port = calloc(p->n + 1, sizeof(*port));
		for (size_t i = 0; v && port && i < p->n; i++) {
			if (p->entries[i].fd < 0)
				continue;
			port[n] = p->entries[i].row.port |
			          (port_is_udp(&p->entries[i].row) ? POLLS_UDP : 0);
			v[n++] = (struct pollfd){ .fd = p->entries[i].fd, .events = POLLIN };
		}
		mutex_unlock(&p->lock);
		if (!v || !port) {
			poll(NULL, 0, TROUBLE_MS);
			continue;
		}
		v[0] = (struct pollfd){ .fd = p->wake_fd, .events = POLLIN };
		if (poll(v, n, atomic_load(&p->dirty) ? TROUBLE_MS : -1) < 0)
			continue;
		if (v[0].revents)
			eventfd_read(p->wake_fd, &unused);
		for (size_t i = 1; i < n; i++)
			if (v[i].revents &&
			    !take_client(p, port[i] & ~POLLS_UDP, port[i] & POLLS_UDP))
				poll(NULL, 0, TROUBLE_MS);
		look_again(p);
	}
	return NULL;
}

/* ---- life ---- */

static void ports_closep(struct ports **p)
{
	ports_close(*p);
}

int ports_open(const struct ports_conf *c, struct store *s, struct vmm *vmm, struct ports **ret,
               struct err *err)
{
	AUTO(ports_closep) struct ports *p = calloc(1, sizeof(*p));
	struct budget_conf accounts = { .all = CONNS_MAX, .each = CONNS_PER_ACCOUNT };
	struct budget_conf addresses = { .all = CONNS_MAX, .each = CONNS_PER_ADDRESS };
	struct rate_conf rate = { CLIENTS_PER_S, CLIENTS_BURST, 4096 };
	int r;

	if (!p)
		return err_set(err, -ENOMEM, "out of memory");
	p->store = s;
	p->vmm = vmm;
	p->peers = c->peers;
	p->wait_ms = c->wait_ms;
	p->idle_ms = c->idle_ms;
	snprintf(p->listen, sizeof(p->listen), "%s", c->listen);
	snprintf(p->range, sizeof(p->range), "%s", c->range);
	mutex_init(&p->change, "ports change");
	mutex_init(&p->lock, "ports");
	cond_init(&p->quiet);
	p->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (p->wake_fd < 0)
		return err_sys(err, -errno, "ports");
	if ((r = ports_range_parse(c->range, &p->first, &p->last)) < 0)
		return err_set(err, r, "PANDO_PORT_RANGE is '%s'", c->range);
	if ((r = budget_new(&accounts, &p->by_account, err)) < 0 ||
	    (r = budget_new(&addresses, &p->by_address, err)) < 0 ||
	    (r = rate_new(&rate, &p->rate, err)) < 0)
		return r;
	{
		LOCK_SCOPE(&p->change);
		r = reload(p, err);
	}
	if (r < 0)
		return r;
	r = -pthread_create(&p->thread, NULL, accept_main, p);
	if (r < 0)
		return err_sys(err, r, "ports: start a thread");
	p->has_thread = true;
	vmm_on_changed(vmm, vm_changed, p);
	peers_serve(p->peers, PEER_PORT, port_far_come, p);
	*ret = TAKE_PTR(p);
	return 0;
}

void ports_stop(struct ports *p)
{
	if (!p || atomic_exchange(&p->ending, true))
		return;
	vmm_off_changed(p->vmm, p);
	(void)!eventfd_write(p->wake_fd, 1);
	if (p->has_thread)
		pthread_join(p->thread, NULL);
	LOCK_SCOPE(&p->lock);
	for (struct port_conn *c = p->conns; c; c = c->next)
		port_conn_cut(c);
}

struct ports *ports_close(struct ports *p)
{
	if (!p)
		return NULL;
	ports_stop(p);
	mutex_lock(&p->lock);
	while (p->conns)
		cond_wait(&p->quiet, &p->lock);
	for (size_t i = 0; i < p->n; i++)
		if (p->entries[i].fd >= 0)
			close(p->entries[i].fd);
	free(p->entries);
	mutex_unlock(&p->lock);
	if (p->by_account)
		budget_free(p->by_account);
	if (p->by_address)
		budget_free(p->by_address);
	if (p->rate)
		rate_free(p->rate);
	if (p->wake_fd >= 0)
		close(p->wake_fd);
	cond_destroy(&p->quiet);
	mutex_destroy(&p->lock);
	mutex_destroy(&p->change);
	free(p);
	return NULL;
}
