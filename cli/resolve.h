/* SPDX-License-Identifier: Apache-2.0 */
/* cli/resolve.h - resolves the name of a VM or snapshot to its id; for cli/ */
#pragma once

#include <jansson.h>

struct cli;
struct cli_args;

/* By id, unique prefix of an id, or unique name. NULL after an error message. Caller frees. A full
 * id is used without a request. */
char *cli_vm_id(struct cli *c, const char *name);
char *cli_snapshot_id(struct cli *c, const char *name);
char *cli_vpc_id(struct cli *c, const char *name);
/* A VM or a snapshot; for `diff`. */
char *cli_vm_or_snapshot_id(struct cli *c, const char *name);

/* Pure, for tests: the matching row of an array. n_fit is the number of matches if it is not one.
 */
const json_t *resolve_pick(const json_t *rows, const char *id_member, const char *name,
                           size_t *ret_fit);

/* A request about one VM: resolves the name and uses "/v1/vms/<id><tail>". */
int cli_vm_call(struct cli *c, const char *name, const char *method, const char *tail,
                json_t *body_consume, json_t **ret);
/*
 * The same request for everything named by the verb's "NAME...": method on prefix, id, tail; then
 * "id done". The first failure is the command's status, but the others are still done. --json: one
 * reply, or an array of them.
 */
int cli_for_each(struct cli *c, const struct cli_args *a,
                 char *(*resolve)(struct cli *c, const char *name), const char *method,
                 const char *prefix, const char *tail, const char *done);
