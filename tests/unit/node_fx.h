/* SPDX-License-Identifier: Apache-2.0 */
/* node_fx.h - two nodes of one database in one process; for tests only */
#pragma once

#include <stdlib.h>
#include <string.h>

#include "cluster/lease.h"
#include "node/node.h"
#include "store/store_cluster.h"
#include "store/store_internal.h"
#include "tests/unit/check.h"
#include "tests/unit/db_fx.h"
#include "tests/unit/store_row.h"
#include "tests/unit/tmpdir.h"

/* Short, so that a death is noticed soon; long enough for a machine that is busy. */
static const struct lease_conf quick = {
	.lease_ms = 4000, .renew_ms = 300, .margin_ms = 1000, .retry_ms = 1000
};

struct fx {
	struct tmpdir dir, other;
	char db[256];
	struct store *s, *t;
	struct node *n, *m;
};

static inline int setup(void **state)
{
	struct fx *f = calloc(1, sizeof(*f));

	if (!f || tmpdir_make(&f->dir) < 0 || tmpdir_make(&f->other) < 0)
		return -1;
	db_at(&f->dir, "pando.db", f->db, sizeof(f->db));
	*state = f;
	return 0;
}

static inline int teardown(void **state)
{
	struct fx *f = *state;

	node_close(f->n);
	node_close(f->m);
	store_close(f->s);
	store_close(f->t);
	tmpdir_remove(&f->dir);
	tmpdir_remove(&f->other);
	free(f);
	return 0;
}

static inline void open_store(struct fx *f, struct tmpdir *dir, struct store **ret,
                              char id[ID_SIZE], bool *ret_fresh)
{
	OK(node_self_id(dir->path, id, &err));
	OK(store_start(dir->path, f->db, id, ret, ret_fresh, &err));
}

static inline struct node_conf conf_of(struct store *s, const char *id, const char *name,
                                       const char *address, bool fresh)
{
	struct node_conf c = { .adopt = !fresh, .times = &quick, .store = s };

	c.quota = (struct vm_quota){ QUOTA_NONE, QUOTA_NONE, QUOTA_NONE,
		                     QUOTA_NONE, QUOTA_NONE, QUOTA_NONE };
	snprintf(c.self.id, sizeof(c.self.id), "%s", id);
	snprintf(c.self.name, sizeof(c.self.name), "%s", name);
	snprintf(c.self.address, sizeof(c.self.address), "%s", address);
	return c;
}

static inline void begin(struct node *n)
{
	struct node_hooks h = { 0 };

	OK(node_begin(n, &h, &err));
}

/* The first node, in this process. */
static inline void one(struct fx *f, bool watches)
{
	struct node_conf c;
	char id[ID_SIZE];
	bool fresh;

	open_store(f, &f->dir, &f->s, id, &fresh);
	c = conf_of(f->s, id, "one", "192.0.2.1:1", fresh);
	OK(node_open(&c, &f->n, &err));
	if (watches)
		begin(f->n);
}

static inline void two(struct fx *f)
{
	struct node_conf c;
	char id[ID_SIZE];
	bool fresh;

	open_store(f, &f->other, &f->t, id, &fresh);
	assert_true(fresh);
	c = conf_of(f->t, id, "two", "192.0.2.2:1", fresh);
	OK(node_open(&c, &f->m, &err));
}

static inline struct store_vm vm_row(struct store *s, const char *account, enum vm_state state)
{
	struct store_vm v = { .slot = -1 };

	id_make("", v.info.id);
	snprintf(v.info.account, sizeof(v.info.account), "%s", account);
	v.info.state = state;
	v.info.vcpus = 1;
	v.info.mem_mb = 100;
	v.info.disk_mb = 1000;
	store_vm_own(s, &v);
	return v;
}

/* The operator's, and one with that quota. */
static inline int add_accounts(struct store *s, int64_t vms, struct err *e)
{
	struct store_account a = STORE_ACCOUNT_NEW, first = STORE_ACCOUNT_NEW;
	int r;

	snprintf(first.id, sizeof(first.id), "operator");
	snprintf(a.id, sizeof(a.id), "acc");
	a.quota.vms = vms;
	r = store_account_add(s, &first, e);
	return r < 0 ? r : store_account_add(s, &a, e);
}

static inline enum vm_state state_of(struct store *s, const char *id)
{
	struct store_vm v;

	OK(store_vm_get(s, id, &v, &err));
	return v.info.state;
}

/* ---- joining ---- */
