/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire/priv.c - requests and replies of pando-priv as bytes
 *
 * Both directions walk the field masks of PRIV_OPS in one fixed order, so an operation
 * is described in one line and needs no encoder of its own.
 * The request decoder runs as root on bytes from an unprivileged process: it
 * checks every count before using it and owns no descriptor.
 */
#include "wire/priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "wire/get.h"

struct op_desc {
	const char *name;
	unsigned req, rep;
	size_t fds;
};

#define AS_DESC(num, NAME, text, rq, rp, n) \
	[num] = { .name = (text), .req = (rq), .rep = (rp), .fds = (n) },
static const struct op_desc ops[PRIV_OP_END] = { PRIV_OPS(AS_DESC) };

static const struct op_desc *op_of(unsigned op)
{
	return op < ARRAY_SIZE(ops) && ops[op].name ? &ops[op] : NULL;
}

const char *priv_op_name(unsigned op)
{
	const struct op_desc *d = op_of(op);

	return d ? d->name : NULL;
}

bool priv_vm_id_valid(const char *s)
{
	size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789-");

	return n >= 1 && n <= PRIV_VM_ID_MAX && s[n] == '\0' && s[0] != '-';
}

void priv_req_done(struct priv_req *m)
{
	free(m->spawn.text);
	m->spawn.text = NULL;
}

/* ---- requests ---- */

static void put_list(struct buf *b, const char *const *v, uint32_t n)
{
	buf_put_u32(b, n);
	for (uint32_t i = 0; i < n; i++)
		buf_put_str(b, v[i]);
}

int priv_req_encode(const struct priv_req *m, struct buf *out, struct err *err)
{
	const struct op_desc *d = op_of(m->op);

	if (!d)
		return err_set(err, -EINVAL, "no operation %u", m->op);
	buf_put_u16(out, (uint16_t)m->op);
	buf_put_u16(out, 0);
	buf_put_u32(out, m->id);
	if (d->req & PF_VM) {
		if (!priv_vm_id_valid(m->vm_id))
			return err_set(err, -EINVAL, "%s: '%s' is not a VM id", d->name, m->vm_id);
		buf_put_str(out, m->vm_id);
	}
	if (d->req & PF_SLOT)
		buf_put_u32(out, m->slot);
	if (d->req & PF_OPEN)
		buf_put_u8(out, m->open);
	if (d->req & PF_CURSOR)
		buf_put_u32(out, m->cursor);
	if (d->req & PF_SPAWN) {
		if (m->spawn.n_argv > PRIV_ARGV_MAX || m->spawn.n_env > PRIV_ENV_MAX)
			return err_set(err, -E2BIG, "spawn: %u arguments, %u variables",
			               m->spawn.n_argv, m->spawn.n_env);
		buf_put_u32(out, (uint32_t)m->spawn.slot);
		buf_put_u32(out, m->spawn.mem_mb);
		buf_put_u32(out, m->spawn.vcpus);
		buf_put_u8(out, m->spawn.kvm);
		put_list(out, m->spawn.argv, m->spawn.n_argv);
		put_list(out, m->spawn.env, m->spawn.n_env);
	}
	if (d->req & PF_FORK) {
		if (!priv_vm_id_valid(m->fork.seed))
			return err_set(err, -EINVAL, "%s: '%s' is not a VM id", d->name,
			               m->fork.seed);
		buf_put_str(out, m->fork.seed);
		buf_put_u32(out, (uint32_t)m->fork.slot);
		buf_put_u32(out, m->fork.mem_mb);
		buf_put_u32(out, m->fork.vcpus);
	}
	if (d->req & PF_FENCE)
		buf_put_u64(out, m->fence_ms);
	if (d->req & PF_EGRESS)
		priv_egress_put(&m->egress, out);
	if (d->req & PF_PIN)
		priv_pin_put(&m->pin, out);
	if (d->req & PF_VPC)
		priv_vpc_put(&m->vpc, out);
	if (d->req & PF_WG)
		priv_wg_put(&m->wg, out);
	if (d->req & PF_FRESH)
		priv_fresh_put(&m->fresh, out);
	if (out->failed)
		return err_set(err, -ENOMEM, "%s: out of memory", d->name);
	if (out->len > PRIV_MSG_MAX)
		return err_set(err, -E2BIG, "%s: request of %zu bytes", d->name, out->len);
	return 0;
}

/* Copies n strings one after the other into text[*at..PRIV_TEXT_MAX) and points v at them. */
static int get_list(struct rd *c, char *text, size_t *at, uint32_t max, const char **v,
                    uint32_t *ret_n)
{
	uint32_t n;

	if (rd_u32(c, &n) < 0 || n > max)
		return -EBADMSG;
	for (uint32_t i = 0; i < n; i++) {
		if (*at >= PRIV_TEXT_MAX || rd_str(c, text + *at, PRIV_TEXT_MAX - *at) < 0)
			return -EBADMSG;
		v[i] = text + *at;
		*at += strlen(v[i]) + 1;
	}
	v[n] = NULL;
	*ret_n = n;
	return 0;
}

static int get_size(struct rd *c, int32_t *ret_slot, uint32_t *ret_mem_mb, uint32_t *ret_vcpus)
{
	uint32_t slot;

	if (rd_u32(c, &slot) < 0 || (slot != UINT32_MAX && slot >= PRIV_SLOTS_LIMIT))
		return -EBADMSG;
	*ret_slot = (int32_t)slot;
	if (rd_u32(c, ret_mem_mb) < 0 || *ret_mem_mb < 1 || *ret_mem_mb > PRIV_MEM_MB_MAX ||
	    rd_u32(c, ret_vcpus) < 0 || *ret_vcpus < 1 || *ret_vcpus > PRIV_VCPUS_MAX)
		return -EBADMSG;
	return 0;
}

static int get_fork(struct rd *c, struct priv_req *m)
{
	if (rd_str(c, m->fork.seed, sizeof(m->fork.seed)) < 0 || !priv_vm_id_valid(m->fork.seed))
		return -EBADMSG;
	return get_size(c, &m->fork.slot, &m->fork.mem_mb, &m->fork.vcpus);
}

static int get_spawn(struct rd *c, struct priv_req *m)
{
	size_t at = 0;

	if (get_size(c, &m->spawn.slot, &m->spawn.mem_mb, &m->spawn.vcpus) < 0)
		return -EBADMSG;
	if (get_bool(c, &m->spawn.kvm) < 0)
		return -EBADMSG;
	m->spawn.text = malloc(PRIV_TEXT_MAX);
	if (!m->spawn.text)
		return -ENOMEM;
	if (get_list(c, m->spawn.text, &at, PRIV_ARGV_MAX, m->spawn.argv, &m->spawn.n_argv) < 0 ||
	    get_list(c, m->spawn.text, &at, PRIV_ENV_MAX, m->spawn.env, &m->spawn.n_env) < 0)
		return -EBADMSG;
	return 0;
}

static int req_fields(struct rd *c, const struct op_desc *d, struct priv_req *m)
{
	if ((d->req & PF_VM) &&
	    (rd_str(c, m->vm_id, sizeof(m->vm_id)) < 0 || !priv_vm_id_valid(m->vm_id)))
		return -EBADMSG;
	if ((d->req & PF_SLOT) && (rd_u32(c, &m->slot) < 0 || m->slot >= PRIV_SLOTS_LIMIT))
		return -EBADMSG;
	if ((d->req & PF_OPEN) && get_bool(c, &m->open) < 0)
		return -EBADMSG;
	if ((d->req & PF_CURSOR) && rd_u32(c, &m->cursor) < 0)
		return -EBADMSG;
	if (d->req & PF_SPAWN) {
		int r = get_spawn(c, m);

		if (r < 0)
			return r;
	}
	if ((d->req & PF_FORK) && get_fork(c, m) < 0)
		return -EBADMSG;
	if ((d->req & PF_FENCE) && rd_u64(c, &m->fence_ms) < 0)
		return -EBADMSG;
	if (((d->req & PF_EGRESS) && priv_egress_get(c, &m->egress) < 0) ||
	    ((d->req & PF_PIN) && priv_pin_get(c, &m->pin) < 0) ||
	    ((d->req & PF_VPC) && priv_vpc_get(c, &m->vpc) < 0) ||
	    ((d->req & PF_WG) && priv_wg_get(c, &m->wg) < 0) ||
	    ((d->req & PF_FRESH) && priv_fresh_get(c, &m->vpc, &m->fresh) < 0))
		return -EBADMSG;
	return rd_end(c);
}

int priv_req_decode(const void *p, size_t n, struct priv_req *ret, struct err *err)
{
	struct rd c = rd_of(p, n);
	const struct op_desc *d;
	uint16_t op, zero;
	int r;

	*ret = (struct priv_req){ 0 };
	if (n > PRIV_MSG_MAX)
		return err_set(err, -EBADMSG, "request of %zu bytes", n);
	if (rd_u16(&c, &op) < 0 || rd_u16(&c, &zero) < 0 || rd_u32(&c, &ret->id) < 0 || zero)
		return err_set(err, -EBADMSG, "malformed request header");
	ret->op = op;
	d = op_of(op);
	if (!d)
		return err_set(err, -EBADMSG, "no operation %u", op);
	r = req_fields(&c, d, ret);
	if (r < 0) {
		priv_req_done(ret);
		return err_set(err, r, "malformed %s request", d->name);
	}
	return 0;
}

/* ---- replies ---- */

static void put_u64s(struct buf *b, const uint64_t *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		buf_put_u64(b, v[i]);
}

static void rep_put(const struct priv_rep *m, unsigned f, struct buf *b)
{
	if (f & PR_INFO) {
		buf_put_u32(b, m->info.version);
		buf_put_str(b, m->info.tag);
		buf_put_str(b, m->info.limits);
		buf_put_u8(b, m->info.kvm);
		buf_put_u32(b, m->info.slots_max);
	}
	if (f & PR_SLOT) {
		buf_put_u32(b, m->slot);
		buf_put_str(b, m->host_addr);
	}
	if (f & PR_STATS)
		put_u64s(b, m->stats, ARRAY_SIZE(m->stats));
	if (f & PR_PID)
		buf_put_u32(b, m->pid);
	if (f & PR_STATUS)
		buf_put_u32(b, m->status);
	if (f & PR_VMS) {
		buf_put_u32(b, m->cursor);
		buf_put_u32(b, m->n_vms);
		for (uint32_t i = 0; i < m->n_vms; i++) {
			buf_put_str(b, m->vms[i].vm_id);
			buf_put_u32(b, (uint32_t)m->vms[i].slot);
			buf_put_u32(b, m->vms[i].pid);
		}
	}
	if (f & PR_SLOTS) {
		buf_put_u32(b, m->n_slots);
		for (uint32_t i = 0; i < m->n_slots; i++)
			buf_put_u32(b, m->slots[i]);
	}
	if (f & PR_VM_STATS)
		put_u64s(b, m->vm_stats, ARRAY_SIZE(m->vm_stats));
	if (f & PR_BLOCKED)
		priv_blocked_put(m->blocked, m->n_blocked, b);
	if (f & PR_PEERS)
		priv_wg_seen_put(m->peers, m->n_peers, b);
}

int priv_rep_encode(const struct priv_rep *m, unsigned op, struct buf *out, struct err *err)
{
	const struct op_desc *d = op_of(op);

	if (m->code > 0 || m->n_vms > PRIV_LIST_MAX || m->n_slots > PRIV_SLOTS_LIMIT ||
	    m->n_blocked > PRIV_BLOCKED_MAX || m->n_peers > PRIV_WG_PEERS_MAX)
		return err_set(err, -EINVAL, "reply out of its limits");
	buf_put_u32(out, m->id);
	buf_put_u32(out, (uint32_t)-m->code);
	buf_put_str(out, m->msg);
	if (m->code == 0 && d)
		rep_put(m, d->rep, out);
	if (out->failed)
		return err_set(err, -ENOMEM, "reply: out of memory");
	return 0;
}

int priv_rep_id(const void *p, size_t n, uint32_t *ret_id)
{
	struct rd c = rd_of(p, n);

	return rd_u32(&c, ret_id);
}

static int get_u64s(struct rd *c, uint64_t *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (rd_u64(c, &v[i]) < 0)
			return -EBADMSG;
	return 0;
}

static int get_vms(struct rd *c, struct priv_rep *m)
{
	if (rd_u32(c, &m->cursor) < 0 || rd_u32(c, &m->n_vms) < 0 || m->n_vms > PRIV_LIST_MAX)
		return -EBADMSG;
	for (uint32_t i = 0; i < m->n_vms; i++) {
		uint32_t slot;

		if (rd_str(c, m->vms[i].vm_id, sizeof(m->vms[i].vm_id)) < 0 ||
		    !priv_vm_id_valid(m->vms[i].vm_id) || rd_u32(c, &slot) < 0 ||
		    rd_u32(c, &m->vms[i].pid) < 0)
			return -EBADMSG;
		m->vms[i].slot = (int32_t)slot;
	}
	return 0;
}

static int rep_get(struct rd *c, unsigned f, struct priv_rep *m)
{
	if ((f & PR_INFO) &&
	    (rd_u32(c, &m->info.version) < 0 || rd_str(c, m->info.tag, sizeof(m->info.tag)) < 0 ||
	     rd_str(c, m->info.limits, sizeof(m->info.limits)) < 0 ||
	     get_bool(c, &m->info.kvm) < 0 || rd_u32(c, &m->info.slots_max) < 0))
		return -EBADMSG;
	if ((f & PR_SLOT) &&
	    (rd_u32(c, &m->slot) < 0 || rd_str(c, m->host_addr, sizeof(m->host_addr)) < 0))
		return -EBADMSG;
	if ((f & PR_STATS) && get_u64s(c, m->stats, ARRAY_SIZE(m->stats)) < 0)
		return -EBADMSG;
	if ((f & PR_PID) && rd_u32(c, &m->pid) < 0)
		return -EBADMSG;
	if ((f & PR_STATUS) && rd_u32(c, &m->status) < 0)
		return -EBADMSG;
	if ((f & PR_VMS) && get_vms(c, m) < 0)
		return -EBADMSG;
	if (f & PR_SLOTS) {
		if (rd_u32(c, &m->n_slots) < 0 || m->n_slots > PRIV_SLOTS_LIMIT)
			return -EBADMSG;
		for (uint32_t i = 0; i < m->n_slots; i++)
			if (rd_u32(c, &m->slots[i]) < 0)
				return -EBADMSG;
	}
	if ((f & PR_VM_STATS) && get_u64s(c, m->vm_stats, ARRAY_SIZE(m->vm_stats)) < 0)
		return -EBADMSG;
	if ((f & PR_BLOCKED) && priv_blocked_get(c, m->blocked, &m->n_blocked) < 0)
		return -EBADMSG;
	if ((f & PR_PEERS) && priv_wg_seen_get(c, m->peers, &m->n_peers) < 0)
		return -EBADMSG;
	return rd_end(c);
}

int priv_rep_decode(const void *p, size_t n, unsigned op, struct priv_rep *ret, struct err *err)
{
	const struct op_desc *d = op_of(op);
	struct rd c = rd_of(p, n);
	uint32_t code;

	memset(ret, 0, sizeof(*ret));
	if (!d || rd_u32(&c, &ret->id) < 0 || rd_u32(&c, &code) < 0 || code > 4095 ||
	    rd_str(&c, ret->msg, sizeof(ret->msg)) < 0)
		return err_set(err, -EBADMSG, "malformed reply from pando-priv");
	ret->code = -(int)code;
	if (code == 0 && rep_get(&c, d->rep, ret) < 0)
		return err_set(err, -EBADMSG, "malformed %s reply from pando-priv", d->name);
	if (rd_end(&c) < 0)
		return err_set(err, -EBADMSG, "malformed %s reply from pando-priv", d->name);
	return 0;
}

size_t priv_rep_fds(unsigned op, const struct priv_rep *m)
{
	const struct op_desc *d = op_of(op);

	if (!d || m->code)
		return 0;
	return op == PRIV_VM_LIST ? m->n_vms : d->fds;
}
