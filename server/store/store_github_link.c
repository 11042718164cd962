/* SPDX-License-Identifier: Apache-2.0 */
/* store_github_link.c - links that browsers use once, and which webhooks of GitHub were heard */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "store/store_github.h"
#include "store/store_internal.h"

static const struct col link_cols[] = {
	COL_AT(COL_TEXT, store_github_link, hash, "hash"),
	COL_AT(COL_TEXT, store_github_link, account, "account"),
	COL_AT(COL_TEXT, store_github_link, kind, "kind"),
	COL_AT(COL_TEXT, store_github_link, app, "app"),
	COL_AT(COL_TEXT, store_github_link, detail, "detail"),
	COL_AT(COL_TEXT, store_github_link, browser, "browser"),
	COL_AT(COL_I64, store_github_link, until_ms, "until_ms"),
};
static const struct table link_table = {
	.name = "github_links",
	.cols = link_cols,
	.n_cols = ARRAY_SIZE(link_cols),
	.row_size = sizeof(struct store_github_link),
	.missing_tag = ERR_NOT_FOUND,
	.noun = "link",
};

static int gone(struct err *err)
{
	return err_tag(err, -ENOENT, ERR_NOT_FOUND,
	               "this link is unknown, used, too old, or was opened in another browser: "
	               "ask for a new one");
}

int store_github_link_add(struct store *s, const char *secret, const struct store_github_link *l,
                          int64_t now_ms, struct err *err)
{
	struct store_github_link row = *l;
	char now[24];
	const char *old[] = { now };
	autotx struct tx t = { 0 };
	int r;

	secret_digest(secret, row.hash);
	snprintf(now, sizeof(now), "%lld", (long long)now_ms);
	if ((r = tx_begin(&t, s, err)) < 0 ||
	    (r = run_text(s, "DELETE FROM github_links WHERE until_ms < CAST($1 AS BIGINT)", old, 1,
	                  err)) < 0 ||
	    (r = query_count(s, "SELECT COUNT(*) FROM github_links WHERE account = $1", l->account,
	                     err)) < 0)
		return r;
	if (r >= GITHUB_LINKS_MAX)
		return err_tag(err, -EDQUOT, ERR_LIMIT_EXCEEDED,
		               "an account has at most %d links that were not used yet: they end "
		               "by themselves",
		               GITHUB_LINKS_MAX);
	if ((r = row_insert(s, &link_table, &row, err)) < 0)
		return r;
	return tx_commit(&t, err);
}

static int find(struct store *s, const char *secret, int64_t now_ms, struct store_github_link *ret,
                struct err *err)
{
	char hash[SECRET_DIGEST_SIZE];
	int r;

	secret_digest(secret, hash);
	r = row_get(s, &link_table, hash, ret, err);
	return r == -ENOENT || (r == 0 && ret->until_ms < now_ms) ? gone(err) : r;
}

int store_github_link_open(struct store *s, const char *secret, const char *browser, int64_t now_ms,
                           struct store_github_link *ret, struct err *err)
{
	autotx struct tx t = { 0 };
	int r;

	if ((r = tx_begin(&t, s, err)) < 0 || (r = find(s, secret, now_ms, ret, err)) < 0)
		return r;
	secret_digest(browser, ret->browser);
	if ((r = row_update(s, &link_table, ret, err)) < 0)
		return r;
	return tx_commit(&t, err);
}

int store_github_link_take(struct store *s, const char *secret, const char *browser, int64_t now_ms,
                           struct store_github_link *ret, struct err *err)
{
	char whose[SECRET_DIGEST_SIZE];
	autotx struct tx t = { 0 };
	int r;

	if ((r = tx_begin(&t, s, err)) < 0 || (r = find(s, secret, now_ms, ret, err)) < 0)
		return r;
	secret_digest(browser, whose);
	if (!*browser || !*ret->browser || strcmp(ret->browser, whose) != 0) /* hashes */
		return gone(err);
	if ((r = row_delete(s, &link_table, ret->hash, err)) < 0)
		return r;
	return tx_commit(&t, err);
}

/* ---- webhooks ---- */

static void delivery_key(const char *app, const char *delivery, char ret[ID_SIZE + 80])
{
	snprintf(ret, ID_SIZE + 80, "%s/%.70s", app, delivery);
}

int store_github_heard(struct store *s, const char *app, const char *delivery, struct err *err)
{
	char key[ID_SIZE + 80];

	delivery_key(app, delivery, key);
	LOCK_SCOPE(&s->lock);
	return query_count(s, "SELECT COUNT(*) FROM github_deliveries WHERE id = $1", key, err);
}

int store_github_hear(struct store *s, const char *app, const char *delivery, int64_t now_ms,
                      struct err *err)
{
	char key[ID_SIZE + 80], now[24], old[24], most[12];
	const char *add[] = { key, app, now }, *trim[] = { app, old, most };
	const char *heard[] = { now, app };
	autotx struct tx t = { 0 };
	int r;

	delivery_key(app, delivery, key);
	snprintf(now, sizeof(now), "%lld", (long long)now_ms);
	snprintf(old, sizeof(old), "%lld", (long long)(now_ms - GITHUB_DELIVERIES_MS));
	snprintf(most, sizeof(most), "%d", GITHUB_DELIVERIES_KEPT);
	if ((r = tx_begin(&t, s, err)) < 0 ||
	    (r = run_text(s,
	                  "INSERT INTO github_deliveries (id, app, at_ms) VALUES ($1, $2, "
	                  "CAST($3 AS BIGINT)) ON CONFLICT DO NOTHING",
	                  add, 3, err)) < 0 ||
	    (r = run_text(s,
	                  "DELETE FROM github_deliveries WHERE app = $1 AND (at_ms < CAST($2 AS "
	                  "BIGINT) OR at_ms < (SELECT at_ms FROM github_deliveries WHERE app = $1 "
	                  "ORDER BY at_ms DESC LIMIT 1 OFFSET CAST($3 AS BIGINT)))",
	                  trim, 3, err)) < 0 ||
	    (r = run_text(s, "UPDATE github_apps SET heard_ms = CAST($1 AS BIGINT) WHERE id = $2",
	                  heard, 2, err)) < 0)
		return r;
	return tx_commit(&t, err);
}
