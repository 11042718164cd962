/* SPDX-License-Identifier: Apache-2.0 */
/*
 * background.c - requests that continue when their client stops waiting
 *
 * A client that sends x-freestyle-background-after-secs waits that long and then gets 202 and an
 * id to poll with. So the handler runs on its own thread, on a copy of the request that needs
 * no connection, and the connection's thread waits for it. When the time is up the id is first
 * written to the store and then sent to the client: an id that was returned is known for a day,
 * even after a restart, if only with an error that the restart lost it (clients poll forever on
 * anything without a code). If the store fails, or the account has no place left, the client simply
 * waits.
 *
 * The same mechanism makes calls repeatable: with an Idempotency-Key the request is in the store
 * before it runs, and a repeated call with the same key and body waits for the same run or gets the
 * same result.
 *
 * A job is in the table from its start until its result is in the store, and as long it holds one
 * of the places that accounts share (base/budget.h). Lock order: jobs->lock only, never held across
 * a handler.
 */
#include "api/call.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/evp.h>

#include "base/auto.h"
#include "base/budget.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/lock.h"
#include "base/log.h"
#include "conf.h"
#include "events/events.h"
#include "store/store.h"

#define AFTER_MAX_S 3600 /* longest wait a client may request */
#define AFTER_HEADER "x-freestyle-background-after-secs"
#define IDEM_HEADER "Idempotency-Key"
#define LOST_STATUS 503
#define RETRY_S 5 /* told to those who find no room */

static const char lost_body[] =
        "{\"code\":\"UNAVAILABLE\",\"error\":\"UNAVAILABLE\",\"message\":\"the server restarted "
        "while "
        "this request was running; check what exists before you repeat it\",\"description\":\"the "
        "server restarted while this request was running; check what exists before you repeat "
        "it\"}";

struct job {
	struct jobs *jobs;
	struct job *prev, *next; /* in the table; jobs->lock, as all below */
	unsigned refs;
	struct store_request row;
	struct request *req;     /* owned by its thread */
	bool stored, done, kept; /* kept: the store failed, the result stays here */
	unsigned status;
	char *body;    /* owned; the result as text: each waiter parses its own JSON from it */
	char why[256]; /* for a failure */
	char warning[REPLY_HEADER_SIZE];
	struct cond changed;
};

struct jobs {
	struct api *api;       /* weak */
	struct budget *places; /* owned; of accounts */
	struct mutex lock;
	struct job list GUARDED_BY(lock); /* head */
};

int jobs_new(struct api *a, struct jobs **ret, struct err *err)
{
	const struct budget_conf places = { .all = a->deps.conf->background
		                                           ? a->deps.conf->background
		                                           : API_JOBS_DEFAULT };
	struct jobs *j = calloc(1, sizeof(*j));
	int n;

	if (!j)
		return err_set(err, -ENOMEM, "out of memory");
	j->api = a;
	mutex_unshared(&j->lock);
	j->list.prev = j->list.next = &j->list;
	mutex_init(&j->lock, "api jobs");
	n = budget_new(&places, &j->places, err);
	if (n == 0)
		n = store_request_lost(a->deps.store, LOST_STATUS, lost_body, err);
	if (n < 0) {
		jobs_free(j);
		return n;
	}
	if (n > 0)
		log_info("%d background requests were lost with the last run of the server", n);
	*ret = j;
	return 0;
}

static void job_unref(struct job *job) REQUIRES(&job->jobs->lock)
{
	if (--job->refs)
		return;
	free(job->body);
	cond_destroy(&job->changed);
	free(job);
}

static void job_remove(struct job *job) REQUIRES(&job->jobs->lock)
{
	job->prev->next = job->next;
	job->next->prev = job->prev;
	budget_give(job->jobs->places, job->row.account, 1);
	job_unref(job);
}

struct jobs *jobs_free(struct jobs *j)
{
	if (!j)
		return NULL;
	mutex_unshared(&j->lock);
	while (j->list.next != &j->list) /* only kept ones: the API has waited for the others */
		job_remove(j->list.next);
	budget_free(j->places);
	mutex_destroy(&j->lock);
	free(j);
	return NULL;
}

static struct job *job_new(struct jobs *j, struct request *req)
{
	struct job *job = calloc(1, sizeof(*job));

	if (!job)
		return NULL;
	job->jobs = j;
	job->refs = 1;
	id_make("ri-", job->row.id);
	snprintf(job->row.account, sizeof(job->row.account), "%s", who_of(req)->account);
	snprintf(job->row.route, sizeof(job->row.route), "%s %s",
	         method_name(req->match.route->method), req->match.route->pattern);
	job->row.created_ms = clock_wall_ms();
	cond_init(&job->changed);
	return job;
}

static void tell(struct job *job, enum event_level lv, const char *message)
{
	events_publish(job->jobs->api->deps.events, &(struct event){ .level = lv,
	                                                             .source = "request",
	                                                             .account = job->row.account,
	                                                             .request = job->row.id,
	                                                             .message = message });
}

static void tell_end(struct job *job)
{
	char text[512];

	if (job->status >= 400)
		snprintf(text, sizeof(text), "%s failed: %s", job->row.route, job->why);
	else
		snprintf(text, sizeof(text), "%s is done", job->row.route);
	tell(job, job->status >= 400 ? EVENT_ERROR : EVENT_INFO, text);
}

/* Writes the result to the store, so that the table need not keep it. False: that failed. */
static bool job_save(struct job *job)
{
	struct store *store = job->jobs->api->deps.store;
	struct err err = { 0 };
	int r = store_request_finish(store, job->row.id, job->status, job->body ? job->body : "",
	                             &err);

	if (r < 0)
		log_obj(LOG_LV_WARN, "request", job->row.id, "its result is only in memory: %s",
		        err.msg);
	return r == 0;
}

/* Publishes the result. True if its row is in the store and needs it. */
static bool job_done(struct job *job, json_t *result_consume, unsigned status,
                     const struct err *err)
{
	static const char none[] = "{\"code\":\"UNAVAILABLE\",\"error\":\"UNAVAILABLE\","
	                           "\"message\":\"out of memory\"}";
	autojson json_t *result = result_consume;
	char *text = result ? json_dumps(result, JSON_COMPACT) : NULL;

	LOCK_SCOPE(&job->jobs->lock);
	job->body = text ? text : strdup(none);
	job->status = text ? status : 503;
	snprintf(job->why, sizeof(job->why), "%s", err->msg);
	if (job->stored)
		tell_end(job); /* before the result becomes visible, so that the log is complete by
		                  then */
	job->done = true;
	cond_broadcast(&job->changed);
	return job->stored;
}

/* For those who wait; it is not in the store. */
static void keep_warning(struct job *job, const struct reply *res)
{
	LOCK_SCOPE(&job->jobs->lock);
	for (size_t i = 0; i < res->n_headers; i++)
		if (strcmp(res->headers[i].name, WARNING_HEADER) == 0)
			snprintf(job->warning, sizeof(job->warning), "%s", res->headers[i].value);
}

static void *job_main(void *arg)
{
	struct job *job = arg;
	struct jobs *j = job->jobs;
	struct request *req = job->req;
	struct http *http = req->http;
	struct reply res = { 0 };
	struct err err = { 0 };
	unsigned status = 0;
	json_t *result;
	bool save, kept;
	int r;

	events_request_set(job->row.id);
	r = api_handle(req, &res, &err);
	result = reply_render(req, &res, r, &err, &status);
	keep_warning(job, &res);
	save = job_done(job, result, status, &err);
	reply_done(&res);
	kept = save && !job_save(job);
	events_request_set(NULL);
	mutex_lock(&j->lock);
	job->kept = kept;
	if (!kept)
		job_remove(job);
	job_unref(job);
	mutex_unlock(&j->lock);
	req->counted = false;
	request_free(req);
	http_count_out_last(http); /* from here on everything may be freed */
	return NULL;
}

/* Drops the oldest result that is only in memory; account NULL: anybody's. False: there is none. */
static bool drop_kept(struct jobs *j, const char *account) REQUIRES(&j->lock)
{
	for (struct job *k = j->list.next; k != &j->list; k = k->next)
		if (k->kept && (!account || strcmp(k->row.account, account) == 0)) {
			job_remove(k);
			return true;
		}
	return false;
}

/* A place for a job of that account. -EAGAIN: there is none. */
static int take_place(struct jobs *j, const char *account, struct err *err) REQUIRES(&j->lock)
{
	int r;

	while ((r = budget_take(j->places, account, 1)) < 0)
		if (!drop_kept(j, account) && (r == -EDQUOT || !drop_kept(j, NULL)))
			break;
	if (r == 0)
		return 0;
	if (r == -EDQUOT)
		err_tag(err, -EAGAIN, ERR_LIMIT_EXCEEDED,
		        "this account has too many requests in the background (up to %llu, less "
		        "when others need some): wait for one of them to end",
		        (unsigned long long)budget_share(j->places));
	else
		err_tag(err, -EAGAIN, ERR_UNAVAILABLE,
		        "too many requests are running in the background (PANDO_BACKGROUND): try "
		        "again "
		        "later");
	err_fact(err, ERR_FACT_RETRY, RETRY_S);
	return -EAGAIN;
}

static void job_insert(struct jobs *j, struct job *job)
        REQUIRES(&j->lock) /* the table's reference */
{
	job->refs++;
	job->next = &j->list;
	job->prev = j->list.prev;
	job->prev->next = job->next->prev = job;
}

static int job_thread(struct job *job)
{
	pthread_attr_t attr;
	pthread_t t;
	int r;

	mutex_lock(&job->jobs->lock);
	job->refs++; /* the thread's */
	mutex_unlock(&job->jobs->lock);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	r = -pthread_create(&t, &attr, job_main, job);
	pthread_attr_destroy(&attr);
	if (r < 0) {
		mutex_lock(&job->jobs->lock);
		job_unref(job);
		mutex_unlock(&job->jobs->lock);
	}
	return r;
}

/* Creates the thread and the copy of the request. */
static int job_launch(struct job *job, struct request *req, struct err *err)
{
	int r = request_detach(req, &job->req, err);

	if (r < 0)
		return r;
	if (job_thread(job) == 0)
		return 0;
	/* The body was moved to the copy: it cannot run here any more. */
	job->req = request_free(job->req);
	return err_tag(err, -EAGAIN, ERR_UNAVAILABLE, "the server is too busy: try again later");
}

/* A failure becomes its result, for other waiters too, and it leaves the table. */
static int job_start(struct job *job, struct request *req, struct err *err)
{
	struct jobs *j = job->jobs;
	bool first = *job->row.idem_key != '\0'; /* into the store before it runs */
	int r = first ? store_request_add(j->api->deps.store, &job->row, err) : 0;
	enum err_code code;

	mutex_lock(&j->lock);
	job->stored = first && r == 0;
	mutex_unlock(&j->lock);
	if (r == 0)
		r = job_launch(job, req, err);
	if (r == 0)
		return 0;
	code = code_of(err);
	if (job_done(job,
	             json_pack("{s:s, s:s, s:s}", "code", err_code_name(code), "error",
	                       err_code_name(code), "message", err->msg),
	             err_code_status(code), err))
		job_save(job);
	mutex_lock(&j->lock);
	job_remove(job);
	mutex_unlock(&j->lock);
	return r;
}

static int reply_running(const struct job *job, struct reply *res, struct err *err)
{
	res->status = 202;
	reply_header(res, "x-freestyle-background-request-id", job->row.id);
	return reply_json(
	        res, json_pack("{s:s, s:s}", "requestId", job->row.id, "status", "running"), err);
}

static int reply_result(const struct job *job, struct reply *res, struct err *err)
{
	res->status = job->status;
	if (*job->warning)
		reply_header(res, WARNING_HEADER, job->warning);
	return reply_json(res, job->body ? json_loads(job->body, JSON_DECODE_ANY, NULL) : NULL,
	                  err);
}

/* Waits until it is done, or for after_ms (-1: for ever) and until it is in the store. */
static int job_wait(struct job *job, int64_t after_ms, struct reply *res, struct err *err)
{
	struct jobs *j = job->jobs;
	uint64_t until = after_ms < 0 ? UINT64_MAX : clock_ms() + (uint64_t)after_ms;
	struct err why = { 0 };
	int r;

	LOCK_SCOPE(&j->lock);
	while (!job->done && cond_wait_until(&job->changed, &j->lock, until))
		;
	if (job->done)
		return reply_result(job, res, err);
	if (!job->stored) {
		mutex_unlock(&j->lock);
		r = store_request_add(j->api->deps.store, &job->row, &why);
		mutex_lock(&j->lock);
		job->stored = r == 0;
		if (r < 0)
			log_obj(LOG_LV_WARN, "request", job->row.id,
			        "cannot go to the background: %s", why.msg);
	}
	/* Done while we wrote: its thread did not know about the row. If the row cannot be written:
	 * no 202. */
	while (!job->done && !job->stored)
		cond_wait(&job->changed, &j->lock);
	if (job->done) {
		if (job->stored) {
			mutex_unlock(&j->lock);
			job_save(job);
			mutex_lock(&j->lock);
		}
		return reply_result(job, res, err);
	}
	tell(job, EVENT_INFO, "the request continues in the background");
	return reply_running(job, res, err);
}

/* ---- Idempotency-Key ---- */

static int read_idem(struct request *req, struct store_request *row, struct err *err)
{
	const char *key = request_header(req, IDEM_HEADER), *p;
	unsigned char md[EVP_MAX_MD_SIZE];
	unsigned md_n = 0;
	size_t n;
	int r;

	if (!key || !*key)
		return 0;
	n = strlen(key);
	for (size_t i = 0; i < n; i++)
		if (key[i] < 0x21 || key[i] > 0x7e)
			n = SIZE_MAX - 1;
	if (n >= sizeof(row->idem_key))
		return err_tag(err, -EINVAL, ERR_INVALID_PARAMETERS,
		               IDEM_HEADER " is at most %zu visible ASCII characters",
		               sizeof(row->idem_key) - 1);
	snprintf(row->idem_key, sizeof(row->idem_key), "%s", key);
	if ((r = body_view(&req->body, &p, &n, err)) < 0)
		return r;
	if (EVP_Digest(p, n, md, &md_n, EVP_sha256(), NULL) != 1)
		return err_set(err, -EIO, "cannot compute SHA-256");
	hex_encode(md, md_n, row->idem_hash);
	return 0;
}

static int same_call(const struct store_request *a, const struct store_request *b, struct err *err)
{
	if (strcmp(a->idem_hash, b->idem_hash) == 0 && strcmp(a->route, b->route) == 0)
		return 0;
	return err_tag(err, -EEXIST, ERR_CONFLICT,
	               "this " IDEM_HEADER " was used for another request");
}

/* 1: *ret (referenced) is the run to wait for, or NULL if the reply is complete. */
static int find_same(struct jobs *j, const struct store_request *row, struct job **ret,
                     struct reply *res, struct err *err) REQUIRES(&j->lock)
{
	autofree char *body = NULL;
	struct store_request old = { 0 };
	struct err why = { 0 };
	int r;

	for (struct job *k = j->list.next; k != &j->list; k = k->next) {
		if (strcmp(k->row.account, row->account) != 0 ||
		    strcmp(k->row.idem_key, row->idem_key) != 0)
			continue;
		if ((r = same_call(&k->row, row, err)) < 0)
			return r;
		k->refs++;
		*ret = k;
		return 1;
	}
	r = store_request_find(j->api->deps.store, row->account, row->idem_key, &old, &body, &why);
	if (r == -ENOENT || (r == 0 && !old.done_ms))
		return 0;
	if (r < 0) {
		*err = why;
		return r;
	}
	if ((r = same_call(&old, row, err)) < 0)
		return r;
	res->status = old.status;
	r = reply_json(res, json_loads(body, JSON_DECODE_ANY, NULL), err);
	return r < 0 ? r : 1;
}

/* An entry for a new job, or the one to wait for. 1: the reply is complete. */
static int job_enter(struct jobs *j, struct job *new, struct job **ret, struct reply *res,
                     struct err *err)
{
	int r;

	LOCK_SCOPE(&j->lock);
	*ret = NULL;
	if (*new->row.idem_key) {
		r = find_same(j, &new->row, ret, res, err);
		if (r != 0)
			return r < 0 || *ret ? MIN(r, 0) : 1;
	}
	if ((r = take_place(j, new->row.account, err)) < 0)
		return r;
	job_insert(j, new);
	return 0;
}

/* ---- instead of a handler ---- */

bool background_wanted(struct request *req)
{
	const char *key = request_header(req, IDEM_HEADER);

	return (key && *key) || request_header(req, AFTER_HEADER);
}

static int read_after(struct request *req, int64_t *ret_ms, struct err *err)
{
	const char *s = request_header(req, AFTER_HEADER);
	char *end;
	long v;

	*ret_ms = -1;
	if (!s)
		return 0;
	errno = 0;
	v = strtol(s, &end, 10);
	if (s[0] < '0' || s[0] > '9' || *end || errno || v > AFTER_MAX_S)
		return err_tag(err, -EINVAL, ERR_INVALID_PARAMETERS,
		               AFTER_HEADER " must be a whole number from 0 to %d", AFTER_MAX_S);
	*ret_ms = v * 1000;
	return 0;
}

int background_run(struct request *req, struct reply *res, struct err *err)
{
	struct jobs *j = api_of(req)->jobs;
	struct job *mine = job_new(j, req), *job = NULL;
	int64_t after_ms;
	int r;

	if (!mine)
		return err_set(err, -ENOMEM, "out of memory");
	if ((r = read_after(req, &after_ms, err)) == 0 &&
	    (r = read_idem(req, &mine->row, err)) == 0)
		r = job_enter(j, mine, &job, res, err);
	if (r == 0 && !job) {
		job = TAKE_PTR(mine);
		r = job_start(job, req, err);
	}
	if (r == 0)
		r = job_wait(job, after_ms, res, err);
	if (r == -EAGAIN && mine && !*mine->row.idem_key) { /* no place: run it here */
		*err = (struct err){ 0 };
		r = api_handle(req, res, err);
	}
	mutex_lock(&j->lock);
	if (mine)
		job_unref(mine);
	if (job)
		job_unref(job);
	mutex_unlock(&j->lock);
	return r < 0 ? r : 0;
}

static int gone(const char *id, struct err *err)
{
	return err_tag(err, -ENOENT, ERR_NOT_FOUND,
	               "no background request '%.40s': results are kept for a day", id);
}

int api_background_get(struct request *req, struct reply *res, struct err *err)
{
	struct jobs *j = api_of(req)->jobs;
	const char *id = req->match.arg[0];
	autofree char *body = NULL;
	struct store_request row;
	int r;

	if (!id_valid("ri-", id))
		return gone(id, err);
	mutex_lock(&j->lock);
	for (struct job *k = j->list.next; k != &j->list; k = k->next) {
		if (strcmp(k->row.id, id) != 0 || strcmp(k->row.account, who_of(req)->account) != 0)
			continue;
		r = k->done ? reply_result(k, res, err) : reply_running(k, res, err);
		mutex_unlock(&j->lock);
		return r;
	}
	mutex_unlock(&j->lock);
	r = store_request_get(deps_of(req)->store, id, &row, &body, err);
	if (r == -ENOENT || (r == 0 && strcmp(row.account, who_of(req)->account) != 0))
		return gone(id, err);
	if (r < 0)
		return r;
	if (!row.done_ms) /* between two states: it has just left the table */
		return gone(id, err);
	res->status = row.status;
	return reply_json(res, json_loads(body, JSON_DECODE_ANY, NULL), err);
}
