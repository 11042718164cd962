/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_net.c - policies of VMs, VPCs, addresses in them, tunnels into them
 *
 * What belongs to a VM is deleted with it, in the same transaction
 * (net_drop_locked()). It may exist before the VM does.
 */
#include "store/store_net.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "store/store_internal.h"

static const struct col vpc_cols[] = {
	COL_AT(COL_TEXT, store_vpc, id, "id"),
	COL_AT(COL_TEXT, store_vpc, account, "account"),
	COL_AT(COL_TEXT, store_vpc, name, "name"),
	COL_AT(COL_U32, store_vpc, net, "net"),
	COL_AT(COL_U32, store_vpc, prefix, "prefix"),
	COL_AT(COL_U32, store_vpc, idx, "idx"),
	COL_AT(COL_SECRET, store_vpc, wg_key, "wg_key"),
	COL_AT(COL_I64, store_vpc, created_ms, "created_ms"),
};
static const struct table vpc_table = { .name = "vpcs",
	                                .cols = vpc_cols,
	                                .n_cols = ARRAY_SIZE(vpc_cols),
	                                .row_size = sizeof(struct store_vpc),
	                                .missing_tag = ERR_NOT_FOUND,
	                                .noun = "VPC" };

static const struct col nic_cols[] = {
	COL_AT(COL_TEXT, store_nic, vm_id, "vm_id"),
	COL_AT(COL_TEXT, store_nic, vpc, "vpc"),
	COL_AT(COL_U32, store_nic, addr, "addr"),
	COL_AT(COL_BOOL, store_nic, is_default, "is_default"),
};
static const struct table nic_table = { .name = "vpc_nics",
	                                .cols = nic_cols,
	                                .n_cols = ARRAY_SIZE(nic_cols),
	                                .row_size = sizeof(struct store_nic),
	                                .noun = "NIC" };

static const struct col peer_cols[] = {
	COL_AT(COL_TEXT, store_peer, id, "id"),
	COL_AT(COL_TEXT, store_peer, vpc, "vpc"),
	COL_AT(COL_TEXT, store_peer, gateway_vm, "gateway_vm"),
	COL_AT(COL_TEXT, store_peer, public_key, "public_key"),
	COL_AT(COL_U32, store_peer, tunnel_ip, "tunnel_ip"),
	COL_AT(COL_I64, store_peer, created_ms, "created_ms"),
	COL_AT(COL_I64, store_peer, expires_ms, "expires_ms"),
};
static const struct table peer_table = { .name = "wg_peers",
	                                 .cols = peer_cols,
	                                 .n_cols = ARRAY_SIZE(peer_cols),
	                                 .row_size = sizeof(struct store_peer),
	                                 .missing_tag = ERR_NOT_FOUND,
	                                 .noun = "tunnel" };

/* ---- policies ---- */

void store_egress_done(struct store_egress *e)
{
	if (e->policy)
		explicit_bzero(e->policy, strlen(e->policy));
	if (e->ca_key)
		explicit_bzero(e->ca_key, strlen(e->ca_key));
	free(e->policy);
	free(e->ca_cert);
	free(e->ca_key);
	*e = (struct store_egress){ 0 };
}

static struct secret_place policy_of(const char *vm_id)
{
	return (struct secret_place){ "vm_egress.policy", vm_id };
}

static struct secret_place ca_key_of(const char *vm_id)
{
	return (struct secret_place){ "vm_egress.ca_key", vm_id };
}

int store_egress_put(struct store *s, const char *vm_id, const struct store_egress *e,
                     struct err *err)
{
	autotx struct tx t = { 0 };
	autoquery struct query q = { 0 };
	int r;

	if ((r = tx_begin(&t, s, err)) < 0 ||
	    (r = run_text(s, "DELETE FROM vm_egress WHERE vm_id = $1", &vm_id, 1, err)) < 0 ||
	    (r = query_begin(&q, s,
	                     "INSERT INTO vm_egress (vm_id, policy, ca_cert, ca_key) "
	                     "VALUES ($1, $2, $3, $4)",
	                     err)) < 0)
		return r;
	query_bind_text(&q, vm_id);
	query_bind_secret(&q, policy_of(vm_id), e->policy);
	query_bind_text(&q, e->ca_cert ? e->ca_cert : "");
	query_bind_secret(&q, ca_key_of(vm_id), e->ca_key ? e->ca_key : "");
	if ((r = query_run(&q, err)) < 0)
		return r;
	query_done(&q);
	return tx_commit(&t, err);
}

int store_egress_get(struct store *s, const char *vm_id, struct store_egress *ret, struct err *err)
{
	LOCK_SCOPE(&s->lock);
	autoquery struct query q = { 0 };
	int r = query_begin(&q, s, "SELECT policy, ca_cert, ca_key FROM vm_egress WHERE vm_id = $1",
	                    err);

	if (r < 0)
		return r;
	query_bind_text(&q, vm_id);
	r = query_step(&q, err);
	if (r <= 0)
		return r < 0 ? r
		             : err_set(err, -ENOENT, "VM %s has no egress policy of its own",
		                       vm_id);
	*ret = (struct store_egress){ 0 };
	ret->policy = query_read_secret(&q, policy_of(vm_id));
	ret->ca_cert = query_read_strdup(&q);
	ret->ca_key = query_read_secret(&q, ca_key_of(vm_id));
	r = query_read_end(&q, err);
	if (r == 0 && (!ret->policy || !ret->ca_cert || !ret->ca_key))
		r = err_set(err, -ENOMEM, "out of memory");
	if (r < 0)
		store_egress_done(ret);
	return r;
}

int net_drop_locked(struct store *s, const char *vm_id, struct err *err)
{
	int r = run_text(s, "DELETE FROM vm_egress WHERE vm_id = $1", &vm_id, 1, err);

	if (r >= 0)
		r = run_text(s, "DELETE FROM vpc_nics WHERE vm_id = $1", &vm_id, 1, err);
	if (r >= 0)
		r = run_text(s, "DELETE FROM wg_peers WHERE gateway_vm = $1", &vm_id, 1, err);
	return MIN(r, 0);
}

int store_net_drop(struct store *s, const char *vm_id, struct err *err)
{
	autotx struct tx t = { 0 };
	int r;

	if ((r = tx_begin(&t, s, err)) < 0 || (r = net_drop_locked(s, vm_id, err)) < 0)
		return r;
	return tx_commit(&t, err);
}

int store_net_sweep(struct store *s, struct err *err)
{
	/* A VM that another node is making has these before its own row. */
	static const char *const gone[] = {
		"DELETE FROM vm_egress WHERE vm_id NOT IN (SELECT id FROM vms) AND "
		"NOT EXISTS (SELECT 1 FROM nodes WHERE alive = 1 AND id <> $1)",
		"DELETE FROM vpc_nics WHERE vm_id NOT IN (SELECT id FROM vms) AND "
		"NOT EXISTS (SELECT 1 FROM nodes WHERE alive = 1 AND id <> $1)",
	};
	autotx struct tx t = { 0 };
	const char *node = s->node;
	int r;

	if ((r = tx_begin(&t, s, err)) < 0 || (r = run_text(s, gone[0], &node, 1, err)) < 0 ||
	    (r = run_text(s, gone[1], &node, 1, err)) < 0)
		return r;
	return tx_commit(&t, err);
}

/* ---- VPCs ---- */

static int free_idx(struct store *s, uint32_t limit, uint32_t *ret, struct err *err)
{
	autoquery struct query q = { 0 };
	uint32_t next = 0;
	int r = query_begin(&q, s, "SELECT idx FROM vpcs ORDER BY idx", err);

	while (r >= 0 && (r = query_step(&q, err)) == 1) {
		q.n_read = 0;
		if (query_read_i64(&q, 0, UINT32_MAX) != next)
			break;
		next++;
	}
	if (r < 0)
		return r;
	if (next >= limit)
		return err_tag(err, -ENOSPC, ERR_BAD_REQUEST,
		               "all %u VPCs of this server are in use", limit);
	*ret = next;
	return 0;
}

static int tell_vpc(struct store *s, const struct store_vpc *v, const char *reason, struct err *err)
{
	return feed_tell_locked(
	        s, v->account, "vpc.changed", "", "vpc",
	        json_pack("{s:s, s:s, s:s}", "id", v->id, "name", v->name, "reason", reason), err);
}

/* A VM or a tunnel came or went; the VPC may be gone. */
static int tell_vpc_of(struct store *s, const char *id, const char *reason, struct err *err)
{
	autowipe struct store_vpc *v = malloc(sizeof(*v));
	int r = v ? row_get(s, &vpc_table, id, v, err) : err_set(err, -ENOMEM, "out of memory");

	return r < 0 ? (r == -ENOENT ? 0 : r) : tell_vpc(s, v, reason, err);
}

int store_vpc_add(struct store *s, struct store_vpc *v, uint32_t limit, struct err *err)
{
	autotx struct tx t = { 0 };
	int r;

	if ((r = tx_begin(&t, s, err)) < 0 || (r = free_idx(s, limit, &v->idx, err)) < 0 ||
	    (r = row_insert(s, &vpc_table, v, err)) < 0 || (r = tell_vpc(s, v, "created", err)) < 0)
		return r;
	return tx_commit(&t, err);
}

int store_vpc_get(struct store *s, const char *id, struct store_vpc *ret, struct err *err)
{
	LOCK_SCOPE(&s->lock);
	return row_get(s, &vpc_table, id, ret, err);
}

int store_vpc_list(struct store *s, const char *account, struct store_vpc **ret, size_t *ret_n,
                   struct err *err)
{
	LOCK_SCOPE(&s->lock);
	return row_list(s, &vpc_table,
	                account ? "WHERE account = $1 ORDER BY created_ms DESC, id"
	                        : "ORDER BY created_ms DESC, id",
	                &account, account ? 1 : 0, (void **)ret, ret_n, err);
}

int store_vpc_delete(struct store *s, const char *id, struct err *err)
{
	autotx struct tx t = { 0 };
	autofree struct store_nic *nics = NULL;
	size_t n = 0;
	int r;

	if ((r = tx_begin(&t, s, err)) < 0 ||
	    (r = row_list(s, &nic_table, "WHERE vpc = $1", &id, 1, (void **)&nics, &n, err)) < 0)
		return r;
	if (n)
		return err_tag(err, -EBUSY, ERR_CONFLICT, "VPC %s has %zu VMs: delete them first",
		               id, n);
	if ((r = tell_vpc_of(s, id, "deleted", err)) < 0 ||
	    (r = run_text(s, "DELETE FROM wg_peers WHERE vpc = $1", &id, 1, err)) < 0 ||
	    (r = row_delete(s, &vpc_table, id, err)) < 0)
		return r;
	return tx_commit(&t, err);
}

/* ---- addresses ---- */

int store_nic_add(struct store *s, const struct store_nic *n, struct err *err)
{
	autotx struct tx t = { 0 };
	int r;

	if ((r = tx_begin(&t, s, err)) < 0 || (r = row_insert(s, &nic_table, n, err)) < 0 ||
	    (r = tell_vpc_of(s, n->vpc, "vm added", err)) < 0)
		return r;
	return tx_commit(&t, err);
}

int store_nic_get(struct store *s, const char *vm_id, struct store_nic *ret, struct err *err)
{
	LOCK_SCOPE(&s->lock);
	return row_get(s, &nic_table, vm_id, ret, err);
}

int store_nic_list(struct store *s, const char *vpc, struct store_nic **ret, size_t *ret_n,
                   struct err *err)
{
	LOCK_SCOPE(&s->lock);
	return row_list(s, &nic_table, "WHERE vpc = $1 ORDER BY addr", &vpc, 1, (void **)ret, ret_n,
	                err);
}

/* ---- tunnels ---- */

int store_peer_add(struct store *s, const struct store_peer *p, struct err *err)
{
	autotx struct tx t = { 0 };
	int r;

	if ((r = tx_begin(&t, s, err)) < 0 || (r = row_insert(s, &peer_table, p, err)) < 0 ||
	    (r = tell_vpc_of(s, p->vpc, "tunnel added", err)) < 0)
		return r;
	return tx_commit(&t, err);
}

int store_peer_delete(struct store *s, const char *vpc, const char *id, struct err *err)
{
	const char *args[] = { vpc, id };
	autotx struct tx t = { 0 };
	int r;

	if ((r = tx_begin(&t, s, err)) < 0 ||
	    (r = run_text(s, "DELETE FROM wg_peers WHERE vpc = $1 AND id = $2", args, 2, err)) < 0)
		return r;
	if (r == 0)
		return row_missing(&peer_table, id, err);
	if ((r = tell_vpc_of(s, vpc, "tunnel removed", err)) < 0)
		return r;
	return tx_commit(&t, err);
}

int store_peer_list(struct store *s, const char *vpc, struct store_peer **ret, size_t *ret_n,
                    struct err *err)
{
	LOCK_SCOPE(&s->lock);
	return row_list(s, &peer_table, vpc ? "WHERE vpc = $1 ORDER BY created_ms" : "ORDER BY vpc",
	                &vpc, vpc ? 1 : 0, (void **)ret, ret_n, err);
}
