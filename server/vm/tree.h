/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vm/tree.h - the tree of points and VMs: look at it, go back in it, compare in it; for api/
 *
 * A point's parent is the point before it in the line of the machine that was frozen; a VM's
 * parent is the last point of its line. Parents that are gone are skipped. What an account sees is
 * its own, and the shared template as a root.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/id.h"
#include "vm/vm.h"

struct err;
struct store_tree;
struct vmm;

/*
 * enum tree_kind - what a node is
 * @TREE_TEMPLATE: the shared point default VMs are made from; belongs to nobody
 * @TREE_SNAPSHOT: a point that a snapshot names
 * @TREE_FORK: a point of a machine that ran on, and that no snapshot names (any more)
 * @TREE_SUSPEND: a point of a machine that was put to rest
 * @TREE_VM: a VM
 */
enum tree_kind { TREE_TEMPLATE, TREE_SNAPSHOT, TREE_FORK, TREE_SUSPEND, TREE_VM, TREE_KIND_MAX };
const char *tree_kind_name(enum tree_kind k);

struct tree_size {
	uint64_t own;    /* bytes of layers that nobody else uses */
	uint64_t shared; /* bytes of layers that others use too */
};

struct tree_node {
	char id[ID_SIZE];
	char parent[ID_SIZE]; /* "": a root */
	enum tree_kind kind;
	size_t snap_at, n_snaps; /* in vm_tree.snaps; the newest first */
	char name[VM_NAME_MAX];  /* of the VM or of the newest snapshot; "": none */
	char source_vm[ID_SIZE]; /* points: the VM that was frozen, while it exists; or "" */
	char parent_vm[ID_SIZE]; /* VMs: forked from, or "" */
	int64_t created_ms;
	enum vm_state state; /* VMs */
	uint32_t vcpus, mem_mb, disk_mb;
	struct tree_size mem, disk;
	uint64_t private_bytes; /* of a running VM's process, at history.c's last look */
	/* for tree.c */
	size_t up; /* index of the parent; SIZE_MAX: none */
	char mem_layer[ID_SIZE], disk_layer[ID_SIZE];
	bool at_rest; /* a VM whose layers are its point's */
};

struct tree_snap {
	char id[ID_SIZE], name[VM_NAME_MAX], point[ID_SIZE];
	int64_t created_ms;
};

struct vm_tree {
	struct tree_node *nodes; /* points, oldest first, then VMs: a parent before its children */
	size_t n;
	struct tree_snap *snaps; /* by point */
	size_t n_snaps;
	uint64_t mem_bytes, disk_bytes; /* each layer counted once */
};
/* vm_id NULL: all of the account. Else the family of that VM: what descends from its oldest point
 * that is not the template, and the template it came from. */
int vmm_tree(struct vmm *m, const char *account, const char *vm_id, struct vm_tree *ret,
             struct err *err);
void vm_tree_done(struct vm_tree *t);

/* tree_build.c: the pure part. layer_bytes (may be NULL) tells what a layer takes on disk; sealed
 * is its length, 0 while it is written to. */
typedef uint64_t (*tree_bytes_fn)(void *ctx, const char *layer, uint64_t sealed);
int tree_build(const struct store_tree *s, const char *vm_id, tree_bytes_fn layer_bytes, void *ctx,
               struct vm_tree *ret, struct err *err);

/* ---- rewind ---- */
struct vm_rewind {
	struct vm_info vm;
	char previous[ID_SIZE]; /* snapshot of what it was before, or "" */
};
/*
 * Memory and disk as they were at that snapshot of its ancestry; NULL: at the newest point of its
 * past
 * (-ENOENT SNAPSHOT_NOT_FOUND: there is none). What runs goes on running from
 * there, as a new generation; what does not rests there. On failure the VM is as before.
 */
int vmm_rewind(struct vmm *m, const char *account, const char *id, const char *snapshot_id,
               bool keep, struct vm_rewind *ret, struct err *err);

/* ---- diff ---- */
enum change_kind { CHANGE_ADDED, CHANGE_REMOVED, CHANGE_MODIFIED, CHANGE_TYPE, CHANGE_MAX };
const char *change_name(enum change_kind k);
enum { DIFF_IGNORE_MAX = 32, DIFF_LIMIT_MAX = 10000 };

struct vm_change {
	enum change_kind change;
	char *path; /* owned; any bytes but NUL */
	int kind;   /* enum guest_file_kind: here, or there when it is removed */
	bool here, there;
	uint64_t size, other_size; /* of files */
	int64_t mtime_ms;          /* here, or there when it is removed */
};
struct vm_diff_opts {
	const char *with;                    /* VM or snapshot */
	const char *root;                    /* only this file or tree; "/" for all */
	const char *after;                   /* go on behind this path; NULL: from the start */
	const char *ignore[DIFF_IGNORE_MAX]; /* trees */
	size_t n_ignore;
	size_t limit; /* changes */
};
struct vm_diff {
	struct vm_change *v; /* owned */
	size_t n;
	char *cursor; /* owned; where to go on, or NULL: this is all */
};
int vmm_diff(struct vmm *m, const char *account, const char *id, const struct vm_diff_opts *o,
             struct vm_diff *ret, struct err *err);
void vm_diff_done(struct vm_diff *d);
