/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/vm/rig.h"
#include "tests/unit/db_fx.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/io.h"
#include "cluster/lease.h"
#include "net/dns.h"
#include "net/gate.h"
#include "node/node.h"
#include "objects/objects.h"
#include "secret/secret.h"
#include "store/store.h"
#include "store/store_cluster.h"
#include "store/store_object.h"
#include "vm/template.h"
#include "vm/template_own.h"
#include "vm/vm_internal.h"

#define SETTLE_MS 60000
#define AHEAD_LEAST 2u /* of ready VMs and blank processes, whatever is asked for: ahead.c */

const struct vm_times rig_times = {
	.agent_boot = 3000,
	.agent_thaw = 3000,
	.agent_reconnect = 2000,
	.agent_greet = 1000,
	.agent_silent = 1000,
	.settle = 1000,
	.quiesce = 1500,
	.shutdown_ask = 1500,
	.shutdown = 3000,
	.death = 250,
	.guest_step = 3000,
	.grow = 3000,
	.trim = 3000,
	.boot_done = 60000,
	.template_wait = 120000,
	.look = 500,
	.quiet = 1,
	.retry = 50,
	.pool_step = 1500,
	.pool_warm = 3000,
	.room_wait = 5000,
	.diff_soft = 5000,
	.diff_hard = 10000,
	.end_wait = 1000,
};

/* Templates are made once per program: the next data directory finds it here. */
static char template_dir[128];

int rig_main_begin(void)
{
	struct err err = { 0 };
	const char *base = getenv("TMPDIR");

	if (fake_begin(&err) < 0) {
		fprintf(stderr, "the fake machines' host cannot start: %s\n", err.msg);
		return 1;
	}
	snprintf(template_dir, sizeof(template_dir), "%s/pando-tpl-XXXXXX",
	         base && *base ? base : "/tmp");
	if (!mkdtemp(template_dir))
		return 1;
	log_init("test", getenv("PANDO_TEST_LOG") ? LOG_LV_DEBUG : LOG_LV_ERROR + 1);
	return 0;
}

/* Of tests that failed before rig_free(): their machines end with fake_end(). */
static struct {
	char dir[128];
} left[32];

void rig_main_end(void)
{
	fake_end();
	for (size_t i = 0; i < ARRAY_SIZE(left); i++)
		if (*left[i].dir)
			io_remove_tree(AT_FDCWD, left[i].dir, NULL);
	io_remove_tree(AT_FDCWD, template_dir, NULL);
}

/* Between the fake and whoever wants to break something: a dead manager reaches nobody. */
static int on_call(void *ctx, enum fake_face face, const char *what, const char *object)
{
	struct rig *r = ctx;
	int (*fn)(void *, enum fake_face, const char *, const char *) = r->on_call;

	if (__atomic_load_n(&r->dead, __ATOMIC_ACQUIRE))
		return EIO;
	return fn ? fn(r->ctx, face, what, object) : 0;
}

/* The base disk: nothing but a size. */
static int make_image(const char *dir, uint32_t mb)
{
	char path[256];
	autofd int fd = -1;

	if (io_mkdirs(dir, 0755, NULL) < 0)
		return -1;
	snprintf(path, sizeof(path), "%s/rootfs.raw", dir);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	return fd < 0 ? -1 : ftruncate(fd, (off_t)mb << 20);
}

static void lease_over(void *ctx)
{
	fprintf(stderr, "rig: the lease is over\n");
	_exit(3);
}

/* RIG_NODE "name address" of RIG_DATABASE, whose key of secrets is RIG_SECRET. */
static int open_node(struct rig *r, struct err *err)
{
	/* A test waits for deaths, and the machine may be busy. */
	static const struct lease_conf times = {
		.lease_ms = 8000, .renew_ms = 500, .margin_ms = 1500, .retry_ms = 1500
	};
	struct secrets_conf c = { .data_dir = r->data_dir, .file = getenv("RIG_SECRET"), .fd = -1 };
	struct node_conf nc = { .times = &times,
		                .quota = { QUOTA_NONE, QUOTA_NONE, QUOTA_NONE, QUOTA_NONE,
		                           QUOTA_NONE, QUOTA_NONE },
		                .over = lease_over };
	bool fresh;
	int k;

	if (sscanf(getenv("RIG_NODE"), "%63s %63s", nc.self.name, nc.self.address) != 2)
		return err_set(err, -EINVAL, "RIG_NODE is not 'name address'");
	if ((k = node_self_id(r->data_dir, nc.self.id, err)) < 0 ||
	    (k = store_start(r->data_dir, getenv("RIG_DATABASE"), nc.self.id, &r->store, &fresh,
	                     err)) < 0)
		return k;
	c.create = !store_is_sealed(r->store);
	if ((k = secrets_open(&c, &r->secrets, err)) < 0 ||
	    (k = store_unlock(r->store, r->secrets, err)) < 0 ||
	    (k = secrets_settle(r->secrets, err)) < 0)
		return k;
	nc.store = r->store;
	nc.adopt = !fresh;
	nc.self.vcpus = 2;
	nc.self.mem_mb = 4096;
	return node_open(&nc, &r->node, err);
}

/* With its secrets sealed, as pandod's is. */
static int open_store(struct rig *r, struct err *err)
{
	struct secrets_conf c = { .data_dir = r->data_dir, .file = "", .fd = -1 };
	struct tmpdir dir;
	char where[256];
	int k;

	snprintf(dir.path, sizeof(dir.path), "%s", r->data_dir);
	if (getenv("RIG_NODE"))
		return open_node(r, err);
	if ((k = r->opts.open ? r->opts.open(r, err)
	                      : store_open(db_at(&dir, "pando.db", where, sizeof(where)), &r->store,
	                                   err)) < 0)
		return k;
	c.create = !store_is_sealed(r->store);
	if ((k = secrets_open(&c, &r->secrets, err)) < 0 ||
	    (k = store_unlock(r->store, r->secrets, err)) < 0)
		return k;
	if ((k = secrets_settle(r->secrets, err)) < 0)
		return k;
	return r->opts.join ? r->opts.join(r, err) : 0;
}

struct rig *rig_new(const struct rig_opts *o)
{
	struct rig *r = calloc(1, sizeof(*r));
	const char *base = getenv("TMPDIR");
	struct err err = { 0 };

	assert_non_null(r);
	if (o)
		r->opts = *o;
	r->opts.vcpus = r->opts.vcpus ? r->opts.vcpus : 1;
	r->opts.mem_mb = r->opts.mem_mb ? r->opts.mem_mb : 512;
	r->opts.disk_mb = r->opts.disk_mb ? r->opts.disk_mb : 1;
	snprintf(r->dir, sizeof(r->dir), "%s/pando-vm-XXXXXX", base && *base ? base : "/tmp");
	assert_non_null(mkdtemp(r->dir));
	for (size_t i = 0; i < ARRAY_SIZE(left); i++)
		if (!*left[i].dir) {
			snprintf(left[i].dir, sizeof(left[i].dir), "%s", r->dir);
			break;
		}
	if (r->opts.data_dir)
		snprintf(r->data_dir, sizeof(r->data_dir), "%s", r->opts.data_dir);
	else
		snprintf(r->data_dir, sizeof(r->data_dir), "%s/data", r->dir);
	snprintf(r->image_dir, sizeof(r->image_dir), "%s/image", r->dir);
	assert_int_equal(io_mkdirs(r->data_dir, 0700, NULL), 0);
	assert_int_equal(make_image(r->image_dir, r->opts.disk_mb), 0);
	r->fake = fake_new(r->data_dir);
	assert_non_null(r->fake);
	r->fake->on_call = on_call;
	r->fake->ctx = r;
	if (r->opts.prepare)
		r->opts.prepare(r);
	if (open_store(r, &err) < 0 ||
	    (!r->opts.no_account &&
	     store_account_create(r->store, RIG_ACCOUNT, RIG_ACCOUNT, &err) < 0) ||
	    rig_start(r, &err) < 0)
		fail_msg("rig: %s", err.msg);
	return r;
}

static int open_objects(struct rig *r, struct err *err)
{
	char id[ID_SIZE];
	struct objects_conf c = { .url = r->opts.objects,
		                  .key_id = "id",
		                  .secret = "secret",
		                  .credentials = "",
		                  .cluster = id,
		                  .transfers = 4,
		                  .stall_ms = 1000,
		                  .pause_ms = 4 };
	int k;

	if (!r->opts.objects)
		return 0;
	k = store_objects_id(r->store, id, err);
	return k < 0 ? k : objects_open(&c, &r->objects, err);
}

static struct vmm_conf conf_of(const struct rig *r)
{
	struct vmm_conf c = { .vcpus = r->opts.vcpus,
		              .mem_mb = r->opts.mem_mb,
		              .disk_mb = r->opts.disk_mb,
		              .pool = r->opts.pool,
		              .seeds = r->opts.seeds,
		              .ahead_mem_mb = 4096,
		              .blanks = r->opts.blanks,
		              .gates = r->gates,
		              .events = r->opts.events,
		              .objects = r->objects,
		              .objects_keep_s = 3600,
		              .wg_port = 51820,
		              .quota = { QUOTA_NONE, QUOTA_NONE, QUOTA_NONE, QUOTA_NONE, QUOTA_NONE,
		                         QUOTA_NONE },
		              .busy_wait_s = 30,
		              .times = r->opts.times ? r->opts.times : &rig_times };

	if (!r->opts.no_sizes_disk)
		c.sizes_disk_mb = 4096;
	if (r->opts.quota_vcpus)
		c.quota.vcpus = r->opts.quota_vcpus;
	c.n_sizes = r->opts.size_vcpus ? 1 : 0;
	c.sizes[0].vcpus = r->opts.size_vcpus;
	c.sizes[0].mem_mb = r->opts.size_mem_mb;
	snprintf(c.data_dir, sizeof(c.data_dir), "%s", r->data_dir);
	snprintf(c.image_dir, sizeof(c.image_dir), "%s", r->image_dir);
	snprintf(c.template_dir, sizeof(c.template_dir), "%s", template_dir);
	return c;
}

void rig_forget_templates(void)
{
	int fd = open(template_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *de;

	while (d && (de = readdir(d)))
		if (de->d_name[0] != '.')
			io_remove_tree(dirfd(d), de->d_name, NULL);
	if (d)
		closedir(d);
}

int rig_start(struct rig *r, struct err *err)
{
	struct vmm_conf c;
	int k = 0;

	r->dead = false;
	if ((!r->store && (k = open_store(r, err)) < 0) || (k = open_objects(r, err)) < 0 ||
	    (k = fake_priv_new(r->fake, &r->priv, &r->priv_info, err)) < 0 ||
	    (k = fake_engine_new(r->fake, r->priv, &r->engine, err)) < 0 ||
	    (k = dns_start(&r->dns, "127.0.0.1:1", err)) < 0 ||
	    (k = gates_new(r->priv, r->dns, NULL, &r->gates, err)) < 0) {
		rig_stop(r);
		return k;
	}
	c = conf_of(r);
	k = vmm_new(&c, r->store, r->engine, r->priv, &r->priv_info, r->dns, &r->vmm, err);
	if (k == 0 && r->opts.ca)
		k = vmm_trust(r->vmm, r->opts.ca, /* domain= */ "", err);
	if (k == 0 && !r->opts.no_template)
		k = vmm_wait_template(r->vmm, err);
	if (k < 0)
		rig_stop(r);
	return k;
}

void rig_stop(struct rig *r)
{
	r->vmm = vmm_free(r->vmm);
	r->objects = objects_close(r->objects);
	r->dns = dns_stop(r->dns);
	r->gates = gates_free(r->gates);
	r->engine = engine_free(r->engine);
	r->priv = privc_free(r->priv);
	if (r->opts.leave)
		r->opts.leave(r);
	r->node = node_close(r->node);
	store_close(r->store);
	r->store = NULL;
	r->secrets = secrets_close(r->secrets);
}

void rig_crash(struct rig *r)
{
	__atomic_store_n(&r->dead, true, __ATOMIC_RELEASE);
	rig_stop(r);
}

struct rig *rig_free(struct rig *r)
{
	if (!r)
		return NULL;
	rig_stop(r);
	fake_free(r->fake);
	io_remove_tree(AT_FDCWD, r->dir, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(left); i++)
		if (!strcmp(left[i].dir, r->dir))
			left[i].dir[0] = '\0';
	free(r);
	return NULL;
}

/* m->lock held */
static bool at_work(struct rig *r, struct vmm *m)
{
	struct vmm_status st = { 0 };
	uint32_t vcpus, mem_mb;
	char point[ID_SIZE];

	pool_status(m, &st);
	for (size_t i = 0; i < m->vms.n; i++) { /* whose end the reaper has in hand */
		const struct vm_info *v = &m->vms.all[i]->shown;

		if ((v->state == VM_RUNNING || v->state == VM_SUSPENDING) &&
		    !fake_runs(r->fake, v->instance))
			return true;
	}
	if (r->opts.ca && !*m->own.told)
		return true; /* the server's own template will be made */
	if (r->opts.seeds && (own_pending(m, &m->own) || seed_useless(m, &vcpus, &mem_mb)))
		return true; /* with its seed */
	return m->n_debts || m->collect_wanted || m->keeping || m->making_ready ||
	       m->making_blank || m->making_size || m->making_own || m->n_starting ||
	       st.pool_ready < MIN(r->opts.pool, AHEAD_LEAST) ||
	       m->n_blanks < MIN(r->opts.blanks, AHEAD_LEAST) ||
	       (r->opts.pool && pool_wanted(m, point)) || (r->opts.blanks && blank_wanted(m));
}

/* On stderr: in a program that is not cmocka's, fail_msg() keeps its message to itself. */
static void say_work(struct rig *r, struct vmm *m)
{
	fprintf(stderr,
	        "at work: keeper %d %d, ready VMs %d, blank processes %d, starting %u, debts %zu\n",
	        m->keeping, m->collect_wanted, m->making_ready, m->making_blank, m->n_starting,
	        (size_t)m->n_debts);
	fprintf(stderr, "own template %s: being made %d, failed %u times\n", m->own.point,
	        m->making_own, m->own.failures);
	for (size_t i = 0; i < SEEDS_MAX; i++)
		if (m->seeds[i].vm)
			fprintf(stderr,
			        "seed of %s: lost %d, tried %d, failures %u, its machine %s\n",
			        m->seeds[i].point, m->seeds[i].lost, m->seeds[i].tried,
			        m->seed_failures,
			        fake_runs(r->fake, m->seeds[i].vm->row.info.instance)
			                ? "runs"
			                : "does not run");
	for (size_t i = 0; i < m->vms.n; i++) {
		const struct vm *vm = m->vms.all[i];

		fprintf(stderr, "VM %s is %s, its machine %s, watched %d, lost %d\n", vm->shown.id,
		        vm_state_name(vm->shown.state),
		        fake_runs(r->fake, vm->shown.instance) ? "runs" : "does not run",
		        vm->reaper_fd >= 0, vm->lost_process);
	}
}

/* Something that the keeper is to write down. */
static bool unsaved(struct vmm *m)
{
	size_t n = 0;
	struct vm **v = vmm_all(m, &n);
	bool yes = false;

	for (size_t i = 0; v && i < n; i++) {
		mutex_lock(&v[i]->lock);
		yes |= v[i]->unsaved || *v[i]->owed.id;
		vm_unlock(v[i]);
	}
	free(v);
	return yes;
}

void rig_seeded(struct rig *r)
{
	struct vmm *m = r->vmm;
	uint64_t until = deadline_in(SETTLE_MS);
	bool there = false;

	mutex_lock(&m->lock);
	m->seed_failures = 0;
	m->own.not_before_ms = 0;
	cond_broadcast(&m->cond);
	while (!there && clock_ms() < until) {
		struct vmm_status st = { 0 };

		seed_status(m, &st);
		there = !strcmp(st.seed, "ready") && !m->making_own;
		if (!there)
			cond_wait_until(&m->cond, &m->lock, deadline_in(20));
	}
	mutex_unlock(&m->lock);
	if (!there)
		fail_msg("no seed comes");
}

static void come_to_rest(struct rig *r);

void rig_settle(struct rig *r)
{
	for (int i = 0; i < 5; i++) { /* the keeper tries again in every round */
		come_to_rest(r);
		if (!unsaved(r->vmm))
			return;
	}
}

static void come_to_rest(struct rig *r)
{
	uint64_t until = deadline_in(SETTLE_MS);
	struct vmm *m = r->vmm;
	bool busy;

	vmm_collect_soon(m);
	mutex_lock(&m->lock);
	while ((busy = at_work(r, m)))
		if (!cond_wait_until(&m->cond, &m->lock, deadline_in(20)) && clock_ms() > until)
			break; /* not everything that ends is told to this one */
	if (busy)
		say_work(r, m);
	mutex_unlock(&m->lock);
	if (busy)
		fail_msg("the manager does not come to rest");
}

int rig_create(struct rig *r, const char *snapshot_id, struct vm_info *ret, struct err *err)
{
	struct vm_create_opts o = { .account = RIG_ACCOUNT,
		                    .snapshot_id = snapshot_id,
		                    .idle_timeout_s = -1,
		                    .persistence = { .type = PERSIST_STICKY, .priority = 5 } };

	return vmm_create(r->vmm, &o, ret, err);
}

int rig_exec(struct rig *r, const char *id, const char *command, char *out, size_t size,
             struct err *err)
{
	AUTO(guest_exec_result_done) struct guest_exec_result res = { 0 };
	AUTO(guest_unrefp) struct guest *g = NULL;
	struct guest_exec_req req = { .command = command, .timeout_ms = 20000 };
	int k = vmm_guest(r->vmm, RIG_ACCOUNT, id, &g, err);

	if (k < 0 || (k = guest_exec(g, &req, &res, err)) < 0)
		return k;
	if (out)
		snprintf(out, size, "%s", res.out ? res.out : "");
	if (res.exit_code || res.timed_out)
		return err_set(err, -EIO, "'%s' ended with %d", command, res.exit_code);
	return 0;
}

int rig_usable(struct rig *r, const char *id, struct err *err)
{
	struct vm_info i;
	char out[32];
	int k;

	for (int round = 0; round < 2; round++) {
		if ((k = rig_exec(r, id, "echo hello", out, sizeof(out), err)) < 0)
			return err_wrap(err, k, "exec %s suspend", round ? "after" : "before");
		if (strcmp(out, "hello\n") != 0)
			return err_set(err, -EIO, "exec said '%s'", out);
		if (round == 0 && (k = vmm_suspend(r->vmm, RIG_ACCOUNT, id, &i, err)) < 0)
			return err_wrap(err, k, "suspend");
	}
	return 0;
}
