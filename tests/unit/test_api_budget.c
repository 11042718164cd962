/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_api_budget.c - what one client can make the API hold in memory: values of a JSON body,
 * bodies being parsed, output of commands
 */
#include <dirent.h>
#include <errno.h>
#include <malloc.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "api/call.h"
#include "base/auto.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/rate.h"
#include "http/http_internal.h"
#include "tests/unit/api_as.h"
#include "tests/unit/api_fx.h"

/* '{"files":[' item, item, ... ']}' of about n bytes. */
static void many(struct buf *b, const char *item, size_t n)
{
	buf_printf(b, "{\"files\":[%s", item);
	while (b->len < n)
		buf_printf(b, ",%s", item);
	buf_printf(b, "]}");
	assert_false(b->failed);
}

static void too_many(struct fx *f, const char *method, const char *path, const char *header,
                     const struct buf *b)
{
	autoreply struct http_reply r = { 0 };

	if (http_call(f->port, method, path, header, b->p, b->len, &r) < 0)
		fail_msg("%s %s: no reply", method, path);
	if (r.status != 400 || !strstr(fx_str(r.json, "message"), "values"))
		fail_msg("%s %s: %d %s", method, path, r.status, r.body);
}

/* Each of these took 80 times its size. */
static void a_body_of_many_small_values_is_not_parsed(void **state)
{
	static const char *const items[] = { "{}", "[]", "0", "\"\"", "null", "{\"a\":{}}" };
	struct fx *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(items); i++) {
		autobuf struct buf b = { 0 };

		many(&b, items[i], i == 0 ? 8 << 20 : 2 << 20);
		b.len = MIN(b.len, (size_t)8 << 20);
		too_many(f, "POST", i % 2 ? "/v1/vms/snapshots" : "/v1/vms", f->auth_header, &b);
	}
}

/* The LFS batch of a public repository is for everybody: it takes little from them. */
static void without_a_key_bodies_are_small(void **state)
{
	struct fx *f = *state;
	autofd int fd = http_connect(f->port, 60000);
	autoreply struct http_reply made = { 0 }, r = { 0 }, few = { 0 };
	autobuf struct buf b = { 0 };
	const char *none = "{\"operation\":\"download\",\"objects\":[]}";
	char path[128], text[512];
	int n;

	fx_call(f, "POST", "/git/v1/repo", "{\"name\":\"open\",\"public\":true}", 200, &made);
	snprintf(path, sizeof(path), "/%s/info/lfs/objects/batch", fx_str(made.json, "repoId"));
	n = snprintf(text, sizeof(text),
	             "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 1048577\r\n"
	             "Expect: 100-continue\r\n\r\n",
	             path);
	assert_true(http_send(fd, text, (size_t)n));
	assert_int_equal(http_receive(fd, &r), 0); /* no byte of the body was sent */
	assert_int_equal(r.status, 413);
	many(&b, "{}", 1 << 20);
	b.len = 1 << 20;
	too_many(f, "POST", path, NULL, &b);
	assert_int_equal(http_call(f->port, "POST", path, NULL, none, strlen(none), &few), 0);
	assert_int_equal(few.status, 200);
}

/* An exec-await with that many bytes of padding, on a thread of its own. */
struct padded {
	struct fx *f;
	const char *header;
	char path[96];
	size_t padding;
	bool blocks;
	struct http_reply reply;
};

static void *run_padded(void *arg)
{
	struct padded *c = arg;
	autobuf struct buf b = { 0 };
	char command[320] = "true";

	if (c->blocks)
		fx_block(c->f, command, sizeof(command));
	buf_printf(&b, "{\"command\":\"%s\",\"x\":\"", command);
	for (size_t i = 0; i < c->padding; i += 16)
		buf_put(&b, "xxxxxxxxxxxxxxxx", 16);
	buf_printf(&b, "\"}");
	http_call(c->f->port, "POST", c->path, c->header, b.p, b.len, &c->reply);
	return NULL;
}

static void little_memory(struct conf *c)
{
	c->parse_mb = 16;
	c->output_mb = 16;
}

static int setup_little(void **state)
{
	return fx_setup_tuned(state, 0, little_memory);
}

static void bodies_being_parsed_are_counted_by_account(void **state)
{
	struct fx *f = *state;
	struct padded first = {
		.f = f, .header = f->auth_header, .padding = 3 << 20, .blocks = true
	};
	struct padded second = { .f = f, .header = f->auth_header, .padding = 3 << 20 };
	struct padded other = { .f = f, .padding = 1 << 20 };
	uint64_t end = deadline_in(60000);
	struct acting who;
	pthread_t t;
	char id[32];

	fx_vm(f, id);
	acting_account(f, &who);
	other.header = who.header;
	snprintf(first.path, sizeof(first.path), "/v1/vms/%s/exec-await", id);
	memcpy(second.path, first.path, sizeof(first.path));
	memcpy(other.path, first.path, sizeof(first.path));
	assert_int_equal(pthread_create(&t, NULL, run_padded, &first), 0);
	while (!fx_blocked(f) && clock_ms() < end)
		poll(NULL, 0, 5);
	assert_true(budget_used(f->api->http->parse, NULL) >= 6 << 20);
	run_padded(&second);
	assert_int_equal(second.reply.status, 429);
	assert_string_equal(fx_str(second.reply.json, "code"), "LIMIT_EXCEEDED");
	assert_non_null(http_header(&second.reply, "retry-after"));
	run_padded(&other); /* has room, and is only told that the VM is not its own */
	assert_int_equal(other.reply.status, 404);
	fx_release(f);
	pthread_join(t, NULL);
	assert_int_equal(first.reply.status, 200);
	http_reply_done(&first.reply);
	http_reply_done(&second.reply);
	http_reply_done(&other.reply);
	while (budget_used(f->api->http->parse, NULL) && clock_ms() < end)
		poll(NULL, 0, 5);
	assert_int_equal(budget_used(f->api->http->parse, NULL), 0);
}

static void run_output(struct fx *f, const char *id, const char *command, struct http_reply *ret)
{
	char path[96], body[256];

	snprintf(path, sizeof(path), "/v1/vms/%s/exec-await", id);
	snprintf(body, sizeof(body), "{\"command\":\"%s\"}", command);
	fx_call(f, "POST", path, body, 200, ret);
	assert_int_equal(json_integer_value(json_object_get(ret->json, "statusCode")), 0);
}

/* A byte of output that is six in JSON is kept only until the reply has its size. */
static void control_characters_make_no_giant_reply(void **state)
{
	struct fx *f = *state;
	autoreply struct http_reply r = { 0 }, plain = { 0 };
	char id[32];

	fx_vm(f, id);
	run_output(f, id, "head -c 17000000 /dev/zero | tr '\\\\0' '\\\\1'; echo end >&2", &r);
	assert_true(r.body_n <= 33 << 20);
	assert_true(json_is_true(json_object_get(r.json, "stdoutTruncated")));
	assert_null(json_object_get(r.json, "stderrTruncated"));
	assert_string_equal(fx_str(r.json, "stderr"), "end\n");
	run_output(f, id, "head -c 16777216 /dev/zero | tr '\\\\0' x", &plain);
	assert_int_equal(json_string_length(json_object_get(plain.json, "stdout")), 16 << 20);
	assert_null(json_object_get(plain.json, "stdoutTruncated"));
}

static void output_on_its_way_is_counted(void **state)
{
	struct fx *f = *state;
	uint64_t end = deadline_in(60000);
	autoreply struct http_reply r = { 0 }, small = { 0 };
	char id[32];

	fx_vm(f, id);
	run_output(f, id, "head -c 10000000 /dev/zero | tr '\\\\0' x; echo end >&2", &r);
	assert_true(json_is_true(json_object_get(r.json, "stdoutTruncated")));
	assert_in_range(json_string_length(json_object_get(r.json, "stdout")), 5 << 20, 6 << 20);
	while (budget_used(f->api->http->output, NULL) && clock_ms() < end)
		poll(NULL, 0, 5);
	assert_int_equal(budget_used(f->api->http->output, NULL), 0);
	run_output(f, id, "echo small", &small);
	assert_string_equal(fx_str(small.json, "stdout"), "small\n");
}

static void slow_rates(struct conf *c)
{
	c->rate_key = 1;
	c->rate_address = 1;
}

static int setup_slow(void **state)
{
	return fx_setup_tuned(state, 0, slow_rates);
}

/* Asks until it is told to wait; false if it never was. */
static bool until_429(struct fx *f, const char *method, const char *path, const char *header,
                      struct http_reply *ret)
{
	for (int i = 0; i < 2000; i++) {
		if (http_call(f->port, method, path, header, NULL, 0, ret) < 0)
			fail_msg("%s: no reply", path);
		if (ret->status == 429)
			return true;
		http_reply_done(ret);
	}
	return false;
}

static void keys_and_addresses_have_a_rate(void **state)
{
	struct fx *f = *state;
	autoreply struct http_reply fast = { 0 }, open = { 0 }, mine = { 0 };
	struct acting other;

	acting_account(f, &other);
	assert_true(until_429(f, "GET", "/auth/v1/whoami", other.header, &fast));
	assert_string_equal(fx_str(fast.json, "code"), "LIMIT_EXCEEDED");
	assert_true(strtol(http_header(&fast, "retry-after"), NULL, 10) >= 1);
	fx_call(f, "GET", "/auth/v1/whoami", NULL, 200, &mine); /* another key */
	assert_true(until_429(f, "GET", "/v1/health", NULL, &open));
	assert_non_null(http_header(&open, "retry-after"));
}

/* Whatever is asked for without a key is counted, whether there is such a thing or not. */
static void every_request_without_a_key_has_a_rate(void **state)
{
	static const struct {
		const char *method, *path;
	} odd[] = {
		{ "GET", "/no/such/thing" }, { "POST", "/v1/health" },   { "OPTIONS", "/v1/vms" },
		{ "BREW", "/v1/vms" },       { "GET", "/v1/vms/%zz/x" }, { "DELETE", "/" },
	};
	struct fx *f = *state;
	autoreply struct http_reply mine = { 0 }, theirs = { 0 };
	struct acting other;

	acting_account(f, &other);
	for (size_t i = 0; i < ARRAY_SIZE(odd); i++) {
		autoreply struct http_reply r = { 0 };

		if (!until_429(f, odd[i].method, odd[i].path, NULL, &r))
			fail_msg("%s %s is free", odd[i].method, odd[i].path);
		assert_non_null(http_header(&r, "retry-after"));
	}
	for (size_t i = 0; i < api_n_routes; i++) {
		autoreply struct http_reply r = { 0 };
		char path[256];
		size_t n = 0;

		for (const char *p = api_routes[i].pattern; *p && n + 1 < sizeof(path); p++) {
			path[n++] = *p;
			if (*p != '{')
				continue;
			path[n - 1] = 'x';
			p += strcspn(p, "}");
		}
		path[n] = '\0';
		if (!until_429(f, method_name(api_routes[i].method), path, NULL, &r))
			fail_msg("%s %s is free", method_name(api_routes[i].method), path);
	}
	/* With a key it is the key that counts, there too. */
	fx_call(f, "GET", "/no/such/thing", NULL, 404, &mine);
	assert_true(until_429(f, "GET", "/no/such/thing", other.header, &theirs));
}

/* Threads of this process that make room for others. */
static unsigned nice_threads(void)
{
	DIR *d = opendir("/proc/self/task");
	int own = getpriority(PRIO_PROCESS, 0);
	const struct dirent *e;
	unsigned n = 0;

	assert_non_null(d);
	while ((e = readdir(d))) {
		errno = 0;
		if (e->d_name[0] != '.' &&
		    getpriority(PRIO_PROCESS, (id_t)strtoul(e->d_name, NULL, 10)) > own && !errno)
			n++;
	}
	closedir(d);
	return n;
}

/* On a connection that stays. */
static int ask_on(int fd, const char *header, const char *what, const struct buf *body)
{
	autoreply struct http_reply r = { 0 };
	char head[512];
	int n = snprintf(head, sizeof(head),
	                 "%s HTTP/1.1\r\nHost: x\r\n%sContent-Length: %zu\r\n\r\n", what, header,
	                 body ? body->len : 0);

	assert_true(http_send(fd, head, (size_t)n));
	assert_true(!body || http_send(fd, body->p, body->len));
	assert_int_equal(http_receive(fd, &r), 0);
	return r.status;
}

/* With a share that lasts: on a busy machine nobody uses a quarter of a core. */
static void whoever_uses_much_processor_time_is_second(void **state)
{
	struct fx *f = *state;
	struct http *h = f->api->http;
	autofd int heavy = http_connect(f->port, 120000), light = http_connect(f->port, 120000);
	autoreply struct http_reply made = { 0 };
	autobuf struct buf b = { 0 };
	struct acting other;
	char account[64];

	fx_call(f, "POST", "/v1/accounts", "{\"name\":\"other\"}", 200, &made);
	snprintf(account, sizeof(account), "%s", fx_str(made.json, "id"));
	acting_key(f, account, &other);
	rate_free(h->cpu);
	OK(rate_new(&(struct rate_conf){ .per_s = 1e-6, .burst = 4, .slots = 64 }, &h->cpu, &err));
	many(&b, "{}", 7 << 20);
	assert_int_equal(nice_threads(), 0);
	assert_int_equal(ask_on(heavy, other.header, "POST /v1/vms", &b), 400);
	while (rate_spend(h->cpu, account, 0) >= 0) /* charged a moment after its reply */
		assert_int_equal(ask_on(heavy, other.header, "POST /v1/vms", &b), 400);
	assert_int_equal(ask_on(heavy, other.header, "GET /auth/v1/whoami", NULL), 200);
	assert_int_equal(nice_threads(), 1);
	assert_int_equal(ask_on(light, f->auth_header, "GET /auth/v1/whoami", NULL), 200);
	assert_int_equal(nice_threads(), 1); /* only who was heavy, */
	rate_spend(h->cpu, account, -1000);
	assert_int_equal(ask_on(heavy, other.header, "GET /auth/v1/whoami", NULL), 200);
	assert_int_equal(nice_threads(), 0); /* and not for ever */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, fx_setup, fx_teardown)
#define LITTLE(name) cmocka_unit_test_setup_teardown(name, setup_little, fx_teardown)
		T(a_body_of_many_small_values_is_not_parsed),
		T(without_a_key_bodies_are_small),
		LITTLE(bodies_being_parsed_are_counted_by_account),
		T(control_characters_make_no_giant_reply),
		T(whoever_uses_much_processor_time_is_second),
		LITTLE(output_on_its_way_is_counted),
		cmocka_unit_test_setup_teardown(keys_and_addresses_have_a_rate, setup_slow,
		                                fx_teardown),
		cmocka_unit_test_setup_teardown(every_request_without_a_key_has_a_rate, setup_slow,
		                                fx_teardown),
	};

	return FX_RUN(tests);
}
