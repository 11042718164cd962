/* SPDX-License-Identifier: Apache-2.0 */
/*
 * login.c - authentication: user name and secret are passed to pandod, which says yes or no
 *
 * pandod decides when to answer, too. The secret is neither logged nor kept.
 */
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "sshmain/sshmain.h"

#define METHODS (SSH_AUTH_METHOD_PASSWORD | SSH_AUTH_METHOD_INTERACTIVE)

static void refuse(ssh_message m)
{
	ssh_message_auth_set_methods(m, METHODS);
	ssh_message_reply_default(m);
}

/* What is too long for a message cannot be right: it is refused like any other. */
static bool fill(struct sshw_msg *q, const char *as, const char *secret)
{
	if (strlen(as) >= sizeof(q->user) || (secret && strlen(secret) >= sizeof(q->secret)))
		return false;
	snprintf(q->user, sizeof(q->user), "%s", as);
	snprintf(q->secret, sizeof(q->secret), "%s", secret ? secret : "");
	q->has_secret = secret != NULL;
	return true;
}

static bool attempt(struct conn *c, ssh_message m, const char *as, const char *secret)
{
	struct sshw_msg q = { .kind = SSHW_AUTH };
	bool in;

	if (!fill(&q, as, secret))
		fill(&q, "", "");
	in = link_ask(c, &q, NULL, NULL);
	explicit_bzero(&q, sizeof(q));
	if (in)
		ssh_message_auth_reply_success(m, 0);
	else if (!c->leave)
		refuse(m);
	return in;
}

static bool interactive(struct conn *c, ssh_message m)
{
	const char *prompt = "API key or access token (password): ";
	const char *answer, *as = ssh_message_auth_user(m);

	if (!ssh_message_auth_kbdint_is_response(m)) {
		if (!as || strlen(as) >= sizeof(c->asked_as))
			as = "";
		snprintf(c->asked_as, sizeof(c->asked_as), "%s", as);
		ssh_message_auth_interactive_request(m, "Pando", "", 1, &prompt, (char[]){ 0 });
		return false;
	}
	answer = ssh_userauth_kbdint_getnanswers(c->s) == 1 ? ssh_userauth_kbdint_getanswer(c->s, 0)
	                                                    : NULL;
	return attempt(c, m, c->asked_as, answer ? answer : "");
}

/* A token in the name needs no prompt; without one this does not count as an attempt. */
static bool none(struct conn *c, ssh_message m)
{
	const char *as = ssh_message_auth_user(m);

	if (as && as[strcspn(as, ":,")])
		return attempt(c, m, as, NULL);
	refuse(m);
	return false;
}

static bool authenticate(struct conn *c, ssh_message m)
{
	const char *as = ssh_message_auth_user(m);
	const char *password;

	switch (ssh_message_subtype(m)) {
	case SSH_AUTH_METHOD_NONE:
		return none(c, m);
	case SSH_AUTH_METHOD_PASSWORD:
		password = ssh_message_auth_password(m);
		return attempt(c, m, as ? as : "", password ? password : "");
	case SSH_AUTH_METHOD_INTERACTIVE:
		return interactive(c, m);
	default:
		refuse(m);
		if (++c->tries >= OTHER_TRIES)
			conn_end(c, "too many attempts");
		return false;
	}
}

bool login_message(struct conn *c, ssh_message m)
{
	bool in = false;

	switch (ssh_message_type(m)) {
	case SSH_REQUEST_SERVICE:
		ssh_message_service_reply_success(m);
		break;
	case SSH_REQUEST_AUTH:
		in = authenticate(c, m);
		break;
	default:
		ssh_message_reply_default(m);
		break;
	}
	ssh_message_free(m);
	return in;
}
