/* SPDX-License-Identifier: Apache-2.0 */
/* secrets.c - a new key for the secrets at rest */
#include "api/call.h"

#include <errno.h>

#include "base/err.h"
#include "secret/secret.h"
#include "store/store.h"

int api_secrets_rotate(struct request *req, struct reply *res, struct err *err)
{
	struct secrets *k = store_secrets(deps_of(req)->store);
	unsigned id = 0;
	int r;

	if (deps_of(req)->node)
		return err_tag(err, -EBUSY, ERR_CONFLICT,
		               "nodes share the database, and each has the key in a file of its "
		               "own: docs/CLUSTER.md says how they get a new one");
	r = k ? secrets_rotate(k, &id, err) : err_set(err, -ENOKEY, "this server seals no secrets");

	if (r < 0)
		return r;
	return reply_json(res, json_pack("{s:i}", "keyId", (int)id), err);
}
