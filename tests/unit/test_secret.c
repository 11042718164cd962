/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_secret.c - secrets at rest: what is sealed opens only at its place and with its key, nothing
 * of it is in the files, and a change of keys survives kill -9 before every system call that
 * changes a file
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/io.h"
#include "base/log.h"
#include "cert/cert.h"
#include "secret/secret.h"
#include "store/store.h"
#include "store/store_credential.h"
#include "store/store_net.h"
#include "store/store_sync.h"
#include "store/store_trigger.h"
#include "tests/unit/check.h"
#include "tests/unit/tmpdir.h"

#define STEPS_MAX 2000

/* Each is looked for in the files. */
static const char policy[] = "{\"mode\":\"open\",\"x\":\"plain-policy\"}";
static const char ca_key[] = "-----BEGIN PRIVATE KEY----- plain-ca-key";
static const char wg_key[] = "plain-wireguard-key+AAAAAAAAAAAAAAAAAAAAAAA=";
static const char token[] = "plain-mirror-token";
static const char hook[] = "plain-hook-0123456789abcdef";
static const char password[] = "plain-password-of-a-server";
static const char signing[] = "plain-signing-key-0123456789abcdef";
static const char endpoint[] = "https://hooks.example/plain-endpoint";
static const char reply[] = "{\"key\":\"plain-reply-with-a-key\"}";
static const char *const plain[] = { "plain-policy",    "plain-ca-key",   "plain-wireguard-key",
	                             "plain-mirror",    "plain-hook",     "plain-password",
	                             "plain-signing",   "plain-endpoint", "plain-reply",
	                             "PRIVATE KEY-----" };

struct server {
	struct secrets *keys;
	struct store *store;
	struct certs *certs;
};

static struct server *server_end(struct server *v)
{
	certs_free(v->certs);
	store_close(v->store);
	secrets_close(v->keys);
	*v = (struct server){ 0 };
	return NULL;
}

/* As main.c does it. */
static int server_start(const char *dir, struct server *v, struct err *e)
{
	static const char *const suffix[] = { "pando.localhost" };
	char db[256], certs[256];
	struct secrets_conf c = { .data_dir = dir, .file = "", .fd = -1 };
	int r;

	snprintf(db, sizeof(db), "%s/pando.db", dir);
	snprintf(certs, sizeof(certs), "%s/certs", dir);
	*v = (struct server){ 0 };
	if ((r = store_open(db, &v->store, e)) < 0)
		return r;
	c.create = !store_is_sealed(v->store);
	if ((r = secrets_open(&c, &v->keys, e)) < 0 ||
	    (r = store_unlock(v->store, v->keys, e)) < 0 ||
	    (r = certs_open_sealed(certs, suffix, 1, v->keys, &v->certs, e)) < 0 ||
	    (r = secrets_settle(v->keys, e)) < 0) {
		server_end(v);
		return r;
	}
	return 0;
}

static int put_egress(struct store *s, const char *vm, const char *p, const char *key,
                      struct err *e)
{
	struct store_egress row = { (char *)(uintptr_t)p, NULL, (char *)(uintptr_t)key };

	return store_egress_put(s, vm, &row, e);
}

#define COPY(to, from) snprintf(to, sizeof(to), "%s", from)

static void put_all(struct store *s)
{
	struct store_vpc vpc = { .prefix = 24 };
	struct store_sync *y = calloc(1, sizeof(*y));
	struct store_credential *c = calloc(1, sizeof(*c));
	struct store_trigger *t = calloc(1, sizeof(*t));
	struct store_signing_key k = { .id = "key-1", .created_ms = 1 };
	struct store_request req = { .created_ms = INT64_MAX / 2 };

	OK(store_account_create(s, "acme", "acme", &err));
	OK(put_egress(s, "vm1", policy, ca_key, &err));
	COPY(vpc.id, "vpc-1");
	COPY(vpc.account, "acme");
	COPY(vpc.wg_key, wg_key);
	OK(store_vpc_add(s, &vpc, 10, &err));
	COPY(y->repo, "repo1");
	COPY(y->token, token);
	COPY(y->hook, hook);
	OK(store_sync_put(s, y, &err));
	COPY(c->id, "gcr-1");
	COPY(c->account, "acme");
	COPY(c->server, "https://git.example");
	COPY(c->secret, password);
	OK(store_credential_put(s, c, &err));
	COPY(k.secret, signing);
	OK(store_signing_key_add(s, &k, &err));
	COPY(t->id, "tr-1");
	COPY(t->repo, "repo1");
	COPY(t->endpoint, endpoint);
	OK(store_trigger_add(s, t, &err));
	COPY(req.id, "req1");
	COPY(req.account, "acme");
	OK(store_request_add(s, &req, &err));
	OK(store_request_finish(s, "req1", 200, reply, &err));
	free(y);
	free(c);
	free(t);
}

static void check_all(struct store *s)
{
	AUTO(store_egress_done) struct store_egress e = { 0 };
	struct store_vpc vpc = { 0 };
	struct store_sync *y = calloc(1, sizeof(*y));
	struct store_credential *c = calloc(1, sizeof(*c));
	struct store_trigger *t = calloc(1, sizeof(*t));
	autofree struct store_signing_key *k = NULL;
	autofree char *body = NULL;
	struct store_request req;
	size_t n = 0;

	OK(store_egress_get(s, "vm1", &e, &err));
	assert_string_equal(e.policy, policy);
	assert_string_equal(e.ca_key, ca_key);
	OK(store_vpc_get(s, "vpc-1", &vpc, &err));
	assert_string_equal(vpc.wg_key, wg_key);
	OK(store_sync_get(s, "repo1", y, &err));
	assert_string_equal(y->token, token);
	assert_string_equal(y->hook, hook);
	assert_int_equal(store_sync_wake(s, NULL, hook, 1, &err), 1);
	assert_int_equal(store_sync_wake(s, NULL, "another", 1, &err), 0);
	OK(store_credential_get(s, "acme", "https://git.example", c, &err));
	assert_string_equal(c->secret, password);
	OK(store_signing_keys(s, 0, &k, &n, &err));
	assert_int_equal(n, 1);
	assert_string_equal(k[0].secret, signing);
	OK(store_trigger_get(s, "repo1", "tr-1", t, &err));
	assert_string_equal(t->endpoint, endpoint);
	OK(store_request_get(s, "req1", &req, &body, &err));
	assert_string_equal(body, reply);
	free(y);
	free(c);
	free(t);
}

/* ---- files ---- */

static bool file_has(const char *path, const char *what)
{
	autofd int fd = open(path, O_RDONLY | O_CLOEXEC);
	autofree char *p = NULL;
	struct stat st;

	assert_true(fd >= 0 && fstat(fd, &st) == 0);
	p = malloc((size_t)st.st_size + 1);
	assert_non_null(p);
	assert_int_equal(io_read_all(fd, p, (size_t)st.st_size), 0);
	return memmem(p, (size_t)st.st_size, what, strlen(what)) != NULL;
}

/* The first file below dir that has the text, or "". */
static void find_text(const char *dir, const char *what, char ret[512])
{
	autodir DIR *d = opendir(dir);
	struct dirent *e;

	assert_non_null(d);
	while (!*ret && (e = readdir(d))) {
		char path[512];

		if (e->d_name[0] == '.' || strstr(e->d_name, "-reserve")) /* only ever zeros */
			continue;
		snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
		if (e->d_type == DT_DIR)
			find_text(path, what, ret);
		else if (file_has(path, what))
			snprintf(ret, 512, "%s", path);
	}
}

static void nothing_plain(const char *dir)
{
	for (size_t i = 0; i < ARRAY_SIZE(plain); i++) {
		char where[512] = "";

		find_text(dir, plain[i], where);
		if (*where)
			fail_msg("'%s' is in '%s'", plain[i], where);
	}
}

static void copy_tree(const char *from, const char *to)
{
	autodir DIR *d = opendir(from);
	struct dirent *e;

	assert_non_null(d);
	assert_int_equal(io_mkdirs(to, 0700, NULL), 0);
	while ((e = readdir(d))) {
		char a[512], b[512];
		autofree char *text = NULL;
		autofd int in = -1;
		struct stat st;

		if (e->d_name[0] == '.')
			continue;
		snprintf(a, sizeof(a), "%s/%s", from, e->d_name);
		snprintf(b, sizeof(b), "%s/%s", to, e->d_name);
		if (e->d_type == DT_DIR) {
			copy_tree(a, b);
			continue;
		}
		if (strstr(e->d_name, "-reserve")) /* 16 MB that nobody needs here */
			continue;
		in = open(a, O_RDONLY | O_CLOEXEC);
		assert_true(in >= 0 && fstat(in, &st) == 0);
		text = malloc((size_t)st.st_size + 1);
		assert_int_equal(io_read_all(in, text, (size_t)st.st_size), 0);
		OK(io_write_file(AT_FDCWD, b, text, (size_t)st.st_size, 0600, &err));
	}
}

static unsigned keys_in(const char *dir)
{
	autofree char *text = NULL;
	char path[256];
	unsigned n = 0;

	snprintf(path, sizeof(path), "%s/secret.key", dir);
	OK(io_read_file(AT_FDCWD, path, 4096, &text, &err));
	for (char *l = text; *l; l = strchrnul(l, '\n') + 1)
		n += *l != '#';
	return n;
}

/* A data directory of an earlier version: everything plain, also in free pages. */
static void make_old(const char *dir)
{
	static const char *const suffix[] = { "pando.localhost" };
	char path[256];
	struct certs *certs = NULL;
	struct store *s = NULL;

	OK(io_mkdirs(dir, 0700, &err));
	snprintf(path, sizeof(path), "%s/pando.db", dir);
	OK(store_open(path, &s, &err));
	put_all(s);
	/* Leaves free pages: longer than any that is written later. */
	for (int i = 0; i < 3; i++) {
		char id[32], *long_one = malloc(20000);

		memset(long_one, 'x', 19999);
		long_one[19999] = '\0';
		memcpy(long_one, "plain-policy", 12);
		memcpy(long_one + 19900, "plain-policy", 12);
		snprintf(id, sizeof(id), "gone%d", i);
		OK(put_egress(s, id, long_one, "", &err));
		OK(store_net_drop(s, id, &err));
		free(long_one);
	}
	check_all(s);
	store_close(s);
	snprintf(path, sizeof(path), "%s/certs", dir);
	OK(certs_open(path, suffix, 1, &certs, &err));
	OK(certs_make(certs, "pando.localhost", false, &err));
	certs_free(certs);
}

struct fx {
	struct tmpdir tmp;
	char dir[256];
};

static int setup(void **state)
{
	struct fx *f = calloc(1, sizeof(*f));

	log_init("test", LOG_LV_ERROR + 1);
	if (tmpdir_make(&f->tmp) < 0)
		return -1;
	tmpdir_file(&f->tmp, "data", f->dir, sizeof(f->dir));
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fx *f = *state;

	tmpdir_remove(&f->tmp);
	free(f);
	return 0;
}

/* ---- values ---- */

static void a_value_opens_at_its_place_only(void **state)
{
	struct fx *f = *state;
	struct secret_place at = { "t.c", "row1" }, row = { "t.c", "row2" },
	                    col = { "t.d", "row1" };
	struct secrets_conf c = { .data_dir = f->dir, .file = "", .fd = -1, .create = true };
	struct secrets *k = NULL;
	char *sealed = NULL, *other = NULL, *text = NULL;
	size_t n = 0;

	OK(io_mkdirs(f->dir, 0700, &err));
	OK(secrets_open(&c, &k, &err));
	OK(secret_seal(k, at, "a secret", 8, &sealed, &err));
	assert_null(strstr(sealed, "secret"));
	OK(secret_open(k, at, sealed, &text, &n, &err));
	assert_string_equal(text, "a secret");
	assert_int_equal(n, 8);
	free(text);
	text = NULL;
	FAILS(-EBADMSG, secret_open(k, row, sealed, &text, NULL, &err));
	FAILS(-EBADMSG, secret_open(k, col, sealed, &text, NULL, &err));
	FAILS(-EBADMSG, secret_open(k, at, "a secret", &text, NULL, &err));
	FAILS(-EBADMSG, secret_open(k, at, "$s1$", &text, NULL, &err));
	FAILS(-EBADMSG, secret_open(k, at, "$s1$AQ==", &text, NULL, &err));
	/* Every character counts, but for the bits that base64 leaves over. */
	for (size_t i = 4; i < strlen(sealed) - 3; i++) {
		char was = sealed[i];
		int r;

		for (const char *c2 = "AQZaz09+/"; *c2; c2++) {
			if (*c2 == was)
				continue;
			sealed[i] = *c2;
			r = secret_open(k, at, sealed, &text, NULL, &err);
			if (r != -EBADMSG && r != -ENOKEY)
				fail_msg("changed at %zu: %d", i, r);
		}
		sealed[i] = was;
	}
	OK(secret_seal(k, at, "a secret", 8, &other, &err));
	assert_string_not_equal(sealed, other);
	free(other);
	OK(secret_seal(k, at, "", 0, &other, &err));
	OK(secret_open(k, at, other, &text, &n, &err));
	assert_int_equal(n, 0);
	free(text);
	free(other);
	free(sealed);
	secrets_close(k);
}

static void a_bad_key_file_is_refused_with_its_name(void **state)
{
	struct fx *f = *state;
	char path[300];
	struct secrets_conf c = { .data_dir = f->dir, .file = "", .fd = -1 };
	static const char *const bad[] = {
		"",
		"nonsense\n",
		"1 abc\n",
		"0 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\n",
		"1 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdefff\n",
		"1 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\n"
		"1 1123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\n",
	};
	struct secrets *k = NULL;

	OK(io_mkdirs(f->dir, 0700, &err));
	snprintf(path, sizeof(path), "%s/secret.key", f->dir);
	FAILS(-EINVAL, secrets_open(&c, &k, &err));
	assert_non_null(strstr(err.msg, path));
	assert_non_null(strstr(err.msg, "OPERATIONS"));
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		OK(io_write_file(AT_FDCWD, path, bad[i], strlen(bad[i]), 0600, &err));
		FAILS(-EINVAL, secrets_open(&c, &k, &err));
		assert_non_null(strstr(err.msg, path));
	}
	unlink(path);
	c.create = true;
	OK(secrets_open(&c, &k, &err));
	secrets_close(k);
	assert_int_equal(chmod(path, 0640), 0);
	FAILS(-EINVAL, secrets_open(&c, &k, &err));
	assert_non_null(strstr(err.msg, "0640"));
}

/* As pando-priv passes systemd's credential on. */
static void a_credential_is_read_but_never_written(void **state)
{
	struct fx *f = *state;
	static const char one[] =
	        "7 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\n";
	static const char both[] =
	        "8 9123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\n"
	        "7 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\n";
	struct secret_place at = { "t.c", "row" };
	struct secrets_conf c = { .data_dir = "/nonexistent", .file = "" };
	autofree char *sealed = NULL;
	autofree char *text = NULL;
	struct secrets *k = NULL;
	char path[300];
	unsigned id;

	OK(io_mkdirs(f->dir, 0700, &err));
	snprintf(path, sizeof(path), "%s/cred", f->dir);
	OK(io_write_file(AT_FDCWD, path, one, strlen(one), 0600, &err));
	c.fd = open(path, O_RDONLY | O_CLOEXEC);
	OK(secrets_open(&c, &k, &err));
	OK(secret_seal(k, at, "x", 1, &sealed, &err));
	FAILS(-EROFS, secrets_rotate(k, &id, &err));
	assert_non_null(strstr(err.msg, "in front"));
	close(c.fd);
	k = secrets_close(k);
	OK(io_write_file(AT_FDCWD, path, both, strlen(both), 0600, &err));
	c.fd = open(path, O_RDONLY | O_CLOEXEC);
	OK(secrets_open(&c, &k, &err));
	OK(secret_open(k, at, sealed, &text, NULL, &err));
	assert_false(secret_is_current(k, sealed));
	OK(secrets_settle(k, &err));
	assert_true(file_has(path, "7 0123"));
	close(c.fd);
	secrets_close(k);
}

/* ---- the store ---- */

static void an_old_database_is_sealed(void **state)
{
	struct fx *f = *state;
	struct server v;

	make_old(f->dir);
	for (size_t i = 0; i < ARRAY_SIZE(plain); i++) {
		char where[512] = "";

		find_text(f->dir, plain[i], where);
		if (!*where)
			fail_msg("'%s' is not there: this test checks nothing", plain[i]);
	}
	OK(server_start(f->dir, &v, &err));
	check_all(v.store);
	nothing_plain(f->dir); /* also while it runs: the log */
	server_end(&v);
	nothing_plain(f->dir);
	OK(server_start(f->dir, &v, &err));
	check_all(v.store);
	OK(put_egress(v.store, "vm2", policy, ca_key, &err)); /* and what is written from now on */
	nothing_plain(f->dir);
	server_end(&v);
	nothing_plain(f->dir);
}

static void sql(const char *dir, const char *text)
{
	sqlite3 *db = NULL;
	char path[256];

	snprintf(path, sizeof(path), "%s/pando.db", dir);
	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	if (sqlite3_exec(db, text, NULL, NULL, NULL) != SQLITE_OK)
		fail_msg("%s: %s", text, sqlite3_errmsg(db));
	sqlite3_close(db);
}

static void a_moved_value_is_an_error(void **state)
{
	struct fx *f = *state;
	AUTO(store_egress_done) struct store_egress e = { 0 };
	struct store_credential *c = calloc(1, sizeof(*c));
	struct store_vpc vpc;
	struct server v;

	make_old(f->dir);
	OK(server_start(f->dir, &v, &err));
	server_end(&v);
	sql(f->dir, "UPDATE git_credentials SET secret = (SELECT secret FROM git_signing_keys)");
	sql(f->dir, "UPDATE vpcs SET wg_key = 'plain'");
	sql(f->dir, "UPDATE vm_egress SET vm_id = 'vm9'");
	OK(server_start(f->dir, &v, &err));
	FAILS(-EUCLEAN, store_credential_get(v.store, "acme", "https://git.example", c, &err));
	FAILS(-EUCLEAN, store_vpc_get(v.store, "vpc-1", &vpc, &err));
	FAILS(-EUCLEAN, store_egress_get(v.store, "vm9", &e, &err));
	server_end(&v);
	free(c);
}

static void the_wrong_key_stops_the_start(void **state)
{
	struct fx *f = *state;
	char key[300], away[300];
	struct store_vpc vpc;
	struct store *s = NULL;
	struct server v;
	struct secrets_conf c = { .data_dir = f->dir, .file = "", .fd = -1, .create = true };

	make_old(f->dir);
	OK(server_start(f->dir, &v, &err));
	server_end(&v);
	snprintf(key, sizeof(key), "%s/secret.key", f->dir);
	snprintf(away, sizeof(away), "%s/away", f->dir);
	assert_int_equal(rename(key, away), 0);
	FAILS(-EINVAL, server_start(f->dir, &v, &err)); /* no new one is made */
	assert_non_null(strstr(err.msg, key));
	OK(secrets_open(&c, &v.keys, &err));
	secrets_close(v.keys);
	FAILS(-EINVAL, server_start(f->dir, &v, &err));
	assert_non_null(strstr(err.msg, key));
	assert_non_null(strstr(err.msg, "restore"));
	/* Without a key at all nothing of it is read or written. */
	snprintf(key, sizeof(key), "%s/pando.db", f->dir);
	OK(store_open(key, &s, &err));
	assert_true(store_is_sealed(s));
	FAILS(-EUCLEAN, store_vpc_get(s, "vpc-1", &vpc, &err));
	FAILS(-ENOKEY, put_egress(s, "vm3", "p", "", &err));
	store_close(s);
	snprintf(key, sizeof(key), "%s/secret.key", f->dir);
	assert_int_equal(rename(away, key), 0);
	OK(server_start(f->dir, &v, &err));
	check_all(v.store);
	server_end(&v);
}

static void a_rotation_replaces_the_key_everywhere(void **state)
{
	struct fx *f = *state;
	autofree char *before = NULL;
	autofree char *after = NULL;
	char key[300];
	struct server v;
	unsigned id = 0;

	make_old(f->dir);
	OK(server_start(f->dir, &v, &err));
	snprintf(key, sizeof(key), "%s/secret.key", f->dir);
	OK(io_read_file(AT_FDCWD, key, 4096, &before, &err));
	OK(secrets_rotate(v.keys, &id, &err));
	assert_int_equal(id, 2);
	check_all(v.store);
	OK(io_read_file(AT_FDCWD, key, 4096, &after, &err));
	assert_int_equal(keys_in(f->dir), 1);
	assert_string_not_equal(before, after);
	server_end(&v);
	OK(server_start(f->dir, &v, &err));
	check_all(v.store);
	server_end(&v);
	OK(server_start(f->dir, &v, &err));
	check_all(v.store);
	server_end(&v);
}

/* ---- kill -9 ---- */

static bool changes_files(const struct __ptrace_syscall_info *i)
{
	switch (i->entry.nr) {
	case SYS_write:
		return i->entry.args[0] > 2;
	case SYS_openat:
		return i->entry.args[2] & O_CREAT;
	case SYS_pwrite64:
	case SYS_ftruncate:
	case SYS_fallocate:
	case SYS_fsync:
	case SYS_fdatasync:
	case SYS_rename:
	case SYS_renameat:
	case SYS_renameat2:
	case SYS_unlink:
	case SYS_unlinkat:
		return true;
	default:
		return false;
	}
}

static _Noreturn void child(const char *dir, bool rotate)
{
	struct server v;
	struct err e = { 0 };
	unsigned id;

	ptrace(PTRACE_TRACEME, 0, NULL, NULL);
	raise(SIGSTOP);
	if (server_start(dir, &v, &e) < 0)
		_exit(2);
	if (rotate && secrets_rotate(v.keys, &id, &e) < 0)
		_exit(3);
	_exit(0);
}

/* Ends it before its nth call that changes a file; false: it had fewer, and is done. */
static bool kill_before(const char *dir, bool rotate, unsigned nth)
{
	pid_t pid = fork();
	unsigned seen = 0;
	int status;

	assert_true(pid >= 0);
	if (pid == 0)
		child(dir, rotate);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSTOPPED(status));
	ptrace(PTRACE_SETOPTIONS, pid, NULL, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
	for (;;) {
		struct __ptrace_syscall_info info;

		ptrace(PTRACE_SYSCALL, pid, NULL, NULL);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		if (WIFEXITED(status)) {
			assert_int_equal(WEXITSTATUS(status), 0);
			return false;
		}
		assert_true(WIFSTOPPED(status));
		if (WSTOPSIG(status) != (SIGTRAP | 0x80))
			continue;
		assert_true(ptrace(PTRACE_GET_SYSCALL_INFO, pid, sizeof(info), &info) > 0);
		if (info.op != PTRACE_SYSCALL_INFO_ENTRY || !changes_files(&info) || ++seen < nth)
			continue;
		kill(pid, SIGKILL);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFSIGNALED(status));
		return true;
	}
}

static void killed_at_every_step(struct fx *f, const char *from, bool rotate, unsigned *steps)
{
	char dir[300];
	unsigned n;

	snprintf(dir, sizeof(dir), "%s/killed", f->tmp.path);
	for (n = 1; n < STEPS_MAX; n++) {
		struct server v;
		bool killed;

		OK(io_remove_tree(AT_FDCWD, dir, &err));
		copy_tree(from, dir);
		killed = kill_before(dir, rotate, n);
		if (server_start(dir, &v, &err) < 0)
			fail_msg("killed before step %u: %s", n, err.msg);
		check_all(v.store);
		assert_int_equal(keys_in(dir), 1);
		server_end(&v);
		nothing_plain(dir);
		if (!killed)
			break;
	}
	assert_true(n < STEPS_MAX);
	*steps = n - 1;
}

static void sealing_survives_kill_at_every_step(void **state)
{
	struct fx *f = *state;
	unsigned steps = 0;

	make_old(f->dir);
	killed_at_every_step(f, f->dir, /* rotate= */ false, &steps);
	print_message("killed before each of %u changes\n", steps);
	assert_true(steps > 20);
}

static void rotating_survives_kill_at_every_step(void **state)
{
	struct fx *f = *state;
	struct server v;
	unsigned steps = 0;

	make_old(f->dir);
	OK(server_start(f->dir, &v, &err));
	server_end(&v);
	killed_at_every_step(f, f->dir, /* rotate= */ true, &steps);
	print_message("killed before each of %u changes\n", steps);
	assert_true(steps > 20);
}

int main(void)
{
	/* Processes die here, not the machine: files in memory will do, and are quicker. */
	if (access("/dev/shm", W_OK) == 0)
		setenv("TMPDIR", "/dev/shm", 0);
	const struct CMUnitTest tests[] = {
#define T(t) cmocka_unit_test_setup_teardown(t, setup, teardown)
		T(a_value_opens_at_its_place_only),
		T(a_bad_key_file_is_refused_with_its_name),
		T(a_credential_is_read_but_never_written),
		T(an_old_database_is_sealed),
		T(a_moved_value_is_an_error),
		T(the_wrong_key_stops_the_start),
		T(a_rotation_replaces_the_key_everywhere),
		T(sealing_survives_kill_at_every_step),
		T(rotating_survives_kill_at_every_step),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
