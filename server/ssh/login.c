/* SPDX-License-Identifier: Apache-2.0 */
/*
 * login.c - authentication, and which VM or repository a login is for
 *
 * The user name contains VM and Linux user, or repository; the secret, an API key or an access
 * token, is in the name, the password, or the answer to a prompt. What is decided here holds for
 * the connection: the process that asks names neither again. The reason for a failure is never
 * revealed: an unknown key, a revoked one, another account's VM or repository, one that never
 * existed and a Linux user that is not granted get the same answer after the same time. The secret
 * is neither logged nor kept. A login for what another node has is checked here, and there again.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "git/git.h"
#include "ssh/ssh_internal.h"

/* The VM or repository, or "". */
static const char *target(const struct conn *c)
{
	return *c->name.vm ? c->name.vm : c->name.repo;
}

void conn_audit(struct conn *c, const char *route, unsigned status, enum err_code code)
{
	struct audit_record a = { .at_ms = clock_wall_ms(), .status = status };

	memcpy(a.account, c->who.account, sizeof(a.account));
	memcpy(a.key, c->who.key, sizeof(a.key));
	memcpy(a.identity, c->who.identity, sizeof(a.identity));
	snprintf(a.method, sizeof(a.method), "SSH");
	snprintf(a.route, sizeof(a.route), "%s", route);
	snprintf(a.target, sizeof(a.target), "%s", target(c));
	snprintf(a.code, sizeof(a.code), "%s", code ? err_code_name(code) : "");
	snprintf(a.remote, sizeof(a.remote), "%s", c->remote);
	auth_audit(c->d->deps.auth, &a);
}

static int check_vm(struct conn *c)
{
	struct sshd_deps *deps = &c->d->deps;
	struct vm_info vm;
	int r = auth_permit(deps->auth, &c->who, SCOPE_VM_EXEC, c->name.vm, c->name.user, NULL);

	if (r == 0)
		r = vmm_get(deps->vmm, c->who.account, c->name.vm, &vm, NULL);
	if (r == -EHOSTUNREACH) /* it is that account's, and another node's */
		r = 0;
	if (r == 0)
		auth_lease_take(deps->auth, &c->who, SCOPE_VM_EXEC, c->name.vm, c->name.user,
		                &c->lease);
	return r;
}

/* Public repositories can be read with any valid login. */
static int check_repo(struct conn *c)
{
	struct sshd_deps *deps = &c->d->deps;
	struct store_repo repo;
	int r = deps->repos
	                ? auth_permit(deps->auth, &c->who, SCOPE_GIT_READ, c->name.repo, NULL, NULL)
	                : -ENOENT;

	if (r == 0)
		r = repo_find(deps->repos, c->who.account, c->name.repo, REPO_READ, &repo, NULL);
	if (r == 0)
		auth_lease_take(deps->auth, &c->who, SCOPE_GIT_READ, c->name.repo, NULL, &c->lease);
	return r;
}

/* 0: c->name, c->who and c->lease are set. */
static int check(struct conn *c, const char *as, const char *secret)
{
	char bearer[SSHD_SECRET_MAX + 8];
	int r = sshd_name_parse(as, &c->name);

	if (!secret)
		secret = c->name.secret;
	snprintf(bearer, sizeof(bearer), "Bearer %s", secret);
	/* A node that has let it in may know a key that was made a moment ago. */
	if (auth_check(c->d->deps.auth, bearer, NULL, &c->who, NULL) < 0 &&
	    (c->fd >= 0 || auth_refresh(c->d->deps.auth, NULL) < 0 ||
	     auth_check(c->d->deps.auth, bearer, NULL, &c->who, NULL) < 0))
		r = -EACCES;
	if (r == 0)
		r = *c->name.repo ? check_repo(c) : check_vm(c);
	if (r == 0 && *c->name.repo)
		snprintf(c->secret, sizeof(c->secret), "%s", secret);
	explicit_bzero(bearer, sizeof(bearer));
	explicit_bzero(c->name.secret, sizeof(c->name.secret));
	return r;
}

/* Answers after a fixed time, whatever the reason. */
static void refuse(struct conn *c, uint64_t asked)
{
	bool heard = auth_failure(c->d->deps.auth, (const struct sockaddr *)&c->peer);
	struct pollfd p = { .fd = c->d->stop_fd, .events = POLLIN };

	if (heard) {
		/* The name is not logged: it may contain a mistyped secret. */
		conn_log(c, LOG_LV_INFO, "login refused%s%s",
		         *c->name.vm     ? " to VM "
		         : *c->name.repo ? " to repository "
		                         : "",
		         target(c));
		conn_audit(c, "login", 401, ERR_UNAUTHORIZED);
	}
	c->who = (struct auth_who){ 0 };
	poll(&p, 1, deadline_left(asked + SSHD_REFUSE_MS));
	link_answer(c, /* ok= */ false, 0, -1);
	if (!heard || ++c->tries >= SSHD_TRIES_MAX)
		conn_end(c, "too many attempts");
}

static bool attempt(struct conn *c, const char *as, const char *secret)
{
	uint64_t asked = clock_ms();

	if ((secret && strlen(secret) >= SSHD_SECRET_MAX) || check(c, as, secret) < 0) {
		refuse(c, asked);
		return false;
	}
	if (!sshd_door_login(c)) {
		conn_end(c, "this account already has %d SSH connections, the maximum",
		         SSHD_CONNS_ACCOUNT);
		conn_audit(c, "login", 429, ERR_LIMIT_EXCEEDED);
		return false;
	}
	if (other_has(c)) /* which checks again, answers, and writes it down */
		return true;
	conn_log(c, LOG_LV_INFO, "%s %s logged in to %s %s%s%s",
	         *c->who.identity ? "identity" : "key",
	         *c->who.identity ? c->who.identity : c->who.key, *c->name.vm ? "VM" : "repository",
	         target(c), *c->name.vm ? " as " : "",
	         !*c->name.vm    ? ""
	         : *c->name.user ? c->name.user
	                         : "root");
	conn_audit(c, "login", 200, ERR_NONE);
	link_answer(c, /* ok= */ true, 0, -1);
	return true;
}

bool login_message(struct conn *c, const struct sshw_msg *m)
{
	if (m->kind != SSHW_AUTH) {
		link_broken(c, "message %u before a login", m->kind);
		return false;
	}
	return attempt(c, m->user, m->has_secret ? m->secret : NULL);
}
