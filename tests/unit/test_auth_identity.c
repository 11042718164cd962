/* SPDX-License-Identifier: Apache-2.0 */
/* test_auth_identity.c - keys and tokens come and go at once; what a token may; failures are
 * bounded */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "auth/auth.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/log.h"
#include "store/store.h"
#include "tests/unit/check.h"
#include "tests/unit/db_fx.h"
#include "tests/unit/store_row.h"
#include "tests/unit/tmpdir.h"

struct fx {
	struct tmpdir dir;
	char db[256];
	struct store *s;
	struct auth *a;
	char account[ACCOUNT_SIZE];
};

static int setup(void **state)
{
	struct fx *f = calloc(1, sizeof(*f));

	log_init("test", LOG_LV_ERROR);
	if (!f || tmpdir_make(&f->dir) < 0)
		return -1;
	*state = f;
	db_at(&f->dir, "pando.db", f->db, sizeof(f->db));
	if (store_open(f->db, &f->s, NULL) < 0 ||
	    auth_open(f->s, f->dir.path, &f->a, NULL, NULL) < 0)
		return -1;
	return store_account_first(f->s, f->account, NULL);
}

static int teardown(void **state)
{
	struct fx *f = *state;
	int r;

	auth_close(f->a);
	store_close(f->s);
	r = tmpdir_remove(&f->dir);
	free(f);
	return r;
}

static int check(struct fx *f, const char *secret, struct auth_who *who)
{
	char header[128];

	snprintf(header, sizeof(header), "Bearer %s", secret);
	return auth_check(f->a, header, NULL, who, &err);
}

static void restart(struct fx *f)
{
	f->a = auth_close(f->a);
	f->s = store_close(f->s);
	OK(store_open(f->db, &f->s, &err));
	OK(auth_open(f->s, f->dir.path, &f->a, NULL, &err));
}

static void add_account(struct fx *f, struct store_account *ret)
{
	*ret = STORE_ACCOUNT_NEW;
	snprintf(ret->name, sizeof(ret->name), "other");
	OK(auth_account_create(f->a, ret, &err));
}

static void add_vm(struct fx *f, const char *id)
{
	struct store_vm v = { .slot = -1 };

	snprintf(v.info.id, sizeof(v.info.id), "%s", id);
	memcpy(v.info.account, f->account, sizeof(v.info.account));
	OK(store_vm_add(f->s, &v, &err));
}

static void keys_come_and_go(void **state)
{
	struct fx *f = *state;
	char secret[AUTH_SECRET_SIZE];
	autofree struct auth_key *v = NULL;
	struct auth_lease lease;
	struct store_account other;
	struct auth_who who;
	struct auth_key k;
	size_t n = 0;

	add_account(f, &other);
	OK(auth_key_create(f->a, other.id, "ci", &k, secret, &err));
	OK(check(f, secret, &who));
	assert_string_equal(who.account, other.id);
	assert_string_equal(who.key, k.id);
	assert_string_equal(who.identity, "");
	assert_false(who.scopes & SCOPE_ADMIN);
	auth_lease_take(f->a, &who, SCOPE_VM_EXEC, "vm1", NULL, &lease);
	assert_true(auth_lease_holds(f->a, &lease));
	restart(f);
	OK(check(f, secret, &who));
	OK(auth_key_list(f->a, other.id, &v, &n, &err));
	assert_int_equal(n, 1);
	assert_string_equal(v[0].name, "ci");
	assert_true(v[0].last_used_ms > clock_wall_ms() - 60000);
	/* Another account cannot revoke it. */
	FAILS(-ENOENT, auth_key_revoke(f->a, f->account, k.id, &err));
	OK(check(f, secret, &who));
	OK(auth_key_revoke(f->a, other.id, k.id, &err));
	FAILS(-EACCES, check(f, secret, &who));
	assert_false(auth_lease_holds(f->a, &lease));
	FAILS(-ENOENT, auth_key_revoke(f->a, other.id, k.id, &err));
	restart(f);
	FAILS(-EACCES, check(f, secret, &who));
}

static void last_use_survives_a_restart(void **state)
{
	struct fx *f = *state;
	char secret[AUTH_SECRET_SIZE];
	autofree struct auth_key *v = NULL;
	struct auth_who who;
	struct auth_key k;
	size_t n = 0;

	OK(auth_key_create(f->a, f->account, "used", &k, secret, &err));
	OK(check(f, secret, &who));
	restart(f);
	OK(auth_key_list(f->a, f->account, &v, &n, &err));
	assert_int_equal(n, 2);
	assert_string_equal(v[1].id, k.id);
	assert_true(v[1].last_used_ms > 0);
	assert_int_equal(v[0].last_used_ms, 0);
}

static void the_operator_is_not_locked_out(void **state)
{
	struct fx *f = *state;
	char secret[AUTH_SECRET_SIZE];
	autofree struct auth_key *v = NULL;
	struct auth_key k;
	size_t n = 0;

	OK(auth_key_list(f->a, f->account, &v, &n, &err));
	assert_int_equal(n, 1);
	FAILS(-EBUSY, auth_key_revoke(f->a, f->account, v[0].id, &err));
	OK(auth_key_create(f->a, f->account, "new", &k, secret, &err));
	OK(auth_key_revoke(f->a, f->account, v[0].id, &err));
	FAILS(-EBUSY, auth_key_revoke(f->a, f->account, k.id, &err));
}

static void there_are_only_so_many_keys(void **state)
{
	struct fx *f = *state;
	char secret[AUTH_SECRET_SIZE];
	struct auth_key k;

	for (int i = 1; i < AUTH_KEYS_MAX; i++)
		OK(auth_key_create(f->a, f->account, "", &k, secret, &err));
	FAILS(-EDQUOT, auth_key_create(f->a, f->account, "", &k, secret, &err));
	assert_int_equal(err.tag, ERR_LIMIT_EXCEEDED);
}

static void denied(struct fx *f, const struct auth_who *who, enum auth_scope scope, const char *vm,
                   const char *user, const char *code)
{
	FAILS(-EACCES, auth_permit(f->a, who, scope, vm, user, &err));
	assert_string_equal(err_code_name(err.tag), code);
}

static void a_token_may_what_was_granted(void **state)
{
	struct fx *f = *state;
	char token[AUTH_SECRET_SIZE], id[ID_SIZE];
	struct store_grant g = { .kind = GRANT_VM, .target = "vm1", .users = "alice,bob," };
	struct auth_lease lease;
	struct store_identity i;
	struct auth_who who;

	add_vm(f, "vm1");
	add_vm(f, "vm2");
	OK(auth_identity_create(f->a, f->account, &i, &err));
	OK(auth_token_create(f->a, f->account, i.id, id, token, &err));
	assert_memory_equal(token, AUTH_TOKEN_PREFIX, strlen(AUTH_TOKEN_PREFIX));
	OK(auth_check(f->a, NULL, token, &who, &err));
	OK(check(f, token, &who)); /* as Bearer too */
	assert_string_equal(who.identity, i.id);
	assert_string_equal(who.account, f->account);
	OK(auth_permit(f->a, &who, SCOPE_SELF, NULL, NULL, &err));
	denied(f, &who, SCOPE_VM_LOOK, "vm1", NULL, "VM_ACCESS_DENIED");
	memcpy(g.identity, i.id, sizeof(g.identity));
	OK(auth_grant(f->a, f->account, &g, &err));
	OK(auth_permit(f->a, &who, SCOPE_VM_LOOK, "vm1", NULL, &err));
	OK(auth_permit(f->a, &who, SCOPE_VM_EXEC, "vm1", "alice", &err));
	OK(auth_permit(f->a, &who, SCOPE_VM_EXEC, "vm1", "bob", &err));
	denied(f, &who, SCOPE_VM_EXEC, "vm1", NULL, "VM_ACCESS_DENIED"); /* root */
	denied(f, &who, SCOPE_VM_EXEC, "vm1", "", "VM_ACCESS_DENIED");
	denied(f, &who, SCOPE_VM_EXEC, "vm1", "root", "VM_ACCESS_DENIED");
	denied(f, &who, SCOPE_VM_EXEC, "vm1", "ali", "VM_ACCESS_DENIED");
	denied(f, &who, SCOPE_VM_EXEC, "vm1", "alice,bob", "VM_ACCESS_DENIED");
	denied(f, &who, SCOPE_VM_ROOT, "vm1", "alice", "VM_ACCESS_DENIED");
	denied(f, &who, SCOPE_VM_EXEC, "vm2", "alice", "VM_ACCESS_DENIED");
	denied(f, &who, SCOPE_VM_EXEC, "nothing", "alice", "VM_ACCESS_DENIED");
	denied(f, &who, SCOPE_VM_WRITE, "vm1", NULL, "VM_ACCESS_DENIED");
	denied(f, &who, SCOPE_VM_WRITE, NULL, NULL, "FORBIDDEN");
	denied(f, &who, SCOPE_VM_READ, NULL, NULL, "FORBIDDEN");
	denied(f, &who, SCOPE_ACCOUNT, NULL, NULL, "FORBIDDEN");
	denied(f, &who, SCOPE_ADMIN, NULL, NULL, "FORBIDDEN");
	/* Any user. */
	g.any_user = true;
	g.users[0] = '\0';
	OK(auth_grant_update(f->a, f->account, &g, &err));
	OK(auth_permit(f->a, &who, SCOPE_VM_EXEC, "vm1", NULL, &err));
	OK(auth_permit(f->a, &who, SCOPE_VM_ROOT, "vm1", "alice", &err));
	/* No user. */
	g.any_user = false;
	OK(auth_grant_update(f->a, f->account, &g, &err));
	denied(f, &who, SCOPE_VM_EXEC, "vm1", "alice", "VM_ACCESS_DENIED");
	OK(auth_permit(f->a, &who, SCOPE_VM_LOOK, "vm1", NULL, &err));
	/* Back at once. */
	auth_lease_take(f->a, &who, SCOPE_VM_LOOK, "vm1", NULL, &lease);
	assert_true(auth_lease_holds(f->a, &lease));
	OK(auth_grant_revoke(f->a, f->account, i.id, GRANT_VM, "vm1", &err));
	denied(f, &who, SCOPE_VM_LOOK, "vm1", NULL, "VM_ACCESS_DENIED");
	assert_false(auth_lease_holds(f->a, &lease));
	OK(auth_token_revoke(f->a, f->account, i.id, id, &err));
	FAILS(-EACCES, check(f, token, &who));
	assert_int_equal(err.tag, ERR_UNAUTHORIZED);
}

static void identities_of_others_do_not_exist(void **state)
{
	struct fx *f = *state;
	char token[AUTH_SECRET_SIZE], id[ID_SIZE];
	struct store_grant g = { .kind = GRANT_VM, .target = "vm1", .any_user = true };
	struct store_account other;
	struct store_identity i;
	struct auth_who who;

	add_vm(f, "vm1");
	add_account(f, &other);
	OK(auth_identity_create(f->a, f->account, &i, &err));
	memcpy(g.identity, i.id, sizeof(g.identity));
	FAILS(-ENOENT, auth_identity_delete(f->a, other.id, i.id, &err));
	assert_int_equal(err.tag, ERR_IDENTITY_NOT_FOUND);
	FAILS(-ENOENT, auth_token_create(f->a, other.id, i.id, id, token, &err));
	FAILS(-ENOENT, auth_grant(f->a, other.id, &g, &err));
	assert_int_equal(err.tag, ERR_IDENTITY_NOT_FOUND);
	OK(auth_token_create(f->a, f->account, i.id, id, token, &err));
	FAILS(-ENOENT, auth_token_revoke(f->a, other.id, i.id, id, &err));
	restart(f);
	OK(check(f, token, &who));
	OK(auth_identity_delete(f->a, f->account, i.id, &err));
	FAILS(-EACCES, check(f, token, &who));
	FAILS(-ENOENT, auth_identity_get(f->a, f->account, "' OR 1=1", NULL, &err));
}

static void a_forgotten_account_has_no_credentials(void **state)
{
	struct fx *f = *state;
	char key[AUTH_SECRET_SIZE], token[AUTH_SECRET_SIZE], id[ID_SIZE];
	struct store_account other;
	struct store_identity i;
	struct auth_who who;
	struct auth_key k;

	add_account(f, &other);
	OK(auth_key_create(f->a, other.id, "", &k, key, &err));
	OK(auth_identity_create(f->a, other.id, &i, &err));
	OK(auth_token_create(f->a, other.id, i.id, id, token, &err));
	OK(store_account_delete(f->s, other.id, &err));
	auth_account_forget(f->a, other.id);
	FAILS(-EACCES, check(f, key, &who));
	FAILS(-EACCES, check(f, token, &who));
}

static unsigned fail_many(struct fx *f, const char *from, unsigned n)
{
	struct sockaddr_in sa = { .sin_family = AF_INET };
	unsigned heard = 0;

	inet_pton(AF_INET, from, &sa.sin_addr);
	for (unsigned i = 0; i < n; i++)
		heard += auth_failure(f->a, (const struct sockaddr *)(const void *)&sa);
	return heard;
}

static void failures_are_bounded_per_address(void **state)
{
	struct fx *f = *state;
	unsigned heard = fail_many(f, "192.0.2.1", 2000);

	assert_in_range(heard, 100, 1000); /* one more each second, on however slow a machine */
	assert_int_equal(fail_many(f, "192.0.2.2", 50), 50);
	/* More addresses than are remembered do no harm. */
	for (unsigned i = 0; i < 5000; i++) {
		char from[32];

		snprintf(from, sizeof(from), "10.0.%u.%u", i >> 8, i & 255);
		assert_int_equal(fail_many(f, from, 1), 1);
	}
	assert_true(auth_failure(f->a, NULL));
}

static void records_are_written_in_order(void **state)
{
	struct fx *f = *state;
	struct audit_filter all = { .before = INT64_MAX, .until = INT64_MAX, .limit = 1000 };
	autofree struct audit_record *v = NULL;
	size_t n = 0;

	for (unsigned i = 0; i < 300; i++) {
		struct audit_record a = { .at_ms = i + 1, .status = 200, .method = "POST" };

		auth_audit(f->a, &a);
	}
	OK(auth_audit_list(f->a, &all, &v, &n, &err));
	assert_int_equal(n, 300);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(v[i].at_ms, 300 - i);
	/* What is in the queue when the server ends is written. */
	auth_audit(f->a, &(struct audit_record){ .at_ms = 301, .method = "PUT" });
	restart(f);
	free(TAKE_PTR(v));
	OK(auth_audit_list(f->a, &all, &v, &n, &err));
	assert_int_equal(n, 301);
	assert_string_equal(v[0].method, "PUT");
}

static void secrets_are_masked(void **state)
{
	char text[200] = "/a/pando_AbC123/pandoid_Xyz?pando/pandora/pando_";

	auth_mask(text);
	assert_string_equal(text, "/a/pando_******/pandoid_***?pando/pandora/pando_");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		T(keys_come_and_go),
		T(last_use_survives_a_restart),
		T(the_operator_is_not_locked_out),
		T(there_are_only_so_many_keys),
		T(a_token_may_what_was_granted),
		T(identities_of_others_do_not_exist),
		T(a_forgotten_account_has_no_credentials),
		T(failures_are_bounded_per_address),
		T(records_are_written_in_order),
		T(secrets_are_masked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
