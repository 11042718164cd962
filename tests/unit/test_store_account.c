/* SPDX-License-Identifier: Apache-2.0 */
/* test_store_account.c - accounts, identities, grants and the audit log in real SQLite files */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/auto.h"
#include "store/store.h"
#include "store/store_account.h"
#include "store/store_audit.h"
#include "tests/unit/check.h"
#include "tests/unit/db_fx.h"
#include "tests/unit/store_row.h"
#include "tests/unit/tmpdir.h"

#define A "11111111-1111-4111-8111-111111111111"
#define B "22222222-2222-4222-8222-222222222222"

struct fx {
	struct tmpdir dir;
	char db[256], log[256];
	struct store *s, *audit;
};

static int setup(void **state)
{
	struct fx *f = calloc(1, sizeof(*f));

	if (!f || tmpdir_make(&f->dir) < 0)
		return -1;
	*state = f;
	db_at(&f->dir, "pando.db", f->db, sizeof(f->db));
	db_at(&f->dir, "audit.db", f->log, sizeof(f->log));
	if (store_open(f->db, &f->s, NULL) < 0 || store_audit_open(f->log, &f->audit, NULL) < 0)
		return -1;
	return store_account_create(f->s, A, "first", NULL) < 0
	               ? -1
	               : store_account_create(f->s, B, "second", NULL);
}

static int teardown(void **state)
{
	struct fx *f = *state;
	int r;

	store_close(f->s);
	store_close(f->audit);
	r = tmpdir_remove(&f->dir);
	free(f);
	return r;
}

static void add_vm(struct fx *f, const char *id, const char *account)
{
	struct store_vm v = { .slot = -1 };

	snprintf(v.info.id, sizeof(v.info.id), "%s", id);
	snprintf(v.info.account, sizeof(v.info.account), "%s", account);
	OK(store_vm_add(f->s, &v, &err));
}

static void add_identity(struct fx *f, const char *id, const char *account)
{
	struct store_identity i = { .created_ms = 1 };

	snprintf(i.id, sizeof(i.id), "%s", id);
	snprintf(i.account, sizeof(i.account), "%s", account);
	OK(store_identity_add(f->s, &i, &err));
}

static struct store_grant grant(const char *identity, const char *vm, const char *users)
{
	static int n;
	struct store_grant g = { .kind = GRANT_VM, .any_user = !users, .granted_ms = 7 };

	snprintf(g.id, sizeof(g.id), "gr-%d", n++);
	snprintf(g.identity, sizeof(g.identity), "%s", identity);
	snprintf(g.target, sizeof(g.target), "%s", vm);
	snprintf(g.users, sizeof(g.users), "%s", users ? users : "");
	snprintf(g.granted_by, sizeof(g.granted_by), A);
	return g;
}

static void only_the_first_account_is_the_operators(void **state)
{
	struct fx *f = *state;
	autofree struct store_account *v = NULL;
	struct store_account a;
	size_t n = 0;

	OK(store_account_list(f->s, &v, &n, &err));
	assert_int_equal(n, 2);
	OK(store_account_get(f->s, A, &a, &err));
	assert_true(a.admin);
	OK(store_account_get(f->s, B, &a, &err));
	assert_false(a.admin);
	assert_int_equal(a.quota.vms, QUOTA_DEFAULT);
	a.quota = (struct vm_quota){ 1, 2, 3, 4, 5, QUOTA_NONE };
	snprintf(a.name, sizeof(a.name), "renamed");
	a.admin = true; /* is not for the caller to say */
	OK(store_account_update(f->s, &a, &err));
	f->s = store_close(f->s);
	OK(store_open(f->db, &f->s, &err));
	OK(store_account_get(f->s, B, &a, &err));
	assert_string_equal(a.name, "renamed");
	assert_false(a.admin);
	assert_int_equal(a.quota.disk_mb, 5);
	assert_int_equal(a.quota.snapshots, QUOTA_NONE);
	FAILS(-ENOENT, store_account_get(f->s, "nobody", &a, &err));
}

/* A database of the version before accounts had quotas. */
static void an_old_database_gets_its_operator(void **state)
{
	struct fx *f = *state;
	struct store_account a;
	char path[256];
	struct store *s;

	db_at(&f->dir, "old.db", path, sizeof(path));
	OK(store_open(path, &s, &err));
	store_close(s);
	/* Back to the accounts of version 1. */
	db_poke(path, "INSERT INTO accounts (id, name, created_ms) VALUES ('x', 'old', 5);"
	              "INSERT INTO accounts (id, name, created_ms) VALUES ('y', 'new', 6);"
	              "UPDATE accounts SET admin = 1 WHERE id ="
	              " (SELECT id FROM accounts ORDER BY created_ms, id LIMIT 1);");
	OK(store_open(path, &s, &err));
	OK(store_account_get(s, "x", &a, &err));
	assert_true(a.admin);
	assert_int_equal(a.quota.running, QUOTA_DEFAULT);
	OK(store_account_get(s, "y", &a, &err));
	assert_false(a.admin);
	store_close(s);
}

static void deleting_an_account_takes_all_that_is_its(void **state)
{
	struct fx *f = *state;
	autofree struct store_key *keys = NULL;
	autofree struct store_token *tokens = NULL;
	struct store_token t = { .id = "tok-1", .identity = "idn-b", .account = B, .hash = "h2" };
	struct store_grant g = grant("idn-b", "vmb", NULL);
	struct store_account a;
	size_t n = 0;

	add_vm(f, "vmb", B);
	add_identity(f, "idn-b", B);
	OK(store_key_add(f->s, B, "ak-1", "k", "h1", &err));
	OK(store_token_add(f->s, &t, &err));
	OK(store_grant_add(f->s, B, &g, &err));
	FAILS(-EBUSY, store_account_delete(f->s, B, &err));
	assert_int_equal(err.tag, ERR_CONFLICT);
	OK(store_vm_delete(f->s, "vmb", &err));
	OK(store_account_delete(f->s, B, &err));
	FAILS(-ENOENT, store_account_get(f->s, B, &a, &err));
	OK(store_key_list(f->s, NULL, &keys, &n, &err));
	assert_int_equal(n, 0);
	OK(store_token_list(f->s, NULL, &tokens, &n, &err));
	assert_int_equal(n, 0);
	OK(store_account_get(f->s, A, &a, &err));
}

static void grants_need_owner_and_target(void **state)
{
	struct fx *f = *state;
	struct store_grant g, got;
	autofree struct store_grant *v = NULL;
	size_t n = 0;

	add_vm(f, "vma", A);
	add_vm(f, "vmb", B);
	add_identity(f, "idn-a", A);
	g = grant("idn-a", "vmb", NULL);
	FAILS(-ENOENT, store_grant_add(f->s, A, &g, &err));
	assert_int_equal(err.tag, ERR_VM_NOT_FOUND);
	g = grant("idn-a", "nothing", NULL);
	FAILS(-ENOENT, store_grant_add(f->s, A, &g, &err));
	assert_int_equal(err.tag, ERR_VM_NOT_FOUND);
	g = grant("idn-a", "vmb", NULL);
	FAILS(-ENOENT, store_grant_add(f->s, B, &g, &err)); /* B does not own the identity */
	assert_int_equal(err.tag, ERR_IDENTITY_NOT_FOUND);
	g = grant("idn-a", "vma", "alice,bob,");
	OK(store_grant_add(f->s, A, &g, &err));
	OK(store_grant_get(f->s, "idn-a", GRANT_VM, "vma", &got, &err));
	assert_memory_equal(&got, &g, sizeof(g));
	FAILS(-ENOENT, store_grant_get(f->s, "idn-a", GRANT_GIT, "vma", &got, &err));
	assert_int_equal(err.tag, ERR_PERMISSION_NOT_FOUND);
	g = grant("idn-a", "vma", NULL);
	FAILS(-EEXIST, store_grant_add(f->s, A, &g, &err));
	assert_int_equal(err.tag, ERR_PERMISSION_ALREADY_EXISTS);
	OK(store_grant_update(f->s, &g, &err));
	OK(store_grant_get(f->s, "idn-a", GRANT_VM, "vma", &got, &err));
	assert_true(got.any_user);
	assert_string_equal(got.users, "");
	OK(store_grant_list(f->s, "idn-a", GRANT_VM, &v, &n, &err));
	assert_int_equal(n, 1);
	/* The grant goes with the VM. */
	OK(store_vm_delete(f->s, "vma", &err));
	FAILS(-ENOENT, store_grant_get(f->s, "idn-a", GRANT_VM, "vma", &got, &err));
	assert_int_equal(err.tag, ERR_VM_PERMISSION_NOT_FOUND);
	FAILS(-ENOENT, store_grant_delete(f->s, "idn-a", GRANT_VM, "vma", &err));
}

static void an_identity_goes_with_its_tokens(void **state)
{
	struct fx *f = *state;
	struct store_token t = { .id = "tok-1", .identity = "idn-a", .account = A, .hash = "h" };
	autofree struct store_token *v = NULL;
	size_t n = 0;

	add_identity(f, "idn-a", A);
	OK(store_token_add(f->s, &t, &err));
	FAILS(-ENOENT, store_token_delete(f->s, "idn-other", "tok-1", &err));
	OK(store_identity_delete(f->s, "idn-a", &err));
	OK(store_token_list(f->s, NULL, &v, &n, &err));
	assert_int_equal(n, 0);
	FAILS(-ENOENT, store_token_add(f->s, &t, &err));
	FAILS(-ENOENT, store_identity_delete(f->s, "idn-a", &err));
}

static struct audit_record record(int64_t at, const char *account, const char *method,
                                  const char *route, const char *target)
{
	struct audit_record a = { .at_ms = at, .status = 200, .key = "ak-1", .trace = "t" };

	snprintf(a.account, sizeof(a.account), "%s", account);
	snprintf(a.method, sizeof(a.method), "%s", method);
	snprintf(a.route, sizeof(a.route), "%s", route);
	snprintf(a.target, sizeof(a.target), "%s", target);
	snprintf(a.remote, sizeof(a.remote), "127.0.0.1");
	return a;
}

static size_t count(struct fx *f, struct audit_filter q, int64_t *ret_first)
{
	autofree struct audit_record *v = NULL;
	size_t n = 0;

	q.before = q.before ? q.before : INT64_MAX;
	q.until = q.until ? q.until : INT64_MAX;
	q.limit = q.limit ? q.limit : 100;
	OK(store_audit_list(f->audit, &q, &v, &n, &err));
	for (size_t i = 1; i < n; i++)
		assert_true(v[i - 1].seq > v[i].seq);
	if (ret_first && n)
		*ret_first = v[0].seq;
	return n;
}

static void the_audit_log_is_filtered(void **state)
{
	struct fx *f = *state;
	const struct audit_record r[] = {
		record(10, A, "POST", "/v1/vms", "vm1"),
		record(20, A, "DELETE", "/v1/vms/{vm_id}", "vm1"),
		record(30, B, "POST", "/v1/vms", "vm2"),
		record(40, "", "GET", "/auth/v1/whoami", ""),
		record(50, A, "POST", "/identity/{identity}/vm/{vm_id}", "idn-1/vm1"),
	};
	const struct audit_use u = { "ak-1", 77 };
	int64_t first = 0;

	OK(store_audit_add(f->audit, r, ARRAY_SIZE(r), &u, 1, &err));
	assert_int_equal(count(f, (struct audit_filter){ 0 }, &first), 5);
	assert_int_equal(count(f, (struct audit_filter){ .account = A }, NULL), 3);
	assert_int_equal(count(f, (struct audit_filter){ .account = A, .target = "vm1" }, NULL), 3);
	assert_int_equal(count(f, (struct audit_filter){ .target = "idn-1" }, NULL), 1);
	assert_int_equal(count(f, (struct audit_filter){ .action = "POST" }, NULL), 3);
	assert_int_equal(count(f, (struct audit_filter){ .action = "POST /v1/vms" }, NULL), 2);
	assert_int_equal(count(f, (struct audit_filter){ .action = "/v1/vms/{vm_id}" }, NULL), 1);
	assert_int_equal(count(f, (struct audit_filter){ .before = first }, NULL), 4);
	assert_int_equal(count(f, (struct audit_filter){ .after = first - 1 }, NULL), 1);
	assert_int_equal(count(f, (struct audit_filter){ .since = 15, .until = 40 }, NULL), 2);
	assert_int_equal(count(f, (struct audit_filter){ .limit = 2 }, NULL), 2);
	assert_int_equal(store_audit_last_use(f->audit, "ak-1"), 77);
	assert_int_equal(store_audit_last_use(f->audit, "ak-2"), 0);
	assert_int_equal(store_audit_prune(f->audit, 30, &err), 2);
	f->audit = store_close(f->audit);
	OK(store_audit_open(f->log, &f->audit, &err));
	OK(store_audit_add(f->audit, r, 1, NULL, 0, &err));
	assert_int_equal(count(f, (struct audit_filter){ 0 }, &first), 4);
	assert_int_equal(first, 6); /* numbers are not used again */
}

/* A build of that account with one line of output. */
static void add_build(struct fx *f, const char *id, const char *account, int64_t at)
{
	struct store_build b = { .state = BUILD_RUNNING, .started_ms = at, .updated_ms = at };
	struct store_build_log l = { .at_ms = at, .phase = "layer-1/apt", .message = "hello" };

	snprintf(b.id, sizeof(b.id), "%s", id);
	snprintf(b.account, sizeof(b.account), "%s", account);
	snprintf(l.build_id, sizeof(l.build_id), "%s", id);
	OK(store_build_add(f->s, &b, &err));
	OK(store_build_log_add(f->s, &l, 1, &err));
}

static size_t build_lines(struct fx *f, const char *id, const char *account)
{
	struct store_build_log_query w = { .account = account,
		                           .build = id,
		                           .request = "",
		                           .search = "",
		                           .to_ms = INT64_MAX,
		                           .before_ms = INT64_MAX,
		                           .limit = 10 };
	autofree struct store_build_log *v = NULL;
	size_t n = 0;

	OK(store_build_log_list(f->s, &w, &v, &n, &err));
	return n;
}

/* However many builds one account has, another's logs stay. */
static void logs_of_builds_are_kept_by_account(void **state)
{
	struct fx *f = *state;
	struct store_build b;
	char id[ID_SIZE];

	add_build(f, "bld-theirs", B, 1000);
	for (int i = 0; i <= BUILD_LOGS_KEPT; i++) {
		snprintf(id, sizeof(id), "bld-%d", i);
		add_build(f, id, A, 2000 + i);
	}
	assert_int_equal(build_lines(f, "bld-theirs", B), 1);
	assert_int_equal(build_lines(f, "bld-0", A), 0);
	assert_int_equal(build_lines(f, "bld-1", A), 1);
	OK(store_build_get(f->s, "bld-0", &b, &err)); /* what became of it is kept for longer */
	OK(store_account_delete(f->s, B, &err));
	assert_int_equal(build_lines(f, "bld-theirs", B), 0);
	FAILS(-ENOENT, store_build_get(f->s, "bld-theirs", &b, &err));
	assert_int_equal(build_lines(f, "bld-1", A), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		T(only_the_first_account_is_the_operators),   T(an_old_database_gets_its_operator),
		T(deleting_an_account_takes_all_that_is_its), T(grants_need_owner_and_target),
		T(an_identity_goes_with_its_tokens),          T(the_audit_log_is_filtered),
		T(logs_of_builds_are_kept_by_account),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
