/* SPDX-License-Identifier: Apache-2.0 */
/* store_note.c - see store_note.h; a row goes with its VM (notes_drop_locked()) */
#include "store/store_note.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "store/store_internal.h"

static struct secret_place env_of(const char *vm_id)
{
	return (struct secret_place){ "vm_notes.env", vm_id };
}

void store_note_done(struct store_note *n)
{
	free(n->tags);
	free(n->metadata);
	if (n->env)
		explicit_bzero(n->env, strlen(n->env));
	free(n->env);
	*n = (struct store_note){ 0 };
}

void store_notes_free(struct store_note *n, size_t count)
{
	for (size_t i = 0; i < count; i++)
		store_note_done(&n[i]);
	free(n);
}

int notes_drop_locked(struct store *s, const char *vm_id, struct err *err)
{
	return MIN(run_text(s, "DELETE FROM vm_notes WHERE vm_id = $1", &vm_id, 1, err), 0);
}

int note_put_locked(struct store *s, const struct store_note *n, struct err *err)
{
	autoquery struct query q = { 0 };
	int r;

	if ((r = notes_drop_locked(s, n->vm_id, err)) < 0 ||
	    (r = query_begin(&q, s,
	                     "INSERT INTO vm_notes (vm_id, account, tags, metadata, env)"
	                     " VALUES ($1, $2, $3, $4, $5)",
	                     err)) < 0)
		return r;
	query_bind_text(&q, n->vm_id);
	query_bind_text(&q, n->account);
	query_bind_text(&q, n->tags ? n->tags : "");
	query_bind_text(&q, n->metadata ? n->metadata : "");
	query_bind_secret(&q, env_of(n->vm_id), n->env ? n->env : "");
	return MIN(query_run(&q, err), 0);
}

int store_note_put(struct store *s, const struct store_note *n, struct err *err)
{
	autotx struct tx t = { 0 };
	int r;

	if ((r = tx_begin(&t, s, err)) < 0 || (r = note_put_locked(s, n, err)) < 0 ||
	    (r = outbox_noted_locked(s, n->vm_id, err)) < 0)
		return r;
	return tx_commit(&t, err);
}

int note_words_locked(struct store *s, const char *vm_id, char **ret_tags, char **ret_metadata,
                      struct err *err)
{
	autoquery struct query q = { 0 };
	int r = query_begin(&q, s, "SELECT tags, metadata FROM vm_notes WHERE vm_id = $1", err);

	if (r < 0)
		return r;
	query_bind_text(&q, vm_id);
	if ((r = query_step(&q, err)) <= 0)
		return r;
	*ret_tags = query_read_strdup(&q);
	*ret_metadata = query_read_strdup(&q);
	r = query_read_end(&q, err);
	return r < 0 ? r : 1;
}

static int get_locked(struct store *s, const char *vm_id, struct store_note *ret, struct err *err)
{
	autoquery struct query q = { 0 };
	struct store_note n = { 0 };
	int r = query_begin(&q, s,
	                    "SELECT vm_id, account, tags, metadata, env FROM vm_notes"
	                    " WHERE vm_id = $1",
	                    err);

	if (r < 0)
		return r;
	query_bind_text(&q, vm_id);
	if ((r = query_step(&q, err)) <= 0)
		return r;
	query_read_text(&q, n.vm_id, sizeof(n.vm_id));
	query_read_text(&q, n.account, sizeof(n.account));
	n.tags = query_read_strdup(&q);
	n.metadata = query_read_strdup(&q);
	n.env = query_read_secret(&q, env_of(vm_id));
	if ((r = query_read_end(&q, err)) < 0) {
		store_note_done(&n);
		return r;
	}
	*ret = n;
	return 1;
}

int store_note_get(struct store *s, const char *vm_id, struct store_note *ret, struct err *err)
{
	LOCK_SCOPE(&s->lock);
	*ret = (struct store_note){ 0 };
	return get_locked(s, vm_id, ret, err);
}

int store_note_list(struct store *s, const char *account, struct store_note **ret, size_t *ret_n,
                    struct err *err)
{
	struct store_note *list = NULL, *more;
	size_t n = 0, cap = 0;
	int r;
	LOCK_SCOPE(&s->lock);
	autoquery struct query q = { 0 };

	r = query_begin(&q, s,
	                "SELECT vm_id, account, tags, metadata FROM vm_notes WHERE account = $1"
	                " ORDER BY vm_id",
	                err);
	if (r < 0)
		return r;
	query_bind_text(&q, account);
	while ((r = query_step(&q, err)) > 0) {
		if (n == cap) {
			cap = cap ? cap * 2 : 16;
			more = reallocarray(list, cap, sizeof(*list));
			if (!more) {
				store_notes_free(list, n);
				return err_set(err, -ENOMEM, "out of memory");
			}
			list = more;
		}
		list[n] = (struct store_note){ 0 };
		query_read_text(&q, list[n].vm_id, sizeof(list[n].vm_id));
		query_read_text(&q, list[n].account, sizeof(list[n].account));
		list[n].tags = query_read_strdup(&q);
		list[n].metadata = query_read_strdup(&q);
		n++;
		if ((r = query_read_end(&q, err)) < 0)
			break;
	}
	if (r < 0) {
		store_notes_free(list, n);
		return r;
	}
	*ret = list;
	*ret_n = n;
	return 0;
}
