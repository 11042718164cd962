/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_build.c - which layers are built, which come from the cache, and what is kept when it goes
 * wrong
 *
 * The manager is the real one (tests/vm/rig.h). Steps of a build must not run on this host: the
 * bash of its guests is a script that notes their variables and says yes, unless the variable NAME
 * is "exists" (66), "bad" (3) or "block" (waits for release()); a service called broken has failed.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/io.h"
#include "build/build_internal.h"
#include "tests/unit/check.h"
#include "tests/vm/rig.h"
#include "vm/stage.h"

#define ACCOUNT "a"
#define CACHE_MAX 6

struct fx {
	struct rig *rig;
	struct store *store; /* weak */
	struct builder *b;
	json_t *extra; /* of the last call */
	struct vm_info vm;
	unsigned thawed, frozen;
};

static const struct builder_conf conf = { 60,
	                                  CACHE_MAX,
	                                  { 2, 2048, 20480, 32, 65536, 204800, 256 } };

static const char bash[] =
        "[ \"$PANDO_STEP\" ] || exec /bin/bash \"$@\"\n"
        "env >>$dir/steps\n"
        "case $NAME in\n"
        "exists) exit 66 ;;\n"
        "bad) printf 'no\\377 good\\n' >&2; exit 3 ;;\n"
        "block) echo >>$dir/blocked; cat $dir/gate ;;\n"
        "esac\n"
        "case $PANDO_STEP in\n"
        "*'systemctl show'*)\n"
        "	gap=\n"
        "	for u in $UNITS; do\n"
        "		set -- success active running 0\n"
        "		case $u in broken.*) set -- exit-code failed failed 7 ;; esac\n"
        "		printf \"${gap}Result=$1\\nActiveState=$2\\nSubState=$3\\n\"\n"
        "		printf \"ExecMainStatus=$4\\nLoadState=loaded\\n\"\n"
        "		gap='\\n'\n"
        "	done ;;\n"
        "*list-units*)\n"
        "	echo broken.service loaded failed failed Broken\n"
        "	echo other.service loaded failed failed Other\n"
        "	echo fine.service loaded active running Fine\n"
        "	echo nonsense ;;\n"
        "*'journalctl -u'*) printf 'its log\\377\\n' ;;\n"
        "esac\n"
        "exit 0\n";

static const char *file_of(const struct fx *f, const char *name, char *buf, size_t size)
{
	snprintf(buf, size, "%s/%s", f->rig->dir, name);
	return buf;
}

/* The script stands where guests look first, in memory that is theirs. */
static void make_bash(struct fx *f)
{
	char path[256], command[512];
	struct vm_info vm;
	FILE *file = fopen(file_of(f, "bash", path, sizeof(path)), "w");

	assert_non_null(file);
	fprintf(file, "#!/bin/sh\ndir=%s\n%s", f->rig->dir, bash);
	assert_int_equal(fclose(file), 0);
	assert_int_equal(mkfifo(file_of(f, "gate", path, sizeof(path)), 0600), 0);
	snprintf(command, sizeof(command), "install -m 755 %s/bash /usr/local/sbin/bash",
	         f->rig->dir);
	OK(rig_create(f->rig, NULL, &vm, &err));
	OK(rig_exec(f->rig, vm.id, command, NULL, 0, &err));
	OK(vmm_delete(f->rig->vmm, RIG_ACCOUNT, vm.id, NULL, &err));
}

static int on_call(void *ctx, enum fake_face face, const char *what, const char *object)
{
	struct fx *f = ctx;

	if (face == FAKE_ENGINE && strcmp(what, "load") == 0)
		__atomic_add_fetch(&f->thawed, 1, __ATOMIC_RELAXED);
	if (face == FAKE_ENGINE && strcmp(what, "freeze: write memory") == 0)
		__atomic_add_fetch(&f->frozen, 1, __ATOMIC_RELAXED);
	return 0;
}

static int setup(void **state)
{
	struct fx *f = calloc(1, sizeof(*f));

	*state = f;
	if (!f)
		return -1;
	f->rig = rig_new(&(struct rig_opts){
	        .times = &vm_times_usual, .vcpus = 2, .mem_mb = 2048, .disk_mb = 20480 });
	f->store = f->rig->store;
	make_bash(f);
	f->rig->ctx = f;
	f->rig->on_call = on_call;
	OK(store_account_create(f->store, ACCOUNT, ACCOUNT, &err));
	OK(store_account_create(f->store, "b", "b", &err));
	return builder_new(&conf, f->store, f->rig->vmm, &f->b, &err);
}

static int teardown(void **state)
{
	struct fx *f = *state;

	json_decref(f->extra);
	builder_free(f->b);
	f->rig = rig_free(f->rig);
	free(f);
	return 0;
}

/* Every step's script and variables so far, one after the other; caller frees. */
static char *steps_of(struct fx *f)
{
	char path[256], *text = NULL;

	if (io_read_file(AT_FDCWD, file_of(f, "steps", path, sizeof(path)), 1 << 24, &text, NULL) <
	    0)
		return strdup("");
	return text;
}

static size_t n_steps(struct fx *f)
{
	autofree char *text = steps_of(f);
	size_t n = 0;

	for (const char *p = text; (p = strstr(p, "PANDO_STEP=")); p++)
		n++;
	return n;
}

static void parse(const char *text, struct spec *s)
{
	autojson json_t *j = NULL, *extra = json_object();
	struct spec_ctx c = { .limits = &conf.limits, .tag = ERR_BAD_REQUEST, .extra = extra };

	OK(json_text_parse(text, strlen(text), &j, &err));
	OK(spec_parse(j, &c, s, &err));
}

static int make_as(struct fx *f, const char *account, const char *text, json_t *extra,
                   struct vm_info *ret, struct err *e)
{
	struct build_opts o = { .account = account, .request_id = "ri-1", .extra = extra };
	struct vm_create_opts c = { .name = "n", .idle_timeout_s = -1 };
	autospec struct spec s;

	parse(text, &s);
	return build_vm(f->b, &s, &o, &c, ret, e);
}

static int make(struct fx *f, const char *text, struct err *e)
{
	json_decref(f->extra);
	f->extra = json_object();
	return make_as(f, ACCOUNT, text, f->extra, &f->vm, e);
}

#define L1 "{\"users\":[{\"name\":\"one\"}]}"
#define L2 "{\"workdir\":\"/srv/two\",\"snapshot\":" L1 "}"
#define SPEC(members) "{\"spec\":{" members "}}"

static void second_time_nothing_is_built(void **state)
{
	struct fx *f = *state;
	struct store_build b;
	autofree struct store_phase *p = NULL;
	char id[ID_SIZE];
	size_t n, steps;

	OK(make(f, "{\"spec\":" L2 "}", &err));
	assert_int_equal(f->thawed, 1); /* one VM for both layers */
	steps = n_steps(f);
	assert_true(steps >= 1);
	assert_int_equal(f->frozen, 2);
	assert_string_equal(f->vm.workdir, "/srv/two");
	snprintf(id, sizeof(id), "%s", f->vm.build_id);
	OK(build_get(f->b, ACCOUNT, id, &b, &err));
	assert_int_equal(b.state, BUILD_SUCCEEDED);
	assert_string_equal(b.request_id, "ri-1");
	assert_string_equal(b.planned,
	                    "layer-1/users\nlayer-1/freeze\nlayer-2/workdir\nlayer-2/freeze");
	OK(build_phases(f->b, ACCOUNT, id, &p, &n, &err));
	assert_int_equal(n, 4);
	assert_string_equal(p[2].name, "layer-2/workdir");

	OK(make(f, "{\"spec\":" L2 "}", &err));
	assert_int_equal(n_steps(f), steps);
	assert_int_equal(f->frozen, 2);
	assert_string_equal(f->vm.build_id, id);
	assert_string_equal(f->vm.workdir, "/srv/two");
	rig_check(f->rig); /* nothing is held any more */

	FAILS(-ENOENT, build_get(f->b, "b", id, &b, &err));
	FAILS(-ENOENT, build_phases(f->b, "b", id, &p, &n, &err));
}

static void what_is_below_is_taken(void **state)
{
	struct fx *f = *state;

	OK(make(f, "{\"spec\":" L2 "}", &err));
	OK(make(f, "{\"spec\":{\"workdir\":\"/srv/other\",\"snapshot\":" L1 "}}", &err));
	assert_int_equal(f->thawed, 2);
	assert_int_equal(f->frozen, 3);
	/* another account has nothing of it */
	OK(make_as(f, "b", "{\"spec\":" L2 "}", f->extra, &f->vm, &err));
	assert_int_equal(f->frozen, 5);
	rig_check(f->rig); /* nothing is held any more */
}

static void skip_cache_builds_and_replaces(void **state)
{
	struct fx *f = *state;
	char first[ID_SIZE];

	OK(make(f, "{\"spec\":" L2 "}", &err));
	snprintf(first, sizeof(first), "%s", f->vm.build_id);
	OK(make(f, "{\"spec\":{\"skipCache\":true,\"workdir\":\"/srv/two\",\"snapshot\":" L1 "}}",
	        &err));
	assert_int_equal(f->frozen, 3);
	assert_string_not_equal(f->vm.build_id, first);
	snprintf(first, sizeof(first), "%s", f->vm.build_id);
	OK(make(f, "{\"spec\":" L2 "}", &err));
	assert_string_equal(f->vm.build_id, first);
	/* an inner one that is rebuilt has others on top of it */
	OK(make(f,
	        "{\"spec\":{\"workdir\":\"/srv/two\",\"snapshot\":{\"skipCache\":true,\"users\":"
	        "[{\"name\":\"one\"}]}}}",
	        &err));
	assert_int_equal(f->frozen, 5);
	rig_check(f->rig); /* nothing is held any more */
}

static void a_full_cache_forgets(void **state)
{
	struct fx *f = *state;
	struct timespec tick = { .tv_nsec = 2000000 }; /* so that no two were used at one time */

	for (int i = 0; i < CACHE_MAX + 1; i++) {
		char text[128];

		snprintf(text, sizeof(text), SPEC("\"workdir\":\"/srv/%d\""), i);
		OK(make(f, text, &err));
		nanosleep(&tick, NULL);
	}
	assert_int_equal(f->frozen, CACHE_MAX + 1);
	OK(make(f, SPEC("\"workdir\":\"/srv/1\""), &err));
	assert_int_equal(f->frozen, CACHE_MAX + 1);
	OK(make(f, SPEC("\"workdir\":\"/srv/0\""), &err));
	assert_int_equal(f->frozen, CACHE_MAX + 2);
}

static void setup_that_fails(void **state)
{
	struct fx *f = *state;
	struct store_build b;
	struct store_build_log_query w;
	struct store_snapshot s;
	autofree struct store_phase *p = NULL;
	autofree struct store_build_log *lines = NULL;
	const char *id, *snap;
	size_t n;

	FAILS(-EIO, make(f, SPEC("\"users\":[{\"name\":\"bad\"}]"), &err));
	assert_int_equal(err.tag, ERR_VM_SETUP_FAILED);
	assert_non_null(strstr(err.msg, "user 'bad' ended with 3: no"));
	id = json_string_value(json_object_get(f->extra, "buildId"));
	snap = json_string_value(json_object_get(f->extra, "snapshotId"));
	assert_non_null(id);
	assert_non_null(snap);
	OK(build_get(f->b, ACCOUNT, id, &b, &err));
	assert_int_equal(b.state, BUILD_FAILED);
	OK(build_phases(f->b, ACCOUNT, id, &p, &n, &err));
	assert_string_equal(p[n - 1].snapshot_id, snap);
	OK(store_snapshot_get(f->store, snap, &s, &err));
	assert_int_equal(s.info.state, SNAPSHOT_FAILED);
	assert_string_not_equal(s.point, "");
	assert_string_equal(s.info.account, ACCOUNT);
	w = (struct store_build_log_query){ ACCOUNT,   "",        "ri-1",    "", 0,
		                            INT64_MAX, INT64_MAX, INT64_MAX, 100 };
	OK(store_build_log_list(f->store, &w, &lines, &n, &err));
	assert_int_equal(n, 3);
	assert_non_null(strstr(lines[0].message, "failed: "));
	assert_string_equal(lines[1].message, "no\xef\xbf\xbd good");
	w.before_ms = lines[1].at_ms;
	w.before_seq = lines[1].seq;
	free(TAKE_PTR(lines));
	OK(store_build_log_list(f->store, &w, &lines, &n, &err));
	assert_int_equal(n, 1);
	assert_string_equal(lines[0].message, "layer-1/users");
	free(TAKE_PTR(lines));
	w = (struct store_build_log_query){ ACCOUNT,   id,        "",        "GOOD", 0,
		                            INT64_MAX, INT64_MAX, INT64_MAX, 100 };
	OK(store_build_log_list(f->store, &w, &lines, &n, &err));
	assert_int_equal(n, 2); /* the line, and the message that quotes it */
	w.account = "b";
	free(TAKE_PTR(lines));
	OK(store_build_log_list(f->store, &w, &lines, &n, &err));
	assert_int_equal(n, 0);
	rig_check(f->rig); /* nothing is held any more */
	/* it is tried again the next time */
	FAILS(-EIO, make(f, SPEC("\"users\":[{\"name\":\"bad\"}]"), &err));
	assert_int_equal(f->thawed, 2);
}

static void broken_service(void **state)
{
	struct fx *f = *state;
	const json_t *d;

	FAILS(-EIO, make(f,
	                 SPEC("\"systemd\":{\"services\":[{\"name\":\"fine\",\"exec\":[\"x\"]},"
	                      "{\"name\":\"broken\",\"exec\":[\"x\"]}]}"),
	                 &err));
	assert_int_equal(err.tag, ERR_VM_SETUP_FAILED);
	assert_non_null(strstr(err.msg, "service 'broken.service' failed"));
	d = json_object_get(f->extra, "diagnostics");
	assert_int_equal(json_array_size(json_object_get(d, "serviceStates")), 2);
	assert_int_equal(json_array_size(json_object_get(d, "failedServiceLogs")), 1);
	assert_int_equal(json_array_size(json_object_get(d, "additionalFailedServiceLogs")), 1);
	assert_string_equal(
	        json_string_value(json_object_get(
	                json_array_get(json_object_get(d, "failedServiceLogs"), 0), "log")),
	        "its log\xef\xbf\xbd\n");
}

static void user_that_exists(void **state)
{
	struct fx *f = *state;

	FAILS(-EEXIST, make(f, SPEC("\"users\":[{\"name\":\"exists\"}]"), &err));
	assert_int_equal(err.tag, ERR_USER_ALREADY_EXISTS);
	assert_string_equal(json_string_value(json_object_get(f->extra, "userName")), "exists");
	assert_null(json_object_get(f->extra, "snapshotId"));
	rig_check(f->rig); /* nothing is held any more */
}

static int build_snap(struct fx *f, const char *text, struct snapshot_info *ret, struct err *e)
{
	struct vm_persistence p = { .type = PERSIST_PERSISTENT };
	struct build_opts o = { .account = ACCOUNT };
	autospec struct spec s;

	json_decref(f->extra);
	o.extra = f->extra = json_object();
	parse(text, &s);
	return build_snapshot(f->b, &s, &o, "snap", &p, ret, e);
}

static void snapshots(void **state)
{
	struct fx *f = *state;
	struct snapshot_info n;
	struct store_snapshot s;
	char text[160];

	OK(build_snap(f, "{\"spec\":" L2 "}", &n, &err));
	OK(store_snapshot_get(f->store, n.id, &s, &err));
	assert_int_equal(s.info.state, SNAPSHOT_READY);
	assert_string_equal(s.info.name, "snap");
	assert_string_equal(s.info.workdir, "/srv/two");
	assert_true(s.info.persistent);
	assert_int_equal(strlen(s.info.template_hash), 64);
	/* a VM from it, and a layer on top */
	snprintf(text, sizeof(text),
	         "{\"spec\":{\"snapshotId\":\"%s\",\"users\":[{\"name\":\"x\"}]}}", n.id);
	OK(make(f, text, &err));
	assert_string_equal(f->vm.workdir, "/srv/two");
	FAILS(-EIO, build_snap(f, SPEC("\"users\":[{\"name\":\"bad\"}]"), &n, &err));
	assert_int_equal(err.tag, ERR_SNAPSHOT_SETUP_FAILED);
	OK(store_snapshot_get(f->store, json_string_value(json_object_get(f->extra, "snapshotId")),
	                      &s, &err));
	assert_string_equal(s.info.name, "snap");
	assert_int_equal(s.info.state, SNAPSHOT_FAILED);
	assert_string_not_equal(s.point, "");
	FAILS(-ENOENT, build_snap(f, SPEC("\"snapshotId\":\"sc-00000000000000000000\""), &n, &err));
	assert_int_equal(err.tag, ERR_SNAPSHOT_NOT_FOUND);
	rig_check(f->rig); /* nothing is held any more */
}

struct thread {
	struct fx *f;
	json_t *extra;
	struct vm_info vm;
	struct err err;
	int r;
};

static void *make_blocked(void *arg)
{
	struct thread *t = arg;

	t->extra = json_object();
	t->r = make_as(t->f, ACCOUNT, SPEC("\"users\":[{\"name\":\"block\"}]"), t->extra, &t->vm,
	               &t->err);
	json_decref(t->extra);
	return NULL;
}

static size_t n_blocked(struct fx *f)
{
	struct stat st = { 0 };
	char path[256];

	stat(file_of(f, "blocked", path, sizeof(path)), &st);
	return (size_t)st.st_size;
}

/* Whoever waits for a writer has one, then it ends. */
static void release(struct fx *f)
{
	char path[256];
	int fd = open(file_of(f, "gate", path, sizeof(path)), O_RDWR | O_CLOEXEC);

	assert_true(fd >= 0);
	unlink(path);
	close(fd);
}

static void two_at_once_build_once(void **state)
{
	struct fx *f = *state;
	struct thread t[3] = { { .f = f }, { .f = f }, { .f = f } };
	struct timespec tick = { .tv_nsec = 5000000 };
	pthread_t id[3];

	for (int i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&id[i], NULL, make_blocked, &t[i]), 0);
	for (uint64_t end = deadline_in(60000); !n_blocked(f) && deadline_left(end);)
		nanosleep(&tick, NULL);
	assert_int_equal(n_blocked(f), 1);
	release(f);
	for (int i = 0; i < 3; i++) {
		pthread_join(id[i], NULL);
		if (t[i].r < 0)
			fail_msg("%s", t[i].err.msg);
		assert_string_equal(t[i].vm.build_id, t[0].vm.build_id);
	}
	assert_int_equal(n_blocked(f), 1);
	assert_int_equal(f->frozen, 1);
	rig_check(f->rig); /* nothing is held any more */
}

static void damaged_layers_are_built_again(void **state)
{
	struct fx *f = *state;
	struct store_spec l;
	char key[SPEC_KEY_SIZE], base[SPEC_KEY_SIZE], template[ID_SIZE], template_key[32];
	char path[256], name[64];
	autospec struct spec s;

	OK(make(f, "{\"spec\":" L1 "}", &err));
	parse("{\"spec\":" L1 "}", &s);
	OK(vmm_template_hold(f->rig->vmm, template, template_key, &err));
	vmm_point_release(f->rig->vmm, template);
	OK(base_key(ACCOUNT, template_key, "", base, &err));
	OK(layer_key(base, &s.layers[0], key, &err));
	OK(store_spec_get(f->store, key, &l, &err));
	snprintf(name, sizeof(name), "data/points/%s.state", l.point);
	assert_int_equal(truncate(file_of(f, name, path, sizeof(path)), 1), 0);
	OK(make(f, "{\"spec\":" L2 "}", &err));
	assert_int_equal(f->frozen, 3);
	rig_check(f->rig); /* nothing is held any more */
}

static void unfinished_builds_are_failed_at_the_start(void **state)
{
	struct fx *f = *state;
	struct store_build b = { .id = "bld-x", .account = ACCOUNT, .state = BUILD_RUNNING };
	struct store_snapshot s = {
		.info = { .id = "sc-x", .account = ACCOUNT, .state = SNAPSHOT_BUILDING }
	};
	struct builder *again;

	OK(store_build_add(f->store, &b, &err));
	OK(store_snapshot_add(f->store, &s, &err));
	OK(builder_new(&conf, f->store, f->rig->vmm, &again, &err));
	builder_free(again);
	OK(store_build_get(f->store, "bld-x", &b, &err));
	assert_int_equal(b.state, BUILD_FAILED);
	assert_true(b.finished_ms > 0 && b.failure[0]);
	OK(store_snapshot_get(f->store, "sc-x", &s, &err));
	assert_int_equal(s.info.state, SNAPSHOT_FAILED);
}

static void what_a_spec_says_is_never_code(void **state)
{
	struct fx *f = *state;
	autofree char *steps = NULL;

	OK(make(f,
	        SPEC("\"users\":[{\"name\":\"u\",\"gecos\":\"$(reboot) `x` "
	             "';\"}],\"git\":{\"config\":"
	             "{\"user\":{\"name\":\"$(reboot)\"}},\"repos\":[{\"repo\":\"https://h/"
	             "$(reboot)\","
	             "\"path\":\"/a b\"}]}"),
	        &err));
	steps = steps_of(f);
	assert_non_null(strstr(steps, "\nGECOS=$(reboot) `x` ';\n"));
	assert_non_null(strstr(steps, "\nREPO=https://h/$(reboot)\n"));
	for (const char *p = steps; (p = strstr(p, "reboot")); p++)
		assert_true(strncmp(p - 2, "$(", 2) == 0); /* only ever as a value */
	assert_null(strstr(steps, "--comment $(reboot)"));
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(second_time_nothing_is_built),
		T(what_is_below_is_taken),
		T(skip_cache_builds_and_replaces),
		T(a_full_cache_forgets),
		T(setup_that_fails),
		T(broken_service),
		T(user_that_exists),
		T(snapshots),
		T(two_at_once_build_once),
		T(damaged_layers_are_built_again),
		T(unfinished_builds_are_failed_at_the_start),
		T(what_a_spec_says_is_never_code),
	};

	int r = rig_main_begin();

	if (r)
		return r;
	r = cmocka_run_group_tests(tests, NULL, NULL);
	rig_main_end();
	return r;
}
