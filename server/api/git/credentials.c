/* SPDX-License-Identifier: Apache-2.0 */
/* credentials.c - an account's passwords for other Git servers; secrets are never sent back */
#include "api/git/shared.h"

#include <errno.h>

#include "base/auto.h"
#include "git/credential.h"
#include "git/sync.h"

#define TAG ERR_GIT_INVALID_REQUEST

static int all(struct request *req, struct credentials **ret, struct err *err)
{
	if (!deps_of(req)->syncs)
		return err_tag(err, -EAGAIN, ERR_UNAVAILABLE,
		               "mirrors are not available on this server");
	*ret = syncs_credentials(deps_of(req)->syncs);
	return 0;
}

static json_t *credential_json(const struct credential_info *c)
{
	return json_pack("{s:s, s:s, s:o, s:o, s:o, s:o}", "server", c->server, "kind",
	                 c->is_app ? "app" : "token", "appId", shape_text(c->app_id),
	                 "installationId", shape_text(c->installation), "apiUrl",
	                 shape_text(c->api_url), "createdAt", shape_time(c->created_ms));
}

int api_credential_list(struct request *req, struct reply *res, struct err *err)
{
	autofree struct credential_info *v = NULL;
	struct credentials *c = NULL;
	json_t *list;
	size_t n = 0;
	int r;

	if ((r = all(req, &c, err)) < 0 ||
	    (r = credential_list(c, who_of(req)->account, &v, &n, err)) < 0)
		return r;
	list = json_array();
	for (size_t i = 0; i < n; i++)
		json_array_append_new(list, credential_json(&v[i]));
	return reply_json(res, json_pack("{s:o}", "credentials", list), err);
}

static const struct json_field put_fields[] = {
	JSON_FIELD(JSON_WANT_STRREF, credential_new, server, "server", JSON_NULLABLE, 0, 250),
	JSON_FIELD(JSON_WANT_STRREF, credential_new, token, "token", JSON_NULLABLE, 0, 500),
	JSON_FIELD(JSON_WANT_STRREF, credential_new, app_id, "appId", JSON_NULLABLE, 0, 60),
	JSON_FIELD(JSON_WANT_STRREF, credential_new, installation, "installationId", JSON_NULLABLE,
	           0, 30),
	JSON_FIELD(JSON_WANT_STRREF, credential_new, private_key, "privateKey", JSON_NULLABLE, 0,
	           CREDENTIAL_SECRET_SIZE - 1),
	JSON_FIELD(JSON_WANT_STRREF, credential_new, api_url, "apiUrl", JSON_NULLABLE, 0, 250),
};
JSON_TABLE(CredentialNew, put_fields);

int api_credential_put(struct request *req, struct reply *res, struct err *err)
{
	struct credential_new n = { 0 };
	struct credentials *c = NULL;
	struct credential_info made;
	int r;

	if ((r = all(req, &c, err)) < 0 ||
	    (r = request_fields(req, TAG, put_fields, ARRAY_SIZE(put_fields), &n, err)) < 0 ||
	    (r = credential_put(c, who_of(req)->account, &n, &made, err)) < 0)
		return r;
	return reply_json(res, credential_json(&made), err);
}

int api_credential_delete(struct request *req, struct reply *res, struct err *err)
{
	autofree char *server = NULL;
	struct credentials *c = NULL;
	int r;

	if ((r = all(req, &c, err)) < 0 || (r = request_query(req, "server", &server, err)) < 0 ||
	    (r = credential_delete(c, who_of(req)->account, server && *server ? server : NULL,
	                           err)) < 0)
		return r;
	return reply_json(res, json_object(), err);
}
