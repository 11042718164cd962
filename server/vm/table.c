/* SPDX-License-Identifier: Apache-2.0 */
/* table.c - see table.h */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "vm/vm_internal.h"

#define CHAINS_FIRST 64

/* An account that has VMs. */
struct vm_owner {
	char account[ACCOUNT_SIZE];
	struct vm_owner *next; /* of its chain */
	struct vm *first, *last;
	size_t n;
	struct vm_tally tally;
};

/* Ids and accounts are made by the server: nobody can aim at a chain. */
static size_t chain(const struct vm_table *t, const char *key)
{
	return hash_text(key, 0) & (t->n_chains - 1);
}

static int grow_chains(struct vm_table *t)
{
	size_t n = t->n_chains ? t->n_chains * 2 : CHAINS_FIRST, n_old = t->n_chains;
	struct vm **ids = calloc(n, sizeof(struct vm *));
	struct vm_owner **owners = calloc(n, sizeof(struct vm_owner *)), **old = t->owners;

	if (!ids || !owners) {
		free(ids);
		free(owners);
		return -ENOMEM;
	}
	free(t->ids);
	t->ids = ids;
	t->owners = owners;
	t->n_chains = n;
	for (size_t i = 0; i < t->n; i++) {
		struct vm *vm = t->all[i], **to = &ids[chain(t, vm->shown.id)];

		vm->place.next_id = *to;
		*to = vm;
	}
	for (size_t i = 0; i < n_old; i++)
		while (old[i]) {
			struct vm_owner *o = old[i], **to = &owners[chain(t, o->account)];

			old[i] = o->next;
			o->next = *to;
			*to = o;
		}
	free(old);
	return 0;
}

/* Room for one more. */
static int reserve(struct vm_table *t)
{
	if (t->n == t->cap) {
		size_t cap = t->cap ? t->cap * 2 : CHAINS_FIRST;
		struct vm **p = realloc(t->all, cap * sizeof(*p));

		if (!p)
			return -ENOMEM;
		t->all = p;
		t->cap = cap;
	}
	return t->n >= t->n_chains ? grow_chains(t) : 0;
}

static struct vm_owner *owner_of(const struct vm_table *t, const char *account)
{
	struct vm_owner *o = t->n_chains ? t->owners[chain(t, account)] : NULL;

	while (o && strcmp(o->account, account) != 0)
		o = o->next;
	return o;
}

static bool has_process(enum vm_state s)
{
	return s == VM_STARTING || s == VM_RUNNING || s == VM_SUSPENDING || s == VM_BUILDING;
}

static void count(struct vm_tally *c, const struct vm_info *i, int by)
{
	int running = has_process(i->state) ? by : 0;

	c->by_state[i->state] += (size_t)by;
	c->sum.vms += by;
	c->sum.running += running;
	c->sum.vcpus += (int64_t)i->vcpus * running;
	c->sum.mem_mb += (int64_t)i->mem_mb * running;
	c->sum.disk_mb += (int64_t)i->disk_mb * by;
}

static bool is_older(const struct vm_info *a, const struct vm_info *b)
{
	return a->created_ms != b->created_ms ? a->created_ms < b->created_ms
	                                      : strcmp(a->id, b->id) > 0;
}

/* Nearly always the newest: then it is at its place at once. */
static void link_in(struct vm_owner *o, struct vm *vm)
{
	struct vm *after = o->last, **to, **back;

	while (after && is_older(&vm->shown, &after->shown))
		after = after->place.prev;
	to = after ? &after->place.next : &o->first;
	back = *to ? &(*to)->place.prev : &o->last;
	vm->place.prev = after;
	vm->place.next = *to;
	*to = *back = vm;
}

static void link_out(struct vm_owner *o, const struct vm *vm)
{
	const struct vm_place *p = &vm->place;

	*(p->prev ? &p->prev->place.next : &o->first) = p->next;
	*(p->next ? &p->next->place.prev : &o->last) = p->prev;
}

int table_add(struct vm_table *t, struct vm *vm)
{
	struct vm **ids;
	struct vm_owner *o;
	int r = reserve(t);

	if (r < 0)
		return r;
	o = owner_of(t, vm->shown.account);
	if (!o) {
		struct vm_owner **to = &t->owners[chain(t, vm->shown.account)];

		o = calloc(1, sizeof(*o));
		if (!o)
			return -ENOMEM;
		memcpy(o->account, vm->shown.account, sizeof(o->account));
		o->next = *to;
		*to = o;
		t->n_owners++;
	}
	ids = &t->ids[chain(t, vm->shown.id)];
	vm->place = (struct vm_place){ .at = t->n, .next_id = *ids, .owner = o };
	*ids = vm;
	t->all[t->n++] = vm;
	link_in(o, vm);
	o->n++;
	count(&o->tally, &vm->shown, 1);
	count(&t->tally, &vm->shown, 1);
	return 0;
}

static void owner_leave(struct vm_table *t, struct vm *vm)
{
	struct vm_owner *o = vm->place.owner, **link = &t->owners[chain(t, o->account)];

	link_out(o, vm);
	count(&o->tally, &vm->shown, -1);
	count(&t->tally, &vm->shown, -1);
	if (--o->n)
		return;
	while (*link != o)
		link = &(*link)->next;
	*link = o->next;
	t->n_owners--;
	free(o);
}

void table_remove(struct vm_table *t, struct vm *vm)
{
	struct vm **link = &t->ids[chain(t, vm->shown.id)], *last = t->all[--t->n];

	while (*link != vm)
		link = &(*link)->place.next_id;
	*link = vm->place.next_id;
	owner_leave(t, vm);
	t->all[vm->place.at] = last;
	last->place.at = vm->place.at;
	vm->place = (struct vm_place){ 0 };
}

void table_show(struct vm_table *t, struct vm *vm, const struct vm_info *info)
{
	struct vm_owner *o = vm->place.owner;
	bool moves = vm->shown.created_ms != info->created_ms;

	if (o) {
		count(&o->tally, &vm->shown, -1);
		count(&t->tally, &vm->shown, -1);
		if (moves)
			link_out(o, vm);
	}
	vm->shown = *info;
	if (o) {
		count(&o->tally, &vm->shown, 1);
		count(&t->tally, &vm->shown, 1);
		if (moves)
			link_in(o, vm);
	}
}

void table_done(struct vm_table *t)
{
	free(t->all);
	free(t->ids);
	free(t->owners);
	*t = (struct vm_table){ 0 };
}

struct vm *table_find(const struct vm_table *t, const char *id)
{
	struct vm *vm = t->n_chains ? t->ids[chain(t, id)] : NULL;

	while (vm && strcmp(vm->shown.id, id) != 0)
		vm = vm->place.next_id;
	return vm;
}

struct vm *table_first(const struct vm_table *t, const char *account)
{
	const struct vm_owner *o = owner_of(t, account);

	return o ? o->first : NULL;
}

struct vm *table_next(const struct vm *vm)
{
	return vm->place.next;
}

size_t table_count(const struct vm_table *t, const char *account)
{
	const struct vm_owner *o = owner_of(t, account);

	return o ? o->n : 0;
}

struct vm *table_last(const struct vm_table *t, const char *account)
{
	const struct vm_owner *o = owner_of(t, account);

	return o ? o->last : NULL;
}

struct vm *table_prev(const struct vm *vm)
{
	return vm->place.prev;
}

const struct vm_tally *table_tally(const struct vm_table *t, const char *account)
{
	static const struct vm_tally none;
	const struct vm_owner *o = owner_of(t, account);

	return o ? &o->tally : &none;
}

static bool owner_is_right(const struct vm_owner *o)
{
	const struct vm *before = NULL;
	struct vm_tally c = { 0 };
	size_t n = 0;

	for (const struct vm *vm = o->first; vm; before = vm, vm = vm->place.next, n++) {
		if (vm->place.prev != before || vm->place.owner != o ||
		    (before && is_older(&vm->shown, &before->shown)))
			return false;
		count(&c, &vm->shown, 1);
	}
	return o->last == before && o->n == n && !memcmp(&c, &o->tally, sizeof(c));
}

bool table_is_right(const struct vm_table *t)
{
	struct vm_tally c = { 0 };
	bool right = true;

	for (size_t i = 0; i < t->n_chains; i++)
		for (const struct vm_owner *o = t->owners[i]; o; o = o->next)
			right &= owner_is_right(o);
	for (size_t i = 0; i < t->n; i++)
		count(&c, &t->all[i]->shown, 1);
	return right && !memcmp(&c, &t->tally, sizeof(c));
}
