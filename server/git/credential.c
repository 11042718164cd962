/* SPDX-License-Identifier: Apache-2.0 */
/* credential.c - an account's passwords for other Git servers: kept, listed without secrets, used
 */
#include "git/credential.h"

#include <ctype.h>
#include <errno.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/id.h"
#include "git/app_token.h"

#define TAG ERR_GIT_INVALID_REQUEST
#define PER_ACCOUNT 50

struct credentials {
	struct store *store; /* weak */
	char server[256];    /* the default */
	bool allow_private;
	const atomic_bool *ending;
	struct app_tokens *tokens; /* owned */
};

static void row_done(struct store_credential **c)
{
	if (*c)
		OPENSSL_cleanse(*c, sizeof(**c));
	free(*c);
}
#define autocredential AUTO(row_done) struct store_credential

int credentials_new(struct store *s, const char *default_server, bool allow_private,
                    const atomic_bool *ending, struct credentials **ret, struct err *err)
{
	struct credentials *c = calloc(1, sizeof(*c));

	if (!c || !(c->tokens = app_tokens_new())) {
		free(c);
		return err_set(err, -ENOMEM, "out of memory");
	}
	c->store = s;
	c->allow_private = allow_private;
	c->ending = ending;
	snprintf(c->server, sizeof(c->server), "%s", default_server);
	*ret = c;
	return 0;
}

struct credentials *credentials_free(struct credentials *c)
{
	if (!c)
		return NULL;
	app_tokens_free(c->tokens);
	free(c);
	return NULL;
}

/* ---- keeping ---- */

static bool digits(const char *s)
{
	return *s && s[strspn(s, "0123456789")] == '\0';
}

static int take_app(const struct credential_new *n, struct store_credential *c, struct err *err)
{
	if (!n->app_id || !n->installation || !n->private_key)
		return err_tag(
		        err, -EINVAL, TAG,
		        "give either 'token', or 'appId', 'installationId' and 'privateKey'");
	if (!*n->app_id || strlen(n->app_id) >= sizeof(c->app_id) ||
	    n->app_id[strspn(n->app_id, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUV"
	                                "WXYZ._-")])
		return err_tag(err, -EINVAL, TAG,
		               "'appId' must be the number of the app, or its client id");
	if (!digits(n->installation) || strlen(n->installation) >= sizeof(c->installation))
		return err_tag(err, -EINVAL, TAG, "'installationId' must be a number");
	if (strlen(n->private_key) >= sizeof(c->secret) || !github_key_ok(n->private_key))
		return err_tag(err, -EINVAL, TAG, "'privateKey' must be an RSA key in PEM format");
	snprintf(c->app_id, sizeof(c->app_id), "%s", n->app_id);
	snprintf(c->installation, sizeof(c->installation), "%s", n->installation);
	snprintf(c->secret, sizeof(c->secret), "%s", n->private_key);
	return 0;
}

static int take_token(const char *token, struct store_credential *c, struct err *err)
{
	for (const char *p = token; *p; p++)
		if (iscntrl((unsigned char)*p))
			return err_tag(err, -EINVAL, TAG, "'token' is not a valid password");
	if (!*token || strlen(token) >= CREDENTIAL_TOKEN_SIZE)
		return err_tag(err, -EINVAL, TAG, "'token' is not a valid password");
	snprintf(c->secret, sizeof(c->secret), "%s", token);
	return 0;
}

static void info_of(const struct store_credential *c, struct credential_info *ret)
{
	*ret = (struct credential_info){ .is_app = *c->app_id, .created_ms = c->created_ms };
	memcpy(ret->server, c->server, sizeof(ret->server));
	memcpy(ret->app_id, c->app_id, sizeof(ret->app_id));
	memcpy(ret->installation, c->installation, sizeof(ret->installation));
	memcpy(ret->api_url, c->api_url, sizeof(ret->api_url));
}

/* Replacing one is allowed at the limit too. */
static int count_check(struct credentials *c, const struct store_credential *new, struct err *err)
{
	struct store_credential *v = NULL;
	size_t n = 0, others = 0;
	int r = store_credential_list(c->store, new->account, &v, &n, err);

	for (size_t i = 0; r >= 0 && i < n; i++)
		others += strcmp(v[i].server, new->server) != 0;
	if (v)
		OPENSSL_cleanse(v, n * sizeof(*v));
	free(v);
	if (r >= 0 && others >= PER_ACCOUNT)
		return err_tag(err, -EDQUOT, ERR_LIMIT_EXCEEDED,
		               "an account has credentials for at most %d servers", PER_ACCOUNT);
	return MIN(r, 0);
}

int credential_put(struct credentials *c, const char *account, const struct credential_new *n,
                   struct credential_info *ret, struct err *err)
{
	autocredential *row = calloc(1, sizeof(*row));
	int r;

	if (!row)
		return err_set(err, -ENOMEM, "out of memory");
	id_make("gcr-", row->id);
	snprintf(row->account, sizeof(row->account), "%s", account);
	row->created_ms = clock_wall_ms();
	if ((r = github_origin(n->server ? n->server : c->server, "server", row->server,
	                       sizeof(row->server), err)) < 0 ||
	    (r = n->token ? take_token(n->token, row, err) : take_app(n, row, err)) < 0 ||
	    (!n->token && (r = github_api_url(row->server, n->api_url, row->api_url,
	                                      sizeof(row->api_url), err)) < 0) ||
	    (r = count_check(c, row, err)) < 0 ||
	    (r = store_credential_put(c->store, row, err)) < 0)
		return r;
	info_of(row, ret);
	return 0;
}

int credential_list(struct credentials *c, const char *account, struct credential_info **ret,
                    size_t *ret_n, struct err *err)
{
	autofree struct credential_info *list = NULL;
	struct store_credential *v = NULL;
	size_t n = 0;
	int r = store_credential_list(c->store, account, &v, &n, err);

	if (r >= 0 && !(list = calloc(n + 1, sizeof(*list))))
		r = err_set(err, -ENOMEM, "out of memory");
	for (size_t i = 0; r >= 0 && i < n; i++)
		info_of(&v[i], &list[i]);
	if (v)
		OPENSSL_cleanse(v, n * sizeof(*v));
	free(v);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(list);
	*ret_n = n;
	return 0;
}

int credential_delete(struct credentials *c, const char *account, const char *server,
                      struct err *err)
{
	char origin[sizeof(c->server)];
	int r = github_origin(server ? server : c->server, "server", origin, sizeof(origin), err);

	return r < 0 ? r : store_credential_delete(c->store, account, origin, err);
}

/* ---- using ---- */

int credential_token(struct credentials *c, const char *account, const char *url,
                     char ret[CREDENTIAL_TOKEN_SIZE], struct err *err)
{
	autocredential *row = calloc(1, sizeof(*row));
	char origin[sizeof(c->server)];
	int r;

	if (!row)
		return err_set(err, -ENOMEM, "out of memory");
	if ((r = github_origin(url, "url", origin, sizeof(origin), err)) < 0)
		return r;
	r = store_credential_get(c->store, account, origin, row, err);
	if (r == -ENOENT) {
		*ret = '\0';
		return 0;
	}
	if (r < 0)
		return r;
	if (!*row->app_id) {
		snprintf(ret, CREDENTIAL_TOKEN_SIZE, "%s", row->secret);
		return 0;
	}
	return app_token(c->tokens,
	                 &(struct app_token_of){ .key = row->id,
	                                         .who = { row->api_url, row->app_id, row->secret },
	                                         .number = row->installation },
	                 &(struct github_net){ c->allow_private, c->ending }, ret, err);
}

void credential_refused(struct credentials *c, const char *account, const char *url)
{
	autocredential *row = calloc(1, sizeof(*row));
	char origin[sizeof(c->server)];
	struct err err;

	if (row && github_origin(url, "url", origin, sizeof(origin), &err) == 0 &&
	    store_credential_get(c->store, account, origin, row, &err) == 0)
		app_token_forget(c->tokens, row->id);
}
