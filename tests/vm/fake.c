/* SPDX-License-Identifier: Apache-2.0 */
/* fake.c - machines and slots of a fake host, and the root helper's face of them */
#include "tests/vm/fake.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/lock.h"
#include "base/sock.h"
#include "privc/priv_ops.h"
#include "tests/vm/fakehost.h"

/* ---- the program that starts machines: one for the whole process ---- */

static struct {
	struct mutex lock;
	int fd; /* owned */
	pid_t pid;
} host = { .lock = MUTEX_INIT("test: fake machines' host"), .fd = -1 };

int fake_begin(struct err *err)
{
	const char *exe = getenv("PANDO_FAKEHOST"), *kernel = getenv("PANDO_KERNEL");
	struct fakehost_rep hello = { 0 };
	int pair[2];

	if (!exe || !kernel)
		return err_set(err, -EINVAL, "PANDO_FAKEHOST and PANDO_KERNEL are not set");
	signal(SIGPIPE, SIG_IGN);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_sys(err, -errno, "socketpair");
	host.pid = fork();
	if (host.pid < 0)
		return err_sys(err, -errno, "fork");
	if (host.pid == 0) {
		if (dup2(pair[1], 3) < 0)
			_exit(1);
		close_range(4, ~0u, 0);
		execl(exe, "fakehost", kernel, NULL);
		_exit(127);
	}
	close(pair[1]);
	host.fd = pair[0];
	if (read(host.fd, &hello, sizeof(hello)) != sizeof(hello))
		return err_set(err, -EIO, "'%s' does not start", exe);
	if (hello.code < 0)
		return err_sys(err, hello.code, "a mount namespace for fake guests");
	return 0;
}

void fake_end(void)
{
	if (host.fd >= 0)
		close(TAKE_FD(host.fd));
	if (host.pid > 0)
		waitpid(host.pid, NULL, 0);
	host.pid = 0;
}

static int host_ask(const struct fakehost_req *q, struct fakehost_rep *ret)
{
	LOCK_SCOPE(&host.lock);

	if (write(host.fd, q, sizeof(*q)) != sizeof(*q) ||
	    read(host.fd, ret, sizeof(*ret)) != sizeof(*ret))
		return -EPIPE;
	return ret->code;
}

/* ---- the table ---- */

struct fake *fake_new(const char *data_dir)
{
	struct fake *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	snprintf(f->data_dir, sizeof(f->data_dir), "%s", data_dir);
	mutex_init(&f->lock, "test: fake machines");
	f->wake_fd = -1;
	return f;
}

struct fake_machine *fake_get(struct fake *f, const char *instance)
{
	for (size_t i = 0; i < FAKE_MACHINES_MAX; i++)
		if (!strcmp(f->machines[i].instance, instance))
			return &f->machines[i];
	return NULL;
}

bool fake_find(struct fake *f, const char *instance, struct fake_machine *ret)
{
	struct fake_machine *m;
	LOCK_SCOPE(&f->lock);

	m = *instance ? fake_get(f, instance) : NULL;
	if (m && ret)
		*ret = *m;
	return m;
}

/* Its process, as it is now; f->lock held. */
static bool still_runs(struct fake_machine *m)
{
	struct fakehost_rep a;

	if (!m->ended &&
	    host_ask(&(struct fakehost_req){ .op = FAKEHOST_STATUS, .pid = m->pid }, &a) == 0) {
		m->ended = true;
		m->status = a.status;
	}
	return !m->ended;
}

static void end(struct fake_machine *m)
{
	struct fakehost_rep a;

	if (m->ended)
		return;
	if (host_ask(&(struct fakehost_req){ .op = FAKEHOST_KILL, .pid = m->pid }, &a) == 0)
		m->status = a.status;
	m->ended = true;
}

static void end_fork(struct fake_fork *k)
{
	struct fakehost_rep a;

	host_ask(&(struct fakehost_req){ .op = FAKEHOST_KILL, .pid = k->pid }, &a);
	*k = (struct fake_fork){ 0 };
}

static struct fake_fork *find_fork(struct fake *f, const char *instance)
{
	for (size_t i = 0; i < FAKE_FORKS_MAX; i++)
		if (!strcmp(f->forks[i].instance, instance))
			return &f->forks[i];
	return NULL;
}

int fake_fork(struct fake *f, const char *instance, int *ret_pidfd, struct err *err)
{
	struct fakehost_req q = { .op = FAKEHOST_SPAWN };
	struct fakehost_rep a = { 0 };
	struct fake_fork *k;
	int r;
	LOCK_SCOPE(&f->lock);

	k = find_fork(f, "");
	if (!k)
		return err_set(err, -EAGAIN, "too many forks at once");
	snprintf(q.dir, sizeof(q.dir), "%s/run/%s", f->data_dir, instance);
	r = host_ask(&q, &a);
	if (r < 0)
		return err_sys(err, r, "fork: the machine does not start");
	*k = (struct fake_fork){ .pid = a.pid, .agent = a.agent };
	snprintf(k->instance, sizeof(k->instance), "%s", instance);
	*ret_pidfd = pidfd_open(a.pid, 0);
	if (*ret_pidfd >= 0)
		return 0;
	r = -errno;
	end_fork(k);
	return err_sys(err, r, "fork: pidfd");
}

void fake_fork_done(struct fake *f, const char *instance)
{
	struct fake_fork *k;
	LOCK_SCOPE(&f->lock);

	k = find_fork(f, instance);
	if (k)
		end_fork(k);
}

struct fake *fake_free(struct fake *f)
{
	if (!f)
		return NULL;
	for (size_t i = 0; i < FAKE_MACHINES_MAX; i++)
		if (*f->machines[i].instance)
			end(&f->machines[i]);
	for (size_t i = 0; i < FAKE_FORKS_MAX; i++)
		if (*f->forks[i].instance)
			end_fork(&f->forks[i]);
	if (f->wake_fd >= 0)
		close(f->wake_fd);
	mutex_destroy(&f->lock);
	free(f);
	return NULL;
}

void fake_die(struct fake *f, const char *instance)
{
	struct fake_machine *m;
	LOCK_SCOPE(&f->lock);

	m = fake_get(f, instance);
	if (m && still_runs(m))
		kill(m->pid, SIGKILL);
}

bool fake_runs(struct fake *f, const char *instance)
{
	struct fake_machine *m;
	LOCK_SCOPE(&f->lock);

	m = *instance ? fake_get(f, instance) : NULL;
	return m && still_runs(m);
}

size_t fake_alive(struct fake *f)
{
	size_t n = 0;
	LOCK_SCOPE(&f->lock);

	for (size_t i = 0; i < FAKE_MACHINES_MAX; i++)
		n += *f->machines[i].instance && still_runs(&f->machines[i]);
	return n;
}

size_t fake_slots(struct fake *f)
{
	size_t n = 0;
	LOCK_SCOPE(&f->lock);

	for (size_t i = 0; i < FAKE_SLOTS_MAX; i++)
		n += f->slots[i].taken;
	return n;
}

int fake_call(struct fake *f, enum fake_face face, const char *what, const char *object,
              struct err *err)
{
	int e = f->on_call ? f->on_call(f->ctx, face, what, object) : 0;

	if (!e || (e & FAKE_LOST))
		return e;
	return err_sys(err, -e, "%s: %s", face == FAKE_ENGINE ? "engine" : "helper", what);
}

/* ---- the helper's face ---- */

struct fake_priv {
	struct privc c;
	struct fake *f; /* weak */
};

static int refuse(struct priv_rep *rep, int code, const char *why)
{
	rep->code = code;
	snprintf(rep->msg, sizeof(rep->msg), "%s", why);
	return 0;
}

static int give_slot(struct fake *f, uint32_t idx, struct privc_answer *a)
{
	f->slots[idx].taken = true;
	a->rep.slot = idx;
	snprintf(a->rep.host_addr, sizeof(a->rep.host_addr), "10.231.0.%u", idx % 250);
	a->fds[0] = sock_udp_bind("127.0.0.1:0", NULL);
	a->fds[1] = sock_tcp_listen("127.0.0.1:0", NULL);
	a->n_fds = 2;
	return a->fds[0] < 0 || a->fds[1] < 0 ? -EIO : 0;
}

static int take_slot(struct fake *f, struct privc_answer *a)
{
	for (uint32_t i = 0; i < FAKE_SLOTS_MAX; i++)
		if (!f->slots[i].taken) {
			f->slots[i] = (struct fake_slot){ 0 };
			return give_slot(f, i, a);
		}
	return refuse(&a->rep, -EAGAIN, "no slot is free");
}

static int spawn(struct fake *f, const struct priv_req *q, struct privc_answer *a)
{
	struct fakehost_req hq = { .op = FAKEHOST_SPAWN };
	struct fakehost_rep ha = { 0 };
	struct fake_machine *m = NULL;
	int r;

	if ((m = fake_get(f, q->vm_id)) && still_runs(m))
		return refuse(&a->rep, -EEXIST, "such a VM runs already");
	for (size_t i = 0; i < FAKE_MACHINES_MAX && !m; i++)
		if (!*f->machines[i].instance)
			m = &f->machines[i];
	if (!m)
		return refuse(&a->rep, -EAGAIN, "too many machines");
	if (q->spawn.slot >= 0 && !f->slots[q->spawn.slot].taken)
		return refuse(&a->rep, -EINVAL, "the slot is not taken");
	snprintf(hq.dir, sizeof(hq.dir), "%s/run/%s", f->data_dir, q->vm_id);
	r = host_ask(&hq, &ha);
	if (r < 0)
		return refuse(&a->rep, r, "the machine does not start");
	*m = (struct fake_machine){ .pid = ha.pid,
		                    .agent = ha.agent,
		                    .slot = q->spawn.slot,
		                    .vcpus = q->spawn.vcpus,
		                    .mem_mb = q->spawn.mem_mb };
	snprintf(m->instance, sizeof(m->instance), "%s", q->vm_id);
	a->rep.pid = (uint32_t)ha.pid;
	a->fds[0] = pidfd_open(ha.pid, 0);
	a->n_fds = 1;
	return a->fds[0] < 0 ? -errno : 0;
}

/* What pando-priv does with a fork of a seed: a record, then the gate opens. */
static int take_fork(struct fake *f, const struct priv_req *q, struct privc_answer *a)
{
	struct fake_machine *seed = fake_get(f, q->fork.seed), *m = fake_get(f, q->vm_id);
	struct fake_fork *k = find_fork(f, q->vm_id);

	if (!seed || !still_runs(seed) || !seed->seed)
		return refuse(&a->rep, -ENOENT, "the seed is not running");
	if (m)
		return refuse(&a->rep, -EEXIST, "such a VM runs already");
	if (!k)
		return refuse(&a->rep, -EPERM, "the process is no fork");
	if (q->fork.slot < 0 || !f->slots[q->fork.slot].taken)
		return refuse(&a->rep, -EINVAL, "the slot is not taken");
	m = fake_get(f, "");
	if (!m)
		return refuse(&a->rep, -EAGAIN, "too many machines");
	*m = (struct fake_machine){ .pid = k->pid,
		                    .agent = k->agent,
		                    .slot = q->fork.slot,
		                    .vcpus = q->fork.vcpus,
		                    .mem_mb = q->fork.mem_mb };
	snprintf(m->instance, sizeof(m->instance), "%s", q->vm_id);
	snprintf(m->forked_of, sizeof(m->forked_of), "%s", q->fork.seed);
	*k = (struct fake_fork){ 0 };
	a->rep.pid = (uint32_t)m->pid;
	a->fds[0] = pidfd_open(m->pid, 0);
	a->n_fds = 1;
	return a->fds[0] < 0 ? -errno : 0;
}

static int list(struct fake *f, uint32_t cursor, struct privc_answer *a)
{
	struct priv_rep *rep = &a->rep;
	uint32_t i = cursor;

	for (; i < FAKE_MACHINES_MAX && rep->n_vms < PRIV_LIST_MAX; i++) {
		struct fake_machine *m = &f->machines[i];

		if (!*m->instance || !still_runs(m))
			continue;
		a->fds[a->n_fds] = pidfd_open(m->pid, 0);
		if (a->fds[a->n_fds] < 0)
			return -errno;
		a->n_fds++;
		rep->vms[rep->n_vms].pid = (uint32_t)m->pid;
		rep->vms[rep->n_vms].slot = m->slot;
		snprintf(rep->vms[rep->n_vms++].vm_id, sizeof(rep->vms[0].vm_id), "%.40s",
		         m->instance);
	}
	rep->cursor = i < FAKE_MACHINES_MAX ? i : PRIV_LIST_END;
	return 0;
}

static int about_vm(struct fake *f, const struct priv_req *q, struct privc_answer *a)
{
	struct fake_machine *m = fake_get(f, q->vm_id);

	if (!m)
		return q->op == PRIV_KILL ? 0 : refuse(&a->rep, -ENOENT, "no such VM");
	switch (q->op) {
	case PRIV_KILL:
		end(m);
		*m = (struct fake_machine){ 0 };
		return 0;
	case PRIV_EXIT_STATUS:
		if (still_runs(m))
			return refuse(&a->rep, -EAGAIN, "it still runs");
		a->rep.status = (uint32_t)m->status;
		return 0;
	default:
		a->rep.vm_stats[0] = 1000 + atomic_load(&f->cpu_us);
		a->rep.vm_stats[1] = a->rep.vm_stats[2] = 1 << 20;
		return 0;
	}
}

static int about_slot(struct fake *f, const struct priv_req *q, struct privc_answer *a)
{
	struct fake_slot *s = &f->slots[q->slot];

	if (q->slot >= FAKE_SLOTS_MAX || !s->taken)
		return refuse(&a->rep, -ENOENT, "the slot is not taken");
	switch (q->op) {
	case PRIV_SLOT_ADOPT:
		return give_slot(f, q->slot, a);
	case PRIV_SLOT_GATE:
		s->open = q->open;
		return 0;
	case PRIV_SLOT_FREE:
		*s = (struct fake_slot){ 0 };
		return 0;
	case PRIV_SLOT_UDP:
	case PRIV_SLOT_SOCKET:
		a->fds[0] = socket(AF_INET,
		                   (q->op == PRIV_SLOT_UDP ? SOCK_DGRAM : SOCK_STREAM) |
		                           SOCK_CLOEXEC | SOCK_NONBLOCK,
		                   0);
		a->n_fds = 1;
		return a->fds[0] < 0 ? -errno : 0;
	case PRIV_SLOT_PROXY:
		a->fds[0] = sock_tcp_listen("127.0.0.1:0", NULL);
		a->n_fds = 1;
		return a->fds[0] < 0 ? a->fds[0] : 0;
	default: /* policies, pins, numbers: nothing passes anyway */
		return 0;
	}
}

/* One VPC at a time is enough: the other end is the network. */
static int give_wake(struct fake *f, struct privc_answer *a)
{
	int p[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, p) < 0)
		return -errno;
	if (f->wake_fd >= 0)
		close(f->wake_fd);
	f->wake_fd = p[0];
	a->fds[0] = p[1];
	a->n_fds = 1;
	return 0;
}

static int answer(struct fake *f, const struct priv_req *q, struct privc_answer *a)
{
	switch (q->op) {
	case PRIV_SLOT_TAKE:
		return take_slot(f, a);
	case PRIV_SLOT_LIST:
		for (uint32_t i = 0; i < FAKE_SLOTS_MAX; i++)
			if (f->slots[i].taken)
				a->rep.slots[a->rep.n_slots++] = i;
		return 0;
	case PRIV_SPAWN:
		return spawn(f, q, a);
	case PRIV_FORK:
		return take_fork(f, q, a);
	case PRIV_VM_LIST:
		return list(f, q->cursor, a);
	case PRIV_KILL:
	case PRIV_EXIT_STATUS:
	case PRIV_VM_STATS:
		return about_vm(f, q, a);
	case PRIV_FENCE:
		f->fence_ms = q->fence_ms;
		return 0;
	case PRIV_VPC_REMOVE:
	case PRIV_VPC_PEERS: /* a tunnel that nobody has used */
	case PRIV_VPC_WG:
		return 0;
	case PRIV_VPC_FRESH:
		f->fresh_ttl_s = q->fresh.ttl_s;
		f->n_fresh++;
		return 0;
	case PRIV_VPC_WAKE:
		return give_wake(f, a);
	default:
		return about_slot(f, q, a);
	}
}

static int call(struct privc *c, struct priv_req *q, const int *fds, size_t n_fds,
                struct privc_answer **ret, struct err *err)
{
	struct fake *f = ((struct fake_priv *)c)->f;
	autoanswer struct privc_answer *a = NULL;
	int lost, r;

	(void)fds;
	(void)n_fds;
	lost = fake_call(f, FAKE_HELPER, priv_op_name(q->op), q->vm_id, err);
	if (lost < 0)
		return lost;
	a = calloc(1, sizeof(*a));
	if (!a)
		return err_set(err, -ENOMEM, "%s: out of memory", priv_op_name(q->op));
	mutex_lock(&f->lock);
	r = answer(f, q, a);
	mutex_unlock(&f->lock);
	if (r < 0)
		return err_sys(err, r, "%s", priv_op_name(q->op));
	if (lost) {
		if (q->op == PRIV_SLOT_TAKE &&
		    a->rep.code == 0) { /* as privc does when it comes late */
			mutex_lock(&f->lock);
			f->slots[a->rep.slot] = (struct fake_slot){ 0 };
			mutex_unlock(&f->lock);
		}
		lost &= ~FAKE_LOST;
		return err_sys(err, -lost, "%s: no answer", priv_op_name(q->op));
	}
	*ret = TAKE_PTR(a);
	return 0;
}

static void priv_free(struct privc *c)
{
	free(c);
}

static const struct priv_ops fake_priv_ops = { .call = call, .free = priv_free };

int fake_priv_new(struct fake *f, struct privc **ret, struct priv_info *ret_info, struct err *err)
{
	struct fake_priv *p = calloc(1, sizeof(*p));

	if (!p)
		return err_set(err, -ENOMEM, "out of memory");
	p->c.ops = &fake_priv_ops;
	p->f = f;
	*ret_info = (struct priv_info){ .version = PRIV_VERSION,
		                        .tag = "fake",
		                        .limits = "none",
		                        .slots_max = FAKE_SLOTS_MAX };
	*ret = &p->c;
	return 0;
}
