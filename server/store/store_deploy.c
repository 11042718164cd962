/* SPDX-License-Identifier: Apache-2.0 */
/* store_deploy.c - see store_deploy.h */
#include "store/store_deploy.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/json_field.h"
#include "store/store_internal.h"

const char *const deploy_state_words[DEPLOY_STATE_MAX] = { "provisioning", "deployed", "failed" };

#define COLS                                                                              \
	"id, account, name, state, snapshot, build, port, idle_ms, instances, requests, " \
	"created_ms, deployed_ms, why, config"

static struct secret_place config_of(const char *id)
{
	return (struct secret_place){ "deployments.config", id };
}

void store_deploy_done(struct store_deploy *d)
{
	if (d->config)
		explicit_bzero(d->config, strlen(d->config));
	free(d->config);
	d->config = NULL;
}

void store_deploys_free(struct store_deploy *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		store_deploy_done(&v[i]);
	free(v);
}

static int read_row(struct query *q, struct store_deploy *d, struct err *err)
{
	char state[16];
	int r;

	*d = (struct store_deploy){ .state = DEPLOY_FAILED };
	query_read_text(q, d->id, sizeof(d->id));
	query_read_text(q, d->account, sizeof(d->account));
	query_read_text(q, d->name, sizeof(d->name));
	query_read_text(q, state, sizeof(state));
	query_read_text(q, d->snapshot, sizeof(d->snapshot));
	query_read_text(q, d->build, sizeof(d->build));
	d->port = (uint32_t)query_read_i64(q, 0, 65535);
	d->idle_ms = (uint32_t)query_read_i64(q, 0, UINT32_MAX);
	d->instances = (uint32_t)query_read_i64(q, 0, UINT32_MAX);
	d->requests = (uint32_t)query_read_i64(q, 0, UINT32_MAX);
	d->created_ms = query_read_i64(q, 0, INT64_MAX);
	d->deployed_ms = query_read_i64(q, 0, INT64_MAX);
	query_read_text(q, d->why, sizeof(d->why));
	d->config = query_read_secret(q, config_of(d->id));
	for (int i = 0; i < DEPLOY_STATE_MAX; i++)
		if (!strcmp(state, deploy_state_words[i]))
			d->state = (enum deploy_state)i;
	if ((r = query_read_end(q, err)) < 0)
		store_deploy_done(d);
	return r;
}

static int tell(struct store *s, const struct store_deploy *d, const char *type, struct err *err)
{
	json_t *about = json_pack("{s:s, s:s?, s:s, s:s?}", "id", d->id, "name",
	                          *d->name ? d->name : NULL, "state", deploy_state_words[d->state],
	                          "buildId", *d->build ? d->build : NULL);

	if (about && d->state == DEPLOY_FAILED)
		json_object_set_new(about, "error", json_text(d->why, strlen(d->why)));
	return feed_tell_locked(s, d->account, type, "", "deployment", about, err);
}

static int insert(struct store *s, const struct store_deploy *d, struct err *err)
{
	autoquery struct query q = { 0 };
	int r = query_begin(&q, s,
	                    "INSERT INTO deployments (" COLS ", node) VALUES ($1, $2, $3, $4, $5, "
	                    "$6, $7, $8, $9, $10, $11, $12, $13, $14, $15)",
	                    err);

	if (r < 0)
		return r;
	query_bind_text(&q, d->id);
	query_bind_text(&q, d->account);
	query_bind_text(&q, d->name);
	query_bind_text(&q, deploy_state_words[d->state]);
	query_bind_text(&q, d->snapshot);
	query_bind_text(&q, d->build);
	query_bind_i64(&q, d->port);
	query_bind_i64(&q, d->idle_ms);
	query_bind_i64(&q, d->instances);
	query_bind_i64(&q, d->requests);
	query_bind_i64(&q, d->created_ms);
	query_bind_i64(&q, d->deployed_ms);
	query_bind_text(&q, d->why);
	query_bind_secret(&q, config_of(d->id), d->config ? d->config : "");
	query_bind_text(&q, s->node);
	return MIN(query_run(&q, err), 0);
}

int store_deploy_add(struct store *s, const struct store_deploy *d, uint32_t max, struct err *err)
{
	autotx struct tx t = { 0 };
	int r;

	if ((r = tx_begin(&t, s, err)) < 0 ||
	    (r = query_count(s, "SELECT COUNT(*) FROM deployments WHERE account = $1", d->account,
	                     err)) < 0)
		return r;
	if ((uint32_t)r >= max)
		return err_tag(err, -EDQUOT, ERR_DEPLOYMENT_LIMIT_EXCEEDED,
		               "an account has at most %u deployments here: delete one first", max);
	if ((r = insert(s, d, err)) < 0 || (r = tell(s, d, "deployment.created", err)) < 0)
		return r;
	return tx_commit(&t, err);
}

static int update(struct store *s, const struct store_deploy *d, struct err *err)
{
	autoquery struct query q = { 0 };
	int r = query_begin(&q, s,
	                    "UPDATE deployments SET state = $1, snapshot = $2, build = $3, "
	                    "deployed_ms = $4, why = $5 WHERE id = $6",
	                    err);

	if (r < 0)
		return r;
	query_bind_text(&q, deploy_state_words[d->state]);
	query_bind_text(&q, d->snapshot);
	query_bind_text(&q, d->build);
	query_bind_i64(&q, d->deployed_ms);
	query_bind_text(&q, d->why);
	query_bind_text(&q, d->id);
	return query_run(&q, err);
}

static int missing(const char *id, struct err *err)
{
	return err_tag(err, -ENOENT, ERR_DEPLOYMENT_NOT_FOUND, "no deployment '%.60s'", id);
}

int store_deploy_put(struct store *s, const struct store_deploy *d, struct err *err)
{
	autotx struct tx t = { 0 };
	int r;

	if ((r = tx_begin(&t, s, err)) < 0 || (r = update(s, d, err)) < 0)
		return r;
	if (r == 0)
		return missing(d->id, err);
	if (d->state != DEPLOY_PROVISIONING &&
	    (r = tell(s, d,
	              d->state == DEPLOY_DEPLOYED ? "deployment.deployed" : "deployment.failed",
	              err)) < 0)
		return r;
	return tx_commit(&t, err);
}

static int get(struct store *s, const char *account, const char *id, struct store_deploy *ret,
               struct err *err)
{
	autoquery struct query q = { 0 };
	int r = query_begin(&q, s, "SELECT " COLS " FROM deployments WHERE id = $1", err);

	if (r < 0)
		return r;
	query_bind_text(&q, id);
	if ((r = query_step(&q, err)) < 0)
		return r;
	if (r == 0)
		return missing(id, err);
	if ((r = read_row(&q, ret, err)) < 0)
		return r;
	if (!account || !strcmp(ret->account, account))
		return 0;
	store_deploy_done(ret);
	return missing(id, err);
}

int store_deploy_get(struct store *s, const char *account, const char *id, struct store_deploy *ret,
                     struct err *err)
{
	LOCK_SCOPE(&s->lock);
	return get(s, account, id, ret, err);
}

/* Is it a part of the id, the name or a domain? Rows are few (an account's). */
static bool found(const struct store_deploy *d, const char *search)
{
	return !*search || strcasestr(d->id, search) || strcasestr(d->name, search);
}

static int has_domain(struct store *s, const char *id, const char *search, struct err *err)
{
	autoquery struct query q = { 0 };
	int r = query_begin(&q, s, "SELECT domain FROM domain_mappings WHERE deployment = $1", err);
	bool has = false;

	if (r < 0)
		return r;
	query_bind_text(&q, id);
	while ((r = query_step(&q, err)) > 0) {
		char domain[DOMAIN_SIZE];

		query_read_text(&q, domain, sizeof(domain));
		if ((r = query_read_end(&q, err)) < 0)
			break;
		has |= strcasestr(domain, search) != NULL;
	}
	return r < 0 ? r : has;
}

static int read_list(struct store *s, const char *account, struct store_deploy **list, size_t *n,
                     struct err *err)
{
	autoquery struct query q = { 0 };
	size_t cap = 0;
	int r = query_begin(&q, s,
	                    account ? "SELECT " COLS " FROM deployments WHERE account = $1 "
	                              "ORDER BY created_ms DESC, id DESC"
	                            : "SELECT " COLS " FROM deployments "
	                              "ORDER BY created_ms DESC, id DESC",
	                    err);

	if (r == 0 && account)
		query_bind_text(&q, account);
	while (r >= 0 && (r = query_step(&q, err)) > 0) {
		if (*n == cap) {
			struct store_deploy *more;

			cap = cap ? 2 * cap : 16;
			more = reallocarray(*list, cap, sizeof(*more));
			if (!more)
				return err_set(err, -ENOMEM, "out of memory");
			*list = more;
		}
		if ((r = read_row(&q, &(*list)[*n], err)) < 0)
			break;
		(*n)++;
	}
	return MIN(r, 0);
}

int store_deploy_list(struct store *s, const char *account, const char *search,
                      struct store_deploy **ret, size_t *ret_n, struct err *err)
{
	struct store_deploy *list = NULL;
	size_t n = 0, kept = 0;
	int r;

	LOCK_SCOPE(&s->lock);
	r = read_list(s, account, &list, &n, err);
	for (size_t i = 0; i < n; i++) {
		int has = r < 0 ? 0 : found(&list[i], search);

		if (!has && r >= 0) {
			has = has_domain(s, list[i].id, search, err);
			r = MIN(has, 0);
		}
		if (has > 0)
			list[kept++] = list[i];
		else
			store_deploy_done(&list[i]);
	}
	if (r < 0) {
		store_deploys_free(list, kept);
		return r;
	}
	*ret = list;
	*ret_n = kept;
	return 0;
}

int store_deploy_delete(struct store *s, const char *account, const char *id, struct err *err)
{
	struct store_deploy d = { 0 };
	autotx struct tx t = { 0 };
	int r;

	if ((r = tx_begin(&t, s, err)) < 0 || (r = get(s, account, id, &d, err)) < 0)
		return r;
	store_deploy_done(&d);
	if ((r = mappings_drop_deploy_locked(s, id, err)) < 0 ||
	    (r = run_text(s, "DELETE FROM deployments WHERE id = $1", &id, 1, err)) < 0 ||
	    (r = tell(s, &d, "deployment.deleted", err)) < 0)
		return r;
	return tx_commit(&t, err);
}

int store_deploy_fail_unfinished(struct store *s, const char *why, struct err *err)
{
	const char *args[] = { why, s->node };
	LOCK_SCOPE(&s->lock);

	return MIN(run_text(s,
	                    "UPDATE deployments SET state = 'failed', why = $1 WHERE state = "
	                    "'provisioning' AND node = $2",
	                    args, 2, err),
	           0);
}

int store_deploy_domains(struct store *s, const char *id, char (**ret)[DOMAIN_SIZE], size_t *ret_n,
                         struct err *err)
{
	autofree char(*v)[DOMAIN_SIZE] = calloc(DOMAINS_PER_ACCOUNT, sizeof(*v));
	size_t n = 0;
	int r;
	LOCK_SCOPE(&s->lock);
	autoquery struct query q = { 0 };

	if (!v)
		return err_set(err, -ENOMEM, "out of memory");
	if ((r = query_begin(&q, s,
	                     "SELECT domain FROM domain_mappings WHERE deployment = $1 ORDER BY "
	                     "created_ms, domain",
	                     err)) < 0)
		return r;
	query_bind_text(&q, id);
	while (n < DOMAINS_PER_ACCOUNT && (r = query_step(&q, err)) > 0) {
		query_read_text(&q, v[n++], sizeof(*v));
		if ((r = query_read_end(&q, err)) < 0)
			break;
	}
	if (r < 0)
		return r;
	*ret = TAKE_PTR(v);
	*ret_n = n;
	return 0;
}
