/* SPDX-License-Identifier: Apache-2.0 */
/* test_api_events.c - GET /v1/events: order, resuming, gaps, limits, who sees what */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/clock.h"
#include "events/feed.h"
#include "store/store_domain.h"
#include "store/store_internal.h"
#include "store/store_note.h"
#include "tests/unit/api_web.h"

#define WAIT_MS 30000

struct follow {
	int fd;
	struct buf in;
	size_t at; /* read so far */
};

struct one {
	char type[32];
	int64_t id; /* -1: none */
	json_t *data;
};

static void one_done(struct one *e)
{
	json_decref(e->data);
}
#define autoone AUTO(one_done)

static void follow_done(struct follow *f)
{
	if (f->fd >= 0)
		close(f->fd);
	buf_done(&f->in);
}
#define autofollow AUTO(follow_done)

/* False: the stream has ended. */
static bool fill(struct follow *f)
{
	struct pollfd p = { .fd = f->fd, .events = POLLIN };
	char piece[8192];
	ssize_t n;

	if (poll(&p, 1, WAIT_MS) != 1)
		fail_msg("no event within %d ms", WAIT_MS);
	n = read(f->fd, piece, sizeof(piece));
	if (n <= 0)
		return false;
	buf_put(&f->in, piece, (size_t)n);
	return true;
}

/* Sends the request; HTTP/1.0, so that there are no chunks. */
static void begin(struct fx *x, const struct acting *who, const char *query, struct follow *ret)
{
	char text[1024];

	*ret = (struct follow){ .fd = http_connect(x->port, WAIT_MS) };
	assert_true(ret->fd >= 0);
	snprintf(text, sizeof(text), "GET /v1/events%s HTTP/1.0\r\nHost: localhost\r\n%s\r\n",
	         query, who->header);
	assert_true(http_send(ret->fd, text, strlen(text)));
}

static int head(struct follow *f)
{
	char *end = NULL;
	int status = 0;

	while (!end) {
		assert_true(fill(f));
		buf_put(&f->in, "", 1);
		f->in.len--;
		end = strstr((char *)f->in.p, "\r\n\r\n");
	}
	assert_int_equal(sscanf((char *)f->in.p, "HTTP/1.%*d %d", &status), 1);
	f->at = (size_t)(end - (char *)f->in.p) + 4;
	return status;
}

static bool next(struct follow *f, struct one *ret)
{
	char *text, *end, *line, *save = NULL;
	uint64_t deadline = deadline_in(WAIT_MS);

	*ret = (struct one){ .id = -1 };
	for (;;) {
		buf_put(&f->in, "", 1);
		f->in.len--;
		text = (char *)f->in.p + f->at;
		end = strstr(text, "\n\n");
		if (!end) {
			if (!fill(f))
				return false;
			if (clock_ms() > deadline)
				fail_msg("only beats within %d ms", WAIT_MS);
			continue;
		}
		*end = '\0';
		f->at += (size_t)(end - text) + 2;
		if (*text == ':')
			continue;
		for (line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
			if (sscanf(line, "event: %31s", ret->type) == 1)
				continue;
			if (strncmp(line, "id: ", 4) == 0)
				ret->id = strtoll(line + 4, NULL, 10);
			else if (strncmp(line, "data: ", 6) == 0)
				ret->data = json_loads(line + 6, 0, NULL);
			else
				fail_msg("a strange line: %s", line);
		}
		if (!ret->data)
			fail_msg("'%s' has no data", ret->type);
		return true;
	}
}

static int64_t hello(struct follow *f)
{
	autoone struct one e;

	assert_int_equal(head(f), 200);
	assert_true(next(f, &e));
	assert_string_equal(e.type, "hello");
	assert_true(json_is_string(json_object_get(e.data, "server")));
	return json_integer_value(json_object_get(e.data, "lastId"));
}

/* The next event is of that type; its state, where there is one, that one. Returns its id. */
static int64_t expect(struct follow *f, const char *type, const char *state)
{
	autoone struct one e;
	const json_t *vm;

	if (!next(f, &e))
		fail_msg("the stream ended before %s", type);
	vm = json_object_get(e.data, "vm");
	if (strcmp(e.type, type) != 0 || (state && strcmp(fx_str(vm, "state"), state) != 0)) {
		autofree char *text = json_dumps(e.data, 0);

		fail_msg("not %s %s: %s", type, state ? state : "", text);
	}
	assert_int_equal(json_integer_value(json_object_get(e.data, "id")), e.id);
	assert_string_equal(fx_str(e.data, "type"), type);
	return e.id;
}

static void operator(struct fx *f, struct acting *ret)
{
	snprintf(ret->header, sizeof(ret->header), "%s", f->auth_header);
}

static void quick(struct fx *f, const char *method, const char *path, const char *body)
{
	autoreply struct http_reply r = { 0 };

	fx_call(f, method, path, body, 200, &r);
}

/* Without the domains' own checks: what is told is the store's business. */
static void map_name(struct fx *f, const char *vm, const char *name)
{
	autoreply struct http_reply who = { 0 };
	struct store_mapping m = { .port = 3000 };

	fx_call(f, "GET", "/auth/v1/whoami", NULL, 200, &who);
	id_make("map-", m.id);
	snprintf(m.domain, sizeof(m.domain), "%s", name);
	snprintf(m.vm, sizeof(m.vm), "%s", vm);
	snprintf(m.account, sizeof(m.account), "%s", fx_str(who.json, "accountId"));
	OK(store_mapping_put(f->store, &m, &m, &err));
}

static void a_vm_from_first_to_last(void **state)
{
	struct fx *f = *state;
	autofollow struct follow a = { .fd = -1 }, b = { .fd = -1 }, c = { .fd = -1 };
	char vm[32], path[96], query[64];
	struct acting op;
	int64_t first, id;

	operator(f, &op);
	begin(f, &op, "", &a);
	first = hello(&a);
	fx_vm(f, vm);
	id = expect(&a, "vm.created", "running");
	assert_true(id > first);
	fx_suspend(f, vm);
	expect(&a, "vm.state", "suspending");
	assert_true(expect(&a, "vm.suspended", "suspended") > id);
	snprintf(path, sizeof(path), "/v1/vms/%s/start", vm);
	quick(f, "POST", path, NULL);
	expect(&a, "vm.state", "starting");
	expect(&a, "vm.resumed", "running");
	snprintf(path, sizeof(path), "/v1/vms/%s", vm);
	quick(f, "PATCH", path, "{\"name\":\"ada\"}");
	expect(&a, "vm.changed", "running");
	quick(f, "PATCH", path, "{\"tags\":[\"x\"]}");
	expect(&a, "vm.changed", "running");
	snprintf(path, sizeof(path), "/v1/vms/%s/fork", vm);
	quick(f, "POST", path, "{\"count\":2}");
	expect(&a, "vm.forked", "running");
	expect(&a, "vm.created", "running");
	expect(&a, "vm.created", "running");
	map_name(f, vm, "ada.example.org");
	expect(&a, "domain.mapped", NULL);
	snprintf(path, sizeof(path), "/v1/vms/%s", vm);
	quick(f, "DELETE", path, NULL);
	expect(&a, "vm.deleted", "deleted");
	expect(&a, "domain.unmapped", NULL); /* with its VM */
	/* The same once more, by its number; then only some. */
	snprintf(query, sizeof(query), "?after=%lld", (long long)first);
	begin(f, &op, query, &b);
	hello(&b);
	assert_int_equal(expect(&b, "vm.created", "running"), id);
	begin(f, &op, "?types=vm.resumed,vm.nothing", &c);
	assert_int_equal(head(&c), 400);
	follow_done(&c);
	snprintf(query, sizeof(query), "?after=%lld&types=vm.resumed,vm.deleted", (long long)first);
	begin(f, &op, query, &c);
	hello(&c);
	expect(&c, "vm.resumed", "running");
	expect(&c, "vm.deleted", "deleted");
	follow_done(&c);
	begin(f, &op, "?after=0&follow=false&types=vm.forked", &c); /* what is there */
	hello(&c);
	expect(&c, "vm.forked", "running");
	{
		struct one none;

		assert_false(next(&c, &none));
	}
	follow_done(&c);
	begin(f, &op, "?after=yesterday", &c);
	assert_int_equal(head(&c), 400);
}

#define STORM_THREADS 4
#define STORM_EACH 150

struct storm {
	struct fx *f;
	char vm[32];
	char account[ACCOUNT_SIZE];
};

static void *storm_main(void *arg)
{
	struct storm *s = arg;

	for (int i = 0; i < STORM_EACH; i++) {
		store_feed_note(s->f->store, s->account, "vm.state", s->vm, "vm",
		                json_pack("{s:s, s:i}", "id", s->vm, "n", i));
		if (i % 10 == 0) {
			struct store_note n = { .tags = (char *)"[]",
				                .metadata = (char *)"{}",
				                .env = (char *)"" };
			struct err e = { 0 };

			snprintf(n.vm_id, sizeof(n.vm_id), "%s", s->vm);
			snprintf(n.account, sizeof(n.account), "%s", s->account);
			if (store_note_put(s->f->store, &n, &e) < 0)
				fprintf(stderr, "%s\n", e.msg);
		}
	}
	return NULL;
}

static void nothing_is_lost_or_doubled_in_a_storm(void **state)
{
	struct fx *f = *state;
	autoreply struct http_reply who = { 0 };
	pthread_t threads[STORM_THREADS];
	struct storm s = { .f = f };
	int64_t place, last = -1;
	int got = 0, want = STORM_THREADS * (STORM_EACH + STORM_EACH / 10), round = 0;
	autofollow struct follow a = { .fd = -1 };
	struct acting op;

	operator(f, &op);
	fx_vm(f, s.vm);
	fx_call(f, "GET", "/auth/v1/whoami", NULL, 200, &who);
	snprintf(s.account, sizeof(s.account), "%s", fx_str(who.json, "accountId"));
	begin(f, &op, "", &a);
	place = hello(&a);
	for (int i = 0; i < STORM_THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, storm_main, &s), 0);
	while (got < want) {
		autoone struct one e;

		/* Leaves after every 40, without having read what is on its way, and comes back. */
		if (got / 40 > round) {
			struct acting again;

			round = got / 40;
			follow_done(&a);
			snprintf(again.header, sizeof(again.header), "%sLast-Event-ID: %lld\r\n",
			         op.header, (long long)place);
			begin(f, &again, "?after=0", &a);
			hello(&a);
		}
		assert_true(next(&a, &e));
		assert_string_not_equal(e.type, "gap");
		assert_true(e.id > last);
		place = last = e.id;
		got++;
	}
	for (int i = 0; i < STORM_THREADS; i++)
		pthread_join(threads[i], NULL);
	{ /* and there are no more than these */
		struct store_feed_event *v = NULL;
		size_t n = 0;

		OK(store_feed_flush(f->store, &err));
		OK(store_feed_list(f->store, s.account, last, 10, &v, &n, &err));
		store_feed_free(v, n);
		assert_int_equal(n, 0);
	}
}

/* So many that the oldest are dropped. */
static void overflow(struct fx *f, const char *account, int n)
{
	for (int i = 0; i < n; i++) {
		store_feed_note(f->store, account, "git.push", "", "push",
		                json_pack("{s:i}", "n", i));
		if (i % 1000 == 999)
			OK(store_feed_flush(f->store, &err));
	}
	OK(store_feed_flush(f->store, &err));
}

static void who_comes_too_late_is_told(void **state)
{
	struct fx *f = *state;
	autoreply struct http_reply who = { 0 };
	autofollow struct follow slow = { .fd = -1 }, late = { .fd = -1 }, odd = { .fd = -1 };
	struct acting op;
	char account[ACCOUNT_SIZE], vm[32];
	int64_t last, before = 0;
	bool gap = false;
	int n = 0;

	operator(f, &op);
	fx_call(f, "GET", "/auth/v1/whoami", NULL, 200, &who);
	snprintf(account, sizeof(account), "%s", fx_str(who.json, "accountId"));
	begin(f, &op, "", &slow); /* and does not read */
	fx_vm(f, vm);
	overflow(f, account, 3 * FEED_KEPT);
	{
		struct store_feed_event *v = NULL;
		size_t kept = 0;

		OK(store_feed_list(f->store, account, 0, (size_t)4 * FEED_KEPT, &v, &kept, &err));
		store_feed_free(v, kept);
		assert_in_range(kept, FEED_KEPT, FEED_KEPT + 64);
	}
	begin(f, &op, "?after=1", &late);
	last = hello(&late);
	{
		autoone struct one e;

		assert_true(next(&late, &e));
		assert_string_equal(e.type, "gap");
		assert_int_equal(e.id, last);
	}
	begin(f, &op, "?after=999999999", &odd); /* of another life of the database */
	hello(&odd);
	{
		autoone struct one e;

		assert_true(next(&odd, &e));
		assert_string_equal(e.type, "gap");
	}
	fx_vm(f, vm); /* life goes on for everybody */
	assert_true(expect(&late, "vm.created", "running") > last);
	expect(&odd, "vm.created", "running");
	/* The slow one sees the beginning; then all of it, or that something is missing. */
	hello(&slow);
	while (!gap && n <= 3 * FEED_KEPT) {
		autoone struct one e;

		assert_true(next(&slow, &e));
		gap = strcmp(e.type, "gap") == 0;
		assert_true(gap || e.id > before);
		before = e.id;
		n++;
	}
}

static void a_transaction_that_fails_loses_no_note(void **state)
{
	struct fx *f = *state;
	struct store_feed_event *v = NULL;
	int64_t last, lost;
	size_t n = 0;

	OK(store_feed_range(f->store, "acc", &last, &lost, &err));
	store_feed_notify(f->store, NULL, NULL);
	store_feed_note(f->store, "acc", "git.push", "", "push", json_pack("{s:i}", "n", 1));
	{
		autotx struct tx t = { 0 };

		OK(tx_begin(&t, f->store, &err));
		OK(feed_tell_locked(f->store, "acc", "git.sync", "", "sync", json_object(), &err));
		store_feed_note(f->store, "acc", "git.push", "", "push",
		                json_pack("{s:i}", "n", 2));
	} /* rolled back */
	OK(store_feed_flush(f->store, &err));
	OK(store_feed_list(f->store, "acc", last, 10, &v, &n, &err));
	assert_int_equal(n, 2);
	assert_string_equal(v[0].text, "\"push\":{\"n\":1}");
	assert_string_equal(v[1].text, "\"push\":{\"n\":2}");
	store_feed_free(v, n);
	/* Too many notes: readers will be told. */
	for (int i = 0; i < FEED_QUEUE_MAX + 10; i++)
		store_feed_note(f->store, "acc", "git.push", "", "push", json_object());
	OK(store_feed_flush(f->store, &err));
	OK(store_feed_range(f->store, "acc", &last, &lost, &err));
	assert_int_equal(last, lost);
	OK(store_feed_range(f->store, "another", &last, &lost, &err));
	assert_int_equal(last, lost);
}

static void numbers_go_on_after_a_restart(void **state)
{
	struct tmpdir dir;
	struct store *s = NULL;
	struct store_feed_event *v = NULL;
	int64_t last, lost, before;
	char path[256];
	size_t n = 0;

	assert_int_equal(tmpdir_make(&dir), 0);
	OK(store_open(tmpdir_file(&dir, "x.db", path, sizeof(path)), &s, &err));
	store_feed_note(s, "acc", "git.push", "", "push", json_object());
	OK(store_feed_flush(s, &err));
	OK(store_feed_range(s, "acc", &before, &lost, &err));
	s = store_close(s);
	OK(store_open(path, &s, &err));
	store_feed_note(s, "acc", "git.push", "", "push", json_object());
	OK(store_feed_flush(s, &err));
	OK(store_feed_range(s, "acc", &last, &lost, &err));
	assert_int_equal(last, before + 1);
	assert_int_equal(lost, 0);
	OK(store_feed_list(s, "acc", 0, 10, &v, &n, &err));
	assert_int_equal(n, 2);
	store_feed_free(v, n);
	store_close(s);
	tmpdir_remove(&dir);
}

static void accounts_do_not_see_each_other(void **state)
{
	struct fx *f = *state;
	autoreply struct http_reply idn = { 0 }, tok = { 0 }, vm3 = { 0 };
	autofollow struct follow a = { .fd = -1 }, b = { .fd = -1 }, c = { .fd = -1 };
	struct acting op, other, token;
	char mine[32], not_mine[32], path[160];

	operator(f, &op);
	acting_account(f, &other);
	fx_vm(f, mine);
	fx_vm(f, not_mine);
	fx_call(f, "POST", "/identity/v1/identities", "{}", 200, &idn);
	snprintf(path, sizeof(path), "/identity/v1/identities/%s/tokens", fx_str(idn.json, "id"));
	fx_call(f, "POST", path, "{}", 200, &tok);
	snprintf(token.header, sizeof(token.header), "Authorization: Bearer %s\r\n",
	         fx_str(tok.json, "token"));
	snprintf(path, sizeof(path), "/identity/v1/identities/%s/permissions/vm/%s",
	         fx_str(idn.json, "id"), mine);
	quick(f, "POST", path, "{}");
	begin(f, &op, "?types=vm.*", &a);
	begin(f, &other, "", &b);
	begin(f, &token, "", &c);
	hello(&a);
	hello(&b);
	hello(&c);
	as_call(f, &other, "POST", "/v1/vms", "{}", 200, &vm3);
	fx_suspend(f, not_mine);
	fx_suspend(f, mine);
	snprintf(path, sizeof(path), "/v1/vms/%s", mine);
	quick(f, "DELETE", path, NULL);
	expect(&b, "vm.created", "running");
	for (int i = 0; i < 2; i++) {
		expect(&a, "vm.state", "suspending");
		expect(&a, "vm.suspended", "suspended");
	}
	expect(&a, "vm.deleted", "deleted");
	expect(&c, "vm.state", "suspending"); /* of its VM only, to the end */
	expect(&c, "vm.suspended", "suspended");
	expect(&c, "vm.deleted", "deleted");
}

static void it_ends_with_the_session(void **state)
{
	struct fx *f = *state;
	autofollow struct follow a = { .fd = -1 };
	struct acting op;
	struct browser b;
	autoone struct one e;

	web_operator(f, &op);
	web_sign_in(f, &op, &b);
	begin(f, &b.look, "", &a);
	hello(&a);
	{
		autoreply struct http_reply r = { 0 };

		as_call(f, &b.act, "DELETE", "/v1/session", NULL, 200, &r);
	}
	while (next(&a, &e))
		one_done(&e);
}

static void there_are_so_many_readers(void **state)
{
	struct fx *f = *state;
	struct follow all[FEED_READERS_PER_ACCOUNT];
	autofollow struct follow more = { .fd = -1 }, other = { .fd = -1 };
	struct acting op, stranger;

	operator(f, &op);
	acting_account(f, &stranger);
	for (int i = 0; i < FEED_READERS_PER_ACCOUNT; i++) {
		begin(f, &op, "", &all[i]);
		hello(&all[i]);
	}
	begin(f, &op, "", &more);
	assert_int_equal(head(&more), 429);
	begin(f, &stranger, "", &other);
	hello(&other);
	for (int i = 0; i < FEED_READERS_PER_ACCOUNT; i++)
		follow_done(&all[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, fx_setup, fx_teardown)
		T(a_vm_from_first_to_last),
		T(nothing_is_lost_or_doubled_in_a_storm),
		T(who_comes_too_late_is_told),
		T(a_transaction_that_fails_loses_no_note),
		cmocka_unit_test(numbers_go_on_after_a_restart),
		T(accounts_do_not_see_each_other),
		T(it_ends_with_the_session),
		T(there_are_so_many_readers),
#undef T
	};

	return FX_RUN(tests);
}
