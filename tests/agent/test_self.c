/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_self.c - who a machine is, and its programs' requests about it: host end against the real
 * agent. A pulled cable and another greeting play the freeze and the thaw in the middle of a
 * request.
 */
#include <errno.h>
#include <poll.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"
#include "guest/guest_self.h"
#include "tests/agent/raw.h"
#include "tests/agent/util.h"

#define FORK "POST /v1/self/fork HTTP/1.0\r\n\r\n"
#define SUSPEND "POST /v1/self/suspend HTTP/1.0\r\n\r\n"
#define SNAPSHOT "POST /v1/self/snapshot HTTP/1.0\r\n\r\n"
#define OTHER "GET /v1/self/children HTTP/1.0\r\n\r\n"

static sem_t rings;

static bool on_ring(void *ctx, struct guest *g)
{
	sem_post(&rings);
	return true;
}

static void await_ring(void)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += TEST_DEADLINE_MS / 1000;
	assert_int_equal(sem_timedwait(&rings, &until), 0);
}

/* Greets as that machine over a new cable. */
static void greet(struct rig *r, struct cable *c, enum guest_reason reason, uint64_t generation,
                  const struct agent_who *who)
{
	struct guest_identity id = { .reason = reason,
		                     .generation = generation,
		                     .machine_id = "0123456789abcdef0123456789abcdef",
		                     .hostname = "pando-test",
		                     .who = who };
	struct err err = { 0 };

	assert_int_equal(guest_new("test", cable_plug(c, r->fd), &r->g, &err), 0);
	guest_on_ring(r->g, on_ring, NULL);
	if (guest_hello(r->g, &id, deadline_in(TEST_DEADLINE_MS), NULL, &err) < 0)
		fail_msg("hello: %s", err.msg);
	assert_true(guest_knows_who(r->g) == (who != NULL));
}

static void part(struct rig *r, struct cable *c)
{
	guest_close(r->g);
	guest_unref(TAKE_PTR(r->g));
	cable_pull(c);
}

static int dial(struct rig *r)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(sa.sun_path, sizeof(sa.sun_path), "%s/run/pando/self.sock", r->dir);
	if (connect(fd, (struct sockaddr *)&sa, sizeof(sa)) == 0)
		return fd;
	close(fd);
	return -1;
}

static int ask(struct rig *r, const char *request)
{
	int fd = dial(r);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, request, strlen(request)), (ssize_t)strlen(request));
	return fd;
}

/* All that comes until the end. */
static char *answer(int fd_consume)
{
	autobuf struct buf b = { 0 };
	autofd int fd = fd_consume;
	uint64_t deadline = deadline_in(TEST_DEADLINE_MS);

	for (;;) {
		uint8_t *p = buf_reserve(&b, 4096);
		ssize_t n;

		assert_int_equal(io_wait(fd, POLLIN, deadline), 1);
		n = read(fd, p, 4096);
		if (n <= 0)
			return buf_take_str(&b);
		b.len += (size_t)n;
	}
}

#define HAS(text, part)                                             \
	do {                                                        \
		if (!strstr((text), (part)))                        \
			fail_msg("no '%s' in: %s", (part), (text)); \
	} while (0)

static struct guest_flow *take(struct rig *r, uint64_t *ret_number)
{
	struct guest_flow *f = NULL;
	struct err err = { 0 };
	uint32_t more;
	int k;

	while ((k = guest_self_take(r->g, &f, ret_number, &more, &err)) == -ENOENT)
		await_ring(); /* it is on its way */
	if (k < 0)
		fail_msg("take: %s", err.msg);
	return f;
}

static const struct agent_who parent = { .event = AGENT_EVENT_CREATED,
	                                 .allow = AGENT_SELF_ALL,
	                                 .vm = "parent" };

static void test_a_request_and_its_answer(void **state)
{
	struct rig *r = *state;
	struct cable c;
	struct err err = { 0 };
	autofree char *json = NULL, *got = NULL;
	uint8_t request[256] = "";
	struct guest_flow *f;
	uint64_t number;
	uint32_t more;
	int a, b;

	greet(r, &c, GUEST_BOOT, 1, &parent);
	json = rig_text(r, "run/pando/self.json");
	HAS(json,
	    "{\"id\":\"parent\",\"parent\":null,\"index\":0,\"count\":0,\"event\":\"create\"");
	HAS(json, "\"selfAccess\":[\"snapshot\",\"fork\",\"suspend\",\"rewind\",\"children\","
	          "\"delete\"]");
	assert_int_equal(guest_self_take(r->g, &f, &number, &more, &err), -ENOENT);
	a = ask(r, OTHER);
	await_ring();
	b = ask(r, OTHER);
	f = take(r, &number);
	assert_int_equal(number, 1);
	while (guest_flow_read(f, NULL, request, sizeof(request) - 1, &err) == 0)
		io_wait(guest_flow_fd(f), POLLIN, deadline_in(100));
	assert_string_equal((char *)request, OTHER);
	assert_int_equal(guest_flow_write(f, (const uint8_t *)"hello", 5,
	                                  deadline_in(TEST_DEADLINE_MS), &err),
	                 0);
	guest_flow_feed_eof(f, &err);
	got = answer(a);
	assert_string_equal(got, "hello");
	guest_flow_close(f);
	f = take(r, &number);
	assert_int_equal(number, 2);
	guest_flow_close(f); /* a host that gives up ends the connection */
	free(got);
	got = answer(b);
	assert_string_equal(got, "");
	part(r, &c);
}

static void test_both_sides_of_a_fork(void **state)
{
	struct rig *r = *state;
	struct cable c;
	struct agent_who child = { .event = AGENT_EVENT_FORKED,
		                   .allow = AGENT_SELF_FORK,
		                   .index = 2,
		                   .count = 3,
		                   .vm = "child",
		                   .parent = "parent" };
	autofree char *mine = NULL, *other = NULL, *slept = NULL, *json = NULL, *env = NULL,
	              *identity = NULL;
	char script[1024], path[256];
	uint64_t number, ignored;
	int fork_fd, other_fd, wait_fd;

	const char *dirs[] = { "etc/pando", "etc/pando/fork.d", "usr",
		               "usr/lib",   "usr/lib/pando",    "usr/lib/pando/identity.d" };
	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
		snprintf(path, sizeof(path), "%s/%s", r->dir, dirs[i]);
		assert_int_equal(mkdir(path, 0755), 0);
	}
	snprintf(script, sizeof(script),
	         "#!/bin/sh\necho $PANDO_REASON $PANDO_VM_ID $PANDO_PARENT_ID $PANDO_FORK_INDEX "
	         "$PANDO_FORK_COUNT $PANDO_EVENT >%s/new && mv %s/new %s/said\n",
	         r->dir, r->dir, r->dir);
	rig_write(r, "etc/pando/fork.d/note", script, 0755);

	snprintf(script, sizeof(script),
	         "#!/bin/sh\necho $PANDO_REASON $PANDO_VM_ID $PANDO_PARENT_ID $PANDO_FORK_INDEX "
	         "$PANDO_FORK_COUNT $PANDO_EVENT >>%s/identity\n",
	         r->dir);
	rig_write(r, "usr/lib/pando/identity.d/note", script, 0755);

	greet(r, &c, GUEST_BOOT, 1, &parent);
	fork_fd = ask(r, FORK);
	await_ring();
	guest_flow_close(NULL);
	struct guest_flow *f = take(r, &number);
	other_fd = ask(r, FORK); /* somebody else's: not the one that makes the copies */
	struct guest_flow *g = take(r, &ignored);
	wait_fd = ask(r, OTHER); /* not taken yet: it waits on, in the copy as well */
	child.call = number;
	/* The flows end with their connection: the agent must not hear of it. */
	cable_pull(&c);
	guest_flow_close(f);
	guest_flow_close(g);
	guest_unref(TAKE_PTR(r->g));

	greet(r, &c, GUEST_THAW, 2, &child);
	mine = answer(fork_fd);
	HAS(mine, "HTTP/1.1 200 OK\r\n");
	HAS(mine,
	    "{\"role\":\"child\",\"id\":\"child\",\"parent\":\"parent\",\"index\":2,\"count\":3,");
	other = answer(other_fd);
	HAS(other, "HTTP/1.1 503 ");
	HAS(other, "SELF_INTERRUPTED");
	HAS(other, "\"id\":\"child\"");
	json = rig_text(r, "run/pando/self.json");
	HAS(json, "\"event\":\"fork\"");
	await_ring();
	f = take(r, &ignored);
	guest_flow_close(f);
	slept = answer(wait_fd);
	for (uint64_t until = deadline_in(TEST_DEADLINE_MS); deadline_left(until); usleep(10000)) {
		free(env);
		env = rig_text(r, "said");
		if (*env)
			break;
	}
	assert_string_equal(env, "fork child parent 2 3 fork\n");
	identity = rig_text(r, "identity"); /* before the greeting was answered */
	assert_string_equal(identity, "boot parent 0 0 create\nthaw child parent 2 3 fork\n");
	part(r, &c);
}

static void test_resumed_restored_reconnected(void **state)
{
	const struct {
		const char *request, *status, *says;
		uint8_t event;
		enum guest_reason reason;
	} rows[] = {
		{ SUSPEND, " 200 ", "\"role\":\"resumed\"", AGENT_EVENT_RESUMED, GUEST_THAW },
		{ SNAPSHOT, " 200 ", "\"role\":\"restored\"", AGENT_EVENT_REWOUND, GUEST_THAW },
		{ SNAPSHOT, " 503 ", "SELF_INTERRUPTED", AGENT_EVENT_RECONNECTED, GUEST_RECONNECT },
		{ FORK, " 503 ", "SELF_INTERRUPTED", AGENT_EVENT_RESUMED, GUEST_THAW },
		{ OTHER, " 503 ", "(resume)", AGENT_EVENT_RESUMED, GUEST_THAW },
	};
	struct rig *r = *state;
	struct cable c;
	uint64_t generation = 1;

	greet(r, &c, GUEST_BOOT, generation, &parent);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct agent_who who = parent;
		autofree char *got = NULL;
		struct guest_flow *f;
		uint64_t number;
		int fd = ask(r, rows[i].request);

		await_ring();
		f = take(r, &number);
		cable_pull(&c);
		guest_flow_close(f);
		guest_unref(TAKE_PTR(r->g));
		who.event = rows[i].event;
		generation += rows[i].reason == GUEST_THAW;
		greet(r, &c, rows[i].reason, generation, &who);
		got = answer(fd);
		HAS(got, rows[i].status);
		HAS(got, rows[i].says);
	}
	part(r, &c);
}

/* A copy that is only looked at: nobody is told anything there. */
static void test_hidden(void **state)
{
	struct rig *r = *state;
	struct cable c;
	struct agent_who who = parent;
	autofree char *got = NULL;
	struct guest_flow *f;
	uint64_t number;
	int fd;

	greet(r, &c, GUEST_BOOT, 1, &parent);
	fd = ask(r, SNAPSHOT);
	await_ring();
	f = take(r, &number);
	cable_pull(&c);
	guest_flow_close(f);
	guest_unref(TAKE_PTR(r->g));
	who.event = AGENT_EVENT_HIDDEN;
	greet(r, &c, GUEST_THAW, 2, &who);
	assert_int_equal(guest_ping(r->g, deadline_in(TEST_DEADLINE_MS), &(struct err){ 0 }), 0);
	assert_int_equal(io_wait(fd, POLLIN, deadline_in(200)), 0);
	assert_int_equal(dial(r), -1);
	/* Handed over to somebody, as a VM of the pool is. */
	who.event = AGENT_EVENT_CREATED;
	snprintf(who.snapshot, sizeof(who.snapshot), "sc-1");
	assert_int_equal(guest_tell_who(r->g, &who, &(struct err){ 0 }), 0);
	got = answer(fd);
	HAS(got, "\"role\":\"restored\"");
	HAS(got, "\"snapshot\":\"sc-1\"");
	part(r, &c);
}

static void test_off_and_on(void **state)
{
	struct rig *r = *state;
	struct cable c;
	struct agent_who who = parent;
	autofree char *got = NULL, *json = NULL;
	struct stat st;
	char path[160];
	int fd;

	who.allow = 0;
	greet(r, &c, GUEST_BOOT, 1, &who);
	assert_int_equal(dial(r), -1);
	who.event = AGENT_EVENT_CHANGED;
	who.allow = AGENT_SELF_SNAPSHOT;
	assert_int_equal(guest_tell_who(r->g, &who, &(struct err){ 0 }), 0);
	assert_int_equal(guest_ping(r->g, deadline_in(TEST_DEADLINE_MS), &(struct err){ 0 }), 0);
	json = rig_text(r, "run/pando/self.json");
	HAS(json, "\"event\":\"create\",\"snapshot\":null,\"selfAccess\":[\"snapshot\"]");
	snprintf(path, sizeof(path), "%s/run/pando/self.sock", r->dir);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0660);
	fd = ask(r, FORK);
	await_ring();
	who.allow = 0;
	assert_int_equal(guest_tell_who(r->g, &who, &(struct err){ 0 }), 0);
	got = answer(fd);
	HAS(got, "SELF_ACCESS_DENIED");
	assert_int_equal(dial(r), -1);
	part(r, &c);
}

/* Connections that say nothing, and more than there is room for. */
static void test_crowd(void **state)
{
	struct rig *r = *state;
	struct cable c;
	autofree char *got = NULL;
	struct guest_flow *f;
	uint64_t number;
	int quiet[80], fd;

	greet(r, &c, GUEST_BOOT, 1, &parent);
	for (size_t i = 0; i < ARRAY_SIZE(quiet); i++)
		quiet[i] = dial(r);
	for (size_t i = 0; i < 20; i++)
		close(quiet[i]);
	fd = ask(r, OTHER);
	await_ring(); /* there is room again for those behind */
	f = take(r, &number);
	guest_flow_close(f);
	got = answer(fd);
	for (size_t i = 20; i < ARRAY_SIZE(quiet); i++)
		close(quiet[i]);
	part(r, &c);
}

/* A host that says nothing of it: as before. */
static void test_old_host(void **state)
{
	struct rig *r = *state;
	struct cable c;

	greet(r, &c, GUEST_BOOT, 1, NULL);
	assert_int_equal(dial(r), -1);
	assert_int_equal(guest_tell_who(r->g, &parent, &(struct err){ 0 }), -EOPNOTSUPP);
	part(r, &c);
}

static int setup(void **state)
{
	sem_init(&rings, 0, 0);
	return rig_new(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, setup, rig_done)
		T(test_a_request_and_its_answer),
		T(test_both_sides_of_a_fork),
		T(test_resumed_restored_reconnected),
		T(test_hidden),
		T(test_off_and_on),
		T(test_crowd),
		T(test_old_host),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
