/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_cli.c - parts of the pando command that need no server: command lines, config, names,
 * events, the escape key, what is a whole cell
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "cli/cli.h"
#include "cli/config.h"
#include "cli/exec.h"
#include "cli/pty.h"
#include "cli/repl_input.h"
#include "cli/resolve.h"
#include "cli/stream.h"
#include "tests/unit/check.h"
#include "tests/unit/tmpdir.h"

#define WORDS_MAX 16

/* ---- command lines ---- */

/* A line split at blanks. */
static int parse(struct cli_parsed *p, char *line, struct err *e)
{
	char *argv[WORDS_MAX] = { 0 }, *save = NULL;
	int argc = 0, r;

	for (char *w = strtok_r(line, " ", &save); w; w = strtok_r(NULL, " ", &save))
		argv[argc++] = w;
	r = cli_parse(p, argc, argv, e);
	return r < 0 || !p->verb ? r : cli_parsed_check(p, e);
}

static void test_options_of_all_kinds(void **state)
{
	AUTO(cli_parsed_done) struct cli_parsed p = { 0 };
	char line[] = "pando vm create --name=web -c4 --memory 8 --apt curl --apt git -q --json";

	OK(parse(&p, line, &err));
	assert_string_equal(p.noun->name, "vm");
	assert_string_equal(p.verb->name, "create");
	assert_string_equal(p.args.opt[0], "web");
	assert_int_equal(p.args.list[3].n, 2);
	assert_string_equal(p.args.list[3].v[1], "git");
	assert_int_equal(p.args.num[4], 4);
	assert_int_equal(p.args.num[5], 8);
	assert_non_null(p.args.opt[9]);
	assert_non_null(p.global[GLOBAL_JSON]);
	assert_null(p.args.opt[1]);
}

static void test_rest_is_not_ours(void **state)
{
	AUTO(cli_parsed_done) struct cli_parsed p = { 0 };
	char line[] = "pando vm exec -u www web ls -l --json --";

	OK(parse(&p, line, &err));
	assert_string_equal(p.args.arg[0], "web");
	assert_string_equal(p.args.opt[0], "www");
	assert_int_equal(p.args.n_rest, 4);
	assert_string_equal(p.args.rest[0], "ls");
	assert_string_equal(p.args.rest[1], "-l");
	assert_string_equal(p.args.rest[3], "--");
	assert_null(p.global[GLOBAL_JSON]);
}

static void test_dashes_end_options(void **state)
{
	AUTO(cli_parsed_done) struct cli_parsed p = { 0 }, q = { 0 };
	char line[] = "pando run -t 5m -- make test", file[] = "pando run a.py -x";

	OK(parse(&p, line, &err));
	assert_true(p.args.dashes);
	assert_int_equal(p.args.num[2], 300000);
	assert_string_equal(p.args.rest[0], "make");
	OK(parse(&q, file, &err));
	assert_false(q.args.dashes);
	assert_string_equal(q.args.rest[1], "-x");
}

static void test_wrong_lines_are_explained(void **state)
{
	static const struct {
		const char *line, *says;
	} wrong[] = {
		{ "pando frob", "unknown command 'frob'" },
		{ "pando snapshots",
		  "unknown command 'snapshots' (did you mean 'pando snapshot'?)" },
		{ "pando vm craete",
		  "unknown command 'vm craete' (did you mean 'pando vm create'?)" },
		{ "pando vm create --idel 5s", "unknown option '--idel' (did you mean '--idle'?)" },
		{ "pando vm create --nmae=x",
		  "unknown option '--nmae=x' (did you mean '--name'?)" },
		{ "pando vm frob", "pando vm --help" },
		{ "pando vm create --frob", "pando vm create --help" },
		{ "pando vm create -z", "unknown option '-z'" },
		{ "pando vm create --cpu", "needs a value: N" },
		{ "pando vm create --cpu many", "a number from 1" },
		{ "pando vm create --cpu 0", "a number from 1" },
		{ "pando vm create --quiet=yes", "takes no value" },
		{ "pando vm create --keep forever", "sticky ephemeral persistent" },
		{ "pando vm exec web --timeout soon x", "30s, 5m" },
		{ "pando vm get", "this command takes VM" },
		{ "pando vm get a b", "unexpected argument 'b'" },
		{ "pando whoami x", "unexpected argument 'x'" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		AUTO(cli_parsed_done) struct cli_parsed p = { 0 };
		char line[128];

		snprintf(line, sizeof(line), "%s", wrong[i].line);
		FAILS(-EINVAL, parse(&p, line, &err));
		if (!strstr(err.msg, wrong[i].says))
			fail_msg("%s: '%s' does not say '%s'", wrong[i].line, err.msg,
			         wrong[i].says);
	}
}

static void test_noun_with_and_without_verb(void **state)
{
	AUTO(cli_parsed_done) struct cli_parsed p = { 0 }, q = { 0 };
	char bare[] = "pando config", set[] = "pando config set images none";

	OK(parse(&p, bare, &err));
	assert_null(p.verb->name);
	OK(parse(&q, set, &err));
	assert_string_equal(q.verb->name, "set");
	assert_string_equal(q.args.arg[1], "none");
}

/* Every row of the table can be parsed and shown: options differ, counts fit. */
static void test_table_is_sound(void **state)
{
	const struct cli_verb *v;

	for (size_t i = 0; cli_nouns[i]; i++) {
		const struct cli_noun *n = cli_find_noun(cli_nouns[i]->name);

		assert_non_null(n); /* a group without help has a noun elsewhere */
		for (size_t k = 0; (v = cli_nth_verb(n, k)); k++) {
			bool letters[256] = { ['h'] = true };

			assert_non_null(v->run);
			assert_non_null(v->args);
			assert_true(v->help && *v->help);
			assert_ptr_equal(cli_find_verb(n, v->name), v); /* no name twice */
			for (size_t o = 0; o < CLI_OPTS_MAX && v->opts[o].name; o++) {
				unsigned char l = (unsigned char)v->opts[o].letter;

				assert_true(v->opts[o].help && *v->opts[o].help);
				assert_true(!l || !letters[l]);
				letters[l] = true;
				assert_true(v->opts[o].type != CLI_CHOICE || v->opts[o].choices);
				assert_true(v->opts[o].type != CLI_NUMBER ||
				            v->opts[o].max > v->opts[o].min);
				for (size_t q = 0; q < o; q++)
					assert_string_not_equal(v->opts[q].name, v->opts[o].name);
				for (size_t g = 0; g < GLOBAL_MAX; g++)
					assert_string_not_equal(cli_globals[g].name,
					                        v->opts[o].name);
			}
		}
	}
}

static void test_durations(void **state)
{
	static const struct {
		const char *text;
		long long ms;
	} good[] = { { "30", 30000 },   { "30s", 30000 },   { "500ms", 500 }, { "5m", 300000 },
		     { "2h", 7200000 }, { "1d", 86400000 }, { "0", 0 } };
	static const char *const bad[] = {
		"", "s", "-1", "5 m", "1w", "99999999999999999999d", "9223372036854775807d"
	};
	long long ms = 0;

	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		assert_int_equal(cli_duration(good[i].text, &ms), 0);
		assert_int_equal(ms, good[i].ms);
	}
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(cli_duration(bad[i], &ms), -EINVAL);
}

/* ---- config ---- */

static void test_config_lines(void **state)
{
	struct config cf;

	OK(config_parse("# c\n\n url = http://a:1 \nkey=pando_x\n", &cf, &err));
	assert_string_equal(cf.value[CONFIG_URL], "http://a:1");
	assert_string_equal(cf.value[CONFIG_KEY], "pando_x");
	assert_string_equal(cf.value[CONFIG_IMAGES], "");
	FAILS(-EINVAL, config_parse("url = a\nnonsense\n", &cf, &err));
	assert_non_null(strstr(err.msg, "line 2"));
	FAILS(-EINVAL, config_parse("colour = red\n", &cf, &err));
}

static void clear_env(void)
{
	static const char *const names[] = { "PANDO_API_URL",     "PANDO_URL",
		                             "FREESTYLE_API_URL", "PANDO_API_KEY",
		                             "FREESTYLE_API_KEY", "PANDO_DATA_DIR",
		                             "PANDO_LISTEN",      "XDG_CONFIG_HOME" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		unsetenv(names[i]);
}

static void test_config_file_and_order(void **state)
{
	struct tmpdir d;
	struct config cf = { 0 };
	struct target t;
	struct stat st;
	char path[300];

	assert_int_equal(tmpdir_make(&d), 0);
	clear_env();
	setenv("HOME", d.path, 1);
	snprintf(cf.value[CONFIG_URL], CONFIG_VALUE_MAX, "http://mine:1");
	snprintf(cf.value[CONFIG_KEY], CONFIG_VALUE_MAX, "pando_mine");
	OK(config_save(&cf, &err));
	OK(config_path(path, sizeof(path), &err));
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);

	OK(target_find(NULL, NULL, &t, &err));
	assert_string_equal(t.url, "http://mine:1");
	assert_string_equal(t.key, "pando_mine");

	/* the key of one server is not told to another */
	snprintf(path, sizeof(path), "%s/none", d.path);
	setenv("PANDO_API_URL", "https://theirs/", 1);
	setenv("PANDO_DATA_DIR", path, 1);
	assert_true(target_find(NULL, NULL, &t, &err) < 0);
	assert_non_null(strstr(err.msg, "pando login"));
	assert_string_equal(t.url, "https://theirs");
	assert_string_equal(t.key, "");
	/* the one to log in to is the one that every other command would use */
	OK(target_find_url(NULL, NULL, &t, &err));
	assert_string_equal(t.url, "https://theirs");

	setenv("PANDO_API_KEY", "pando_env", 1);
	OK(target_find(NULL, NULL, &t, &err));
	assert_string_equal(t.key, "pando_env");
	assert_string_equal(t.key_from, "PANDO_API_KEY");
	OK(target_find("here:2", NULL, &t, &err));
	assert_string_equal(t.url, "http://here:2");
	FAILS(-EINVAL, target_find("ftp://x", NULL, &t, &err));

	/* a data directory brings its own key, whatever the environment says */
	OK(io_write_file(AT_FDCWD, tmpdir_file(&d, "api-key", path, sizeof(path)), "pando_dir\n",
	                 10, 0600, &err));
	OK(io_write_file(AT_FDCWD, tmpdir_file(&d, "pando.conf", path, sizeof(path)),
	                 "PANDO_LISTEN = \"0.0.0.0:99\"\n", 28, 0600, &err));
	OK(target_find(NULL, d.path, &t, &err));
	assert_string_equal(t.key, "pando_dir");
	assert_string_equal(t.url, "http://127.0.0.1:99");
	clear_env();
	assert_int_equal(tmpdir_remove(&d), 0);
}

/* ---- names ---- */

static void test_names_and_prefixes(void **state)
{
	autojson json_t *rows =
	        json_pack("[{s:s, s:s}, {s:s, s:s}, {s:s, s:n}, {s:s, s:s, s:b}]", "id", "abcd1",
	                  "name", "web", "id", "abce2", "name", "web", "id", "xyz3", "name", "id",
	                  "q9", "name", "old", "deleted", 1);
	const json_t *row;
	size_t n;

	row = resolve_pick(rows, "id", "xy", &n);
	assert_string_equal(cli_str(row, "id"), "xyz3");
	row = resolve_pick(rows, "id", "abcd1", &n);
	assert_string_equal(cli_str(row, "id"), "abcd1");
	assert_null(resolve_pick(rows, "id", "web", &n));
	assert_int_equal(n, 2);
	assert_null(resolve_pick(rows, "id", "abc", &n));
	assert_int_equal(n, 2);
	assert_null(resolve_pick(rows, "id", "old", &n));
	assert_int_equal(n, 0);
	assert_null(resolve_pick(rows, "id", "", &n));
	assert_int_equal(n, 0);
}

static void test_command_lines_for_a_shell(void **state)
{
	const char *one[] = { "ls | wc -l" }, *many[] = { "echo", "a b", "it's", "", "x=1" };
	autofree char *a = exec_command(one, 1), *b = exec_command(many, 5);

	assert_string_equal(a, "ls | wc -l");
	assert_string_equal(b, "echo 'a b' 'it'\\''s' '' x=1");
}

/* ---- events ---- */

struct heard {
	int n, stop_at;
	char text[256];
};

static int on_event(void *ctx, const char *event, const json_t *data)
{
	struct heard *h = ctx;
	size_t n = 0;
	autofree unsigned char *p = sse_bytes(data, &n);

	snprintf(h->text + strlen(h->text), sizeof(h->text) - strlen(h->text), "%s:%.*s;", event,
	         (int)n, p ? (const char *)p : "");
	return ++h->n == h->stop_at ? 7 : 0;
}

static void test_events_in_any_pieces(void **state)
{
	static const char wire[] =
	        ": beat\n\nevent: stdout\ndata: {\"data\":\"h\\u00e9\",\"encoding\":\"utf8\"}\n\n"
	        "event: stderr\r\ndata: {\"data\":\"AAE=\",\"encoding\":\"base64\"}\r\n\r\n"
	        "event: exit\ndata: {\"statusCode\":3}\n\n";

	for (size_t piece = 1; piece < sizeof(wire); piece += 7) {
		struct heard h = { 0 };
		struct sse_reader r = { .fn = on_event, .ctx = &h };

		for (size_t i = 0; i < sizeof(wire) - 1; i += piece)
			assert_int_equal(sse_feed(&r, wire + i, MIN(piece, sizeof(wire) - 1 - i)),
			                 0);
		assert_int_equal(h.n, 3);
		assert_memory_equal(h.text, "stdout:h\xc3\xa9;stderr:", 18);
		sse_done(&r);
	}
}

static void test_events_stop_and_broken_base64(void **state)
{
	static const char wire[] = "event: a\ndata: {}\n\nevent: b\ndata: {}\n\n";
	struct heard h = { .stop_at = 1 };
	struct sse_reader r = { .fn = on_event, .ctx = &h };
	size_t n;

	assert_int_equal(sse_feed(&r, wire, sizeof(wire) - 1), 7);
	assert_int_equal(h.n, 1);
	sse_done(&r);
	assert_null(base64_decode("abc", &n));
	assert_null(base64_decode("a!b=", &n));
}

/* ---- the escape key ---- */

static void test_escape_key(void **state)
{
	struct pty_escape e = { .key = 29 };
	autobuf struct buf out = { 0 };
	size_t used;
	int key;

	assert_int_equal(pty_escape_parse("ctrl-]", &key), 0);
	assert_int_equal(key, 29);
	assert_int_equal(pty_escape_parse("^a", &key), 0);
	assert_int_equal(key, 1);
	assert_int_equal(pty_escape_parse("none", &key), 0);
	assert_int_equal(key, -1);
	assert_int_equal(pty_escape_parse("x", &key), -EINVAL);
	assert_int_equal(pty_escape_parse("ctrl-", &key), -EINVAL);

	assert_int_equal(pty_escape_feed(&e, (const uint8_t *)"ab\035", 3, &out, &used),
	                 PTY_NOTHING);
	assert_int_equal(out.len, 2);
	assert_int_equal(pty_escape_feed(&e, (const uint8_t *)"dzz", 3, &out, &used), PTY_DETACH);
	assert_int_equal(used, 1);
	assert_int_equal(pty_escape_feed(&e, (const uint8_t *)"\035\035\035x", 4, &out, &used),
	                 PTY_NOTHING);
	assert_int_equal(out.len, 5);
	assert_memory_equal(out.p, "ab\035\035x", 5);
	assert_int_equal(pty_escape_feed(&e, (const uint8_t *)"\035k", 2, &out, &used), PTY_KILL);
}

/* ---- cells ---- */

static void test_whole_cells(void **state)
{
	static const struct {
		const char *language, *text;
		bool more;
	} cells[] = {
		{ "python", "1 + 1\n", false },
		{ "python", "def f():\n", true },
		{ "python", "def f():\n  return 1\n", true },
		{ "python", "def f():\n  return 1\n\n", false },
		{ "python", "x = (1,\n", true },
		{ "python", "x = (1,\n2)\n", false },
		{ "python", "s = '''a\n", true },
		{ "python", "s = '''a\n'''\n", false },
		{ "python", "d = {'a': 1}\n", false },
		{ "python", "x = ':'  # (\n", false },
		{ "python", "if a: b()\n", false },
		{ "python", "a = 1 + \\\n", true },
		{ "python", "@cached\n", true },
		{ "python", "%%time\nx\n", true },
		{ "python", "%%time\nx\n\n", false },
		{ "python", "'unfinished\n", false },
		{ "javascript", "function f() {\n", true },
		{ "javascript", "function f() {\n}\n", false },
		{ "javascript", "`a\n", true },
		{ "javascript", "/* {\n", true },
		{ "javascript", "a // {\n", false },
		{ "typescript", "const a: string = '{'\n", false },
		{ "bash", "echo hi\n", false },
		{ "bash", "for i in 1 2; do\n", true },
		{ "bash", "for i in 1 2; do\necho $i; done\n", false },
		{ "bash", "if true; then echo do if; fi\n", false },
		{ "bash", "if true\n", true },
		{ "bash", "echo 'a\n", true },
		{ "bash", "f() {\n", true },
		{ "bash", "f() {\n ls; }\n", false },
		{ "bash", "ls \\\n", true },
		{ "bash", "echo done fi }\n", false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cells); i++)
		if (repl_wants_more(cells[i].language, cells[i].text) != cells[i].more)
			fail_msg("%s: '%s' should %sgo on", cells[i].language, cells[i].text,
			         cells[i].more ? "" : "not ");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_options_of_all_kinds),
		cmocka_unit_test(test_rest_is_not_ours),
		cmocka_unit_test(test_dashes_end_options),
		cmocka_unit_test(test_wrong_lines_are_explained),
		cmocka_unit_test(test_noun_with_and_without_verb),
		cmocka_unit_test(test_table_is_sound),
		cmocka_unit_test(test_durations),
		cmocka_unit_test(test_config_lines),
		cmocka_unit_test(test_config_file_and_order),
		cmocka_unit_test(test_names_and_prefixes),
		cmocka_unit_test(test_command_lines_for_a_shell),
		cmocka_unit_test(test_events_in_any_pieces),
		cmocka_unit_test(test_events_stop_and_broken_base64),
		cmocka_unit_test(test_escape_key),
		cmocka_unit_test(test_whole_cells),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
