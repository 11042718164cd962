/* SPDX-License-Identifier: Apache-2.0 */
/* store_port.c - see store_port.h; rows go with their VM (ports_drop_locked()) */
#include "store/store_port.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/err.h"
#include "store/store_internal.h"

int ports_drop_locked(struct store *s, const char *vm, struct err *err)
{
	return MIN(run_text(s, "DELETE FROM vm_ports WHERE vm = $1", &vm, 1, err), 0);
}

/* A copy's own name leads where its parent's does; ports of the range cannot be shared. */
int ports_fork_locked(struct store *s, const char *parent, const char *child, struct err *err)
{
	const char *args[] = { child, parent };

	return MIN(
	        run_text(s,
	                 "INSERT INTO vm_ports (vm, account, protocol, port, target, created_ms) "
	                 "SELECT $1, account, protocol, port, target, created_ms FROM vm_ports "
	                 "WHERE vm = $2 AND port = 443",
	                 args, 2, err),
	        0);
}

static void bind_key(struct query *q, const struct store_port *p)
{
	query_bind_text(q, p->vm);
	query_bind_text(q, p->protocol);
	query_bind_i64(q, p->port);
}

static int delete_locked(struct store *s, const struct store_port *p, struct err *err)
{
	autoquery struct query q = { 0 };
	int r = query_begin(&q, s,
	                    "DELETE FROM vm_ports WHERE vm = $1 "
	                    "AND (protocol = $2 OR port = 443) AND port = $3",
	                    err);

	if (r < 0)
		return r;
	bind_key(&q, p);
	return query_run(&q, err);
}

/* Does another VM have that port of the range? 1 or 0. */
static int taken(struct store *s, const struct store_port *p, struct err *err)
{
	autoquery struct query q = { 0 };
	int r = query_begin(&q, s,
	                    "SELECT 1 FROM vm_ports WHERE vm <> $1 AND protocol = $2 AND port = $3",
	                    err);

	if (r < 0 || p->port == PORTS_OWN_NAME)
		return r;
	bind_key(&q, p);
	return query_step(&q, err);
}

static int check(struct store *s, const struct store_port *p, struct err *err)
{
	int r = query_count(s, "SELECT COUNT(*) FROM vms WHERE id = $1", p->vm, err), n;

	if (r == 0)
		return err_tag(err, -ENOENT, ERR_VM_NOT_FOUND, "no VM '%s'", p->vm);
	if (r < 0 || (r = taken(s, p, err)) < 0)
		return r;
	if (r > 0)
		return err_tag(
		        err, -EEXIST, ERR_CONFLICT,
		        "port %u (%s) leads to another VM already: leave 'port' out to get a "
		        "free one",
		        p->port, p->protocol);
	n = query_count(s, "SELECT COUNT(*) FROM vm_ports WHERE vm = $1", p->vm, err);
	r = query_count(s, "SELECT COUNT(*) FROM vm_ports WHERE account = $1 AND port <> 443",
	                p->account, err);
	if (n < 0 || r < 0)
		return MIN(n, r);
	if (n >= PORTS_PER_VM || (p->port != PORTS_OWN_NAME && r >= PORTS_PER_ACCOUNT))
		return err_tag(err, -EDQUOT, ERR_LIMIT_EXCEEDED,
		               "a VM has at most %d ports, an account %d of the server's range",
		               PORTS_PER_VM, PORTS_PER_ACCOUNT);
	return 0;
}

int store_port_put(struct store *s, const struct store_port *p, struct err *err)
{
	autotx struct tx t = { 0 };
	autoquery struct query q = { 0 };
	int r;

	if ((r = tx_begin(&t, s, err)) < 0 || (r = delete_locked(s, p, err)) < 0 ||
	    (r = check(s, p, err)) < 0 ||
	    (r = query_begin(
	             &q, s,
	             "INSERT INTO vm_ports (vm, protocol, port, account, target, created_ms)"
	             " VALUES ($1, $2, $3, $4, $5, $6)",
	             err)) < 0)
		return r;
	bind_key(&q, p);
	query_bind_text(&q, p->account);
	query_bind_i64(&q, p->target);
	query_bind_i64(&q, p->created_ms);
	if ((r = query_run(&q, err)) < 0)
		return r;
	query_done(&q);
	return tx_commit(&t, err);
}

int store_port_delete(struct store *s, const char *vm, const char *protocol, uint32_t port,
                      struct err *err)
{
	struct store_port p = { .port = port };
	autotx struct tx t = { 0 };
	int r;

	snprintf(p.vm, sizeof(p.vm), "%s", vm);
	snprintf(p.protocol, sizeof(p.protocol), "%s", protocol);
	if ((r = tx_begin(&t, s, err)) < 0 || (r = delete_locked(s, &p, err)) < 0)
		return r;
	if (r == 0)
		return err_tag(err, -ENOENT, ERR_NOT_FOUND, "VM %s has no port %u (%s)", vm, port,
		               protocol);
	return tx_commit(&t, err);
}

int store_port_list(struct store *s, struct store_port **ret, size_t *ret_n, struct err *err)
{
	autofree struct store_port *v = NULL;
	size_t n = 0;
	int r;
	LOCK_SCOPE(&s->lock);
	autoquery struct query q = { 0 };

	r = query_count(s, "SELECT COUNT(*) FROM vm_ports", NULL, err);
	if (r < 0)
		return r;
	v = calloc((size_t)r + 1, sizeof(*v));
	if (!v)
		return err_set(err, -ENOMEM, "out of memory");
	*ret_n = (size_t)r;
	if ((r = query_begin(&q, s,
	                     "SELECT vm, account, protocol, port, target, created_ms FROM vm_ports "
	                     "ORDER BY port, protocol, vm",
	                     err)) < 0)
		return r;
	while (n < *ret_n && (r = query_step(&q, err)) > 0) {
		query_read_text(&q, v[n].vm, sizeof(v[n].vm));
		query_read_text(&q, v[n].account, sizeof(v[n].account));
		query_read_text(&q, v[n].protocol, sizeof(v[n].protocol));
		v[n].port = (uint32_t)query_read_i64(&q, 0, UINT16_MAX);
		v[n].target = (uint32_t)query_read_i64(&q, 0, UINT16_MAX);
		v[n].created_ms = query_read_i64(&q, 0, INT64_MAX);
		if ((r = query_read_end(&q, err)) < 0)
			return r;
		n++;
	}
	if (r < 0)
		return r;
	*ret_n = n;
	*ret = TAKE_PTR(v);
	return 0;
}
