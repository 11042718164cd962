/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_api_deploy.c - deployments over the real manager, whose machines are those of tests/vm/rig.h
 *
 * There is no systemd in those, so a deployment cannot be built: the rows here have snapshots of
 * plain VMs. What is tested is how many instances there are, and what becomes of them; that servers
 * are built, answer and are thawed is tested with real VMs (tests/e2e/test_deploy.py).
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/clock.h"
#include "serverless/deploy.h"
#include "serverless/serverless.h"
#include "tests/unit/api_fx.h"

#define WAIT_MS 60000
#define SHORT_MS 50

static char account[ACCOUNT_SIZE];

static size_t vms(struct fx *f)
{
	struct vm_info *v = NULL;
	size_t n = 0;

	OK(vmm_list(f->vmm, account, &v, &n, &err));
	free(v);
	return n;
}

static void await_vms(struct fx *f, size_t want)
{
	uint64_t deadline = deadline_in(WAIT_MS);

	while (vms(f) != want) {
		if (clock_ms() > deadline)
			fail_msg("%zu VMs, not %zu", vms(f), want);
		usleep(5000);
	}
}

/* A deployment of a snapshot that is there. */
static void make(struct fx *f, uint32_t instances, uint32_t requests, uint32_t idle_ms,
                 char ret[ID_SIZE])
{
	struct store_deploy row = { .state = DEPLOY_DEPLOYED,
		                    .port = 3000,
		                    .instances = instances,
		                    .requests = requests,
		                    .idle_ms = idle_ms,
		                    .created_ms = clock_wall_ms(),
		                    .deployed_ms = clock_wall_ms(),
		                    .config = strdup("{\"env\":{\"A\":\"secret\"}}") };
	struct vm_persistence keep = { .type = PERSIST_PERSISTENT };
	struct snapshot_info snap;
	char vm[32];

	OK(store_account_first(f->store, account, &err));
	fx_vm(f, vm);
	OK(vmm_snapshot(f->vmm, account, vm, "of a deployment", &keep, &snap, &err));
	OK(vmm_delete(f->vmm, account, vm, NULL, &err));
	id_make("dpl-", row.id);
	memcpy(row.account, account, sizeof(account));
	memcpy(row.snapshot, snap.id, sizeof(snap.id));
	OK(store_deploy_add(f->store, &row, 100, &err));
	memcpy(ret, row.id, ID_SIZE);
	store_deploy_done(&row);
}

static struct deploy_place take(struct fx *f, const char *id, unsigned waiting)
{
	struct deploy_place p;

	OK(deploy_take(f->serverless, id, waiting, deadline_in(WAIT_MS), &p, &err));
	return p;
}

static int take_soon(struct fx *f, const char *id, enum err_code *ret_tag)
{
	struct deploy_place p;
	struct err why = { 0 };
	int r = deploy_take(f->serverless, id, 0, deadline_in(SHORT_MS), &p, &why);

	if (r == 0)
		deploy_done(f->serverless, p.ticket);
	*ret_tag = why.tag;
	return r;
}

static void requests_start_as_many_instances_as_they_need(void **state)
{
	struct fx *f = *state;
	struct deploy_place p[6];
	struct deploy_figures n;
	enum err_code tag;
	char id[ID_SIZE];

	make(f, 3, 2, 60000, id);
	assert_false(deploy_awake(f->serverless, id));
	assert_int_equal(vms(f), 0);
	for (size_t i = 0; i < ARRAY_SIZE(p); i++)
		p[i] = take(f, id, 0);
	assert_true(deploy_awake(f->serverless, id));
	assert_string_equal(p[0].account, account);
	assert_int_equal(p[0].port, 3000);
	/* Two requests in each of three. */
	assert_string_equal(p[0].vm, p[1].vm);
	assert_string_equal(p[2].vm, p[3].vm);
	assert_string_equal(p[4].vm, p[5].vm);
	assert_string_not_equal(p[0].vm, p[2].vm);
	assert_string_not_equal(p[2].vm, p[4].vm);
	assert_int_equal(vms(f), 3);
	deploy_figures(f->serverless, &n);
	assert_int_equal(n.ready, 3);
	assert_int_equal(n.requests, 6);
	/* More it may not have: who comes now waits, and then hears why. */
	assert_int_equal(take_soon(f, id, &tag), -ETIMEDOUT);
	assert_int_equal(tag, ERR_DEPLOYMENT_BUSY);
	/* A place that is given back is taken again, where it was. */
	deploy_done(f->serverless, p[3].ticket);
	p[3] = take(f, id, 0);
	assert_string_equal(p[3].vm, p[2].vm);
	deploy_done(f->serverless, p[3].ticket);
	deploy_done(f->serverless, p[3].ticket); /* twice is once */
	deploy_figures(f->serverless, &n);
	assert_int_equal(n.requests, 5);
}

static void those_that_wait_count(void **state)
{
	struct fx *f = *state;
	struct deploy_place p;
	char id[ID_SIZE];

	make(f, 3, 2, 60000, id);
	p = take(f, id, 40); /* the edge says that so many wait behind it */
	await_vms(f, 3);
	deploy_done(f->serverless, p.ticket);
	assert_int_equal(vms(f), 3);
}

static void idle_instances_end(void **state)
{
	struct fx *f = *state;
	struct deploy_place p[3];
	char id[ID_SIZE];

	make(f, 3, 1, 300, id);
	for (size_t i = 0; i < ARRAY_SIZE(p); i++)
		p[i] = take(f, id, 0);
	assert_int_equal(vms(f), 3);
	deploy_done(f->serverless, p[1].ticket);
	deploy_done(f->serverless, p[2].ticket);
	await_vms(f, 1); /* the one with a request stays, however long that takes */
	deploy_done(f->serverless, p[0].ticket);
	await_vms(f, 0);
	assert_false(deploy_awake(f->serverless, id));
	p[0] = take(f, id, 0); /* from zero again */
	assert_int_equal(vms(f), 1);
	deploy_done(f->serverless, p[0].ticket);
}

static void an_instance_that_ends_is_replaced(void **state)
{
	struct fx *f = *state;
	struct deploy_place a, b, c;
	char id[ID_SIZE];

	make(f, 1, 2, 60000, id);
	a = take(f, id, 0);
	/* Its machine ended: what it had may still be given back. */
	deploy_vm_ended(f->serverless, a.vm);
	b = take(f, id, 0);
	assert_string_not_equal(a.vm, b.vm);
	deploy_done(f->serverless, a.ticket);
	await_vms(f, 1);
	/* Nobody answers in it. */
	deploy_broken(f->serverless, b.ticket);
	c = take(f, id, 0);
	assert_string_not_equal(c.vm, b.vm);
	await_vms(f, 1);
	deploy_done(f->serverless, c.ticket);
	deploy_vm_ended(f->serverless, "nobody");
}

static void an_account_has_so_many_instances(void **state)
{
	struct fx *f = *state;
	struct deploy_place p[4], other;
	enum err_code tag;
	char a[ID_SIZE], b[ID_SIZE];

	make(f, 3, 1, 60000, a);
	make(f, 3, 1, 60000, b);
	for (size_t i = 0; i < 3; i++)
		p[i] = take(f, a, 0);
	p[3] = take(f, b, 0);
	assert_int_equal(take_soon(f, b, &tag), -ETIMEDOUT);
	assert_int_equal(vms(f), 4);
	/* An idle one of the other deployment makes room. */
	deploy_done(f->serverless, p[1].ticket);
	other = take(f, b, 0);
	assert_string_not_equal(other.vm, p[3].vm);
	await_vms(f, 4);
	deploy_done(f->serverless, other.ticket);
}

static void what_cannot_start_says_why(void **state)
{
	struct fx *f = *state;
	struct deploy_place p;
	struct err why = { 0 };
	enum err_code tag;
	char id[ID_SIZE];
	struct store_deploy row = {
		.state = DEPLOY_FAILED, .created_ms = 1, .why = "no luck", .config = strdup("{}")
	};

	make(f, 1, 1, 60000, id);
	struct store_account acc;
	char vm[32];
	uint64_t began;

	OK(store_account_get(f->store, account, &acc, &err));
	acc.quota.vms = 1;
	OK(store_account_update(f->store, &acc, &err));
	fx_vm(f, vm);
	began = clock_ms();
	assert_true(deploy_take(f->serverless, id, 0, deadline_in(WAIT_MS), &p, &why) < 0);
	assert_int_not_equal(why.tag, ERR_DEPLOYMENT_BUSY);
	assert_true(clock_ms() - began < WAIT_MS / 2); /* not only when its time was up */
	OK(vmm_delete(f->vmm, account, vm, NULL, &err));
	p = take(f, id, 0);
	deploy_done(f->serverless, p.ticket);
	assert_int_equal(take_soon(f, "dpl-nothing", &tag), -ENOENT);
	assert_int_equal(tag, ERR_DEPLOYMENT_NOT_FOUND);
	id_make("dpl-", row.id);
	memcpy(row.account, account, sizeof(account));
	OK(store_deploy_add(f->store, &row, 100, &err));
	assert_true(take_soon(f, row.id, &tag) < 0);
	assert_int_equal(tag, ERR_DEPLOYMENT_FAILED);
	store_deploy_done(&row);
}

static void a_restart_goes_on_with_its_instances(void **state)
{
	struct fx *f = *state;
	struct deploy_place a, b, c;
	struct store_deploy half = { .state = DEPLOY_PROVISIONING,
		                     .created_ms = 1,
		                     .config = strdup("{}") };
	AUTO(store_deploy_done) struct store_deploy got = { 0 };
	char id[ID_SIZE], gone[ID_SIZE];

	make(f, 3, 1, 60000, id);
	a = take(f, id, 0);
	b = take(f, id, 0);
	memcpy(gone, b.vm, sizeof(gone));
	id_make("dpl-", half.id);
	memcpy(half.account, account, sizeof(account));
	OK(store_deploy_add(f->store, &half, 100, &err));
	fx_stop(f);
	f->api = NULL;
	serverless_end(f->serverless);
	f->serverless = serverless_free(f->serverless);
	assert_int_equal(vms(f), 2);
	struct vm_info stopped;
	OK(vmm_stop(f->vmm, account, gone, &stopped, &err));
	OK(serverless_new(&(struct serverless_conf){ .store = f->store,
	                                             .vmm = f->vmm,
	                                             .builder = f->builder,
	                                             .deploy = FX_DEPLOY },
	                  &f->serverless, &err));
	assert_true(deploy_awake(f->serverless, id));
	c = take(f, id, 0);
	assert_string_equal(c.vm, a.vm); /* with a place: its request ended with the edge */
	await_vms(f, 1);                 /* the one that did not run is deleted */
	deploy_done(f->serverless, c.ticket);
	OK(store_deploy_get(f->store, account, half.id, &got, &err));
	assert_int_equal(got.state, DEPLOY_FAILED);
	assert_non_null(strstr(got.why, "stopped"));
	store_deploy_done(&half);
}

static void deleting_ends_everything(void **state)
{
	struct fx *f = *state;
	struct deploy_place p;
	struct http_reply r;
	enum err_code tag;
	char id[ID_SIZE], path[128], body[128];

	make(f, 3, 1, 60000, id);
	p = take(f, id, 0);
	snprintf(body, sizeof(body), "{\"deploymentId\":\"%s\"}", id);
	fx_call(f, "POST", "/domains/v1/mappings/shop.style.dev", body, 200, &r);
	assert_string_equal(fx_str(r.json, "deploymentId"), id);
	assert_true(json_is_null(json_object_get(r.json, "vmId")));
	http_reply_done(&r);
	snprintf(path, sizeof(path), "/web/v1/deployments/%s", id);
	fx_call(f, "GET", path, NULL, 200, &r);
	const json_t *info = json_object_get(r.json, "info");
	assert_string_equal(fx_str(json_object_get(info, "envVars"), "A"), "********");
	assert_string_equal(json_string_value(json_array_get(json_object_get(info, "domains"), 0)),
	                    "shop.style.dev");
	assert_string_equal(fx_str(json_array_get(json_object_get(info, "instances"), 0), "vmId"),
	                    p.vm);
	char snapshot[ID_SIZE], where[128];
	snprintf(snapshot, sizeof(snapshot), "%s", fx_str(info, "snapshotId"));
	http_reply_done(&r);
	/* What it starts from cannot be taken away. */
	snprintf(where, sizeof(where), "/v1/vms/snapshots/%s", snapshot);
	fx_refused(f, "DELETE", where, NULL, 409, "CONFLICT", "deployment");
	fx_call(f, "GET", "/web/v1/deployments?search=SHOP", NULL, 200, &r);
	assert_int_equal(json_integer_value(json_object_get(r.json, "total")), 1);
	http_reply_done(&r);
	fx_call(f, "GET", "/web/v1/deployments?search=none", NULL, 200, &r);
	assert_int_equal(json_integer_value(json_object_get(r.json, "total")), 0);
	http_reply_done(&r);
	fx_call(f, "DELETE", path, NULL, 200, &r);
	http_reply_done(&r);
	assert_int_equal(vms(f), 0);
	deploy_done(f->serverless, p.ticket);
	assert_int_equal(take_soon(f, id, &tag), -ENOENT);
	fx_refused(f, "DELETE", path, NULL, 404, "DEPLOYMENT_NOT_FOUND", id);
	fx_call(f, "GET", "/domains/v1/mappings", NULL, 200, &r);
	assert_int_equal(json_array_size(r.json), 0);
	http_reply_done(&r);
	struct snapshot_info *v = NULL;
	size_t n = 0;
	OK(vmm_snapshot_list(f->vmm, account, false, &v, &n, &err));
	free(v);
	assert_int_equal(n, 0);
}

static void bad(struct fx *f, const char *body, int status, const char *code, const char *says)
{
	fx_refused(f, "POST", "/web/v1/deployment", body, status, code, says);
}

#define FILES "\"source\":{\"kind\":\"files\",\"files\":{\"main.js\":{\"content\":\"1\"}}}"

static void what_a_deployment_may_be(void **state)
{
	struct fx *f = *state;
	static const char *const code = "INVALID_DEPLOYMENT_REQUEST";

	bad(f, "{}", 400, code, "'source'");
	bad(f, "{\"source\":{\"kind\":\"zip\"}}", 400, code, "'source.kind'");
	bad(f, "{\"source\":{\"kind\":\"files\",\"files\":{}}}", 400, code, "no files");
	bad(f, "{\"source\":{\"kind\":\"files\",\"files\":{\"../x\":{\"content\":\"\"}}}}", 400,
	    code, "'../x'");
	bad(f, "{\"source\":{\"kind\":\"files\",\"files\":{\"/x\":{\"content\":\"\"}}}}", 400, code,
	    "'/x'");
	bad(f, "{\"source\":{\"kind\":\"files\",\"files\":{\"x\":{\"content\":1}}}}", 400, code,
	    "content");
	bad(f, "{\"source\":{\"kind\":\"tar\",\"url\":\"file:///etc/passwd\"}}", 400, code,
	    "http or https");
	bad(f, "{\"source\":{\"kind\":\"git\",\"url\":\"-x\"}}", 400, code, "'source.url'");
	bad(f, "{" FILES ",\"config\":{\"entrypoint\":\"../main.js\"}}", 400, code, "'entrypoint'");
	bad(f, "{" FILES ",\"config\":{\"entrypoint\":\"other.js\"}}", 400, "ENTRYPOINT_NOT_FOUND",
	    "other.js");
	bad(f, "{\"source\":{\"kind\":\"files\",\"files\":{\"a.txt\":{\"content\":\"\"}}}}", 400,
	    "NO_ENTRYPOINT_FOUND", "'entrypoint'");
	bad(f, "{" FILES ",\"config\":{\"timeout\":3600001}}", 403, "TIMEOUT_LIMIT_EXCEEDED",
	    "'config.timeout'");
	bad(f, "{" FILES ",\"config\":{\"envVars\":{\"PORT\":\"x\"}}}", 400, code, "PORT");
	bad(f, "{" FILES ",\"config\":{\"build\":{}}}", 400, code, "'config.build'");
	bad(f, "{" FILES ",\"config\":{\"redirects\":[{\"source\":\"/a\"}]}}", 400, code,
	    "'config.redirects[0]'");
	bad(f,
	    "{" FILES ",\"config\":{\"headers\":[{\"source\":\"/a\",\"headers\":[{\"key\":\"a\","
	    "\"value\":\"b\\r\\nc: d\"}]}]}}",
	    400, code, "'config.headers[0]'");
	bad(f, "{" FILES ",\"config\":{\"domains\":[\"not a name\"]}}", 400, "INVALID_DOMAIN",
	    "not a name");
	bad(f, "{" FILES ",\"config\":{\"domains\":[\"other.example.org\"]}}", 401,
	    "DOMAIN_OWNERSHIP_NOT_VERIFIED", "other.example.org");
	fx_refused(f, "GET", "/web/v1/deployments/dpl-none/fetch", NULL, 404,
	           "DEPLOYMENT_NOT_FOUND", "dpl-none");
	fx_refused(f, "POST", "/domains/v1/mappings/x.style.dev", "{\"deploymentId\":\"dpl-none\"}",
	           404, "DEPLOYMENT_NOT_FOUND", "dpl-none");
	fx_refused(f, "POST", "/domains/v1/mappings/x.style.dev", "{}", 400, "BAD_REQUEST",
	           "'deploymentId'");
}

/* The rig's guests have no systemd: the row, the reason and the log of the build are there. */
static void one_that_cannot_be_built_has_failed(void **state)
{
	struct fx *f = *state;
	struct http_reply r;
	char path[128];

	OK(store_account_first(f->store, account, &err));
	fx_call(f, "POST", "/web/v1/deployment", "{" FILES "}", 500, &r);
	snprintf(path, sizeof(path), "/web/v1/deployments/%s", fx_str(r.json, "deploymentId"));
	http_reply_done(&r);
	fx_call(f, "GET", path, NULL, 200, &r);
	assert_string_equal(fx_str(json_object_get(r.json, "info"), "state"), "failed");
	assert_true(json_is_string(json_object_get(json_object_get(r.json, "info"), "buildId")));
	http_reply_done(&r);
	assert_int_equal(vms(f), 0);
	fx_call(f, "DELETE", path, NULL, 200, &r);
	http_reply_done(&r);
}

static void a_schedule_calls_a_deployment(void **state)
{
	struct fx *f = *state;
	struct http_reply r;
	char id[ID_SIZE], body[256], path[256];

	make(f, 1, 1, 60000, id);
	snprintf(body, sizeof(body),
	         "{\"cron\":\"@yearly\",\"deploymentId\":\"%s\",\"path\":\"/tick\"}", id);
	fx_call(f, "POST", "/v1/cron/schedules", body, 200, &r);
	const json_t *sch = json_object_get(r.json, "schedule");
	assert_string_equal(fx_str(sch, "deploymentId"), id);
	assert_string_equal(fx_str(sch, "path"), "/tick");
	assert_true(json_is_null(json_object_get(sch, "runConfig")));
	http_reply_done(&r);
	snprintf(path, sizeof(path), "/v1/cron/schedules?deploymentId=%s", id);
	fx_call(f, "GET", path, NULL, 200, &r);
	assert_int_equal(json_array_size(json_object_get(r.json, "schedules")), 1);
	http_reply_done(&r);
	fx_call(f, "GET", "/v1/cron/schedules?deploymentId=dpl-other", NULL, 200, &r);
	assert_int_equal(json_array_size(json_object_get(r.json, "schedules")), 0);
	http_reply_done(&r);
	snprintf(body, sizeof(body),
	         "{\"cron\":\"@yearly\",\"deploymentId\":\"%s\",\"path\":\"tick\"}", id);
	fx_refused(f, "POST", "/v1/cron/schedules", body, 400, "BAD_REQUEST", "'path'");
	snprintf(body, sizeof(body),
	         "{\"cron\":\"@yearly\",\"deploymentId\":\"%s\",\"run\":{\"code\":\"1\"}}", id);
	fx_refused(f, "POST", "/v1/cron/schedules", body, 400, "BAD_REQUEST", "exclude");
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, fx_setup, fx_teardown)
	const struct CMUnitTest tests[] = {
		T(requests_start_as_many_instances_as_they_need),
		T(those_that_wait_count),
		T(idle_instances_end),
		T(an_instance_that_ends_is_replaced),
		T(an_account_has_so_many_instances),
		T(what_cannot_start_says_why),
		T(a_restart_goes_on_with_its_instances),
		T(deleting_ends_everything),
		T(what_a_deployment_may_be),
		T(one_that_cannot_be_built_has_failed),
		T(a_schedule_calls_a_deployment),
	};

	return FX_RUN(tests);
}
