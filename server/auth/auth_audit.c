/* SPDX-License-Identifier: Apache-2.0 */
/*
 * auth_audit.c - the audit log's queue and the thread that writes it
 *
 * Requests add to a bounded queue in memory and continue. The thread waits a moment for more, then
 * writes all of it in one transaction of a database that nothing else waits for, together with
 * the times at which keys were last used. If writing fails, the records stay in the queue and
 * are retried; new ones are dropped, counted and reported in the log only when the queue is
 * full.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "auth/auth_internal.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/id.h"
#include "base/log.h"

#define AUDIT_QUEUE_MAX 8192   /* records in memory: 4 MiB */
#define AUDIT_BATCH_MS 100     /* from the first record to the transaction */
#define AUDIT_RETRY_MS 1000    /* after a failed write */
#define AUDIT_USES_MS 10000    /* between two updates of last uses */
#define AUDIT_USES_MAX 4096    /* keys and tokens saved in one go */
#define AUDIT_PRUNE_MS 3600000 /* how often old records are removed */
#define AUDIT_FLUSH_MS 10000   /* limit for a reader that waits for earlier records */
#define DAY_MS INT64_C(86400000)

void auth_audit(struct auth *a, const struct audit_record *r)
{
	LOCK_SCOPE(&a->audit_lock);
	if (!audit_same_counted(a, r))
		audit_add(a, r);
}

void audit_add(struct auth *a, const struct audit_record *r)
{
	if (a->n_audit == a->cap_audit && a->cap_audit < AUDIT_QUEUE_MAX) {
		size_t cap = a->cap_audit ? a->cap_audit * 2 : 64;
		struct audit_record *p = reallocarray(a->audit, cap, sizeof(*p));

		if (p) {
			a->audit = p;
			a->cap_audit = cap;
		}
	}
	if (a->n_audit == a->cap_audit) {
		if (a->audit_lost++ == 0)
			log_error("the audit log cannot be written fast enough: records are lost");
		return;
	}
	a->audit[a->n_audit++] = *r;
	if (a->audit_in++ == a->audit_out)
		cond_broadcast(&a->audit_cond);
}

/* Writes the queue; called with the lock held, which it releases meanwhile. False: it failed. */
static bool write_batch(struct auth *a, bool with_uses) REQUIRES(&a->audit_lock)
{
	autofree struct audit_use *uses = NULL;
	struct audit_record *batch = TAKE_PTR(a->audit);
	size_t n = a->n_audit, n_uses = 0;
	struct err err = { 0 };
	uint64_t lost = a->audit_lost;
	int r = 0;

	a->n_audit = a->cap_audit = 0;
	mutex_unlock(&a->audit_lock);
	if (with_uses && (uses = calloc(AUDIT_USES_MAX, sizeof(*uses))))
		n_uses = cred_take_uses(a, uses, AUDIT_USES_MAX);
	if (n || n_uses)
		r = store_audit_add(a->audit_db, batch, n, uses, n_uses, &err);
	mutex_lock(&a->audit_lock);
	if (r < 0) {
		struct audit_record *all = NULL;
		size_t total = n + a->n_audit;

		log_warn("the audit log was not written, trying again: %s", err.msg);
		if (total <= AUDIT_QUEUE_MAX)
			all = reallocarray(batch, total ? total : 1, sizeof(*all));
		if (all) { /* in their order, before those that arrived in the meantime */
			if (a->n_audit)
				memcpy(all + n, a->audit, a->n_audit * sizeof(*all));
			free(a->audit);
			a->audit = all;
			a->n_audit = a->cap_audit = total;
			return false;
		}
		a->audit_lost += n;
	} else if (lost) {
		log_warn("the audit log is written again; %llu records were lost",
		         (unsigned long long)lost);
		a->audit_lost -= lost;
	}
	free(batch);
	a->audit_out += n;
	cond_broadcast(&a->audit_cond);
	return r >= 0;
}

static void prune(struct auth *a, unsigned days)
{
	struct err err = { 0 };
	int n = days ? store_audit_prune(a->audit_db, clock_wall_ms() - days * DAY_MS, &err) : 0;

	if (n < 0)
		log_warn("old audit records were not removed: %s", err.msg);
	else if (n > 0)
		log_info("%d audit records older than %u days removed", n, days);
}

static void wait_until(struct auth *a, uint64_t deadline) REQUIRES(&a->audit_lock)
{
	cond_wait_until(&a->audit_cond, &a->audit_lock, deadline);
}

static void *audit_main(void *arg)
{
	uint64_t next_uses = deadline_in(AUDIT_USES_MS), next_prune = deadline_in(AUDIT_BATCH_MS);
	struct auth *a = arg;

	mutex_lock(&a->audit_lock);
	while (!a->audit_stop) {
		uint64_t gather;

		while (!a->audit_stop && !a->n_audit && clock_ms() < MIN(next_uses, next_prune))
			wait_until(a, MIN(next_uses, next_prune));
		gather = deadline_in(AUDIT_BATCH_MS);
		while (!a->audit_stop && !a->audit_hurry && a->n_audit && clock_ms() < gather)
			wait_until(a, gather);
		a->audit_hurry = false;
		audit_same_flush(a, /* all= */ false);
		if (!write_batch(a, clock_ms() >= next_uses)) {
			uint64_t retry = deadline_in(AUDIT_RETRY_MS);

			while (!a->audit_stop && clock_ms() < retry)
				wait_until(a, retry);
		}
		if (clock_ms() >= next_uses) {
			next_uses = deadline_in(AUDIT_USES_MS);
			mutex_unlock(&a->audit_lock);
			sessions_tend(a);
			mutex_lock(&a->audit_lock);
		}
		if (clock_ms() >= next_prune && !a->audit_stop) {
			unsigned days = a->audit_days;

			next_prune = deadline_in(AUDIT_PRUNE_MS);
			mutex_unlock(&a->audit_lock);
			prune(a, days);
			mutex_lock(&a->audit_lock);
		}
	}
	audit_same_flush(a, /* all= */ true);
	write_batch(a, /* with_uses= */ true);
	mutex_unlock(&a->audit_lock);
	return NULL;
}

int auth_audit_list(struct auth *a, const struct audit_filter *f, struct audit_record **ret,
                    size_t *ret_n, struct err *err)
{
	uint64_t deadline = deadline_in(AUDIT_FLUSH_MS), mine;

	mutex_lock(&a->audit_lock);
	mine = a->audit_in;
	while (a->audit_out < mine && clock_ms() < deadline) {
		a->audit_hurry = true;
		cond_broadcast(&a->audit_cond);
		wait_until(a, deadline);
	}
	mutex_unlock(&a->audit_lock);
	return store_audit_list(a->audit_db, f, ret, ret_n, err);
}

void auth_audit_keep(struct auth *a, unsigned days)
{
	LOCK_SCOPE(&a->audit_lock);
	a->audit_days = days;
}

int audit_start(struct auth *a, const char *data_dir, struct err *err)
{
	bool shared = store_is_shared(a->store);
	char path[512];
	int r;

	if (!shared &&
	    (size_t)snprintf(path, sizeof(path), "%s/audit.db", data_dir) >= sizeof(path))
		return err_set(err, -ENAMETOOLONG, "the data directory's name is too long");
	random_bytes(&a->same_seed, sizeof(a->same_seed));
	if ((r = store_audit_open(shared ? store_where(a->store) : path, &a->audit_db, err)) < 0)
		return r;
	r = pthread_create(&a->audit_thread, NULL, audit_main, a);
	if (r)
		return err_sys(err, -r, "start a thread");
	a->has_audit_thread = true;
	return 0;
}

void audit_end(struct auth *a)
{
	mutex_lock(&a->audit_lock);
	a->audit_stop = true;
	cond_broadcast(&a->audit_cond);
	mutex_unlock(&a->audit_lock);
	if (a->has_audit_thread)
		pthread_join(a->audit_thread, NULL);
	mutex_unshared(&a->audit_lock);
	free(a->audit);
	store_close(a->audit_db);
}
