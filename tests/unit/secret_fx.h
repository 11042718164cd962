/* SPDX-License-Identifier: Apache-2.0 */
/* secret_fx.h - a data directory with every kind of secret, and looking for them; for tests only,
 * after cmocka.h */
#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
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

static inline struct server *server_end(struct server *v)
{
	certs_free(v->certs);
	store_close(v->store);
	secrets_close(v->keys);
	*v = (struct server){ 0 };
	return NULL;
}

/* As main.c does it. */
static inline int server_start(const char *dir, struct server *v, struct err *e)
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

static inline int put_egress(struct store *s, const char *vm, const char *p, const char *key,
                             struct err *e)
{
	struct store_egress row = { (char *)(uintptr_t)p, NULL, (char *)(uintptr_t)key };

	return store_egress_put(s, vm, &row, e);
}

#define COPY(to, from) snprintf(to, sizeof(to), "%s", from)

static inline void put_all(struct store *s)
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

static inline void check_all(struct store *s)
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

static inline bool file_has(const char *path, const char *what)
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
static inline void find_text(const char *dir, const char *what, char ret[512])
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

static inline void nothing_plain(const char *dir)
{
	for (size_t i = 0; i < ARRAY_SIZE(plain); i++) {
		char where[512] = "";

		find_text(dir, plain[i], where);
		if (*where)
			fail_msg("'%s' is in '%s'", plain[i], where);
	}
}

static inline void copy_tree(const char *from, const char *to)
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

static inline unsigned keys_in(const char *dir)
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
static inline void make_old(const char *dir)
{
	static const char *const suffix[] = { "pando.localhost" };
	autobuf struct buf leaf = { 0 };
	char path[256];
	struct certs *certs = NULL;
	struct store *s = NULL;
	uint64_t number;

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
	OK(certs_get(certs, "pando.localhost", false, &leaf, &number, &err));
	certs_free(certs);
}

struct fx {
	struct tmpdir tmp;
	char dir[256];
};

static inline int setup(void **state)
{
	struct fx *f = calloc(1, sizeof(*f));

	log_init("test", LOG_LV_ERROR + 1);
	if (tmpdir_make(&f->tmp) < 0)
		return -1;
	tmpdir_file(&f->tmp, "data", f->dir, sizeof(f->dir));
	*state = f;
	return 0;
}

static inline int teardown(void **state)
{
	struct fx *f = *state;

	tmpdir_remove(&f->tmp);
	free(f);
	return 0;
}

/* Processes die here, not the machine: files in memory will do, and are quicker. */
static inline void in_memory(void)
{
	if (access("/dev/shm", W_OK) == 0)
		setenv("TMPDIR", "/dev/shm", 0);
}
