/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_secret.c - columns whose values are sealed (secret/secret.h), and changing their keys
 *
 * A database that was never unlocked has them in plain text, as all had before version 18. The
 * first store_unlock() seals every value in one transaction, together with the mark that they are
 * sealed: a value sealed with the key at a place of its own ("secret_check" in meta), by which
 * every later start tells whether it has the right key before anything else happens. Then the
 * file is rewritten, so that no plain text stays in free pages or the log; "secret_clean" in meta
 * is there until that is done, so that a crash in between only means to do it again.
 *
 * From then on a value that is not sealed, or was sealed for another row or column, is an error.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "store/store_internal.h"

#define CHECK_TEXT "pando"

static const struct secret_place check_place = { "meta.value", "secret_check" };

/* Everything that is sealed. docs/THREATS.md (Secrets at rest) explains each. */
static const struct secret_col {
	const char *table, *key, *column, *place;
	bool plain_too; /* what is not worth sealing may be plain: a reply that has no secret */
} cols[] = {
	{ "vm_egress", "vm_id", "policy", "vm_egress.policy", false },
	{ "vm_egress", "vm_id", "ca_key", "vm_egress.ca_key", false },
	{ "vm_notes", "vm_id", "env", "vm_notes.env", false },
	{ "node_keys", "id", "secret", "node_keys.secret", false },
	{ "vpcs", "id", "wg_key", "vpcs.wg_key", false },
	{ "git_signing_keys", "id", "secret", "git_signing_keys.secret", false },
	{ "git_syncs", "repo", "token", "git_syncs.token", false },
	{ "git_syncs", "repo", "hook", "git_syncs.hook", false },
	{ "git_credentials", "id", "secret", "git_credentials.secret", false },
	{ "github_apps", "id", "private_key", "github_apps.private_key", false },
	{ "github_apps", "id", "client_secret", "github_apps.client_secret", false },
	{ "github_apps", "id", "webhook_secret", "github_apps.webhook_secret", false },
	{ "git_triggers", "id", "endpoint", "git_triggers.endpoint", false },
	{ "script_runs", "id", "config", "script_runs.config", false },
	{ "cron_schedules", "id", "run", "cron_schedules.run", false },
	{ "deployments", "id", "config", "deployments.config", false },
	{ "hooks", "id", "url", "hooks.url", false },
	{ "hooks", "id", "secret", "hooks.secret", false },
	{ "background_requests", "id", "body", "background_requests.body", true },
	{ "object_keys", "owner", "value", "object_keys.value", false },
};

/* ---- one value ---- */

void query_bind_secret(struct query *q, struct secret_place at, const char *v)
{
	autofree char *sealed = NULL;
	struct err err = { 0 };

	if (q->s->sealed) {
		int r = q->s->secrets ? secret_seal(q->s->secrets, at, v, strlen(v), &sealed, &err)
		                      : -ENOKEY;

		if (r < 0) {
			log_error("database: cannot seal %s: %s", at.column,
			          q->s->secrets ? err.msg : "the database is locked");
			q->failed = r;
		}
		v = sealed ? sealed : "";
	}
	query_bind_text(q, v);
}

char *query_read_secret(struct query *q, struct secret_place at)
{
	autowipe char *v = query_read_strdup(q);
	struct err err = { 0 };
	char *plain = NULL;
	int r;

	if (!v || !q->s->sealed)
		return TAKE_PTR(v);
	r = q->s->secrets ? secret_open(q->s->secrets, at, v, &plain, NULL, &err) : -ENOKEY;
	if (r < 0) {
		log_error("database: cannot open a secret: %s",
		          q->s->secrets ? err.msg : "the database is locked");
		q->failed = r == -ENOMEM ? r : -EUCLEAN;
	}
	return plain;
}

/* ---- all values ---- */

static const char *plain_of(struct store *s, const struct secret_col *c, const char *key,
                            const char *v, char **mem, struct err *err)
{
	if (!s->sealed || (c->plain_too && !secret_is_sealed(v)))
		return v;
	return secret_open(s->secrets, (struct secret_place){ c->place, key }, v, mem, NULL, err) <
	                       0
	               ? NULL
	               : *mem;
}

static int put(struct store *s, const struct secret_col *c, const char *key, const char *v,
               struct err *err)
{
	autoquery struct query q = { 0 };
	autofree char *sealed = NULL;
	char sql[160];
	int r;

	snprintf(sql, sizeof(sql), "UPDATE %s SET %s = $1 WHERE %s = $2", c->table, c->column,
	         c->key);
	if ((r = secret_seal(s->secrets, (struct secret_place){ c->place, key }, v, strlen(v),
	                     &sealed, err)) < 0 ||
	    (r = query_begin(&q, s, sql, err)) < 0)
		return r;
	query_bind_text(&q, sealed);
	query_bind_text(&q, key);
	return query_run(&q, err);
}

/* Incoming webhooks are found by the hash of their secret. */
static int put_hash(struct store *s, const char *repo, const char *hook, struct err *err)
{
	char hash[SECRET_DIGEST_SIZE];
	const char *args[] = { hash, repo };

	secret_digest(hook, hash);
	return run_text(s, "UPDATE git_syncs SET hook_hash = $1 WHERE repo = $2", args, 2, err);
}

/* The next row behind the key; 0: there is none. */
static int next_row(struct store *s, const struct secret_col *c, char **key, char **v,
                    struct err *err)
{
	autoquery struct query q = { 0 };
	char sql[192];
	int r;

	snprintf(sql, sizeof(sql), "SELECT %s, %s FROM %s WHERE %s > $1 ORDER BY %s LIMIT 1",
	         c->key, c->column, c->table, c->key, c->key);
	if ((r = query_begin(&q, s, sql, err)) < 0)
		return r;
	query_bind_text(&q, *key);
	if ((r = query_step(&q, err)) <= 0)
		return r;
	free(*key);
	*key = query_read_strdup(&q);
	*v = query_read_strdup(&q);
	r = query_read_end(&q, err);
	return r < 0 ? r : 1;
}

/* Under the lock, in a transaction. */
static int seal_column(struct store *s, const struct secret_col *c, struct err *err)
{
	autofree char *key = strdup("");
	int r = 0;

	while (r >= 0) {
		autowipe char *v = NULL;
		autowipe char *mem = NULL;
		const char *plain;

		if (!key)
			return err_set(err, -ENOMEM, "out of memory");
		r = next_row(s, c, &key, &v, err);
		if (r <= 0)
			return r;
		if (s->sealed && secret_is_current(s->secrets, v))
			continue;
		plain = plain_of(s, c, key, v, &mem, err);
		if (!plain)
			return err ? err->code : -EBADMSG;
		r = put(s, c, key, plain, err);
		if (r >= 0 && !s->sealed && strcmp(c->place, "git_syncs.hook") == 0)
			r = put_hash(s, key, plain, err);
	}
	return r;
}

static int put_check(struct store *s, struct err *err)
{
	autofree char *sealed = NULL;
	int r = secret_seal(s->secrets, check_place, CHECK_TEXT, strlen(CHECK_TEXT), &sealed, err);

	return r < 0 ? r : meta_put(s, "secret_check", sealed, err);
}

static int scrub(struct store *s, enum db_scrub what, struct err *err)
{
	return s->db->ops->scrub(s->db, what, err);
}

/* Old values are overwritten where they were, and leave the log. */
static int seal_all(struct store *s, bool first, struct err *err)
{
	int r = 0;
	{
		autotx struct tx t = { 0 };

		if ((r = tx_begin(&t, s, err)) < 0)
			return r;
		for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(cols); i++)
			r = seal_column(s, &cols[i], err);
		if (r < 0 || (r = put_check(s, err)) < 0 ||
		    (first && (r = meta_put(s, "secret_clean", "no", err)) < 0) ||
		    (r = tx_commit(&t, err)) < 0)
			return r;
		s->sealed = true;
	}
	LOCK_SCOPE(&s->lock);
	return scrub(s, DB_SCRUB_LOG, err);
}

static int reseal(void *ctx, struct err *err)
{
	int r = seal_all(ctx, /* first= */ false, err);

	return r < 0 ? err_wrap(err, r, "seal the secrets of the database again") : 0;
}

/* Rewrites the file without what was deleted in it. It needs as much room again; without that the
 * next start tries again. */
static void clean(struct store *s)
{
	autofree char *wanted = NULL;
	struct err err = { 0 };

	LOCK_SCOPE(&s->lock);
	if (meta_get(s, "secret_clean", &wanted, &err) < 0 ||
	    (wanted &&
	     (scrub(s, DB_SCRUB_LOG, &err) < 0 || scrub(s, DB_SCRUB_ALL, &err) < 0 ||
	      meta_put(s, "secret_clean", NULL, &err) < 0 || scrub(s, DB_SCRUB_LOG, &err) < 0)))
		log_warn("database: secrets are sealed, but plain text may be left in free pages; "
		         "the "
		         "next start tries again: %s",
		         err.msg);
}

/* ---- unlocking ---- */

int secret_look(struct store *s, struct err *err)
{
	autofree char *check = NULL;
	int r;

	LOCK_SCOPE(&s->lock);
	if (s->n_migrations != store_n_migrations || s->migrations != store_migrations)
		return 0; /* the audit log, or a version before there were any */
	r = meta_get(s, "secret_check", &check, err);
	s->sealed = check != NULL;
	return r;
}

bool store_is_sealed(const struct store *s)
{
	return s->sealed;
}

static int check_key(struct store *s, struct err *err)
{
	autofree char *check = NULL;
	autowipe char *text = NULL;
	struct err why = { 0 };
	int r;

	LOCK_SCOPE(&s->lock);
	if ((r = meta_get(s, "secret_check", &check, err)) < 0)
		return r;
	if (secret_open(s->secrets, check_place, check ? check : "", &text, NULL, &why) < 0 ||
	    strcmp(text, CHECK_TEXT) != 0)
		return err_set(
		        err, -EINVAL,
		        "the key in '%s' is not the one that the secrets of the database are "
		        "sealed with (%s): restore the right file; docs/OPERATIONS.md "
		        "(Secrets) says what to do if it is lost",
		        secrets_source(s->secrets), why.msg);
	return 0;
}

int store_unlock(struct store *s, struct secrets *k, struct err *err)
{
	int r;

	s->secrets = k;
	if (s->sealed)
		r = check_key(s, err);
	else if ((r = scrub(s, DB_SCRUB_ON, err)) >= 0 &&
	         (r = seal_all(s, /* first= */ true, err)) < 0)
		err_wrap(err, r, "seal the secrets of the database");
	if (r < 0 || (r = scrub(s, DB_SCRUB_ON, err)) < 0) {
		s->secrets = NULL;
		return r;
	}
	clean(s);
	return secrets_hold(k, reseal, s, err);
}

struct secrets *store_secrets(struct store *s)
{
	return s ? s->secrets : NULL;
}
