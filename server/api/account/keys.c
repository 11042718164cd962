/* SPDX-License-Identifier: Apache-2.0 */
/* keys.c - API keys of an account: create, list, revoke */
#include "api/call.h"

#include <errno.h>
#include <string.h>

#include <openssl/crypto.h>

#include "base/auto.h"

struct key_body {
	char name[VM_NAME_MAX];
};
static const struct json_field key_fields[] = {
	JSON_FIELD_STR(key_body, name, "name", JSON_NULLABLE),
};
JSON_TABLE(KeyNew, key_fields);

static json_t *shape_key(const struct auth_key *k)
{
	return json_pack("{s:s, s:o, s:o, s:o}", "id", k->id, "name", shape_text(k->name),
	                 "createdAt", shape_time(k->created_ms), "lastUsedAt",
	                 shape_time(k->last_used_ms));
}

int api_key_create(struct request *req, struct reply *res, struct err *err)
{
	char account[ACCOUNT_SIZE], secret[AUTH_SECRET_SIZE] = "";
	struct key_body b = { 0 };
	struct auth_key k;
	json_t *j;
	int r;

	if ((r = request_account(req, account, err)) < 0 ||
	    (r = request_fields(req, ERR_INVALID_PARAMETERS, key_fields, ARRAY_SIZE(key_fields), &b,
	                        err)) < 0 ||
	    (r = auth_key_create(deps_of(req)->auth, account, b.name, &k, secret, err)) < 0)
		return r;
	j = shape_key(&k);
	json_object_set_new(j, "accountId", json_string(account));
	json_object_set_new(j, "key", json_string(secret));
	OPENSSL_cleanse(secret, sizeof(secret));
	return reply_json(res, j, err);
}

int api_key_list(struct request *req, struct reply *res, struct err *err)
{
	autofree struct auth_key *v = NULL;
	autojson json_t *items = json_array();
	char account[ACCOUNT_SIZE];
	size_t n = 0;
	int r;

	if ((r = request_account(req, account, err)) < 0 ||
	    (r = auth_key_list(deps_of(req)->auth, account, &v, &n, err)) < 0)
		return r;
	for (size_t i = 0; i < n; i++)
		if (json_array_append_new(items, shape_key(&v[i])) < 0)
			return err_set(err, -ENOMEM, "out of memory");
	return reply_json(res, json_pack("{s:s, s:O}", "accountId", account, "keys", items), err);
}

int api_key_revoke(struct request *req, struct reply *res, struct err *err)
{
	char account[ACCOUNT_SIZE];
	const char *id = req->match.arg[0];
	int r = request_account(req, account, err);

	if (r < 0)
		return r;
	if (!id_valid("ak-", id))
		return err_tag(err, -ENOENT, ERR_NOT_FOUND,
		               "there is no such API key: name it by its id, 'ak-' and 20 letters "
		               "and digits");
	if ((r = auth_key_revoke(deps_of(req)->auth, account, id, err)) < 0)
		return r;
	return reply_json(res, json_pack("{s:s}", "id", id), err);
}
