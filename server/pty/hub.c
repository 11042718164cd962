/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hub.c - attached clients, and the last known sessions of VMs at rest
 *
 * A suspended VM keeps its sessions in its memory, where they cannot be queried. So their last
 * known state is kept here, for lists that must not wake the VM. It is only a cache: it is lost
 * when the server restarts, and then a list asks the VM.
 */
#include "pty/pty_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/auto.h"
#include "base/err.h"

int hub_new(struct hub **ret, struct err *err)
{
	struct hub *h = calloc(1, sizeof(*h));

	if (!h)
		return err_set(err, -ENOMEM, "out of memory");
	mutex_init(&h->lock, "pty hub");
	*ret = h;
	return 0;
}

static void note_free(struct note *n)
{
	free(n->list);
	free(n);
}

struct hub *hub_free(struct hub *h)
{
	if (!h)
		return NULL;
	mutex_unshared(&h->lock);
	while (h->notes) {
		struct note *n = h->notes;

		h->notes = n->next;
		note_free(n);
	}
	free(h->tickets);
	mutex_destroy(&h->lock);
	free(h);
	return NULL;
}

void hub_stop(struct hub *h)
{
	LOCK_SCOPE(&h->lock);
	h->stopping = true;
	for (struct seat *s = h->seats; s; s = s->next)
		eventfd_write(s->wake, 1);
}

int hub_enter(struct hub *h, struct err *err)
{
	LOCK_SCOPE(&h->lock);
	if (h->stopping)
		return err_tag(err, -ESHUTDOWN, ERR_UNAVAILABLE, "the server is shutting down");
	if (h->attached >= PTY_ATTACHED_MAX)
		return err_tag(err, -EAGAIN, ERR_UNAVAILABLE,
		               "%u terminal clients are connected, the maximum of this server",
		               PTY_ATTACHED_MAX);
	h->attached++;
	return 0;
}

void hub_leave(struct hub *h)
{
	LOCK_SCOPE(&h->lock);
	h->attached--;
}

bool seat_take(struct hub *h, struct seat *s)
{
	LOCK_SCOPE(&h->lock);
	if (h->stopping)
		return false;
	s->next = h->seats;
	h->seats = s;
	return true;
}

void seat_leave(struct hub *h, struct seat *s)
{
	LOCK_SCOPE(&h->lock);
	for (struct seat **at = &h->seats; *at; at = &(*at)->next) {
		if (*at != s)
			continue;
		*at = s->next;
		return;
	}
}

/* The note of that VM, moved to the front; make: creates it if missing. */
static struct note *note_of(struct hub *h, const char *vm_id, bool make) REQUIRES(&h->lock)
{
	struct note **at = &h->notes, *n;

	while (*at && strcmp((*at)->vm_id, vm_id) != 0)
		at = &(*at)->next;
	n = *at;
	if (n) {
		*at = n->next;
	} else {
		if (!make || !(n = calloc(1, sizeof(*n))))
			return NULL;
		snprintf(n->vm_id, sizeof(n->vm_id), "%s", vm_id);
		h->n_notes++;
	}
	n->next = h->notes;
	h->notes = n;
	if (h->n_notes > PTY_NOTES_MAX) {
		for (at = &n->next; (*at)->next; at = &(*at)->next)
			;
		note_free(*at);
		*at = NULL;
		h->n_notes--;
	}
	return n;
}

void hub_note(struct hub *h, const char *vm_id, const struct guest_pty_info *list, size_t n)
{
	struct guest_pty_info *copy = calloc(n ? n : 1, sizeof(*copy));
	struct note *x;
	LOCK_SCOPE(&h->lock);

	x = copy ? note_of(h, vm_id, /* make= */ true) : NULL;
	if (!x) {
		free(copy);
		return;
	}
	for (size_t i = 0; i < n; i++)
		copy[i] = list[i];
	free(x->list);
	x->list = copy;
	x->n = n;
}

void hub_note_one(struct hub *h, const char *vm_id, const struct guest_pty_info *info)
{
	struct guest_pty_info *more;
	struct note *x;
	LOCK_SCOPE(&h->lock);

	x = note_of(h, vm_id, /* make= */ false);
	if (!x)
		return; /* the other sessions are unknown: a whole list must come first */
	for (size_t i = 0; i < x->n; i++) {
		if (strcmp(x->list[i].id, info->id) == 0) {
			x->list[i] = *info;
			return;
		}
	}
	more = reallocarray(x->list, x->n + 1, sizeof(*more));
	if (!more)
		return;
	more[x->n++] = *info;
	x->list = more;
}

void hub_note_end(struct hub *h, const char *vm_id, const char *session)
{
	struct note *x;
	LOCK_SCOPE(&h->lock);

	x = note_of(h, vm_id, /* make= */ false);
	for (size_t i = 0; x && i < x->n; i++) {
		if (strcmp(x->list[i].id, session) != 0)
			continue;
		memmove(&x->list[i], &x->list[i + 1], (x->n - i - 1) * sizeof(*x->list));
		x->n--;
		return;
	}
}

bool hub_noted(struct hub *h, const char *vm_id, struct guest_pty_info **ret, size_t *ret_n)
{
	struct guest_pty_info *copy;
	struct note *x;
	LOCK_SCOPE(&h->lock);

	x = note_of(h, vm_id, /* make= */ false);
	copy = x ? calloc(x->n ? x->n : 1, sizeof(*copy)) : NULL;
	if (!copy)
		return false;
	for (size_t i = 0; i < x->n; i++)
		copy[i] = x->list[i];
	*ret = copy;
	*ret_n = x->n;
	return true;
}
