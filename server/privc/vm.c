/* SPDX-License-Identifier: Apache-2.0 */
/* privc/vm.c - jailed QEMU processes: each call is one request to pando-priv */
#include "privc/privc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "privc/privc_internal.h"

#define VMS_MAX 4096u /* more than pando-priv runs: stops an endless list */

_Static_assert(PRIVC_FILE_MAX == PRIV_FILE_MAX, "both sides limit QEMU's files alike");

/* Looks at the length before it is cut: a shortened id would be another VM's. */
static int set_id(struct priv_req *m, const char *vm_id, struct err *err)
{
	if (!vm_id || !priv_vm_id_valid(vm_id))
		return err_set(err, -EINVAL, "'%s' is not a VM id", vm_id ? vm_id : "");
	memcpy(m->vm_id, vm_id, strlen(vm_id) + 1);
	return 0;
}

static int copy_list(const char *const *from, const char **to, uint32_t max, uint32_t *ret_n,
                     struct err *err)
{
	uint32_t n = 0;

	for (; from && from[n]; n++) {
		if (n == max)
			return err_set(err, -E2BIG, "spawn: more than %u entries in a list", max);
		to[n] = from[n];
	}
	to[n] = NULL;
	*ret_n = n;
	return 0;
}

int privc_spawn(struct privc *c, const struct priv_spawn *s, struct proc *ret_proc, struct err *err)
{
	struct priv_req m = { .op = s->seed ? PRIV_SEED : PRIV_SPAWN };
	autoanswer struct privc_answer *a = NULL;
	int fds[PRIV_SPAWN_FDS_MAX + 1];
	int r = set_id(&m, s->vm_id, err);

	if (r < 0)
		return r;
	if (s->n_fds > PRIV_SPAWN_FDS_MAX)
		return err_set(err, -E2BIG, "spawn %s: %zu descriptors", s->vm_id, s->n_fds);
	m.spawn.slot = s->slot;
	m.spawn.mem_mb = s->mem_mb;
	m.spawn.vcpus = s->vcpus;
	m.spawn.kvm = s->kvm;
	if ((r = copy_list(s->argv, m.spawn.argv, PRIV_ARGV_MAX, &m.spawn.n_argv, err)) < 0 ||
	    (r = copy_list(s->env, m.spawn.env, PRIV_ENV_MAX, &m.spawn.n_env, err)) < 0)
		return r;
	fds[0] = s->log_fd;
	if (s->n_fds)
		memcpy(fds + 1, s->fds, s->n_fds * sizeof(int));
	r = privc_call(c, &m, fds, s->n_fds + 1, &a, err);
	if (r < 0)
		return r;
	*ret_proc = (struct proc){ .pid = (pid_t)a->rep.pid, .pidfd = TAKE_FD(a->fds[0]) };
	return 0;
}

int privc_fork(struct privc *c, const struct priv_fork *f, struct proc *ret_proc, struct err *err)
{
	struct priv_req m = { .op = PRIV_FORK };
	autoanswer struct privc_answer *a = NULL;
	const int fds[] = { f->gate_fd, f->pidfd };
	int r = set_id(&m, f->vm_id, err);

	if (r < 0)
		return r;
	if (!priv_vm_id_valid(f->seed))
		return err_set(err, -EINVAL, "'%s' is not a VM id", f->seed);
	memcpy(m.fork.seed, f->seed, strlen(f->seed) + 1);
	m.fork.slot = f->slot;
	m.fork.mem_mb = f->mem_mb;
	m.fork.vcpus = f->vcpus;
	r = privc_call(c, &m, fds, 2, &a, err);
	if (r < 0)
		return r;
	*ret_proc = (struct proc){ .pid = (pid_t)a->rep.pid, .pidfd = TAKE_FD(a->fds[0]) };
	return 0;
}

int privc_kill(struct privc *c, const char *vm_id, struct err *err)
{
	struct priv_req m = { .op = PRIV_KILL };
	int r = set_id(&m, vm_id, err);

	return r < 0 ? r : privc_call(c, &m, NULL, 0, NULL, err);
}

int privc_exit_status(struct privc *c, const char *vm_id, int *ret_status, struct err *err)
{
	struct priv_req m = { .op = PRIV_EXIT_STATUS };
	autoanswer struct privc_answer *a = NULL;
	int r = set_id(&m, vm_id, err);

	if (r == 0)
		r = privc_call(c, &m, NULL, 0, &a, err);
	if (r < 0)
		return r;
	*ret_status = (int)a->rep.status;
	return 0;
}

static void list_free(struct priv_vm *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		proc_close(&v[i].proc);
	free(v);
}

int privc_list(struct privc *c, struct priv_vm **ret, size_t *ret_n, struct err *err)
{
	struct priv_vm *v = calloc(1, sizeof(*v));
	uint32_t cursor = 0;
	size_t n = 0;

	if (!v)
		return err_set(err, -ENOMEM, "list of VMs: out of memory");
	do {
		struct priv_req m = { .op = PRIV_VM_LIST, .cursor = cursor };
		autoanswer struct privc_answer *a = NULL;
		struct priv_vm *grown = NULL;
		int r = privc_call(c, &m, NULL, 0, &a, err);

		if (r == 0 && !(grown = realloc(v, (n + a->rep.n_vms + 1) * sizeof(*v))))
			r = err_set(err, -ENOMEM, "list of VMs: out of memory");
		if (r < 0 || !grown) {
			list_free(v, n);
			return r;
		}
		v = grown;
		for (uint32_t i = 0; i < a->rep.n_vms; i++, n++) {
			const struct priv_rep_vm *from = &a->rep.vms[i];

			v[n] = (struct priv_vm){
				.slot = from->slot,
				.proc = { .pid = (pid_t)from->pid, .pidfd = TAKE_FD(a->fds[i]) },
			};
			memcpy(v[n].vm_id, from->vm_id, sizeof(from->vm_id));
		}
		cursor = a->rep.cursor;
	} while (cursor != PRIV_LIST_END && n < VMS_MAX);
	*ret = v;
	*ret_n = n;
	return 0;
}

int privc_vm_stats(struct privc *c, const char *vm_id, struct priv_vm_stats *ret, struct err *err)
{
	struct priv_req m = { .op = PRIV_VM_STATS };
	autoanswer struct privc_answer *a = NULL;
	int r = set_id(&m, vm_id, err);

	if (r == 0)
		r = privc_call(c, &m, NULL, 0, &a, err);
	if (r < 0)
		return r;
	*ret = (struct priv_vm_stats){ .cpu_us = a->rep.vm_stats[0],
		                       .mem_bytes = a->rep.vm_stats[1],
		                       .private_bytes = a->rep.vm_stats[2] };
	return 0;
}

int privc_fence(struct privc *c, uint64_t deadline_ms, struct err *err)
{
	struct priv_req m = { .op = PRIV_FENCE, .fence_ms = deadline_ms };
	autoanswer struct privc_answer *a = NULL;

	return privc_call(c, &m, NULL, 0, &a, err);
}
