/* SPDX-License-Identifier: Apache-2.0 */
/* sync.c - mirrors: configured, woken by a push here, a webhook from there, or the clock */
#include "git/sync.h"

#include <ctype.h>
#include <errno.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/id.h"
#include "base/json_field.h"
#include "base/lock.h"
#include "base/log.h"
#include "git/credential.h"
#include "git/ghapps_internal.h"
#include "git/sync_internal.h"
#include "store/store.h"

#define WORKERS 4 /* rounds at a time, each of another account */
#define IDLE_MS 60000
#define TAG ERR_GIT_INVALID_REQUEST

struct syncs {
	struct syncs_conf conf;
	struct repos *g;     /* weak */
	struct store *store; /* weak */
	struct credentials *credentials;
	struct ghapps *ghapps;
	struct mutex lock;
	struct cond more;
	uint64_t news GUARDED_BY(lock);
	atomic_bool ending;
	int stop_fd; /* owned; readable once it ends */
	pthread_t threads[WORKERS];
	unsigned n;
};

static void wake(struct syncs *y)
{
	LOCK_SCOPE(&y->lock);
	y->news++;
	cond_broadcast(&y->more);
}

/* "owner/name" */
static bool remote_ok(const char *s)
{
	size_t slashes = 0;

	for (const char *p = s; *p; p++) {
		slashes += *p == '/';
		if (!isalnum((unsigned char)*p) && !strchr("-_./", *p))
			return false;
	}
	return slashes == 1 && *s != '/' && s[strlen(s) - 1] != '/' && !strstr(s, "..") &&
	       *s != '-' && *s != '.' && strlen(s) < 200;
}

static int take_url(struct syncs *y, const struct sync_new *n, struct store_sync *s,
                    struct err *err)
{
	if (n->url) {
		if ((strncmp(n->url, "https://", 8) != 0 && strncmp(n->url, "http://", 7) != 0) ||
		    strlen(n->url) >= sizeof(s->url) || n->url[strcspn(n->url, " \t\r\n@")])
			return err_tag(err, -EINVAL, TAG,
			               "'url' must be an http or https URL without a password: use "
			               "'token' for it");
		snprintf(s->url, sizeof(s->url), "%s", n->url);
		snprintf(s->remote, sizeof(s->remote), "%.250s", n->remote ? n->remote : n->url);
		return 0;
	}
	if (!n->remote || !remote_ok(n->remote))
		return err_tag(err, -EINVAL, TAG, "'githubRepoName' must be \"owner/repository\"");
	snprintf(s->remote, sizeof(s->remote), "%s", n->remote);
	snprintf(s->url, sizeof(s->url), "%s/%s.git", y->conf.base_url, n->remote);
	return 0;
}

int sync_enable(struct syncs *y, const struct store_repo *r, const struct sync_new *n,
                struct err *err)
{
	autowipe struct store_sync *s = calloc(1, sizeof(*s));
	unsigned char secret[32];
	int rc;

	if (!s)
		return err_set(err, -ENOMEM, "out of memory");
	snprintf(s->repo, sizeof(s->repo), "%s", r->id);
	snprintf(s->account, sizeof(s->account), "%s", r->account);
	if ((rc = take_url(y, n, s, err)) < 0)
		return rc;
	if (n->token && n->installation)
		return err_tag(err, -EINVAL, TAG, "give either 'token' or 'installationId'");
	if (!n->token && (rc = ghapps_choose(y->ghapps, r->account, s->url, n->installation,
	                                     s->installation, err)) < 0)
		return rc;
	for (const char *p = n->token ? n->token : ""; *p; p++)
		if (iscntrl((unsigned char)*p) || p - n->token >= (long)sizeof(s->token) - 1)
			return err_tag(err, -EINVAL, TAG, "'token' is not a valid password");
	snprintf(s->token, sizeof(s->token), "%s", n->token ? n->token : "");
	random_bytes(secret, sizeof(secret));
	hex_encode(secret, sizeof(secret), s->hook);
	explicit_bzero(secret, sizeof(secret));
	snprintf(s->conflicts, sizeof(s->conflicts), "[]");
	s->state = SYNC_WAITING;
	s->next_ms = clock_wall_ms();
	if ((rc = sync_forget(y->g, r, err)) < 0 || (rc = store_sync_put(y->store, s, err)) < 0)
		return rc;
	wake(y);
	return 0;
}

int sync_disable(struct syncs *y, const struct store_repo *r, struct err *err)
{
	int rc = store_sync_delete(y->store, r->id, err);

	return rc < 0 ? rc : sync_forget(y->g, r, err);
}

int sync_wake(struct syncs *y, const char *repo, const char *hook, struct err *err)
{
	int r = store_sync_wake(y->store, repo, hook, clock_wall_ms(), err);

	if (r == 0)
		return err_tag(err, -ENOENT, ERR_NOT_FOUND, "this repository has no mirror");
	if (r > 0)
		wake(y);
	return r < 0 ? r : 0;
}

/* Of a repository of the installation's account, however its address was written. */
static int on_change_there(void *ctx, const char *account, const char *server, const char *name,
                           struct err *err)
{
	static const char *const tails[SYNC_SPELLINGS] = { "", ".git", "/" };
	char text[SYNC_SPELLINGS][CREDENTIAL_URL_SIZE + GITHUB_REPO_SIZE + 8];
	const char *urls[SYNC_SPELLINGS];
	struct syncs *y = ctx;
	int n;

	for (size_t i = 0; i < SYNC_SPELLINGS; i++) {
		snprintf(text[i], sizeof(text[i]), "%s/%s%s", server, name, tails[i]);
		for (char *p = text[i]; *p; p++)
			*p = (char)tolower((unsigned char)*p);
		urls[i] = text[i];
	}
	n = store_sync_wake_urls(y->store, account, urls, clock_wall_ms(), err);
	if (n > 0)
		wake(y);
	return n;
}

static void on_push(const struct repo_push *p, void *ctx)
{
	struct syncs *y = ctx;
	struct err err = { 0 };
	int r;

	if (strcmp(p->by, SYNC_BY) == 0)
		return;
	r = store_sync_wake(y->store, p->repo->id, NULL, clock_wall_ms(), &err);
	if (r < 0)
		log_warn("repository %s: its mirror was not notified of a push: %s", p->repo->id,
		         err.msg);
	if (r > 0)
		wake(y);
}

/* With its own token, its installation's, or the account's for that server. */
static int one_round(struct syncs *y, const struct store_repo *repo, const struct store_sync *s,
                     json_t *conflicts, struct err *err)
{
	char token[MAX(CREDENTIAL_TOKEN_SIZE, sizeof(s->token))];
	int r = 0;

	if (*s->token)
		snprintf(token, sizeof(token), "%s", s->token);
	else if (*s->installation)
		r = ghapps_token(y->ghapps, s, token, err);
	else
		r = credential_token(y->credentials, s->account, s->url, token, err);
	if (r == 0)
		r = sync_round(y->g, repo, s, y->stop_fd, token, conflicts, err);
	if (r < 0 && r != -ECANCELED && *s->installation) /* perhaps it was the password */
		ghapps_refused(y->ghapps, s);
	else if (r < 0 && r != -ECANCELED && !*s->token)
		credential_refused(y->credentials, s->account, s->url);
	OPENSSL_cleanse(token, sizeof(token));
	return r;
}

static void work(struct syncs *y, struct store_sync *s)
{
	autojson json_t *conflicts = json_array();
	struct store_repo repo;
	struct err err = { 0 };
	int r = store_repo_get(y->store, s->repo, &repo, &err);

	if (r == 0)
		r = one_round(y, &repo, s, conflicts, &err);
	if (r == -ECANCELED)
		return; /* it still runs, as far as the store knows: the next start continues */
	s->state = r < 0 ? SYNC_FAILED : json_array_size(conflicts) ? SYNC_CONFLICT : SYNC_OK;
	snprintf(s->note, sizeof(s->note), "%.250s", r < 0 ? err.msg : "");
	if (r == 0) {
		size_t n =
		        json_dumpb(conflicts, s->conflicts, sizeof(s->conflicts) - 1, JSON_COMPACT);

		if (n < sizeof(s->conflicts))
			s->conflicts[n] = '\0';
		else
			snprintf(s->conflicts, sizeof(s->conflicts), "[]");
		s->last_ms = clock_wall_ms();
	}
	if (store_sync_finish(y->store, s, &err) < 0)
		log_warn("repository %s: its mirror's state: %s", s->repo, err.msg);
}

static unsigned nap_ms(struct syncs *y)
{
	struct err err = { 0 };
	int64_t next, now = clock_wall_ms();

	if (store_sync_next(y->store, &next, &err) < 0)
		return IDLE_MS;
	return next <= now ? 1000 : (unsigned)MIN(next - now, (int64_t)IDLE_MS);
}

static void *sync_main(void *arg)
{
	struct syncs *y = arg;
	autowipe struct store_sync *s = calloc(1, sizeof(*s));

	while (s && !atomic_load(&y->ending)) {
		struct err err = { 0 };
		uint64_t until;
		uint64_t seen;
		int r;

		mutex_lock(&y->lock);
		seen = y->news;
		mutex_unlock(&y->lock);
		r = store_sync_claim(y->store, clock_wall_ms(), (int64_t)y->conf.poll_s * 1000, s,
		                     &err);
		if (r == 0) {
			work(y, s);
			wake(y);
			continue;
		}
		until = deadline_in(nap_ms(y));
		LOCK_SCOPE(&y->lock);
		while (y->news == seen && !atomic_load(&y->ending) &&
		       cond_wait_until(&y->more, &y->lock, until))
			;
	}
	return NULL;
}

static void syncs_closep(struct syncs **y)
{
	syncs_close(*y);
}

int syncs_open(const struct syncs_conf *c, struct repos *g, struct store *s, struct syncs **ret,
               struct err *err)
{
	AUTO(syncs_closep) struct syncs *y = calloc(1, sizeof(*y));
	int r;

	if (!y)
		return err_set(err, -ENOMEM, "out of memory");
	y->conf = *c;
	y->g = g;
	y->store = s;
	y->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	mutex_init(&y->lock, "git sync");
	cond_init(&y->more);
	if (y->stop_fd < 0)
		return err_sys(err, -errno, "create an event");
	if ((r = credentials_new(s, c->base_url, g->conf.allow_private, &y->ending, &y->credentials,
	                         err)) < 0 ||
	    (r = ghapps_new(s, c->base_url,
	                    &(struct github_net){ g->conf.allow_private, &y->ending },
	                    on_change_there, y, c->hook_burst, &y->ghapps, err)) < 0 ||
	    (r = store_sync_recover(s, clock_wall_ms(), err)) < 0)
		return r;
	for (; y->n < WORKERS; y->n++)
		if ((r = pthread_create(&y->threads[y->n], NULL, sync_main, y)) != 0)
			return err_sys(err, -r, "start a thread");
	if ((r = repos_on_push(g, on_push, y, err)) < 0)
		return r;
	*ret = TAKE_PTR(y);
	return 0;
}

struct credentials *syncs_credentials(struct syncs *y)
{
	return y->credentials;
}

struct ghapps *syncs_ghapps(struct syncs *y)
{
	return y->ghapps;
}

void syncs_end(struct syncs *y)
{
	if (!y)
		return;
	atomic_store(&y->ending, true);
	eventfd_write(y->stop_fd, 1);
	ghapps_end(y->ghapps);
	wake(y);
}

struct syncs *syncs_close(struct syncs *y)
{
	if (!y)
		return NULL;
	syncs_end(y);
	for (unsigned i = 0; i < y->n; i++)
		pthread_join(y->threads[i], NULL);
	ghapps_free(y->ghapps);
	credentials_free(y->credentials);
	cond_destroy(&y->more);
	mutex_destroy(&y->lock);
	if (y->stop_fd >= 0)
		close(y->stop_fd);
	free(y);
	return NULL;
}
