/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_api_strangers.c - connections that have shown no key take no place from those that have one
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "api/call.h"
#include "base/auto.h"
#include "base/clock.h"
#include "http/http_internal.h"
#include "tests/unit/api_as.h"
#include "tests/unit/api_fx.h"

#define CROWD 700 /* more than all connections there were */

/* Time helps nobody: half of a header may take ten minutes. */
static int setup_patient(void **state)
{
	return fx_setup_with(state, /* header_ms= */ 600000);
}

static void open_crowd(struct fx *f, int fds[CROWD], const char *text)
{
	for (size_t i = 0; i < CROWD; i++) {
		fds[i] = http_connect(f->port, 60000);
		assert_true(fds[i] >= 0);
		(void)http_send(fds[i], text, strlen(text)); /* it may be closed already */
	}
}

static void close_crowd(int fds[CROWD])
{
	for (size_t i = 0; i < CROWD; i++)
		close(fds[i]);
}

static void the_key_works(struct fx *f)
{
	for (int i = 0; i < 5; i++) {
		autofd int fd = http_connect(f->port, 60000);
		autoreply struct http_reply r = { 0 };
		char text[512];
		int n = snprintf(text, sizeof(text),
		                 "GET /auth/v1/whoami HTTP/1.1\r\nHost: x\r\n%s\r\n",
		                 f->auth_header);

		assert_true(fd >= 0 && http_send(fd, text, (size_t)n));
		assert_int_equal(http_receive(fd, &r), 0);
		assert_int_equal(r.status, 200);
	}
}

static void half_sent_headers_lock_nobody_out(void **state)
{
	struct fx *f = *state;
	int fds[CROWD];

	open_crowd(f, fds, "GET /v1/health HTTP/1.1\r\nHost: ");
	the_key_works(f);
	close_crowd(fds);
}

static void silent_connections_lock_nobody_out(void **state)
{
	struct fx *f = *state;
	int fds[CROWD];

	open_crowd(f, fds, "");
	the_key_works(f);
	close_crowd(fds);
}

/* They were refused, but the server waits for their bodies so that they see it. */
static void half_sent_bodies_without_a_key_lock_nobody_out(void **state)
{
	struct fx *f = *state;
	int fds[CROWD];

	open_crowd(f, fds, "POST /v1/vms HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n{");
	the_key_works(f);
	close_crowd(fds);
}

/* A public route takes a body too. */
static void half_sent_bodies_of_public_routes_lock_nobody_out(void **state)
{
	struct fx *f = *state;
	autoreply struct http_reply made = { 0 };
	char text[256];
	int fds[CROWD];

	fx_call(f, "POST", "/git/v1/repo", "{\"name\":\"open\",\"public\":true}", 200, &made);
	snprintf(text, sizeof(text),
	         "POST /%s/info/lfs/objects/batch HTTP/1.1\r\nHost: x\r\nContent-Length: "
	         "100000\r\n\r\n{",
	         fx_str(made.json, "repoId"));
	open_crowd(f, fds, text);
	the_key_works(f);
	close_crowd(fds);
}

struct one {
	struct fx *f;
	int status;
};

static void *ask(void *arg)
{
	struct one *o = arg;
	autoreply struct http_reply r = { 0 };

	if (http_call(o->f->port, "GET", "/auth/v1/whoami", o->f->auth_header, NULL, 0, &r) == 0)
		o->status = r.status;
	return NULL;
}

/* A client that opens many connections at once is no attack: each of them is served. */
static void a_burst_of_a_good_client_is_served(void **state)
{
	enum { BURST = 300 };
	struct fx *f = *state;
	struct one ones[BURST];
	pthread_t t[BURST];

	for (size_t i = 0; i < BURST; i++) {
		ones[i] = (struct one){ .f = f };
		assert_int_equal(pthread_create(&t[i], NULL, ask, &ones[i]), 0);
	}
	for (size_t i = 0; i < BURST; i++) {
		pthread_join(t[i], NULL);
		assert_int_equal(ones[i].status, 200);
	}
}

/* Whoever had a request with a key keeps its connection while strangers come and go. */
static void connections_with_a_key_stay(void **state)
{
	struct fx *f = *state;
	autofd int kept = http_connect(f->port, 60000);
	autoreply struct http_reply r = { 0 }, again = { 0 };
	char text[512];
	int n = snprintf(text, sizeof(text), "GET /auth/v1/whoami HTTP/1.1\r\nHost: x\r\n%s\r\n",
	                 f->auth_header);
	int fds[CROWD];

	assert_true(http_send(kept, text, (size_t)n));
	assert_int_equal(http_receive(kept, &r), 0);
	open_crowd(f, fds, "GET /v1/health HTTP/1.1\r\n");
	the_key_works(f);
	assert_true(http_send(kept, text, (size_t)n));
	assert_int_equal(http_receive(kept, &again), 0);
	assert_int_equal(again.status, 200);
	close_crowd(fds);
}

static void behind_a_proxy(struct conf *c)
{
	snprintf(c->proxies, sizeof(c->proxies), "192.0.2.1 127.0.0.0/8");
	c->rate_address = 1;
}

static int setup_proxy(void **state)
{
	return fx_setup_tuned(state, 0, behind_a_proxy);
}

static int health_from(struct fx *f, const char *header)
{
	autoreply struct http_reply r = { 0 };

	assert_int_equal(http_call(f->port, "GET", "/v1/health", header, NULL, 0, &r), 0);
	return r.status;
}

/* The proxy's last word counts, in one header or in two; what its client claims does not. */
static void the_address_that_a_named_proxy_saw_is_counted(void **state)
{
	struct fx *f = *state;
	int status = 200;

	for (int i = 0; i < 1000 && status == 200; i++) {
		char lies[128];

		snprintf(lies, sizeof(lies), "X-Forwarded-For: 203.0.113.%d, 198.51.100.7\r\n",
		         i % 200);
		status = health_from(f, lies);
	}
	assert_int_equal(status, 429);
	assert_int_equal(health_from(f, "X-Forwarded-For: 203.0.113.1\r\n"
	                                "X-Forwarded-For: 198.51.100.8\r\n"),
	                 200);
	assert_int_equal(health_from(f, "X-Forwarded-For: 198.51.100.7, nonsense\r\n"), 200);
}

static void rate_without_proxy(struct conf *c)
{
	c->rate_address = 1;
}

static int setup_rate(void **state)
{
	return fx_setup_tuned(state, 0, rate_without_proxy);
}

static void nobody_else_is_believed(void **state)
{
	struct fx *f = *state;
	int status = 200;

	for (int i = 0; i < 1000 && status == 200; i++) {
		char lies[128];

		snprintf(lies, sizeof(lies), "X-Forwarded-For: 203.0.113.%d\r\n", i % 200);
		status = health_from(f, lies);
	}
	assert_int_equal(status, 429);
}

/* ---- the lobby by itself: addresses that this host does not have ---- */

struct room {
	struct http h;
	struct lobby *l;
	struct visitor *v[64];
	int fds[64][2];
	unsigned n;
};

static void room_open(struct room *r, struct http_strangers conf)
{
	memset(r, 0, sizeof(*r));
	r->h.conf.limits.strangers = conf;
	OK(lobby_new(&r->h, &r->l, &err));
}

static struct sockaddr_in from(const char *addr)
{
	struct sockaddr_in a = { .sin_family = AF_INET };

	assert_int_equal(inet_pton(AF_INET, addr, &a.sin_addr), 1);
	return a;
}

/* As the HTTP library does it: asks, then tells. */
static bool room_come(struct room *r, const char *addr)
{
	struct sockaddr_in a = from(addr);

	if (!lobby_admit(r->l, (struct sockaddr *)&a))
		return false;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, r->fds[r->n]), 0);
	r->v[r->n] = lobby_enter(r->l, r->fds[r->n][0], (struct sockaddr *)&a);
	assert_non_null(r->v[r->n++]);
	return true;
}

/* Was it told to leave? */
static bool room_left(struct room *r, unsigned i)
{
	struct pollfd p = { .fd = r->fds[i][1], .events = POLLRDHUP };

	return poll(&p, 1, 0) == 1;
}

static void room_close(struct room *r)
{
	for (unsigned i = 0; i < r->n; i++) {
		lobby_leave(r->l, r->v[i]);
		close(r->fds[i][0]);
		close(r->fds[i][1]);
	}
	lobby_free(r->l);
}

static void one_address_has_its_share_of_strangers(void **state)
{
	struct room r;

	room_open(&r, (struct http_strangers){ 32, 30, 32, 4 });
	for (int i = 0; i < 4; i++)
		assert_true(room_come(&r, "192.0.2.1"));
	assert_false(room_come(&r, "192.0.2.1")); /* all of them are new */
	assert_true(room_come(&r, "192.0.2.2"));
	poll(NULL, 0, 600);                      /* then they are old, */
	assert_true(room_come(&r, "192.0.2.1")); /* and the first makes room */
	assert_true(room_left(&r, 0));
	for (unsigned i = 1; i < r.n; i++)
		assert_false(room_left(&r, i));
	assert_false(lobby_busy(r.l, r.v[0]));
	assert_true(lobby_busy(r.l, r.v[1])); /* has shown its key: it counts no more */
	lobby_over(r.l, r.v[1], /* known= */ true);
	assert_true(room_come(&r, "192.0.2.1"));
	assert_false(room_left(&r, 1));
	for (int i = 0; i < 10; i++)
		assert_true(room_come(&r, "127.0.0.1")); /* many clients may be behind it */
	room_close(&r);
}

/* Whoever has sent something that nobody has read waits for the server, not the server for it. */
static void who_was_not_read_yet_is_spared(void **state)
{
	struct room r;

	room_open(&r, (struct http_strangers){ 4, 100, 4, 4 });
	for (int i = 0; i < 4; i++)
		assert_true(room_come(&r, "192.0.2.1"));
	assert_int_equal(write(r.fds[0][1], "GET / HTTP/1.1\r\n", 16), 16);
	assert_int_equal(write(r.fds[1][1], "POST", 4), 4);
	assert_true(
	        lobby_heard(r.l, r.v[1])); /* was refused: what it goes on to send does not count */
	poll(NULL, 0, 600);
	for (unsigned i = 1; i < 4; i++) {
		assert_true(room_come(&r, "192.0.2.2"));
		assert_true(room_left(&r, i));
	}
	assert_false(room_left(&r, 0));
	room_close(&r);
}

static void the_busiest_address_makes_room(void **state)
{
	unsigned left = 0;
	struct room r;

	room_open(&r, (struct http_strangers){ 8, 100, 8, 8 });
	assert_true(room_come(&r, "192.0.2.1")); /* the oldest, but alone */
	for (int i = 0; i < 7; i++)
		assert_true(room_come(&r, "192.0.2.2"));
	for (int i = 0; i < 5; i++)
		assert_true(room_come(&r, "192.0.2.3")); /* waits for one to grow old */
	assert_false(room_left(&r, 0));
	for (unsigned i = 1; i < 8; i++)
		left += room_left(&r, i);
	assert_int_equal(left, 5);
	room_close(&r);
}

/*
 * Behind this host's address there may be many, so there is no limit for it; if it has the whole
 * room, the next one is not kept waiting as long as if the room were everybody's. The machine may
 * be too busy to see that; not twenty times in a row.
 */
static void an_address_that_has_the_room_makes_room_sooner(void **state)
{
	bool sooner = false;

	for (int i = 0; i < 20 && !sooner; i++) {
		uint64_t begin = clock_ms();
		struct room r;

		room_open(&r, (struct http_strangers){ 32, 30, 32, 4 });
		for (int k = 0; k < 32; k++)
			assert_true(room_come(&r, "127.0.0.1"));
		assert_true(room_come(&r, "192.0.2.1"));
		sooner = clock_ms() - begin < 400;
		room_close(&r);
	}
	assert_true(sooner);
}

int main(void)
{
	const struct rlimit files = { 8192, 8192 };
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup_patient, fx_teardown)
		T(half_sent_headers_lock_nobody_out),
		T(silent_connections_lock_nobody_out),
		T(half_sent_bodies_without_a_key_lock_nobody_out),
		T(half_sent_bodies_of_public_routes_lock_nobody_out),
		T(a_burst_of_a_good_client_is_served),
		T(connections_with_a_key_stay),
		cmocka_unit_test_setup_teardown(the_address_that_a_named_proxy_saw_is_counted,
		                                setup_proxy, fx_teardown),
		cmocka_unit_test_setup_teardown(nobody_else_is_believed, setup_rate, fx_teardown),
		cmocka_unit_test(one_address_has_its_share_of_strangers),
		cmocka_unit_test(who_was_not_read_yet_is_spared),
		cmocka_unit_test(the_busiest_address_makes_room),
		cmocka_unit_test(an_address_that_has_the_room_makes_room_sooner),
	};

	setrlimit(RLIMIT_NOFILE, &files); /* both ends of the crowd are here */
	return FX_RUN(tests);
}
