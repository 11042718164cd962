/* SPDX-License-Identifier: Apache-2.0 */
/* test_jail.c - what the starter lets pass as one of Git's programs, and what that cannot do */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/proc.h"
#include "git/git_internal.h"
#include "store/store.h"
#include "tests/unit/check.h"
#include "tests/unit/tmpdir.h"

/* The errno of each of: ptrace, a new user namespace, netlink, io_uring, a plain socket. */
#define PROBE                                                                           \
	"foreach $c ([101,0,0,0,0],[272,0x10000000],[41,16,3,0],[425,1,0],[41,1,1,0]) " \
	"{ ($n, @a) = @$c; $r = syscall($n, @a); print $r < 0 ? $!+0 : 0, \" \" }"
#define PERL "/usr/bin/perl"

static const char *refusal(const struct starter_job *j)
{
	uint64_t flags;

	return jail_kind.check(j, &flags);
}

static void the_starter_looks_at_requests(void **state)
{
	struct jail_rules r = { .root = "/data/git" };
	struct starter_job good = { .argv = { GIT_PROGRAM, "version" },
		                    .env = { "PATH=/usr/bin", "GIT_DIR=.", "LC_ALL=C" },
		                    .n_fds = 3 };
	struct starter_job j;

	for (size_t i = 0; i < STARTER_TEXTS; i++)
		good.texts[i] = "";
	good.texts[JAIL_DIR] = "/data/git/jail";
	good.texts[JAIL_REPO] = "/data/git/repos/a.git";
	good.numbers[JAIL_FLAGS] = JAIL_JAILED;
	OK(jail_kind_init(&r, &err));
	assert_null(refusal(&good));
	j = good;
	j.argv[0] = "/bin/sh";
	assert_non_null(refusal(&j));
	j = good;
	j.texts[JAIL_REPO] = "/data";
	assert_non_null(refusal(&j));
	j.texts[JAIL_REPO] = "/data/git/../pando.db";
	assert_non_null(refusal(&j));
	j.texts[JAIL_REPO] = "/data/git/..";
	assert_non_null(refusal(&j));
	j = good;
	j.texts[JAIL_WORK] = "/data/gitx";
	assert_non_null(refusal(&j));
	j = good;
	j.texts[JAIL_DIR] = "/etc";
	assert_non_null(refusal(&j));
	j = good;
	j.env[1] = "LD_PRELOAD=/data/git/x.so";
	assert_non_null(refusal(&j));
	j = good;
	j.n_fds = 2;
	assert_non_null(refusal(&j));
	j = good;
	j.numbers[JAIL_FLAGS] = 0; /* without a jail */
	assert_non_null(refusal(&j));
	r.unjailed = true;
	OK(jail_kind_init(&r, &err));
	assert_null(refusal(&j));
}

/* In git's jail an alias is a way to run anything, as a hole in git would be. */
static void system_calls_are_refused(void **state)
{
	const char *const plain[] = { PERL, "-e", PROBE, NULL };
	const char *const jailed[] = { GIT_PROGRAM, "-c", "alias.x=!" PERL " -e '" PROBE "'", "x",
		                       NULL };
	struct repos_conf conf = { 0 };
	autorun struct run_result res = { 0 };
	autofree char *before = NULL;
	struct store *store = NULL;
	struct repos *g = NULL;
	struct tmpdir dir;
	char db[160];

	if (!sysfilter_available())
		skip(); /* no seccomp filters in this kernel */
	/* without a filter they succeed, or fail for other reasons */
	OK(proc_run(&(struct proc_run_opts){ .argv = plain }, &before, NULL, &err));
	assert_int_not_equal(strncmp(before, "1 1 1 1 0", 9), 0);
	assert_int_equal(tmpdir_make(&dir), 0);
	OK(store_open(tmpdir_file(&dir, "db", db, sizeof(db)), &store, &err));
	snprintf(conf.data_dir, sizeof(conf.data_dir), "%s", dir.path);
	snprintf(conf.domain, sizeof(conf.domain), "example.com");
	OK(repos_open(&conf, store, &g, &err));
	OK(run_git(g, &(struct run_opts){ .argv = jailed, .limit_ms = 60000, .out_max = 1000 },
	           &res, &err));
	buf_put(&res.out, "", 1);
	assert_string_equal((char *)res.out.p, "1 1 1 1 0 ");
	repos_close(g);
	store_close(store);
	tmpdir_remove(&dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_starter_looks_at_requests),
		cmocka_unit_test(system_calls_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
