/* SPDX-License-Identifier: Apache-2.0 */
/*
 * priv/op_fork.c - a fork of a seed becomes a VM
 *
 * The seed has forked itself at pandod's request; the new process is our child (CLONE_PARENT), has
 * one thread and waits at a gate: a socket of which pandod has handed us the other end. What it
 * claims is not believed: its pidfd must be of a child of ours, in the seed's pid namespace, and in
 * no table. Then it is made a VM like any other: a user id, a cgroup, a record; and only then the
 * gate opens, with its tap. If we die before, the gate closes and it ends.
 *
 * It was created in the seed's cgroup. With cgroup v2 it moves before it runs; with v1, where
 * moving takes long, a moment later, as every VM does.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"
#include "base/log.h"
#include "layers/control.h"
#include "priv/priv.h"
#include "priv/slot.h"
#include "priv/vms.h"

#define STATUS_MAX 4096 /* bytes of a file of /proc */

/* A line "name:\tvalue" of a file of /proc; the value, up to the end of its line. */
static int proc_line(const char *path, const char *name, char *ret, size_t size)
{
	autofree char *text = NULL;
	const char *at;
	size_t n;
	int r = io_read_file(AT_FDCWD, path, STATUS_MAX, &text, NULL);

	if (r < 0)
		return r;
	at = strstr(text, name);
	if (!at)
		return -ENOENT;
	at += strlen(name);
	at += strspn(at, ":\t ");
	n = strcspn(at, "\n");
	if (n >= size)
		return -EOVERFLOW;
	memcpy(ret, at, n);
	ret[n] = '\0';
	return 0;
}

static int pid_of(int pidfd, pid_t *ret)
{
	char path[64], text[32];
	long pid;
	int r;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", pidfd);
	r = proc_line(path, "Pid", text, sizeof(text));
	if (r < 0)
		return r;
	pid = strtol(text, NULL, 10);
	if (pid <= 1)
		return -ESRCH; /* not a process, or one that has ended */
	*ret = (pid_t)pid;
	return 0;
}

static bool same_pid_ns(pid_t a, pid_t b)
{
	char pa[64], pb[64];
	struct stat sa, sb;

	snprintf(pa, sizeof(pa), "/proc/%d/ns/pid", (int)a);
	snprintf(pb, sizeof(pb), "/proc/%d/ns/pid", (int)b);
	return stat(pa, &sa) == 0 && stat(pb, &sb) == 0 && sa.st_dev == sb.st_dev &&
	       sa.st_ino == sb.st_ino;
}

static bool known(struct priv *p, pid_t pid)
{
	if (pid == p->super.pandod.pid)
		return true;
	for (uint32_t i = 0; i < p->vms->top; i++)
		if (p->vms->vm[i].used && p->vms->vm[i].proc.pid == pid)
			return true;
	return false;
}

/* The process behind the descriptor is a new fork of that seed. */
static int check_fork(struct priv *p, const struct vm *seed, int pidfd, pid_t *ret, struct err *err)
{
	siginfo_t si = { 0 };
	int r = pid_of(pidfd, ret);

	if (r < 0)
		return err_sys(err, r, "fork of %s: its process", seed->id);
	/* Nothing to be waited for, but ours: else ECHILD. */
	if (waitid(P_PIDFD, (id_t)pidfd, &si, WEXITED | WNOHANG | WNOWAIT | __WALL) < 0)
		return err_sys(err, -errno, "fork of %s: process %d", seed->id, (int)*ret);
	if (si.si_pid)
		return err_set(err, -ESRCH, "fork of %s: process %d has ended", seed->id,
		               (int)*ret);
	if (known(p, *ret) || *ret == seed->proc.pid || !same_pid_ns(*ret, seed->proc.pid))
		return err_set(err, -EPERM, "fork of %s: process %d is none", seed->id, (int)*ret);
	return 0;
}

static int open_gate(struct priv *p, const struct vm *vm, int gate, struct err *err)
{
	struct layers_go go = { .uid = vm->uid, .n_tap = vm->slot >= 0 };
	autofd int tap = -1;
	ssize_t n;
	int r = vm->slot >= 0 ? slots_tap(p->slots, (uint32_t)vm->slot, &tap, err) : 0;

	if (r < 0)
		return r;
	n = sock_send_fds(gate, &go, sizeof(go), &tap, go.n_tap);
	return n < 0 ? err_sys(err, (int)n, "VM %s: open its gate", vm->id) : 0;
}

static int take(struct priv *p, struct request *rq, const struct vm *seed, struct vm *vm,
                struct err *err)
{
	pid_t pid;
	int r = check_fork(p, seed, rq->in[1], &pid, err);
	struct proc proc = { .pid = pid };

	if (r < 0)
		return r;
	proc.pidfd = fcntl(rq->in[1], F_DUPFD_CLOEXEC, 3);
	if (proc.pidfd < 0)
		return err_sys(err, -errno, "descriptor of VM %s", vm->id);
	vm->proc = proc;
	cgroup_enter(&p->cg, vm->group, &vm->limits, pid);
	if ((r = op_record(p, vm, &vm->proc, err)) < 0 || (r = op_begun(p, rq, vm, err)) < 0)
		return r;
	return open_gate(p, vm, rq->in[0], err);
}

int op_fork(struct priv *p, struct request *rq, struct err *err)
{
	const struct priv_req *m = &rq->m;
	struct vm *vm = NULL, *seed = vms_find(p->vms, m->fork.seed);
	uint64_t t0 = clock_us();
	int r;

	op_reap_strangers(p);
	if (!seed || seed->ended)
		return err_set(err, -ENOENT, "seed %s is not running", m->fork.seed);
	if ((r = op_check_new(p, m->vm_id, m->fork.slot, err)) < 0 ||
	    (r = vms_reserve(p->vms, m->vm_id, m->fork.slot, &vm, err)) < 0)
		return r;
	vm->limits = (struct cgroup_limits){ .mem_mb = m->fork.mem_mb, .vcpus = m->fork.vcpus };
	r = take(p, rq, seed, vm, err);
	if (r < 0) {
		op_undo_new(p, vm);
		return r;
	}
	vm->used = true;
	vms_forget_end(p->vms, vm->id);
	rq->rep.pid = (uint32_t)vm->proc.pid;
	log_obj(LOG_LV_INFO, "vm", vm->id, "process %d, uid %u, slot %d, a fork of %s, in %u us",
	        (int)vm->proc.pid, (unsigned)vm->uid, vm->slot, seed->id,
	        (unsigned)(clock_us() - t0));
	return 0;
}

/* Of a namespace below ours: it has more than one number. Programs that we run ourselves have not.
 */
static bool of_a_seed(pid_t pid)
{
	char path[64], text[128];

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	return proc_line(path, "NSpid", text, sizeof(text)) == 0 && strpbrk(text, "\t ");
}

void op_reap_strangers(struct priv *p)
{
	for (;;) {
		siginfo_t si = { 0 };

		if (waitid(P_ALL, 0, &si, WEXITED | WNOHANG | WNOWAIT | __WALL) < 0 || !si.si_pid ||
		    known(p, si.si_pid) || !of_a_seed(si.si_pid))
			return;
		waitpid(si.si_pid, NULL, __WALL | WNOHANG);
	}
}
