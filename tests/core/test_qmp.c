/* SPDX-License-Identifier: Apache-2.0 */
/* test_qmp.c - the monitor client against a scripted QEMU on a socketpair */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/err.h"
#include "engine/qmp.h"

#define GREETING "{\"QMP\": {\"version\": {}, \"capabilities\": []}}\r\n"
#define OK(id) "{\"return\": {}, \"id\": " #id "}\r\n"

/* Sends each text after it received a command (the first at once). NULL ends the connection. */
struct script {
	int fd;
	const char *const *say;
	char heard[4096];
};

static void *peer(void *arg)
{
	struct script *s = arg;
	size_t n = 0;

	for (size_t i = 0; s->say[i]; i++) {
		if (i) {
			ssize_t k = recv(s->fd, s->heard + n, sizeof(s->heard) - 1 - n, 0);

			if (k <= 0)
				break;
			n += (size_t)k;
		}
		assert_true(send(s->fd, s->say[i], strlen(s->say[i]), MSG_NOSIGNAL) > 0);
	}
	shutdown(s->fd, SHUT_RDWR);
	return NULL;
}

struct fixture {
	struct script s;
	pthread_t t;
	int fd;
};

static void begin(struct fixture *f, const char *const *say)
{
	int sv[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, sv), 0);
	*f = (struct fixture){ .s = { .fd = sv[1], .say = say }, .fd = sv[0] };
	assert_int_equal(pthread_create(&f->t, NULL, peer, &f->s), 0);
}

static void end(struct fixture *f, struct qmp *q)
{
	qmp_free(q);
	pthread_join(f->t, NULL);
	close(f->s.fd);
}

static void test_command_and_reply(void **state)
{
	const char *const say[] = { GREETING, OK(1),
		                    "{\"return\": {\"running\": true}, \"id\": 2}\r\n", NULL };
	struct err err = { 0 };
	struct fixture f;
	struct qmp *q = NULL;
	json_t *body = NULL;

	begin(&f, say);
	assert_int_equal(qmp_open(f.fd, deadline_in(5000), &q, &err), 0);
	assert_int_equal(qmp_cmd(q, "query-status", NULL, deadline_in(5000), &body, &err), 0);
	assert_true(json_is_true(json_object_get(body, "running")));
	json_decref(body);
	end(&f, q);
	assert_non_null(strstr(f.s.heard, "\"query-status\""));
}

static void test_error_keeps_the_sentence(void **state)
{
	const char *const say[] = {
		GREETING, OK(1),
		"{\"id\": 2, \"error\": {\"class\": \"GenericError\", \"desc\": \"No space\"}}\r\n",
		NULL
	};
	struct err err = { 0 };
	struct fixture f;
	struct qmp *q = NULL;

	begin(&f, say);
	assert_int_equal(qmp_open(f.fd, deadline_in(5000), &q, &err), 0);
	assert_int_equal(qmp_cmd(q, "cont", NULL, deadline_in(5000), NULL, &err), -EREMOTEIO);
	assert_string_equal(err.msg, "monitor command cont: No space");
	end(&f, q);
}

static void test_events_are_kept_in_order(void **state)
{
	const char *const say[] = { GREETING, OK(1),
		                    "{\"event\": \"STOP\", \"timestamp\": {}}\r\n{\"event\": "
		                    "\"MIGRATION\", \"data\": {\"status\": \"setup\"}}\r\n" OK(2),
		                    NULL };
	struct err err = { 0 };
	struct fixture f;
	struct qmp *q = NULL;
	json_t *data = NULL;

	begin(&f, say);
	assert_int_equal(qmp_open(f.fd, deadline_in(5000), &q, &err), 0);
	assert_int_equal(qmp_cmd(q, "stop", NULL, deadline_in(5000), NULL, &err), 0);
	assert_int_equal(qmp_wait_event(q, "MIGRATION", deadline_in(5000), &data, &err), 0);
	assert_string_equal(json_string_value(json_object_get(data, "status")), "setup");
	json_decref(data);
	assert_int_equal(qmp_wait_event(q, "STOP", deadline_in(5000), NULL, &err), 0);
	assert_int_equal(qmp_wait_event(q, "STOP", deadline_in(5000), NULL, &err), -EPIPE);
	end(&f, q);
}

static void test_end_and_silence(void **state)
{
	const char *const gone[] = { GREETING, OK(1), NULL };
	struct err err = { 0 };
	struct fixture f;
	struct qmp *q = NULL;
	int sv[2];

	begin(&f, gone);
	assert_int_equal(qmp_open(f.fd, deadline_in(5000), &q, &err), 0);
	assert_int_equal(qmp_cmd(q, "cont", NULL, deadline_in(5000), NULL, &err), -EPIPE);
	end(&f, q);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, sv), 0);
	assert_int_equal(qmp_open(sv[0], deadline_in(50), &q, &err), -ETIMEDOUT);
	close(sv[1]);
}

static void test_endless_line_ends_the_session(void **state)
{
	struct err err = { 0 };
	struct qmp *q = NULL;
	char chunk[4096];
	int sv[2];
	pid_t pid;

	memset(chunk, 'x', sizeof(chunk));
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, sv), 0);
	pid = fork();
	if (pid == 0) {
		close(sv[0]);
		for (int i = 0; i < 2048; i++)
			if (send(sv[1], chunk, sizeof(chunk), MSG_NOSIGNAL) < 0)
				break;
		_exit(0);
	}
	close(sv[1]);
	assert_int_equal(qmp_open(sv[0], deadline_in(60000), &q, &err), -EMSGSIZE);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void test_parse_refuses_other_things(void **state)
{
	static const char *const bad[] = { "",
		                           "[]",
		                           "42",
		                           "{}",
		                           "{\"foo\": 1}",
		                           "{\"return\": 1",
		                           "{\"return\": 1, \"return\": 2}" };
	struct qmp_msg m;

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert_int_equal(qmp_parse(bad[i], strlen(bad[i]), &m, NULL), -EBADMSG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_command_and_reply),
		cmocka_unit_test(test_error_keeps_the_sentence),
		cmocka_unit_test(test_events_are_kept_in_order),
		cmocka_unit_test(test_end_and_silence),
		cmocka_unit_test(test_endless_line_ends_the_session),
		cmocka_unit_test(test_parse_refuses_other_things),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
