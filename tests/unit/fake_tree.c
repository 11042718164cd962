/* SPDX-License-Identifier: Apache-2.0 */
/* fake_tree.c - vm/tree.h and the terminals of guest.h for handlers: refusals, and one small tree
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "guest/guest.h"
#include "vm/tree.h"

const char *tree_kind_name(enum tree_kind k)
{
	static const char *const names[] = { "template", "snapshot", "fork", "suspend", "vm" };

	return names[k];
}

const char *change_name(enum change_kind k)
{
	static const char *const names[] = { "added", "removed", "modified", "type" };

	return names[k];
}

/* A template and the VMs of the account below it. */
int vmm_tree(struct vmm *m, const char *account, const char *vm_id, struct vm_tree *ret,
             struct err *err)
{
	struct vm_info *v = NULL, one;
	size_t n = 0;
	int r = vm_id ? vmm_get(m, account, vm_id, &one, err) : vmm_list(m, account, &v, &n, err);

	if (r < 0)
		return r;
	if (vm_id)
		n = 1;
	*ret = (struct vm_tree){ .nodes = calloc(n + 1, sizeof(*ret->nodes)), .n = n + 1 };
	if (!ret->nodes)
		abort();
	snprintf(ret->nodes[0].id, ID_SIZE, "pt-template");
	ret->nodes[0].mem.shared = 1000;
	for (size_t i = 0; i < n; i++) {
		struct tree_node *t = &ret->nodes[i + 1];

		t->kind = TREE_VM;
		t->state = v ? v[i].state : one.state;
		t->disk = (struct tree_size){ 7, 11 };
		snprintf(t->id, ID_SIZE, "%s", v ? v[i].id : one.id);
		snprintf(t->parent, ID_SIZE, "pt-template");
	}
	free(v);
	return 0;
}

void vm_tree_done(struct vm_tree *t)
{
	free(t->nodes);
	free(t->snaps);
}

int vmm_rewind(struct vmm *m, const char *account, const char *id, const char *snapshot_id,
               bool keep, struct vm_rewind *ret, struct err *err)
{
	struct snapshot_info n;
	int r;

	*ret = (struct vm_rewind){ 0 };
	if ((r = vmm_get(m, account, id, &ret->vm, err)) < 0 ||
	    (r = vmm_snapshot_get(m, account, snapshot_id, &n, err)) < 0)
		return r;
	if (keep)
		snprintf(ret->previous, ID_SIZE, "sc-aaaaaaaaaaaaaaaaaaaa");
	return 0;
}

/* Echoes what it was asked for as paths, one change per option. */
int vmm_diff(struct vmm *m, const char *account, const char *id, const struct vm_diff_opts *o,
             struct vm_diff *ret, struct err *err)
{
	struct vm_info v;
	size_t n = 0;
	int r = vmm_get(m, account, id, &v, err);

	if (r < 0)
		return r;
	*ret = (struct vm_diff){ .v = calloc(2 + o->n_ignore, sizeof(*ret->v)) };
	if (!ret->v)
		abort();
	ret->v[n++] = (struct vm_change){ .path = strdup(o->root), .here = true, .size = o->limit };
	if (o->after)
		ret->v[n++] =
		        (struct vm_change){ .change = CHANGE_REMOVED, .path = strdup(o->after) };
	for (size_t i = 0; i < o->n_ignore; i++)
		ret->v[n++] =
		        (struct vm_change){ .change = CHANGE_TYPE, .path = strdup(o->ignore[i]) };
	ret->n = n;
	ret->cursor = strdup("/a\xff");
	return 0;
}

void vm_diff_done(struct vm_diff *d)
{
	for (size_t i = 0; i < d->n; i++)
		free(d->v[i].path);
	free(d->v);
	free(d->cursor);
}

#ifndef FAKE_REAL_GUEST
int guest_term_list(struct guest *g, struct guest_term **ret, size_t *ret_n, struct err *err)
{
	*ret = calloc(2, sizeof(**ret));
	if (!*ret)
		abort();
	*ret_n = 2;
	**ret = (struct guest_term){ .name = "one", .user = "root", .created_ms = 1, .running = 1 };
	(*ret)[1] = (struct guest_term){ .name = "two", .user = "alice", .created_ms = 1 };
	return 0;
}

int guest_term_read(struct guest *g, const char *user, const char *name, struct guest_term_log *ret,
                    struct err *err)
{
	static const char text[] = "plain\n\033[1;31mred\033[0m\n10%\r20%\rdone\r\nab\bc\n"
	                           "\033]0;title\atail";

	if (strcmp(name, "one") != 0)
		return err_set(err, -ENOENT, "no such terminal");
	*ret = (struct guest_term_log){ .text = strdup(text),
		                        .len = strlen(text),
		                        .marks = calloc(2, sizeof(*ret->marks)),
		                        .n_marks = 2 };
	if (!ret->marks || !ret->text)
		abort();
	ret->marks[0].wall_ms = 1000;
	ret->marks[1] = (struct guest_term_mark){ .at = 6, .wall_ms = 2000 };
	return 0;
}

void guest_term_log_done(struct guest_term_log *l)
{
	free(l->text);
	free(l->marks);
}
#endif
