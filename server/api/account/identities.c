/* SPDX-License-Identifier: Apache-2.0 */
/* identities.c - identities and their access tokens */
#include "api/call.h"

#include <errno.h>
#include <string.h>

#include <openssl/crypto.h>

#include "base/auto.h"

int api_identity_list(struct request *req, struct reply *res, struct err *err)
{
	autofree struct store_identity *v = NULL;
	autojson json_t *items = json_array();
	size_t n = 0, first, end;
	bool managed = false;
	uint32_t offset;
	int r;

	if ((r = request_query_bool(req, "includeManaged", &managed, err)) < 0 ||
	    (r = auth_identity_list(deps_of(req)->auth, who_of(req)->account, &v, &n, err)) < 0 ||
	    (r = request_page(req, n, &first, &end, &offset, err)) < 0)
		return r;
	for (size_t i = first; i < end; i++)
		if (json_array_append_new(items, json_pack("{s:s, s:b}", "id", v[i].id, "managed",
		                                           v[i].managed)) < 0)
			return err_set(err, -ENOMEM, "out of memory");
	return reply_json(res,
	                  json_pack("{s:O, s:I, s:I}", "identities", items, "offset",
	                            (json_int_t)offset, "total", (json_int_t)n),
	                  err);
}

int api_identity_create(struct request *req, struct reply *res, struct err *err)
{
	struct store_identity i;
	int r = auth_identity_create(deps_of(req)->auth, who_of(req)->account, &i, err);

	if (r < 0)
		return r;
	return reply_json(res, json_pack("{s:s, s:b}", "id", i.id, "managed", i.managed), err);
}

int api_identity_delete(struct request *req, struct reply *res, struct err *err)
{
	int r = auth_identity_delete(deps_of(req)->auth, who_of(req)->account, req->match.arg[0],
	                             err);

	return r < 0 ? r : reply_json(res, json_object(), err);
}

int api_token_list(struct request *req, struct reply *res, struct err *err)
{
	autofree struct store_token *v = NULL;
	autojson json_t *items = json_array();
	size_t n = 0;
	int r = auth_token_list(deps_of(req)->auth, who_of(req)->account, req->match.arg[0], &v, &n,
	                        err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < n; i++)
		if (json_array_append_new(items, json_pack("{s:s, s:o}", "id", v[i].id, "createdAt",
		                                           shape_time(v[i].created_ms))) < 0)
			return err_set(err, -ENOMEM, "out of memory");
	return reply_json(res, json_pack("{s:O}", "tokens", items), err);
}

int api_token_create(struct request *req, struct reply *res, struct err *err)
{
	char id[ID_SIZE], secret[AUTH_SECRET_SIZE];
	json_t *j;
	int r = auth_token_create(deps_of(req)->auth, who_of(req)->account, req->match.arg[0], id,
	                          secret, err);

	if (r < 0)
		return r;
	j = json_pack("{s:s, s:s}", "id", id, "token", secret);
	OPENSSL_cleanse(secret, sizeof(secret));
	return reply_json(res, j, err);
}

int api_token_revoke(struct request *req, struct reply *res, struct err *err)
{
	const char *id = req->match.arg[1];
	int r;

	if (!id_valid("tok-", id))
		return err_tag(err, -ENOENT, ERR_NOT_FOUND,
		               "there is no such token: name it by its id");
	r = auth_token_revoke(deps_of(req)->auth, who_of(req)->account, req->match.arg[0], id, err);
	return r < 0 ? r : reply_json(res, json_object(), err);
}
