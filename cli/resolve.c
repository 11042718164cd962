/* SPDX-License-Identifier: Apache-2.0 */
/*
 * resolve.c - resolves the name of a VM or snapshot to its id
 *
 * An exact name takes precedence over a prefix of an id. If several match, the error lists them.
 */
#include "cli/resolve.h"

#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "cli/cli.h"

#define ID_LEN 20 /* after the prefix */
#define LISTED_MAX 5

static bool is_id(const char *prefix, const char *s)
{
	size_t n = strlen(prefix);

	return strncmp(s, prefix, n) == 0 && strlen(s + n) == ID_LEN &&
	       strspn(s + n, "abcdefghijklmnopqrstuvwxyz0123456789") == ID_LEN;
}

static bool fits(const json_t *row, const char *id_member, const char *name, bool by_name)
{
	const char *id = cli_str(row, id_member);

	if (json_is_true(json_object_get(row, "deleted")))
		return false;
	if (by_name)
		return strcmp(cli_str(row, "name"), name) == 0 || strcmp(id, name) == 0;
	return strncmp(id, name, strlen(name)) == 0;
}

const json_t *resolve_pick(const json_t *rows, const char *id_member, const char *name,
                           size_t *ret_fit)
{
	for (int by_name = 1; by_name >= 0; by_name--) {
		const json_t *found = NULL;
		size_t i;
		json_t *row;

		*ret_fit = 0;
		json_array_foreach(rows, i, row)
		{
			if (!*name || !fits(row, id_member, name, by_name))
				continue;
			found = row;
			++*ret_fit;
		}
		if (*ret_fit == 1)
			return found;
		if (*ret_fit)
			return NULL;
	}
	return NULL;
}

/* "a, b and 3 more" */
static char *list_fits(const json_t *rows, const char *id_member, const char *name)
{
	struct buf b = { 0 };
	size_t i, n = 0;
	json_t *row;
	char *s;

	json_array_foreach(rows, i, row)
	{
		if (!fits(row, id_member, name, true) && !fits(row, id_member, name, false))
			continue;
		if (n++ < LISTED_MAX)
			buf_printf(&b, "%s%s", n > 1 ? ", " : "", cli_str(row, id_member));
	}
	if (n > LISTED_MAX)
		buf_printf(&b, " and %zu more", n - LISTED_MAX);
	s = buf_take_str(&b);
	if (!s)
		cli_oom();
	return s;
}

struct kind {
	const char *what, *prefix, *path, *rows, *id, *command;
};
static const struct kind vm_kind = { "VM", "", "/v1/vms", "vms", "id", "vm list" };
static const struct kind snapshot_kind = { "snapshot",  "sc-",        "/v1/vms/snapshots",
	                                   "snapshots", "snapshotId", "snapshot list" };
static const struct kind vpc_kind = { "VPC", "vpc-", "/v1/vpcs", "vpcs", "vpcId", "vpc list" };

static char *resolve(struct cli *c, const struct kind *k, const char *name)
{
	autojson json_t *reply = NULL;
	autofree char *list = NULL;
	const json_t *rows, *row;
	size_t n;
	char *id;

	if (is_id(k->prefix, name)) {
		id = strdup(name);
		if (!id)
			cli_oom();
		return id;
	}
	if (cli_call(c, "GET", k->path, NULL, &reply) != CLI_OK)
		return NULL;
	rows = json_object_get(reply, k->rows);
	row = resolve_pick(rows, k->id, name, &n);
	if (!row && n) {
		list = list_fits(rows, k->id, name);
		cli_fail(CLI_REFUSED, "'%s' is ambiguous, it matches %zu %ss: %s", name, n, k->what,
		         list);
		return NULL;
	}
	if (!row) {
		cli_fail(CLI_REFUSED, "there is no %s '%s': 'pando %s' lists all", k->what, name,
		         k->command);
		return NULL;
	}
	id = strdup(cli_str(row, k->id));
	if (!id)
		cli_oom();
	return id;
}

char *cli_vm_id(struct cli *c, const char *name)
{
	return resolve(c, &vm_kind, name);
}

char *cli_snapshot_id(struct cli *c, const char *name)
{
	return resolve(c, &snapshot_kind, name);
}

char *cli_vpc_id(struct cli *c, const char *name)
{
	return resolve(c, &vpc_kind, name);
}

char *cli_vm_or_snapshot_id(struct cli *c, const char *name)
{
	const struct kind *kinds[] = { &vm_kind, &snapshot_kind };

	if (is_id("", name) || is_id("sc-", name))
		return resolve(c, is_id("", name) ? &vm_kind : &snapshot_kind, name);
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		autojson json_t *reply = NULL;
		const json_t *row;
		size_t n = 0;

		if (cli_call(c, "GET", kinds[i]->path, NULL, &reply) != CLI_OK)
			return NULL;
		row = resolve_pick(json_object_get(reply, kinds[i]->rows), kinds[i]->id, name, &n);
		if (row || n)
			return resolve(c, kinds[i],
			               name); /* with its error message, if several match */
	}
	cli_fail(CLI_REFUSED, "there is no VM and no snapshot '%s'", name);
	return NULL;
}

int cli_vm_call(struct cli *c, const char *name, const char *method, const char *tail,
                json_t *body_consume, json_t **ret)
{
	autofree char *id = cli_vm_id(c, name), *path = NULL;

	if (!id) {
		json_decref(body_consume);
		return CLI_REFUSED;
	}
	if (asprintf(&path, "/v1/vms/%s%s", id, tail) < 0)
		cli_oom();
	return cli_call(c, method, path, body_consume, ret);
}

int cli_for_each(struct cli *c, const struct cli_args *a,
                 char *(*resolve_name)(struct cli *c, const char *name), const char *method,
                 const char *prefix, const char *tail, const char *done)
{
	autojson json_t *all = json_array();
	int status = CLI_OK;

	for (size_t i = 0; i < a->n_rest; i++) {
		autofree char *id = resolve_name(c, a->rest[i]), *path = NULL;
		json_t *reply = NULL;
		int r = CLI_REFUSED;

		if (id) {
			if (asprintf(&path, "%s%s%s", prefix, id, tail) < 0)
				cli_oom();
			r = cli_call(c, method, path, NULL, &reply);
		}
		if (r != CLI_OK && status == CLI_OK)
			status = r;
		if (r == CLI_OK && !cli_json(c))
			printf("%s %s\n", id, done);
		if (reply)
			json_array_append_new(all, reply);
	}
	if (cli_json(c) && json_array_size(all))
		cli_dump(a->n_rest == 1 ? json_array_get(all, 0) : all);
	return status;
}
