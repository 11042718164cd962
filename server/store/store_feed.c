/* SPDX-License-Identifier: Apache-2.0 */
/* store_feed.c - see store_feed.h */
#include "store/store_feed.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/rate.h"
#include "store/store_internal.h"

#define PRUNE_EVERY 64 /* events */

struct feed_note {
	struct feed_note *next;
	int64_t at_ms;
	char account[ACCOUNT_SIZE], type[FEED_TYPE_SIZE], vm[ID_SIZE];
	char *text;
};

static void notes_free(struct feed_note *n)
{
	while (n) {
		struct feed_note *next = n->next;

		free(n->text);
		free(n);
		n = next;
	}
}

/* ---- writing ---- */

/* "vm":{...} */
static char *text_of(const char *member, json_t *about)
{
	autofree char *json = about ? json_dumps(about, JSON_COMPACT) : strdup("");
	char *text = NULL;

	if (json &&
	    (!*json ? !(text = strdup("")) : asprintf(&text, "\"%s\":%s", member, json) < 0))
		return NULL;
	return text;
}

static int set_mark(struct store *s, const char *account, int64_t seq, struct err *err)
{
	autoquery struct query q = { 0 };
	int r = query_begin(&q, s,
	                    "INSERT INTO feed_marks (account, seq) VALUES ($1, $2) "
	                    "ON CONFLICT (account) DO UPDATE SET seq = excluded.seq",
	                    err);

	if (r < 0)
		return r;
	query_bind_text(&q, account);
	query_bind_i64(&q, seq);
	return MIN(query_run(&q, err), 0);
}

/* One number, or 0; the statement's parameters are a text and a number. */
static int find_seq(struct store *s, const char *sql, const char *text, int64_t number,
                    int64_t *ret, struct err *err)
{
	autoquery struct query q = { 0 };
	int r = query_begin(&q, s, sql, err);

	*ret = 0;
	if (r < 0)
		return r;
	query_bind_text(&q, text);
	query_bind_i64(&q, number);
	if ((r = query_step(&q, err)) <= 0)
		return r;
	*ret = query_read_i64(&q, 0, INT64_MAX);
	return query_read_end(&q, err);
}

/* The number of the last event that there was, even if it was dropped since. */
static int find_last(struct store *s, int64_t *ret, struct err *err)
{
	autoquery struct query q = { 0 };
	int r = query_begin(&q, s, s->db->ops->feed_last, err);

	*ret = 0;
	if (r < 0 || (r = query_step(&q, err)) <= 0)
		return r;
	*ret = query_read_i64(&q, 0, INT64_MAX);
	return query_read_end(&q, err);
}

static int drop(struct store *s, const char *sql, const char *account, int64_t seq, struct err *err)
{
	autoquery struct query q = { 0 };
	int r = query_begin(&q, s, sql, err);

	if (r < 0)
		return r;
	query_bind_text(&q, account);
	query_bind_i64(&q, seq);
	return MIN(query_run(&q, err), 0);
}

/* The account's oldest beyond FEED_KEPT, and everybody's that are too old: marked as "". */
static int prune(struct store *s, const char *account, struct err *err)
{
	int64_t seq;
	int r = find_seq(s,
	                 "SELECT seq FROM feed WHERE account = $1 ORDER BY seq DESC "
	                 "LIMIT 1 OFFSET $2",
	                 account, FEED_KEPT, &seq, err);

	if (r >= 0 && seq &&
	    (r = drop(s, "DELETE FROM feed WHERE account = $1 AND seq <= $2", account, seq, err)) >=
	            0)
		r = set_mark(s, account, seq, err);
	if (r < 0)
		return r;
	r = find_seq(s, "SELECT COALESCE(MAX(seq), 0) FROM feed WHERE $1 = '' AND at_ms < $2", "",
	             clock_wall_ms() - FEED_KEEP_MS, &seq, err);
	if (r >= 0 && seq &&
	    (r = drop(s, "DELETE FROM feed WHERE $1 = '' AND seq <= $2", "", seq, err)) >= 0)
		r = set_mark(s, "", seq, err);
	return MIN(r, 0);
}

static int insert(struct store *s, const struct feed_note *n, struct err *err)
{
	autoquery struct query q = { 0 };
	int r = query_begin(&q, s,
	                    "INSERT INTO feed (account, at_ms, type, vm, body) "
	                    "VALUES ($1, $2, $3, $4, $5) RETURNING seq",
	                    err);
	int64_t seq;

	if (r < 0)
		return r;
	query_bind_text(&q, n->account);
	query_bind_i64(&q, n->at_ms);
	query_bind_text(&q, n->type);
	query_bind_text(&q, n->vm);
	query_bind_text(&q, n->text);
	if ((r = query_step(&q, err)) < 0)
		return r;
	seq = query_read_i64(&q, 0, INT64_MAX);
	query_done(&q);
	if (seq % PRUNE_EVERY == 0 && (r = prune(s, n->account, err)) < 0)
		return r;
	if (s->feed_fn)
		s->feed_fn(s->feed_ctx, n->account);
	return 0;
}

/* What was queued before; it is freed when the transaction is over, or queued again. */
static int write_queue(struct store *s, struct err *err)
{
	struct feed_note *n, **end;
	bool lost;
	int64_t seq;
	int r = 0;

	mutex_lock(&s->feed_lock);
	n = TAKE_PTR(s->feed_queue);
	s->feed_end = NULL;
	s->n_feed_queue = 0;
	lost = s->feed_lost;
	s->feed_lost = false;
	mutex_unlock(&s->feed_lock);
	for (end = &s->feed_taken; *end;)
		end = &(*end)->next;
	*end = n;
	s->feed_was_lost |= lost;
	for (; r >= 0 && n; n = n->next)
		r = insert(s, n, err);
	if (r >= 0 && lost && (r = find_last(s, &seq, err)) >= 0)
		r = set_mark(s, "", seq, err);
	return MIN(r, 0);
}

void feed_tx_over(struct store *s, bool committed)
{
	struct feed_note *taken = TAKE_PTR(s->feed_taken), *last = taken;
	bool lost = s->feed_was_lost;
	size_t n = 1;

	s->feed_was_lost = false;
	if (committed || (!taken && !lost)) {
		notes_free(taken);
		return;
	}
	LOCK_SCOPE(&s->feed_lock);
	s->feed_lost |= lost;
	if (!taken)
		return;
	for (; last->next; last = last->next)
		n++;
	last->next = s->feed_queue;
	if (!s->feed_end)
		s->feed_end = last;
	s->feed_queue = taken;
	s->n_feed_queue += n;
}

int feed_put_locked(struct store *s, const char *account, const char *type, const char *vm,
                    const char *member, json_t *about, struct err *err)
{
	struct feed_note n = { .at_ms = clock_wall_ms() };
	autofree char *text = NULL;
	int r;

	if (!*account)
		return 0;
	text = n.text = text_of(member, about);
	if (!text)
		return err_set(err, -ENOMEM, "out of memory");
	snprintf(n.account, sizeof(n.account), "%s", account);
	snprintf(n.type, sizeof(n.type), "%s", type);
	snprintf(n.vm, sizeof(n.vm), "%s", vm);
	r = write_queue(s, err);
	return r < 0 ? r : insert(s, &n, err);
}

int feed_tell_locked(struct store *s, const char *account, const char *type, const char *vm,
                     const char *member, json_t *about_consume, struct err *err)
{
	int r = about_consume ? feed_put_locked(s, account, type, vm, member, about_consume, err)
	                      : err_set(err, -ENOMEM, "out of memory");

	json_decref(about_consume);
	return r;
}

void store_feed_note(struct store *s, const char *account, const char *type, const char *vm,
                     const char *member, json_t *about_consume)
{
	struct feed_note *n = calloc(1, sizeof(*n));
	void (*fn)(void *, const char *);
	void *ctx;

	if (n)
		n->text = text_of(member, about_consume);
	json_decref(about_consume);
	mutex_lock(&s->feed_lock);
	if (!*account) {
		notes_free(n);
	} else if (!n || !n->text || s->n_feed_queue >= FEED_QUEUE_MAX) {
		notes_free(n);
		s->feed_lost = true;
	} else {
		n->at_ms = clock_wall_ms();
		snprintf(n->account, sizeof(n->account), "%s", account);
		snprintf(n->type, sizeof(n->type), "%s", type);
		snprintf(n->vm, sizeof(n->vm), "%s", vm);
		*(s->feed_end ? &s->feed_end->next : &s->feed_queue) = n;
		s->feed_end = n;
		s->n_feed_queue++;
	}
	fn = s->feed_fn;
	ctx = s->feed_ctx;
	if (fn)
		fn(ctx, NULL);
	mutex_unlock(&s->feed_lock);
}

int feed_refusals_open(struct store *s, struct err *err)
{
	return rate_new(&(struct rate_conf){ .per_s = 1.0 / FEED_REFUSED_S,
	                                     .burst = 1,
	                                     .slots = FEED_REFUSED_MAX },
	                &s->refusals, err);
}

void store_feed_refused(struct store *s, const char *account, const char *quota, enum err_code code,
                        int64_t limit, int64_t current, int64_t requested)
{
	struct rate_answer since = { 0 };
	char name[ACCOUNT_SIZE + 32];

	snprintf(name, sizeof(name), "%s %s", account, quota);
	if (!*account || !rate_take(s->refusals, name, &since))
		return;
	store_feed_note(s, account, "quota.refused", "", "quota",
	                json_pack("{s:s, s:s, s:I, s:I, s:I, s:I}", "name", quota, "code",
	                          err_code_name(code), "limit", (json_int_t)limit, "current",
	                          (json_int_t)current, "requested", (json_int_t)requested, "before",
	                          (json_int_t)since.missed));
}

int store_feed_flush(struct store *s, struct err *err)
{
	autotx struct tx t = { 0 };
	bool none;
	int r;

	mutex_lock(&s->feed_lock);
	none = !s->feed_queue && !s->feed_lost;
	mutex_unlock(&s->feed_lock);
	if (none)
		return 0;
	if ((r = tx_begin(&t, s, err)) < 0 || (r = write_queue(s, err)) < 0)
		return r;
	return tx_commit(&t, err);
}

void store_feed_notify(struct store *s, void (*fn)(void *ctx, const char *account), void *ctx)
{
	LOCK_SCOPE(&s->lock);
	mutex_lock(&s->feed_lock);
	s->feed_fn = fn;
	s->feed_ctx = ctx;
	mutex_unlock(&s->feed_lock);
}

void feed_close(struct store *s)
{
	mutex_unshared(&s->feed_lock);
	notes_free(s->feed_taken);
	notes_free(s->feed_queue);
	mutex_destroy(&s->feed_lock);
	rate_free(s->refusals);
}

/* ---- reading ---- */

void store_feed_free(struct store_feed_event *v, size_t n)
{
	for (size_t i = 0; v && i < n; i++)
		free(v[i].text);
	free(v);
}

int store_feed_list(struct store *s, const char *account, int64_t after, size_t max,
                    struct store_feed_event **ret, size_t *ret_n, struct err *err)
{
	struct store_feed_event *v = calloc(max, sizeof(*v));
	size_t n = 0;
	int r;
	LOCK_SCOPE(&s->lock);
	autoquery struct query q = { 0 };

	if (!v)
		return err_set(err, -ENOMEM, "out of memory");
	r = query_begin(&q, s,
	                "SELECT seq, at_ms, type, vm, body FROM feed WHERE account = $1 "
	                "AND seq > $2 ORDER BY seq LIMIT $3",
	                err);
	if (r >= 0) {
		query_bind_text(&q, account);
		query_bind_i64(&q, after);
		query_bind_i64(&q, (int64_t)max);
	}
	while (r >= 0 && n < max && (r = query_step(&q, err)) > 0) {
		v[n].seq = query_read_i64(&q, 0, INT64_MAX);
		v[n].at_ms = query_read_i64(&q, INT64_MIN, INT64_MAX);
		query_read_text(&q, v[n].type, sizeof(v[n].type));
		query_read_text(&q, v[n].vm, sizeof(v[n].vm));
		v[n].text = query_read_strdup(&q);
		n++;
		r = query_read_end(&q, err);
	}
	if (r < 0) {
		store_feed_free(v, n);
		return r;
	}
	*ret = v;
	*ret_n = n;
	return 0;
}

int store_feed_range(struct store *s, const char *account, int64_t *ret_last, int64_t *ret_lost,
                     struct err *err)
{
	LOCK_SCOPE(&s->lock);
	int r = find_last(s, ret_last, err);

	if (r < 0)
		return r;
	return find_seq(s,
	                "SELECT COALESCE(MAX(seq), 0) FROM feed_marks WHERE account IN ($1, '') "
	                "AND 0 = $2",
	                account, 0, ret_lost, err);
}
