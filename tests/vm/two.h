/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/vm/two.h - two managers over one PostgreSQL database and one object store; for tests only
 *
 * Each is a rig (rig.h) with a data directory, machines and a node of its own. A node that stops
 * leaves the cluster; one that crashed is taken over by two_reap(), as its lease would have it.
 */
#pragma once

#include "node/node.h"
#include "tests/vm/rig.h"
#include "tests/vm/s3_mem.h"

struct two {
	struct s3_mem s3;
	char dir[128]; /* names the database */
	char db[256];
	char key[300]; /* the file with the first one's key of secrets */
	struct two_node {
		struct two *all;
		const char *name, *address;
		struct node *node;
		char id[ID_SIZE];
	} n[2];
	struct rig *a, *b;
};

struct two *two_new(void);    /* the first one runs */
void two_join(struct two *t); /* the second one does */
struct two *two_free(struct two *t);
/* After rig_crash() of the first: the second takes over. */
void two_reap(struct two *t);
/* The VM gets a checkpoint every so often; 0: none. */
int two_checkpoints(struct rig *r, const char *vm, int64_t every_s, struct err *err);
/* Nothing of that node waits to be uploaded. */
void two_stored(struct rig *r);
