/* SPDX-License-Identifier: Apache-2.0 */
/*
 * self_say.c - what a program hears that asked about its own machine, when the host cannot say it
 *
 * As fork(2) returns twice, a request for a fork is answered in the copies as well: by their
 * agents. A snapshot's request is answered again in whatever is thawed from it, like setjmp(3), and
 * one for a suspension when the machine runs again. Everything else was interrupted: it may have
 * been done or not, and says so.
 */
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "agent/self.h"
#include "base/auto.h"
#include "base/err.h"

#define BODY_SIZE 1024
#define WHO_SIZE 512

static void put_id(char *dst, size_t size, const char *id)
{
	snprintf(dst, size, *id ? "\"%s\"" : "null", id);
}

void self_describe(const struct agent_who *w, const char *more, char *ret, size_t size)
{
	char parent[AGENT_WHO_ID + 2], snapshot[AGENT_WHO_ID + 2];
	int n;

	put_id(parent, sizeof(parent), w->parent);
	put_id(snapshot, sizeof(snapshot), w->snapshot);
	n = snprintf(ret, size,
	             "{%s\"id\":\"%s\",\"parent\":%s,\"index\":%u,\"count\":%u,\"event\":\"%s\","
	             "\"snapshot\":%s,\"selfAccess\":[",
	             more, w->vm, parent, w->index, w->count, agent_event_word(w->event), snapshot);
	for (unsigned i = 0, first = 1; i < AGENT_SELF_N; i++)
		if (w->allow & BIT(i) && (size_t)n < size) {
			n += snprintf(ret + n, size - (size_t)n, "%s\"%s\"", first ? "" : ",",
			              agent_self_word(i));
			first = 0;
		}
	if ((size_t)n < size)
		snprintf(ret + n, size - (size_t)n, "]}");
}

static void say(int fd, const char *status, const char *body)
{
	char text[BODY_SIZE + 256], waste[4096];
	int n = snprintf(text, sizeof(text),
	                 "HTTP/1.1 %s\r\nContent-Type: application/json\r\n"
	                 "Content-Length: %zu\r\nConnection: close\r\n\r\n%s",
	                 status, strlen(body), body);

	/* Its buffer is empty: it has had no byte of an answer yet. */
	if (send(fd, text, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		return;
	shutdown(fd, SHUT_WR);
	/* What was not read would turn the end of the answer into an error. */
	while (recv(fd, waste, sizeof(waste), MSG_DONTWAIT) > 0)
		;
}

void self_refuse(int fd, const char *why)
{
	char body[BODY_SIZE];

	snprintf(body, sizeof(body), "{\"code\":\"%s\",\"message\":\"%s\"}",
	         err_code_name(ERR_SELF_ACCESS_DENIED), why);
	say(fd, "403 Forbidden", body);
}

static void interrupted(const struct agent_who *w, int fd)
{
	char body[BODY_SIZE], more[256];
	const char *event = w ? agent_event_word(w->event) : "greeting";

	snprintf(more, sizeof(more),
	         "\"code\":\"%s\",\"message\":\"the VM was frozen, copied or disconnected during "
	         "this request (%s), which may have been done or not: ask again\"",
	         err_code_name(ERR_SELF_INTERRUPTED), event);
	if (w) {
		strncat(more, ",", sizeof(more) - strlen(more) - 1);
		self_describe(w, more, body, sizeof(body));
	} else {
		snprintf(body, sizeof(body), "{%s}", more);
	}
	say(fd, "503 Service Unavailable", body);
}

void self_answer_limbo(const struct agent_who *w, const struct self_conn *c)
{
	bool thawed = w && w->event != AGENT_EVENT_RECONNECTED && w->event != AGENT_EVENT_CHANGED;
	const char *role = NULL;
	char body[BODY_SIZE];

	if (thawed && c->kind == SELF_FORK && w->event == AGENT_EVENT_FORKED &&
	    w->call == c->number)
		role = "\"role\":\"child\",";
	else if (thawed && c->kind == SELF_SNAPSHOT)
		role = "\"role\":\"restored\",";
	else if (thawed && c->kind == SELF_SUSPEND)
		role = "\"role\":\"resumed\",";
	if (!role) {
		interrupted(w, c->fd);
		return;
	}
	self_describe(w, role, body, sizeof(body));
	say(c->fd, "200 OK", body);
}
