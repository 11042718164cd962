/* SPDX-License-Identifier: Apache-2.0 */
/* backups.c - what `pando backup` copies is prepared, and removed again */
#include "api/call.h"

#include "backup/backup.h"
#include "base/auto.h"
#include "conf.h"
#include "secret/secret.h"
#include "store/store.h"

int api_backup_begin(struct request *req, struct reply *res, struct err *err)
{
	const struct api_deps *d = deps_of(req);
	struct backup_from from = { .data_dir = d->conf->data_dir,
		                    .vmm = d->vmm,
		                    .repos = d->repos };
	AUTO(backup_done) struct backup b = { 0 };
	autojson json_t *notes = json_array();
	struct secrets *k = store_secrets(d->store);
	int r = backup_begin(&from, &b, err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < b.vms.n_notes; i++)
		json_array_append_new(notes, json_pack("{s:s, s:s}", "id", b.vms.notes[i].vm,
		                                       "text", b.vms.notes[i].text));
	return reply_json(res,
	                  json_pack("{s:s, s:s, s:s, s:s, s:i, s:O}", "id", b.id, "path", b.path,
	                            "dataDir", d->conf->data_dir, "keyFile",
	                            k ? secrets_source(k) : "", "frozen", (int)b.vms.n_frozen,
	                            "notes", notes),
	                  err);
}

int api_backup_end(struct request *req, struct reply *res, struct err *err)
{
	int r = backup_end(deps_of(req)->conf->data_dir, req->match.arg[0], err);

	if (r < 0)
		return r;
	return reply_json(res, json_pack("{s:s}", "id", req->match.arg[0]), err);
}
