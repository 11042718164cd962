/* SPDX-License-Identifier: Apache-2.0 */
/* test_trust.c - certificate authorities that the host tells the agent to trust; files below the
 * test root */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "tests/agent/util.h"

#define PEM(body) "-----BEGIN CERTIFICATE-----\n" body "\n-----END CERTIFICATE-----\n"
#define FILE_ "usr/local/share/ca-certificates/pando-local.crt"
#define BUNDLE "etc/ssl/certs/ca-certificates.crt"

static void make_dirs(struct rig *r)
{
	static const char *const dirs[] = { "etc", "etc/ssl", "etc/ssl/certs" };

	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
		char path[160];

		snprintf(path, sizeof(path), "%s/%s", r->dir, dirs[i]);
		assert_true(mkdir(path, 0755) == 0 || errno == EEXIST);
	}
	rig_write(r, BUNDLE, PEM("other"), 0644);
}

static int trust(struct rig *r, const char *name, const char *hash, const char *pem,
                 const char *domain)
{
	struct guest_ca ca = { .name = name, .hash = hash, .pem = pem, .domain = domain };
	struct err err = { 0 };

	return guest_trust(r->g, &ca, deadline_in(TEST_DEADLINE_MS), &err);
}

static void is(struct rig *r, const char *name, const char *text)
{
	autofree char *got = rig_text(r, name);

	assert_string_equal(got, text);
}

/* Once, however often it is said; another one takes its place. */
static void test_replaced(void **state)
{
	struct rig *r = *state;
	char path[160], to[160];
	ssize_t n;

	make_dirs(r);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(trust(r, "pando-local", "0a1b2c3d", PEM("first"), ""), 0);
		is(r, FILE_, PEM("first"));
		is(r, BUNDLE, PEM("other") PEM("first"));
	}
	snprintf(path, sizeof(path), "%s/etc/ssl/certs/0a1b2c3d.0", r->dir);
	n = readlink(path, to, sizeof(to) - 1);
	assert_true(n > 0);
	to[n] = '\0';
	assert_string_equal(to, "/" FILE_);
	assert_int_equal(trust(r, "pando-local", "11111111", PEM("second"), ""), 0);
	is(r, FILE_, PEM("second"));
	is(r, BUNDLE, PEM("other") PEM("second"));
	assert_int_equal(trust(r, "pando-egress", "22222222", PEM("third"), ""), 0);
	is(r, BUNDLE, PEM("other") PEM("second") PEM("third"));
}

/* Names below localhost are asked of the name server; other domains leave the files alone. */
static void test_below_localhost(void **state)
{
	static const char git[] = "[user]\n\tname = A\n";
	struct rig *r = *state;

	make_dirs(r);
	rig_write(r, "etc/nsswitch.conf", "passwd: files\nhosts:  files myhostname dns\nrpc: db\n",
	          0644);
	rig_write(r, "etc/gitconfig", git, 0644);
	assert_int_equal(trust(r, "pando-local", "0a1b2c3d", PEM("first"), ""), 0);
	is(r, "etc/gitconfig", git);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(trust(r, "pando-local", "0a1b2c3d", PEM("first"), "p.localhost"),
		                 0);
		is(r, "etc/nsswitch.conf",
		   "passwd: files\nhosts:          files dns myhostname\nrpc: db\n");
		is(r, "etc/gitconfig",
		   "[user]\n\tname = A\n[http]\n\tcurloptResolve = git.p.localhost:443:10.0.0.1\n"
		   "\tcurloptResolve = git.p.localhost:80:10.0.0.1\n");
	}
}

static void test_refused(void **state)
{
	struct rig *r = *state;

	make_dirs(r);
	assert_int_equal(trust(r, "../evil", "0a1b2c3d", PEM("x"), ""), -EBADMSG);
	assert_int_equal(trust(r, "", "0a1b2c3d", PEM("x"), ""), -EBADMSG);
	assert_int_equal(trust(r, "a", "../../xx", PEM("x"), ""), -EBADMSG);
	assert_int_equal(trust(r, "a", "0a1b2c3d", "text\n", ""), -EBADMSG);
	assert_int_equal(trust(r, "a", "0a1b2c3d", "", ""), -EBADMSG);
	assert_int_equal(trust(r, "a", "0a1b2c3d", PEM("x"), "a b"), -EBADMSG);
	is(r, BUNDLE, PEM("other"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_replaced, rig_ready, rig_done),
		cmocka_unit_test_setup_teardown(test_below_localhost, rig_ready, rig_done),
		cmocka_unit_test_setup_teardown(test_refused, rig_ready, rig_done),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
