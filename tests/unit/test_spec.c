/* SPDX-License-Identifier: Apache-2.0 */
/* test_spec.c - requests to layers: what is taken, what is refused and with which code, what the
 * key depends on */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/auto.h"
#include "build/build_internal.h"
#include "tests/unit/check.h"

static const struct spec_limits limits = { 2, 2048, 20480, 32, 65536, 204800, 256 };

static int parse(const char *text, struct spec *s, json_t **extra, struct err *e)
{
	autojson json_t *j = NULL;
	struct spec_ctx c = { .limits = &limits,
		              .tag = ERR_BAD_REQUEST,
		              .extra = *extra = json_object() };

	assert_int_equal(json_text_parse(text, strlen(text), &j, e), 0);
	return spec_parse(j, &c, s, e);
}

static void take(const char *text, struct spec *s)
{
	autojson json_t *extra = NULL;

	OK(parse(text, s, &extra, &err));
	assert_int_equal(json_object_size(extra), 0);
}

/* want: members that the error's body must have, as JSON */
static void refuse(const char *text, const char *tag, const char *want)
{
	autojson json_t *extra = NULL, *members = NULL;
	autospec struct spec s;
	struct err e = { 0 };
	const char *key;
	json_t *v;

	if (parse(text, &s, &extra, &e) >= 0)
		fail_msg("taken: %s", text);
	if (!e.tag || strcmp(err_code_name(e.tag), tag) != 0 || !e.msg[0])
		fail_msg("%s: %s (%s), not %s", text, e.tag ? err_code_name(e.tag) : "no code",
		         e.msg, tag);
	members = json_loads(want, 0, NULL);
	assert_non_null(members);
	json_object_foreach(members, key, v) if (!json_equal(json_object_get(extra, key), v))
	        fail_msg("%s: '%s' is not there, or another: %s", text, key, json_dumps(extra, 0));
}

static void empty_is_no_layer(void **state)
{
	static const char *const bodies[] = {
		"{}",
		"{\"spec\":{\"aptDeps\":[],\"name\":null}}",
		"{\"spec\":{\"snapshot\":{\"snapshot\":{\"systemd\":{\"services\":[]}}},"
		"\"skipCache\":true}}",
		"{\"git\":{\"config\":{}},\"users\":[],\"additionalFiles\":{},\"nics\":null}",
		"{\"template\":{\"vcpuCount\":2,\"memSizeGb\":2,\"rootfsSizeGb\":20}}",
		"{\"template\":null,\"spec\":null,\"snapshotId\":null,\"recreate\":false,\"x\":{"
		"\"y\":1}}",
		"{\"ports\":[],\"spec\":{\"ports\":null,\"unknown\":7}}",
	};

	for (size_t i = 0; i < ARRAY_SIZE(bodies); i++) {
		autospec struct spec s;

		take(bodies[i], &s);
		assert_int_equal(s.n, 0);
	}
}

static void layers_from_the_inside_out(void **state)
{
	autospec struct spec s;

	take("{\"users\":[{\"name\":\"top\"}],"
	     "\"spec\":{\"name\":\"n\",\"workdir\":\"/outer\",\"idleTimeoutSeconds\":5,"
	     "\"snapshot\":{\"aptDeps\":[],\"snapshot\":{\"aptDeps\":[\"inner\"],\"vcpuCount\":4}}}"
	     "}",
	     &s);
	assert_int_equal(s.n, 4);
	assert_int_equal(s.layers[0].vcpus, 4);
	assert_string_equal(json_string_value(json_array_get(s.layers[1].apt, 0)), "inner");
	assert_string_equal(s.layers[2].workdir, "/outer");
	assert_int_equal(json_array_size(s.layers[3].users), 1);
	assert_int_equal(s.idle_timeout_s, 5);
	assert_string_equal(s.name, "n");
}

static void sources(void **state)
{
#define A "\"sc-aaaaaaaaaaaaaaaaaaaa\""
#define B "\"sc-bbbbbbbbbbbbbbbbbbbb\""
	static const char *const from_a[] = {
		"{\"snapshotId\":" A "}",
		"{\"spec\":{\"snapshotId\":" A "}}",
		"{\"spec\":{\"snapshot\":{\"snapshotId\":" A "}}}",
		"{\"spec\":{\"snapshotId\":" A
		",\"snapshot\":{\"aptDeps\":[\"xx\"]}}}", /* the SDK's */
		"{\"snapshotId\":" A ",\"spec\":{\"snapshotId\":" A ",\"snapshot\":{}}}",
		"{\"template\":{\"snapshotId\":" A ",\"vcpuCount\":2}}",
	};

	for (size_t i = 0; i < ARRAY_SIZE(from_a); i++) {
		autospec struct spec s;

		take(from_a[i], &s);
		assert_string_equal(s.snapshot_id, "sc-aaaaaaaaaaaaaaaaaaaa");
	}
	refuse("{\"snapshotId\":\"sc-1\"}", "INVALID_SNAPSHOT_ID", "{}");
	refuse("{\"snapshotId\":" A ",\"spec\":{\"snapshotId\":" B "}}",
	       "CONFLICTING_SPEC_SOURCES_ERROR", "{\"depth\":0}");
	refuse("{\"spec\":{\"snapshotId\":" A ",\"snapshot\":{\"snapshotId\":" B "}}}",
	       "CONFLICTING_SPEC_SOURCES_ERROR", "{\"depth\":1,\"fieldA\":\"snapshotId\"}");
	refuse("{\"spec\":{\"snapshot\":{\"snapshotId\":" A ",\"baseImage\":"
	       "{\"dockerfileContent\":\"FROM x\"}}}}",
	       "CONFLICTING_SPEC_SOURCES_ERROR",
	       "{\"depth\":1,\"fieldA\":\"snapshotId\",\"fieldB\":\"baseImage\"}");
	refuse("{\"spec\":{\"aptDeps\":[\"xx\"]},\"template\":{\"aptDeps\":[\"xx\"]}}",
	       "CONFLICTING_SPEC_SOURCES_ERROR", "{\"fieldA\":\"spec\",\"fieldB\":\"template\"}");
	refuse("{\"spec\":{\"snapshot\":{\"snapshotId\":" A ",\"snapshot\":{}}}}",
	       "NON_LEAF_LAYER_FIELD_ERROR", "{\"depth\":1,\"field\":\"snapshotId\"}");
	refuse("{\"spec\":{\"vcpuCount\":4,\"snapshot\":{}}}", "NON_LEAF_LAYER_FIELD_ERROR",
	       "{\"depth\":0,\"field\":\"vcpuCount\"}");
	refuse("{\"spec\":{\"baseImage\":{\"dockerfileContent\":\"FROM x\"},\"snapshot\":{}}}",
	       "NON_LEAF_LAYER_FIELD_ERROR", "{\"depth\":0,\"field\":\"baseImage\"}");
	refuse("{\"spec\":{\"baseImage\":{\"dockerfileContent\":\"FROM x\"}}}", "BAD_REQUEST",
	       "{}");
}

static void sizes(void **state)
{
	autospec struct spec s;

	take("{\"template\":{\"vcpuCount\":1,\"memSizeGb\":0.5,\"rootfsSizeGb\":40}}", &s);
	assert_int_equal(s.n, 1);
	assert_int_equal(s.layers[0].vcpus, 1);
	assert_int_equal(s.layers[0].mem_mb, 512);
	assert_int_equal(s.layers[0].disk_mb, 40960);
	refuse("{\"spec\":{\"vcpuCount\":3}}", "CREATE_VM_VCPU_NOT_POWER_OF_TWO", "{\"got\":3}");
	refuse("{\"spec\":{\"vcpuCount\":64}}", "CREATE_VM_VCPU_OUT_OF_RANGE",
	       "{\"got\":64,\"max\":32}");
	refuse("{\"spec\":{\"vcpuCount\":-1}}", "CREATE_VM_VCPU_OUT_OF_RANGE", "{\"got\":-1}");
	refuse("{\"vcpuCount\":1.5}", "CREATE_VM_VCPU_NOT_POWER_OF_TWO", "{\"got\":1.5}");
	refuse("{\"spec\":{\"memSizeGb\":3}}", "CREATE_VM_MEM_NOT_POWER_OF_TWO", "{\"got\":3}");
	refuse("{\"spec\":{\"memSizeGb\":1e300}}", "CREATE_VM_MEM_OUT_OF_RANGE", "{\"max\":64}");
	refuse("{\"spec\":{\"memSizeGb\":\"8\"}}", "BAD_REQUEST", "{}");
	refuse("{\"spec\":{\"rootfsSizeGb\":10}}", "CREATE_VM_ROOTFS_OUT_OF_RANGE",
	       "{\"got\":10,\"min\":20,\"max\":200}");
	refuse("{\"spec\":{\"rootfsSizeGb\":1000000000000}}", "CREATE_VM_ROOTFS_OUT_OF_RANGE",
	       "{}");
}

static void what_is_wrong_is_refused(void **state)
{
	static const struct {
		const char *body, *tag;
	} cases[] = {
		{ "{\"spec\":[]}", "BAD_REQUEST" },
		{ "{\"spec\":{\"snapshot\":7}}", "BAD_REQUEST" },
		{ "{\"spec\":{\"domains\":[{\"domain\":\"a\"}]}}", "BAD_REQUEST" },
		{ "{\"users\":{}}", "BAD_REQUEST" },
		{ "{\"users\":[{}]}", "BAD_REQUEST" },
		{ "{\"users\":[{\"name\":\"a b\"}]}", "VALIDATION_ERROR" },
		{ "{\"users\":[{\"name\":\"-r\"}]}", "VALIDATION_ERROR" },
		{ "{\"users\":[{\"name\":\"a\"},{\"name\":\"a\"}]}", "DUPLICATE_USER_NAME" },
		{ "{\"users\":[{\"name\":\"a\",\"groups\":[\"\"]}]}", "USER_GROUP_EMPTY" },
		{ "{\"users\":[{\"name\":\"a\",\"uid\":5}]}", "USER_SYSTEM_FLAG_MISMATCH" },
		{ "{\"users\":[{\"name\":\"a\",\"uid\":5000,\"system\":true}]}",
		  "USER_SYSTEM_FLAG_MISMATCH" },
		{ "{\"users\":[{\"name\":\"a\",\"uid\":-1}]}", "USER_UID_OUT_OF_RANGE" },
		{ "{\"users\":[{\"name\":\"a\",\"uid\":4294967295}]}", "USER_UID_OUT_OF_RANGE" },
		{ "{\"users\":[{\"name\":\"a\",\"home\":\"rel\"}]}", "USER_HOME_INVALID" },
		{ "{\"users\":[{\"name\":\"a\",\"home\":\"/a/../b\"}]}", "USER_HOME_INVALID" },
		{ "{\"users\":[{\"name\":\"a\",\"shell\":\"sh\"}]}", "USER_SHELL_INVALID" },
		{ "{\"users\":[{\"name\":\"a\",\"gecos\":\"x:y\"}]}", "VALIDATION_ERROR" },
		{ "{\"groups\":[{\"name\":\"\"}]}", "GROUP_NAME_EMPTY" },
		{ "{\"groups\":[{\"name\":\"A\"}]}", "GROUP_NAME_INVALID_CHARS" },
		{ "{\"groups\":[{\"name\":\"root\"}]}", "GROUP_NAME_RESERVED" },
		{ "{\"groups\":[{\"name\":\"abcdefghijklmnopqrstuvwxyzabcdefg\"}]}",
		  "GROUP_NAME_TOO_LONG" },
		{ "{\"groups\":[{\"name\":\"a\"},{\"name\":\"a\"}]}", "DUPLICATE_GROUP_NAME" },
		{ "{\"additionalFiles\":{\"rel\":{\"content\":\"\"}}}", "BAD_REQUEST" },
		{ "{\"additionalFiles\":{\"/a/../b\":{\"content\":\"\"}}}", "BAD_REQUEST" },
		{ "{\"additionalFiles\":{\"/a/\":{\"content\":\"\"}}}", "BAD_REQUEST" },
		{ "{\"additionalFiles\":{\"/a\":{}}}", "BAD_REQUEST" },
		{ "{\"additionalFiles\":{\"/a\":{\"content\":7}}}", "BAD_REQUEST" },
		{ "{\"additionalFiles\":{\"/a\":{\"content\":\"a\",\"encoding\":\"base64\"}}}",
		  "BAD_REQUEST" },
		{ "{\"additionalFiles\":{\"/a\":{\"content\":\"a=b=\",\"encoding\":\"base64\"}}}",
		  "BAD_REQUEST" },
		{ "{\"additionalFiles\":{\"/a\":{\"content\":\"\",\"encoding\":\"rot13\"}}}",
		  "BAD_REQUEST" },
		{ "{\"aptDeps\":\"curl\"}", "BAD_REQUEST" },
		{ "{\"aptDeps\":[\"--force-yes\"]}", "BAD_REQUEST" },
		{ "{\"aptDeps\":[\"a b\"]}", "BAD_REQUEST" },
		{ "{\"aptDeps\":[\"curl;reboot\"]}", "BAD_REQUEST" },
		{ "{\"aptDeps\":[\"\"]}", "BAD_REQUEST" },
		{ "{\"git\":{\"repos\":[{\"repo\":\"https://x/y\",\"path\":\"rel\"}]}}",
		  "INVALID_GIT_REPO_SPEC_ERROR" },
		{ "{\"git\":{\"repos\":[{\"repo\":\"--upload-pack=x\",\"path\":\"/a\"}]}}",
		  "INVALID_GIT_REPO_SPEC_ERROR" },
		{ "{\"git\":{\"repos\":[{\"repo\":\"ext::sh -c x\",\"path\":\"/a\"}]}}",
		  "INVALID_GIT_REPO_SPEC_ERROR" },
		{ "{\"git\":{\"repos\":[{\"repo\":\"https://x/y\",\"path\":\"/"
		  "a\",\"rev\":\"-f\"}]}}",
		  "INVALID_GIT_REPO_SPEC_ERROR" },
		{ "{\"gitRepos\":[{\"path\":\"/a\"}]}", "INVALID_GIT_REPO_SPEC_ERROR" },
		{ "{\"git\":{\"repos\":[{\"repo\":\"https://x\",\"path\":\"/a\"}]},"
		  "\"gitRepos\":[{\"repo\":\"https://x\",\"path\":\"/a\"}]}",
		  "INVALID_GIT_REPO_SPEC_ERROR" },
		{ "{\"workdir\":\"\"}", "WORKDIR_EMPTY" },
		{ "{\"workdir\":\"rel\"}", "BAD_REQUEST" },
#define SERVICE(members) "{\"systemd\":{\"services\":[{" members "}]}}"
		{ SERVICE("\"exec\":[\"x\"]"), "BAD_REQUEST" },
		{ SERVICE("\"name\":\"\",\"exec\":[\"x\"]"), "SERVICE_NAME_EMPTY" },
		{ SERVICE("\"name\":\"-a\",\"exec\":[\"x\"]"), "SERVICE_NAME_INVALID_PREFIX" },
		{ SERVICE("\"name\":\"a/b\",\"exec\":[\"x\"]"), "SERVICE_NAME_INVALID_CHARS" },
		{ SERVICE("\"name\":\"a\""), "EXEC_EMPTY" },
		{ SERVICE("\"name\":\"a\",\"exec\":[]"), "EXEC_EMPTY" },
		{ SERVICE("\"name\":\"a\",\"exec\":[\"\"]"), "EXEC_EMPTY" },
		{ SERVICE("\"name\":\"a\",\"exec\":[\"x\\nUser=root\"]"), "BAD_REQUEST" },
		{ SERVICE("\"name\":\"a\",\"exec\":[\"x\"],\"mode\":\"often\""), "BAD_REQUEST" },
		{ SERVICE("\"name\":\"a\",\"exec\":[\"x\"],\"user\":\"\""), "USER_EMPTY" },
		{ SERVICE("\"name\":\"a\",\"exec\":[\"x\"],\"group\":\"\""), "GROUP_EMPTY" },
		{ SERVICE("\"name\":\"a\",\"exec\":[\"x\"],\"workdir\":\"\""), "WORKDIR_EMPTY" },
		{ SERVICE("\"name\":\"a\",\"exec\":[\"x\"],\"after\":[\"\"]"),
		  "AFTER_ARRAY_CONTAINS_EMPTY" },
		{ SERVICE("\"name\":\"a\",\"exec\":[\"x\"],\"requires\":[\"\"]"),
		  "REQUIRES_ARRAY_CONTAINS_EMPTY" },
		{ SERVICE("\"name\":\"a\",\"exec\":[\"x\"],\"onFailure\":[\"\"]"),
		  "ON_FAILURE_ARRAY_CONTAINS_EMPTY" },
		{ SERVICE("\"name\":\"a\",\"exec\":[\"x\"],\"wantedBy\":[]"), "WANTED_BY_EMPTY" },
		{ SERVICE("\"name\":\"a\",\"exec\":[\"x\"],\"after\":[\"b c\"]"), "BAD_REQUEST" },
		{ SERVICE("\"name\":\"a\",\"exec\":[\"x\"],\"env\":{\"\":\"v\"}"),
		  "ENV_KEY_EMPTY" },
		{ SERVICE("\"name\":\"a\",\"exec\":[\"x\"],\"env\":{\"a=b\":\"v\"}"),
		  "ENV_KEY_CONTAINS_EQUALS" },
		{ SERVICE("\"name\":\"a\",\"exec\":[\"x\"],\"env\":{\"A\":7}"), "BAD_REQUEST" },
		{ SERVICE("\"name\":\"a\",\"exec\":[\"x\"],\"timeoutSec\":-1"), "BAD_REQUEST" },
		{ SERVICE("\"name\":\"a\",\"exec\":[\"x\"],\"restartPolicy\":{\"policy\":\"x\"}"),
		  "BAD_REQUEST" },
		{ "{\"systemd\":{\"services\":[{\"name\":\"a\",\"exec\":[\"x\"]},"
		  "{\"name\":\"a.service\",\"exec\":[\"x\"]}]}}",
		  "BAD_REQUEST" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		refuse(cases[i].body, cases[i].tag, "{}");
}

static void too_many_layers(void **state)
{
	autobuf struct buf b = { 0 };
	autofree char *text = NULL;

	buf_printf(&b, "{\"spec\":{");
	for (int i = 0; i < SPEC_LAYERS_MAX; i++)
		buf_printf(&b, "\"snapshot\":{");
	for (int i = 0; i < SPEC_LAYERS_MAX + 2; i++)
		buf_printf(&b, "}");
	text = buf_take_str(&b);
	refuse(text, "BAD_REQUEST", "{}");
}

/* The key of the outermost layer. */
static void key_of(const char *text, char ret[SPEC_KEY_SIZE])
{
	autospec struct spec s;

	take(text, &s);
	assert_true(s.n > 0);
	OK(base_key("account", "template", s.snapshot_id, ret, &err));
	for (size_t i = 0; i < s.n; i++) {
		char parent[SPEC_KEY_SIZE];

		memcpy(parent, ret, sizeof(parent));
		OK(layer_key(parent, &s.layers[i], ret, &err));
	}
}

static void keys(void **state)
{
	/* the same thing said in other words */
	static const char *const same[] = {
		"{\"spec\":{\"workdir\":\"/w\",\"aptDeps\":[\"aa\",\"bb\"]}}",
		"{\"spec\":{\"aptDeps\":[\"aa\",\"bb\"],\"workdir\":\"/"
		"w\",\"users\":[],\"name\":\"n\"}}",
		"{\"template\":{\"aptDeps\":[\"aa\",\"bb\"],\"workdir\":\"/w\",\"x\":1}}",
		"{\"aptDeps\":[\"aa\",\"bb\"],\"workdir\":\"/w\",\"name\":\"vm\"}",
		"{\"spec\":{\"aptDeps\":[\"aa\",\"bb\"],\"workdir\":\"/w\",\"skipCache\":true,"
		"\"snapshot\":{}}}",
	};
	/* and what makes a difference */
	static const char *const others[] = {
		"{\"spec\":{\"workdir\":\"/w\",\"aptDeps\":[\"bb\",\"aa\"]}}",
		"{\"spec\":{\"workdir\":\"/v\",\"aptDeps\":[\"aa\",\"bb\"]}}",
		"{\"spec\":{\"workdir\":\"/"
		"w\",\"aptDeps\":[\"aa\",\"bb\"],\"discriminator\":\"d\"}}",
		"{\"spec\":{\"workdir\":\"/w\",\"aptDeps\":[\"aa\",\"bb\"],\"vcpuCount\":4}}",
		"{\"spec\":{\"workdir\":\"/w\",\"snapshot\":{\"aptDeps\":[\"aa\",\"bb\"]}}}",
		"{\"spec\":{\"workdir\":\"/w\",\"aptDeps\":[\"aa\",\"bb\"],\"snapshotId\":" A "}}",
		"{\"spec\":{\"workdir\":\"/w\",\"aptDeps\":[\"aabb\"]}}",
	};
	char first[SPEC_KEY_SIZE], k[ARRAY_SIZE(others)][SPEC_KEY_SIZE], a[SPEC_KEY_SIZE];

	key_of(same[0], first);
	assert_int_equal(strlen(first), 64);
	for (size_t i = 1; i < ARRAY_SIZE(same); i++) {
		key_of(same[i], k[0]);
		if (strcmp(first, k[0]) != 0)
			fail_msg("another key: %s", same[i]);
	}
	for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
		key_of(others[i], k[i]);
		assert_string_not_equal(k[i], first);
		for (size_t n = 0; n < i; n++)
			assert_string_not_equal(k[i], k[n]);
	}
	OK(base_key("a", "t", "", a, &err));
	OK(base_key("b", "t", "", k[0], &err));
	OK(base_key("a", "u", "", k[1], &err));
	OK(base_key("at", "", "", k[2], &err));
	for (size_t n = 0; n < 3; n++)
		assert_string_not_equal(a, k[n]);
}

static void canonical_text(void **state)
{
	autospec struct spec s;
	autofree char *text = NULL;

	take("{\"spec\":{\"users\":[{\"name\":\"u\"}],\"groups\":[{\"name\":\"g\",\"gid\":7}],"
	     "\"additionalFiles\":{\"/b\":{\"content\":\"x\"},\"/"
	     "a\":{\"content\":\"eA==\",\"encoding\":"
	     "\"base64\",\"executable\":true}},\"workdir\":\"/w\"}}",
	     &s);
	text = layer_text(&s.layers[0]);
	assert_string_equal(
	        text,
	        "{\"files\":{\"/a\":{\"base64\":true,\"content\":\"eA==\",\"executable\":true},"
	        "\"/b\":{\"base64\":false,\"content\":\"x\",\"executable\":false}},"
	        "\"groups\":[{\"gid\":7,\"name\":\"g\",\"system\":false}],"
	        "\"users\":[{\"home\":\"/home/u\",\"name\":\"u\",\"shell\":\"/bin/"
	        "bash\",\"system\":"
	        "false}],\"workdir\":\"/w\"}");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(empty_is_no_layer),
		cmocka_unit_test(layers_from_the_inside_out),
		cmocka_unit_test(sources),
		cmocka_unit_test(sizes),
		cmocka_unit_test(what_is_wrong_is_refused),
		cmocka_unit_test(too_many_layers),
		cmocka_unit_test(keys),
		cmocka_unit_test(canonical_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
