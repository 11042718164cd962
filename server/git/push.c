/* SPDX-License-Identifier: Apache-2.0 */
/*
 * push.c - references moved: the one event, whoever moved them
 *
 * receive-pack runs a post-receive hook of ours that copies what Git accepted, and nothing else, to
 * a file without a name; the API knows what it did. Both end here.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"
#include "base/log.h"
#include "events/events.h"
#include "git/git_internal.h"

#define UPDATES_MAX 10000        /* of one push that are told about */
#define UPDATES_BYTES (8u << 20) /* of the hook's file */

int repos_on_push(struct repos *g, repo_push_fn fn, void *ctx, struct err *err)
{
	LOCK_SCOPE(&g->lock);
	if (g->n_subs == REPOS_SUBSCRIBERS_MAX)
		return err_set(err, -ENOBUFS, "too many subscribers to pushes");
	g->subs[g->n_subs].fn = fn;
	g->subs[g->n_subs++].ctx = ctx;
	return 0;
}

void push_tell(struct repos *g, const struct store_repo *r, const char *by,
               const struct repo_update *u, size_t n)
{
	struct repo_push p = { .repo = r, .by = by ? by : "", .updates = u, .n_updates = n };
	struct err err = { 0 };
	char text[REPO_REF_SIZE + 160];
	unsigned n_subs;

	if (n == 0)
		return;
	if (store_repo_measured(g->store, r->id, -1, clock_wall_ms(), &err) < 0)
		log_warn("repository %s: cannot note down the push: %s", r->id, err.msg);
	keeper_note(g, r->id);
	pthread_mutex_lock(&g->lock);
	n_subs = g->n_subs;
	pthread_mutex_unlock(&g->lock);
	for (unsigned i = 0; i < n_subs; i++) /* they only ever become more */
		g->subs[i].fn(&p, g->subs[i].ctx);
	snprintf(text, sizeof(text), "push to repository %s: %s %.12s -> %.12s%s", r->id, u[0].ref,
	         u[0].old_sha, u[0].new_sha, n > 1 ? " and others" : "");
	events_publish(g->conf.events, &(struct event){ .level = EVENT_INFO,
	                                                .source = "git",
	                                                .account = r->account,
	                                                .message = text });
}

/* "old new ref" */
static bool parse_line(const char *p, size_t n, struct repo_update *ret)
{
	const size_t sha = REPO_SHA_SIZE - 1;

	if (n < 2 * sha + 3 || n - 2 * sha - 2 >= sizeof(ret->ref) || p[sha] != ' ' ||
	    p[2 * sha + 1] != ' ')
		return false;
	snprintf(ret->old_sha, sizeof(ret->old_sha), "%.*s", (int)sha, p);
	snprintf(ret->new_sha, sizeof(ret->new_sha), "%.*s", (int)sha, p + sha + 1);
	snprintf(ret->ref, sizeof(ret->ref), "%.*s", (int)(n - 2 * sha - 2), p + 2 * sha + 2);
	return true;
}

void push_tell_file(struct repos *g, const struct store_repo *r, const char *by, int fd)
{
	autofree struct repo_update *u = NULL;
	autofree char *text = NULL;
	struct stat st;
	size_t n = 0, lines = 0;

	if (fstat(fd, &st) < 0 || st.st_size == 0)
		return;
	if (st.st_size > (off_t)UPDATES_BYTES)
		st.st_size = UPDATES_BYTES;
	text = malloc((size_t)st.st_size + 1);
	if (!text || io_pread_all(fd, text, (size_t)st.st_size, 0) < 0) {
		log_warn("repository %s: cannot read which references were pushed", r->id);
		return;
	}
	text[st.st_size] = '\0';
	for (const char *p = text; (p = strchr(p, '\n')) && lines < UPDATES_MAX; p++)
		lines++;
	u = calloc(lines ? lines : 1, sizeof(*u));
	if (!u)
		return;
	for (const char *p = text; n < lines;) {
		size_t len = strcspn(p, "\n");

		if (parse_line(p, len, &u[n]))
			n++;
		else
			lines--;
		if (!p[len])
			break;
		p += len + 1;
	}
	push_tell(g, r, by, u, n);
}
