/* SPDX-License-Identifier: Apache-2.0 */
/* accounts.c - accounts of this server; for the operator */
#include "api/call.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/log.h"
#include "events/logs.h"
#include "git/git.h"
#include "zone/zone.h"

#define QUOTA_MAX (INT64_C(1) << 40)

/* Presence first, to distinguish null (the server's default) from absent (unchanged). */
struct quota_body {
	struct vm_quota q;
	int64_t git_repos, git_mb;
	enum json_presence vms, running, vcpus, mem, disk, snapshots, repos, mb;
};
static const struct json_field quota_fields[] = {
#define QUOTA(member, seen, name) \
	JSON_FIELD_P(JSON_WANT_I64, quota_body, q.member, seen, name, JSON_NULLABLE, -1, QUOTA_MAX)
	QUOTA(vms, vms, "vms"),
	QUOTA(running, running, "runningVms"),
	QUOTA(vcpus, vcpus, "vcpus"),
	QUOTA(mem_mb, mem, "memoryMb"),
	QUOTA(disk_mb, disk, "diskMb"),
	QUOTA(snapshots, snapshots, "snapshots"),
#undef QUOTA
	JSON_FIELD_P(JSON_WANT_I64, quota_body, git_repos, repos, "gitRepos", JSON_NULLABLE, -1,
	             QUOTA_MAX),
	JSON_FIELD_P(JSON_WANT_I64, quota_body, git_mb, mb, "gitMb", JSON_NULLABLE, -1, QUOTA_MAX),
};
JSON_TABLE(QuotasNew, quota_fields);

struct account_body {
	char name[VM_NAME_MAX];
	json_t *quotas;
};
static const struct json_field account_fields[] = {
	JSON_FIELD_STR(account_body, name, "name", 0),
	JSON_FIELD(JSON_WANT_OBJECT, account_body, quotas, "quotas", 0, 0, 0, "QuotasNew"),
};
JSON_TABLE(AccountNew, account_fields);

static void take(enum json_presence seen, int64_t given, int64_t *q)
{
	if (seen != JSON_IS_ABSENT)
		*q = seen == JSON_IS_NULL ? QUOTA_DEFAULT : given;
}

static int read_body(struct request *req, struct store_account *a, struct err *err)
{
	struct account_body b = { 0 };
	struct quota_body q = { 0 };
	int r = request_fields(req, ERR_INVALID_PARAMETERS, account_fields,
	                       ARRAY_SIZE(account_fields), &b, err);

	if (r < 0)
		return r;
	if (b.name[0])
		snprintf(a->name, sizeof(a->name), "%s", b.name);
	if (!a->name[0])
		return err_tag(err, -EINVAL, ERR_INVALID_PARAMETERS, "'name' is missing");
	if (!b.quotas)
		return 0;
	if ((r = json_fields_read(b.quotas, "quotas.", quota_fields, ARRAY_SIZE(quota_fields), &q,
	                          err)) < 0) {
		err->tag = ERR_INVALID_PARAMETERS;
		return r;
	}
	take(q.vms, q.q.vms, &a->quota.vms);
	take(q.running, q.q.running, &a->quota.running);
	take(q.vcpus, q.q.vcpus, &a->quota.vcpus);
	take(q.mem, q.q.mem_mb, &a->quota.mem_mb);
	take(q.disk, q.q.disk_mb, &a->quota.disk_mb);
	take(q.snapshots, q.q.snapshots, &a->quota.snapshots);
	take(q.repos, q.git_repos, &a->git_repos);
	take(q.mb, q.git_mb, &a->git_mb);
	return 0;
}

static json_t *number(int64_t v, int64_t null_if)
{
	return v == null_if ? json_null() : json_integer(v);
}

static json_t *shape_quota(const struct vm_quota *q, const int64_t git[2], int64_t null_if)
{
	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "vms", number(q->vms, null_if),
	                 "runningVms", number(q->running, null_if), "vcpus",
	                 number(q->vcpus, null_if), "memoryMb", number(q->mem_mb, null_if),
	                 "diskMb", number(q->disk_mb, null_if), "snapshots",
	                 number(q->snapshots, null_if), "gitRepos", number(git[0], null_if),
	                 "gitMb", number(git[1], null_if));
}

static int git_numbers(struct request *req, const char *account, int64_t limits[2],
                       int64_t usage[2], struct err *err)
{
	struct repos *g = deps_of(req)->repos;
	int r;

	if (!g)
		return 0;
	r = repos_limits(g, account, &limits[0], &limits[1], err);
	return r < 0 ? r : repos_usage(g, account, &usage[0], &usage[1], err);
}

/* quotas: as set (null: the server's default, -1: none); limits: in force (null: none). */
static int shape_account(struct request *req, const struct store_account *a, json_t **ret,
                         struct err *err)
{
	int64_t set[] = { a->git_repos, a->git_mb };
	int64_t may[] = { QUOTA_NONE, QUOTA_NONE }, has[] = { 0, 0 };
	struct vm_quota limits, usage;
	json_t *j;
	int r;

	if ((r = vmm_limits(deps_of(req)->vmm, a->id, &limits, err)) < 0 ||
	    (r = vmm_usage(deps_of(req)->vmm, a->id, &usage, err)) < 0 ||
	    (r = git_numbers(req, a->id, may, has, err)) < 0)
		return r;
	j = json_pack("{s:s, s:s, s:b, s:o, s:o, s:o, s:o}", "id", a->id, "name", a->name, "admin",
	              a->admin, "createdAt", shape_time(a->created_ms), "quotas",
	              shape_quota(&a->quota, set, QUOTA_DEFAULT), "limits",
	              shape_quota(&limits, may, QUOTA_NONE), "usage",
	              shape_quota(&usage, has, INT64_MIN));
	if (!j)
		return err_set(err, -ENOMEM, "out of memory");
	*ret = j;
	return 0;
}

static int reply_account(struct request *req, struct reply *res, const struct store_account *a,
                         struct err *err)
{
	json_t *j;
	int r = shape_account(req, a, &j, err);

	return r < 0 ? r : reply_json(res, j, err);
}

int api_account_create(struct request *req, struct reply *res, struct err *err)
{
	struct store_account a = STORE_ACCOUNT_NEW;
	int r;

	if ((r = read_body(req, &a, err)) < 0 ||
	    (r = auth_account_create(deps_of(req)->auth, &a, err)) < 0)
		return r;
	return reply_account(req, res, &a, err);
}

int api_account_list(struct request *req, struct reply *res, struct err *err)
{
	autofree struct store_account *v = NULL;
	autojson json_t *items = json_array();
	size_t n = 0;
	int r = store_account_list(deps_of(req)->store, &v, &n, err);

	for (size_t i = 0; r == 0 && i < n; i++) {
		json_t *j = NULL;

		r = shape_account(req, &v[i], &j, err);
		if (r == -ENOENT) { /* deleted meanwhile */
			r = 0;
			continue;
		}
		if (r == 0 && json_array_append_new(items, j) < 0)
			r = err_set(err, -ENOMEM, "out of memory");
	}
	return r < 0 ? r : reply_json(res, json_pack("{s:O}", "accounts", items), err);
}

int api_account_get(struct request *req, struct reply *res, struct err *err)
{
	struct store_account a;
	int r = store_account_get(deps_of(req)->store, req->match.arg[0], &a, err);

	return r < 0 ? r : reply_account(req, res, &a, err);
}

int api_account_update(struct request *req, struct reply *res, struct err *err)
{
	struct store_account a;
	int r;

	if ((r = store_account_get(deps_of(req)->store, req->match.arg[0], &a, err)) < 0 ||
	    (r = read_body(req, &a, err)) < 0 ||
	    (r = store_account_update(deps_of(req)->store, &a, err)) < 0)
		return r;
	return reply_account(req, res, &a, err);
}

int api_account_delete(struct request *req, struct reply *res, struct err *err)
{
	struct err none = { 0 };
	struct store_account a;
	int r = store_account_get(deps_of(req)->store, req->match.arg[0], &a, err);

	if (r < 0)
		return r;
	if (a.admin)
		return err_tag(err, -EBUSY, ERR_CONFLICT,
		               "the operator's account cannot be deleted: the server needs it");
	if ((r = vmm_account_delete(deps_of(req)->vmm, a.id, err)) < 0)
		return r;
	auth_account_forget(deps_of(req)->auth, a.id);
	access_forget(logs_access(deps_of(req)->logs), a.id);
	if (deps_of(req)->zones && zones_reload(deps_of(req)->zones, &none) < 0)
		log_warn("DNS records of account %s: %s", a.id, none.msg);
	return reply_json(res, json_pack("{s:s}", "id", a.id), err);
}
