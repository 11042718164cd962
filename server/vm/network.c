/* SPDX-License-Identifier: Apache-2.0 */
/*
 * network.c - a VM's policy and private address, from the request to the open gate
 *
 * Order: what a VM may reach is in the store before the VM is, is applied to its
 * slot before the gate opens, and stays in the kernel when this server dies.
 * Whoever brings a VM up opens its network through vm_open_network() and no
 * other way; when a step fails the gate stays closed and the machine is taken
 * down. A policy that cannot be read any more counts as closed.
 */
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/json_field.h"
#include "net/egress.h"
#include "net/egress_json.h"
#include "net/gate.h"
#include "store/store_net.h"
#include "vm/vm_internal.h"
#include "vm/vpc.h"

/* ---- the agent's part ---- */

int vm_run_script(struct vm *vm, const char *script, const char *const *env, const char *input,
                  struct err *err)
{
	struct guest_exec_req req = { .command = script,
		                      .env = env,
		                      .timeout_ms = vm->m->t.guest_step,
		                      .max_output = 4096,
		                      .stdin_data = (const uint8_t *)input,
		                      .stdin_len = input ? strlen(input) : 0 };
	struct guest_exec_result res = { 0 };
	int r = vm->guest ? guest_exec(vm->guest, &req, &res, err)
	                  : err_set(err, -ENOTCONN, "its agent cannot be reached");

	if (r == 0 && (res.exit_code || res.timed_out))
		r = err_set(err, -EIO, "%.200s", res.errout_len ? res.errout : "a script failed");
	guest_exec_result_done(&res);
	return r;
}

/* What agents do themselves that are not older than this (agent/trust.c). */
static const char trust_script[] =
        "set -e\n"
        "f=/usr/local/share/ca-certificates/$PANDO_NAME.crt\n"
        "b=/etc/ssl/certs/ca-certificates.crt\n"
        "mkdir -p /usr/local/share/ca-certificates /etc/ssl/certs\n"
        "cat >$f.new\n"
        "if cmp -s $f.new $f && [ -e /etc/ssl/certs/$PANDO_HASH.0 ]; then rm $f.new; exit 0; fi\n"
        "mv $f.new $f\n"
        "ln -sf $f /etc/ssl/certs/$PANDO_HASH.0\n"
        "ln -sf $f /etc/ssl/certs/$PANDO_NAME.pem\n"
        "if [ -e $b ]; then cat $b $f >$b.new; else cat $f >$b.new; fi\n"
        "chmod 644 $f $b.new\n"
        "mv $b.new $b\n";

int vm_trust_ca(struct vm *vm, const struct guest_ca *ca, struct err *err)
{
	char var[32], file[48];
	const char *env[] = { var, file, NULL };
	int r = vm->guest ? guest_trust(vm->guest, ca, deadline_in(vm->m->t.guest_step), err)
	                  : err_set(err, -ENOTCONN, "its agent cannot be reached");

	if (r != -EOPNOTSUPP)
		return r;
	snprintf(var, sizeof(var), "PANDO_HASH=%s", ca->hash);
	snprintf(file, sizeof(file), "PANDO_NAME=%s", ca->name);
	return vm_run_script(vm, trust_script, env, ca->pem, err);
}

int vmm_trust(struct vmm *m, const char *ca_pem, const char *domain, struct err *err)
{
	char hash[9];
	char *copy;
	int r = gate_ca_hash(ca_pem, hash, err);

	if (r < 0)
		return r;
	copy = strdup(ca_pem);
	if (!copy)
		return err_set(err, -ENOMEM, "out of memory");
	LOCK_SCOPE(&m->lock);
	free(m->ca_pem);
	m->ca_pem = copy;
	memcpy(m->ca_hash, hash, sizeof(hash));
	snprintf(m->ca_domain, sizeof(m->ca_domain), "%s", domain);
	cond_broadcast(&m->cond);
	return 0;
}

/* The template is shared by servers, which have other authorities. */
static char *local_ca(const struct vm *vm, struct guest_ca *ret)
{
	struct vmm *m = vm->m;
	LOCK_SCOPE(&m->lock);

	if (!m->ca_pem || vm->template)
		return NULL;
	ret->hash = m->ca_hash; /* as the domain, set once */
	ret->domain = m->ca_domain;
	return strdup(m->ca_pem);
}

int vm_trust_local(struct vm *vm)
{
	struct err err = { 0 };
	struct guest_ca ca = { .name = "pando-local" };
	uint64_t t0 = clock_us();
	autofree char *pem = vm->trusts ? NULL : local_ca(vm, &ca);
	int r;

	if (!pem)
		return 0;
	ca.pem = pem;
	vm->trusts = true;
	r = vm_trust_ca(vm, &ca, &err);
	if (r == 0) {
		vm_log(vm, LOG_LV_DEBUG, "trusts this server's CA after %.1f ms",
		       (double)(clock_us() - t0) / 1e3);
	} else {
		vm->untold = true;
		vm_log(vm, LOG_LV_WARN, "does not trust this server's CA: %s", err.msg);
		vm_tell(vm, EVENT_WARN,
		        "names of this server are not trusted over HTTPS in the VM: %s", err.msg);
	}
	return r;
}

void vm_net_trust(struct vm *vm)
{
	struct err err = { 0 };
	char hash[9];
	struct guest_ca ca = {
		.name = "pando-egress", .hash = hash, .pem = vm->net.ca_cert, .domain = ""
	};

	if (!ca.pem || (gate_ca_hash(ca.pem, hash, &err) == 0 && vm_trust_ca(vm, &ca, &err) == 0))
		return;
	vm_log(vm, LOG_LV_WARN, "does not trust its egress CA: %s", err.msg);
	vm_tell(vm, EVENT_WARN, "headers cannot be injected: %s", err.msg);
}

/* The address in the VPC, in place of the one it may have had before a fork. */
static const char address_script[] =
        "set -e\n"
        "d=$(ip -o -4 addr show to 10.0.0.2/32 | awk '{print $2; exit}')\n"
        "ip -o -4 addr show dev \"$d\" | awk '{print $4}' | while read -r a; do\n"
        "  case $a in 10.0.0.2/30|$PANDO_ADDR/32) ;; */32) ip addr del \"$a\" dev \"$d\" ;; esac\n"
        "done\n"
        "ip addr replace \"$PANDO_ADDR/32\" dev \"$d\"\n"
        "ip route replace \"$PANDO_NET\" via 10.0.0.1 dev \"$d\" src \"$PANDO_ADDR\"\n"
        "ip route replace 100.96.0.0/16 via 10.0.0.1 dev \"$d\" src \"$PANDO_ADDR\"\n"
        /* What leaves for elsewhere has this address too, and is let out as the other is. */
        "[ -z \"$PANDO_DEFAULT\" ] ||\n"
        "  ip route replace default via 10.0.0.1 dev \"$d\" src \"$PANDO_ADDR\"\n";

static int give_address(struct vm *vm, struct err *err)
{
	struct in_addr a = { .s_addr = htonl(vm->net.addr) },
	               n = { .s_addr = htonl(vm->net.vpc_net.net) };
	char text[INET_ADDRSTRLEN], addr[48], net[48];
	const char *env[] = { addr, net,
		              vm->net.is_default ? "PANDO_DEFAULT=1" : "PANDO_DEFAULT=", NULL };
	int r;

	if (!*vm->net.vpc)
		return 0;
	snprintf(addr, sizeof(addr), "PANDO_ADDR=%s", inet_ntop(AF_INET, &a, text, sizeof(text)));
	snprintf(net, sizeof(net), "PANDO_NET=%s/%u", inet_ntop(AF_INET, &n, text, sizeof(text)),
	         vm->net.vpc_net.prefix);
	r = vm_run_script(vm, address_script, env, NULL, err);
	return r < 0 ? err_wrap(err, r, "give VM %s its private address", vm->row.info.id) : 0;
}

/* ---- the slot's part ---- */

/* Whose share of forwarder and proxy it uses: a VM of the server itself has one of its own. */
static const char *holder_of(const struct vm *vm)
{
	return *vm->row.info.account ? vm->row.info.account : vm->row.info.id;
}

static int apply(struct vm *vm, bool as_built, struct err *err)
{
	struct gate_conf c = { .vm_id = vm->row.info.id,
		               .holder = holder_of(vm),
		               .policy = vm->net.waits ? NULL : vm->net.policy,
		               .log = vm->net.log,
		               .ca_cert = vm->net.ca_cert,
		               .ca_key = vm->net.ca_key,
		               .vpc = *vm->net.vpc ? vm->net.vpc : NULL,
		               .vpc_net = vm->net.vpc_net,
		               .vpc_addr = vm->net.addr,
		               .as_built = as_built };

	int r;

	if (*vm->net.vpc)
		knock_make_way(vm->m, vm->net.vpc, &vm->net.vpc_net);
	r = gate_set(vm->m->conf.gates, vm->slot.idx, &c, err);
	if (r == 0 && *vm->net.vpc)
		knock_open(vm->m, vm->net.vpc, &vm->net.vpc_net);
	return r;
}

int vm_net_apply(struct vm *vm, struct err *err)
{
	return apply(vm, /* as_built= */ false, err);
}

int vm_open_network(struct vm *vm, bool as_built, struct err *err)
{
	bool plain = egress_is_default(vm->net.waits ? NULL : vm->net.policy) && !*vm->net.vpc;
	int r;

	if (!vm->net.log && !(vm->net.log = gate_log_new()))
		return err_set(err, -ENOMEM, "out of memory");
	/* A slot as it is built is what a VM without a policy gets. */
	if ((r = apply(vm, plain && as_built, err)) < 0)
		return r;
	if (as_built) {
		if ((r = give_address(vm, err)) < 0)
			return r;
		vm_trust_local(vm);
		vm_site_apply(vm);
		vm_net_trust(vm);
	}
	r = dns_add(vm->m->dns, vm->slot.idx, holder_of(vm), TAKE_FD(vm->slot.dns_udp),
	            TAKE_FD(vm->slot.dns_tcp));
	if (r < 0)
		return err_sys(err, r, "DNS forwarding for VM %s", vm->row.info.id);
	return privc_slot_gate(vm->m->priv, vm->slot.idx, /* open= */ true, err);
}

/* ---- what a VM has ---- */

void vm_net_done(struct vm_net *n)
{
	egress_unref(n->policy);
	gate_log_unref(n->log);
	if (n->ca_key)
		explicit_bzero(n->ca_key, strlen(n->ca_key));
	free(n->ca_cert);
	free(n->ca_key);
	*n = (struct vm_net){ 0 };
}

static bool is_label(const char *s)
{
	size_t n = strlen(s);

	for (size_t i = 0; i < n; i++)
		if (!isalnum((unsigned char)s[i]) && s[i] != '-' && s[i] != '_')
			return false;
	return n && n < 64 && s[0] != '-';
}

static int set_names(struct vm *vm, uint32_t addr, struct err *err)
{
	const struct vm_info *i = &vm->row.info;
	struct gates *g = vm->m->conf.gates;
	int r = 0;

	if (!*vm->net.vpc)
		return 0;
	if (!addr)
		knock_unknow(vm);
	else if ((r = knock_know(vm, err)) < 0)
		return r;
	r = gates_name(g, vm->net.vpc, i->id, i->id, addr, err);
	if (r == 0 && is_label(i->name))
		r = gates_name(g, vm->net.vpc, i->name, i->id, addr, err);
	return r;
}

int vm_net_renamed(struct vm *vm, const char *was, struct err *err)
{
	if (*vm->net.vpc && is_label(was))
		gates_name(vm->m->conf.gates, vm->net.vpc, was, vm->row.info.id, 0, NULL);
	return set_names(vm, vm->net.addr, err);
}

void vm_net_forget(struct vm *vm)
{
	set_names(vm, 0, NULL);
	if (*vm->net.vpc)
		tunnels_sync(vm->m, vm->net.vpc); /* those that were asked for it are gone */
}

int vm_net_ca(struct vm *vm, const struct egress *e, struct err *err)
{
	if (!e || !e->n_inject || vm->net.ca_cert)
		return 0;
	return gate_ca_make(vm->row.info.id, &vm->net.ca_cert, &vm->net.ca_key, err);
}

int vm_net_save(struct vm *vm, const struct egress *e, struct err *err)
{
	autojson json_t *j = egress_json(e, /* secrets= */ true);
	struct store_egress row = { .policy = j ? json_dumps(j, JSON_COMPACT) : NULL,
		                    .ca_cert = vm->net.ca_cert,
		                    .ca_key = vm->net.ca_key };
	int r;

	if (!row.policy)
		return err_set(err, -ENOMEM, "out of memory");
	r = store_egress_put(vm->m->store, vm->row.info.id, &row, err);
	explicit_bzero(row.policy, strlen(row.policy));
	free(row.policy);
	return r;
}

int vm_net_begin(struct vm *vm, const struct vm_create_opts *o, struct err *err)
{
	int r;

	vm_net_done(&vm->net);
	if (o->nic &&
	    ((r = vpc_attach(vm, o->nic, err)) < 0 || (r = set_names(vm, vm->net.addr, err)) < 0))
		return r;
	if (!o->egress)
		return 0;
	vm->net.policy = egress_ref(o->egress);
	r = vm_net_ca(vm, o->egress, err);
	return r < 0 ? r : vm_net_save(vm, o->egress, err);
}

void vm_net_undo(struct vm *vm)
{
	vm_net_forget(vm);
	if (*vm->net.vpc || vm->net.policy)
		store_net_drop(vm->m->store, vm->row.info.id, NULL);
}

/* It trusts the same authority: it has the parent's memory and disk. */
int vm_net_inherit(struct vm_net *to, const struct vm_net *from, struct err *err)
{
	vm_net_done(to);
	if (!from->policy)
		return 0;
	to->policy = egress_ref(from->policy);
	if (from->ca_cert &&
	    (!(to->ca_cert = strdup(from->ca_cert)) || !(to->ca_key = strdup(from->ca_key))))
		return err_set(err, -ENOMEM, "out of memory");
	return 0;
}

int vm_net_share(struct vm_net *to, const struct vm_net *from, struct err *err)
{
	int r = vm_net_inherit(to, from, err);

	if (r < 0)
		return r;
	to->log = gate_log_ref(from->log);
	memcpy(to->vpc, from->vpc, sizeof(to->vpc));
	to->vpc_net = from->vpc_net;
	to->addr = from->addr;
	to->is_default = from->is_default;
	return 0;
}

int vm_net_fork(struct vm *vm, const struct vm_net *parent, struct err *err)
{
	struct vm_nic nic = { .account = vm->row.info.account,
		              .vpc = parent->vpc,
		              .is_default = parent->is_default };
	int r = vm_net_inherit(&vm->net, parent, err);

	if (r == 0 && *parent->vpc && (r = vpc_attach(vm, &nic, err)) == 0)
		r = set_names(vm, vm->net.addr, err);
	if (r == 0 && vm->net.policy)
		r = vm_net_save(vm, vm->net.policy, err);
	return r;
}

/* ---- from the store ---- */

static struct egress *closed(void)
{
	autojson json_t *j = json_pack("{s:s}", "mode", "closed");
	struct egress *e = NULL;

	return egress_parse(j, &e, NULL) == 0 ? e : NULL;
}

int vm_net_load(struct vm *vm, struct err *err)
{
	AUTO(store_egress_done) struct store_egress row = { 0 };
	autojson json_t *j = NULL;
	struct err why = { 0 };
	int r;

	r = vpc_load(vm, err);
	if (r < 0 || (r = set_names(vm, vm->net.addr, err)) < 0)
		return r;
	r = store_egress_get(vm->m->store, vm->row.info.id, &row, &why);
	if (r == -ENOENT)
		return 0;
	if (r < 0 && r != -EUCLEAN) /* that one will not be better next time: closed */
		return err_set(err, r, "%s", why.msg);
	if (r < 0 || json_text_parse(row.policy, strlen(row.policy), &j, &why) < 0 ||
	    egress_parse(j, &vm->net.policy, &why) < 0) {
		vm_log(vm, LOG_LV_ERROR, "its policy cannot be read, its network is closed: %s",
		       why.msg);
		vm->net.policy = closed();
		return vm->net.policy ? 0 : err_set(err, -ENOMEM, "out of memory");
	}
	if (*row.ca_cert) {
		vm->net.ca_cert = TAKE_PTR(row.ca_cert);
		vm->net.ca_key = TAKE_PTR(row.ca_key);
	}
	return 0;
}
