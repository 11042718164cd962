/* SPDX-License-Identifier: Apache-2.0 */
/* two.c - see two.h */
#include "tests/vm/two.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
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
#include "store/store_cluster.h"
#include "tests/unit/check.h"
#include "tests/unit/db_fx.h"
#include "vm/notes.h"
#include "vm/stored.h"

#define PATIENCE_MS 60000

/* Nobody waits for its end here, and no machine is slow enough to reach it. */
static const struct lease_conf leases = {
	.lease_ms = 600000, .renew_ms = 2000, .margin_ms = 10000, .retry_ms = 20000
};

static int open_db(struct rig *r, struct err *e)
{
	struct two_node *n = r->opts.own;
	autofree char *key = NULL;
	char path[300];
	bool fresh;
	int k;

	snprintf(path, sizeof(path), "%s/secret.key", r->data_dir);
	if (n == &n->all->n[0]) {
		snprintf(n->all->key, sizeof(n->all->key), "%s", path);
	} else if (access(path, F_OK) < 0) {
		if ((k = io_read_file(AT_FDCWD, n->all->key, 4096, &key, e)) < 0 ||
		    (k = io_write_file(AT_FDCWD, path, key, strlen(key), 0600, e)) < 0)
			return k;
	}
	k = node_self_id(r->data_dir, n->id, e);
	return k < 0 ? k : store_start(r->data_dir, n->all->db, n->id, &r->store, &fresh, e);
}

static void load(void *ctx, struct node_load *ret)
{
	*ret = (struct node_load){ .free_mb = 100000 };
}

static int join(struct rig *r, struct err *e)
{
	struct two_node *n = r->opts.own;
	struct node_conf c = { .adopt = n == &n->all->n[0], .times = &leases, .store = r->store };
	int k;

	c.quota = (struct vm_quota){ QUOTA_NONE, QUOTA_NONE, QUOTA_NONE,
		                     QUOTA_NONE, QUOTA_NONE, QUOTA_NONE };
	snprintf(c.self.id, sizeof(c.self.id), "%s", n->id);
	snprintf(c.self.name, sizeof(c.self.name), "%s", n->name);
	snprintf(c.self.address, sizeof(c.self.address), "%s", n->address);
	c.self.free_mb = 100000;
	k = node_open(&c, &n->node, e);
	return k < 0 ? k : node_begin(n->node, &(struct node_hooks){ .load = load }, e);
}

static void leave(struct rig *r)
{
	struct two_node *n = r->opts.own;

	n->node = node_close(n->node);
}

static struct rig *begin(struct two *t, int i)
{
	struct rig_opts o = { .objects = t->s3.url,
		              .no_account = i > 0,
		              .open = open_db,
		              .join = join,
		              .leave = leave,
		              .own = &t->n[i] };

	return rig_new(&o);
}

struct two *two_new(void)
{
	struct two *t = calloc(1, sizeof(*t));
	struct tmpdir dir;

	assert_non_null(t);
	assert_int_equal(tmpdir_make(&dir), 0);
	snprintf(t->dir, sizeof(t->dir), "%s", dir.path);
	db_at(&dir, "pando.db", t->db, sizeof(t->db));
	t->n[0] = (struct two_node){ .all = t, .name = "one", .address = "192.0.2.1:1" };
	t->n[1] = (struct two_node){ .all = t, .name = "two", .address = "192.0.2.2:1" };
	s3_mem_start(&t->s3);
	t->a = begin(t, 0);
	return t;
}

void two_join(struct two *t)
{
	t->b = begin(t, 1);
}

struct two *two_free(struct two *t)
{
	rig_free(t->b);
	rig_free(t->a);
	s3_mem_stop(&t->s3);
	io_remove_tree(AT_FDCWD, t->dir, NULL);
	free(t);
	return NULL;
}

void two_reap(struct two *t)
{
	struct store_node row;
	unsigned lost;

	OK(store_node_find(t->b->store, "one", &row, &err));
	if (row.alive)
		assert_int_equal(store_node_reap(t->b->store, &row, &lost, &err), 1);
}

int two_checkpoints(struct rig *r, const char *vm, int64_t every_s, struct err *e)
{
	struct vm_change c = { .opts = { VM_LEAVE, VM_LEAVE, -1 },
		               .delete_after_s = VM_LEAVE,
		               .checkpoint_every_s = every_s };
	struct vm_info i;

	return vmm_change(r->vmm, RIG_ACCOUNT, vm, &c, &i, e);
}

void two_stored(struct rig *r)
{
	uint64_t until = deadline_in(PATIENCE_MS);
	struct store_uploads_sum sum;

	for (;;) {
		OK(store_uploads_sum(r->store, &sum, &err));
		if (!sum.n)
			return;
		if (deadline_left(until) == 0)
			fail_msg("%llu files are not uploaded", (unsigned long long)sum.n);
		stored_soon(r->vmm);
		poll(NULL, 0, 5);
	}
}
