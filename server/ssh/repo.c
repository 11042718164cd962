/* SPDX-License-Identifier: Apache-2.0 */
/*
 * repo.c - a login to a repository: Git's two programs, and nothing else
 *
 * Commands must be about the repository that was logged in to. Permissions are checked with every
 * command; the connection then depends on the permission used last, so a push ends when write
 * access is revoked. Git's programs run in their jail (git/talk.c); nothing from the client reaches
 * a command line.
 */
#include <errno.h>
#include <jansson.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/json_field.h"
#include "git/git.h"
#include "ssh/ssh_internal.h"

#define REFUSED 1 /* exit status */
#define LFS_URL_MAX 512
#define UNSENT_BYTES (128 << 10)

void repo_refuse(struct chan *x)
{
	char text[256];

	snprintf(text, sizeof(text),
	         "pando: this login for repository %s only allows git clone, fetch and push%s",
	         x->c->name.repo, x->has_pty ? "\r\n" : "\n");
	chan_last(x, SSHW_ERR, REFUSED, text);
}

static void say_error(struct chan *x, const struct err *err)
{
	char text[sizeof(err->msg) + 16];

	snprintf(text, sizeof(text), "pando: %s\n", err->msg);
	chan_last(x, SSHW_ERR, REFUSED, text);
}

static const char *protocol_of(const struct chan *x)
{
	static const char name[] = "GIT_PROTOCOL=";

	for (size_t i = 0; i < x->n_env; i++)
		if (strncmp(x->env[i], name, strlen(name)) == 0)
			return x->env[i] + strlen(name);
	return NULL;
}

/* Checks the permission; the connection depends on it from now on. */
static int permit(struct conn *c, bool write, struct store_repo *ret, struct err *err)
{
	enum auth_scope scope = write ? SCOPE_GIT_WRITE : SCOPE_GIT_READ;
	int r = auth_permit(c->d->deps.auth, &c->who, scope, c->name.repo, NULL, err);

	if (r == 0)
		r = repos_ready(c->d->deps.repos, err);
	if (r == 0)
		r = repo_find(c->d->deps.repos, c->who.account, c->name.repo,
		              write ? REPO_WRITE : REPO_READ, ret, err);
	if (r == 0 && (write || c->lease.scope != SCOPE_GIT_WRITE))
		auth_lease_take(c->d->deps.auth, &c->who, scope, c->name.repo, NULL, &c->lease);
	return r;
}

static int serve(struct chan *x, bool push, struct err *err)
{
	struct conn *c = x->c;
	struct repo_client by = { .holder = c->who.account, .fd = -1 };
	struct svc_opts o = { .kind = push ? REPO_RECEIVE_PACK : REPO_UPLOAD_PACK,
		              .protocol = protocol_of(x),
		              .by = c->who.key,
		              .stdin_fd = -1,
		              .client = &by };
	struct store_repo repo;
	int r = permit(c, push, &repo, err);

	conn_audit(c, push ? "git-receive-pack" : "git-upload-pack", r < 0 ? 403 : 200,
	           r < 0 ? ERR_REPOSITORY_ACCESS_DENIED : ERR_NONE);
	if (r < 0)
		return r;
	if (!sshd_door_talk(c))
		return err_set(err, -EAGAIN,
		               "this account is already running %d fetches and pushes over SSH, "
		               "the maximum",
		               SSHD_TALKS_ACCOUNT);
	if ((r = talk_start(c->d->deps.repos, &repo, &o, &x->talk, err)) < 0) {
		sshd_door_talk_over(c);
		return r;
	}
	/* What the kernel holds says nothing about the client: it holds little. */
	if (c->fd >= 0) /* else the client's node does it (other.c) */
		setsockopt(c->fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &(int){ UNSENT_BYTES },
		           sizeof(int));
	x->push = push;
	x->program = true;
	x->state = CHAN_OPEN;
	x->deadline = deadline_in(SSHD_TALK_STALL_MS);
	return 0;
}

/* The address of large files, and the client's own secret for it. */
static int authenticate_lfs(struct chan *x, struct err *err)
{
	struct conn *c = x->c;
	char url[LFS_URL_MAX], href[LFS_URL_MAX + 16], bearer[SSHD_SECRET_MAX + 16];
	autojson json_t *j = NULL;
	autofree char *text = NULL;
	struct store_repo repo;
	int r = permit(c, /* write= */ false, &repo, err);

	if (r < 0)
		return r;
	repo_url(c->d->deps.repos, repo.id, url, sizeof(url));
	snprintf(href, sizeof(href), "%s/info/lfs", url);
	snprintf(bearer, sizeof(bearer), "Bearer %s", c->secret);
	j = json_pack("{s:s, s:{s:s}}", "href", href, "header", "Authorization", bearer);
	explicit_bzero(bearer, sizeof(bearer));
	text = j ? json_dumps(j, JSON_COMPACT) : NULL;
	if (!text)
		return err_set(err, -ENOMEM, "out of memory");
	chan_last(x, SSHW_DATA, 0, text);
	explicit_bzero(text, strlen(text));
	return 0;
}

bool repo_exec(struct chan *x, const char *command)
{
	struct err err = { 0 };
	enum sshd_git kind;
	int r;

	if (x->state != CHAN_NEW)
		return false;
	r = sshd_git_parse(command, x->c->name.repo, &kind);
	if (r == -ENOENT)
		r = err_set(&err, r, "this login is for repository %s, not for another one",
		            x->c->name.repo);
	else if (r == 0)
		r = kind == SSHD_GIT_LFS ? authenticate_lfs(x, &err)
		                         : serve(x, kind == SSHD_GIT_PUSH, &err);
	if (r == -EINVAL && !*err.msg)
		repo_refuse(x);
	else if (r < 0)
		say_error(x, &err);
	return true;
}

bool repo_session(struct chan *x)
{
	if (x->state == CHAN_NEW)
		repo_refuse(x);
	return x->state == CHAN_LAST;
}

/* Is there something for the client that it does not take? The stream and what is behind it hold
 * little. */
static bool client_waits(struct chan *x)
{
	return x->out.len > 0;
}

/* It makes no progress, or the client is too slow. */
void repo_look(struct chan *x, bool moved)
{
	struct err err = { 0 };

	/* Who pushes gives, and takes a few words: what they wait for is not the client's doing. */
	if (!x->push &&
	    drain_look(x->c->d->deps.repos, &x->drain, client_waits(x), x->given, &err) < 0)
		conn_end(x->c, "%s", err.msg);
	x->given = 0;
	if (moved)
		x->deadline = deadline_in(SSHD_TALK_STALL_MS);
	else if (clock_ms() >= x->deadline)
		conn_end(x->c, "no progress for %d s", SSHD_TALK_STALL_MS / 1000);
}
