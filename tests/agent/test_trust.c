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

/* For Node.js, one file has all of them. One that is taken away leaves nothing. */
static void test_taken_away(void **state)
{
	struct rig *r = *state;
	char path[160], to[160];

	make_dirs(r);
	assert_int_equal(trust(r, "pando-local", "0a1b2c3d", PEM("first"), ""), 0);
	assert_int_equal(trust(r, "pando-site-a", "11111111", PEM("second"), ""), 0);
	autofree char *both = rig_text(r, "etc/pando/ca.pem");
	assert_int_equal(strlen(both), strlen(PEM("first") PEM("second")));
	assert_non_null(strstr(both, PEM("first")));
	assert_non_null(strstr(both, PEM("second")));
	for (int i = 0; i < 2; i++) {
		assert_int_equal(trust(r, "pando-site-a", "11111111", "", ""), 0);
		is(r, "etc/pando/ca.pem", PEM("first"));
		is(r, BUNDLE, PEM("other") PEM("first"));
	}
	snprintf(path, sizeof(path), "%s/etc/ssl/certs/11111111.0", r->dir);
	assert_int_equal(access(path, F_OK), -1);
	snprintf(path, sizeof(path), "%s/etc/ssl/certs/pando-site-a.pem", r->dir);
	assert_int_equal(readlink(path, to, sizeof(to)), -1);
}

static int set_site(struct rig *r, const char *stamp, const char *const *env)
{
	struct err err = { 0 };

	return guest_set_site(r->g, stamp, env, deadline_in(TEST_DEADLINE_MS), &err);
}

static void has_env(struct rig *r, const char *text)
{
	struct guest_exec_req req = { .command = "echo $SITE_A $SITE_B",
		                      .timeout_ms = TEST_DEADLINE_MS };
	struct guest_exec_result x;
	struct err err = { 0 };

	assert_int_equal(guest_exec(r->g, &req, &x, &err), 0);
	assert_string_equal(x.out, text);
	guest_exec_result_done(&x);
}

/* Variables of the site: below the VM's own; with the stamp that its files end with. */
static void test_site(void **state)
{
	static const char *const one[] = { "SITE_A=one", "SITE_B=with \"$x\"", NULL };
	static const char *const own[] = { "SITE_A=mine", NULL };
	static const char *const none[] = { NULL };
	struct rig *r = *state;
	struct err err = { 0 };

	make_dirs(r);
	assert_int_equal(set_site(r, "", none), 0); /* there never was one */
	assert_int_equal(set_site(r, "0123abcd", one), -ESTALE);
	has_env(r, "one with \"$x\"\n");
	rig_write(r, "etc/pando/site", "0123abcd\n", 0644);
	assert_int_equal(set_site(r, "0123abcd", one), 0);
	assert_int_equal(set_site(r, "0123abcde", one), -ESTALE);
	assert_int_equal(guest_set_env(r->g, own, &err), 0);
	has_env(r, "mine with \"$x\"\n");
	assert_int_equal(set_site(r, "", none), -ESTALE);
	has_env(r, "mine\n");
	assert_int_equal(guest_set_env(r->g, none, &err), 0);
	has_env(r, "\n");
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
	assert_int_equal(trust(r, "a", "0a1b2c3d", "", ""), 0); /* there is none to take away */
	assert_int_equal(trust(r, "a", "0a1b2c3d", PEM("x"), "a b"), -EBADMSG);
	is(r, BUNDLE, PEM("other"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_replaced, rig_ready, rig_done),
		cmocka_unit_test_setup_teardown(test_taken_away, rig_ready, rig_done),
		cmocka_unit_test_setup_teardown(test_site, rig_ready, rig_done),
		cmocka_unit_test_setup_teardown(test_below_localhost, rig_ready, rig_done),
		cmocka_unit_test_setup_teardown(test_refused, rig_ready, rig_done),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
