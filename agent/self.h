/* SPDX-License-Identifier: Apache-2.0 */
/* agent/self.h - who this machine is, and requests of its programs about it; for agent/ only */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "wire/agent_self.h"

struct agent;
struct stream;
struct rd;
struct agent_frame;
struct agent_hello;

#define SELF_DIR "/run/pando"
#define SELF_SOCK SELF_DIR "/self.sock"
#define SELF_JSON SELF_DIR "/self.json"
#define SELF_GROUP "pando" /* its members may use the socket, if the guest has the group */
#define SELF_CONNS 64u /* connections that are not at the host; more wait in the kernel's queue */

/* What a request asks for; only those matter that freeze the machine they come from. */
enum self_kind { SELF_OTHER, SELF_FORK, SELF_SNAPSHOT, SELF_SUSPEND };

struct self_conn {
	int fd; /* owned */
	uint64_t number;
	enum self_kind kind;
	bool waits;     /* its request line is there: the host may take it */
	uint64_t until; /* clock_ms(): for the request line */
};

struct self {
	int json_fd;                /* owned; -1: none */
	int fd;                     /* owned; the listening socket; -1: self access is off */
	bool known;                 /* who is valid */
	struct agent_who who, next; /* next: announced, for the greeting with its nonce */
	bool has_next;
	struct self_conn conn[SELF_CONNS];
	unsigned n;
	struct self_conn limbo[SELF_CONNS]; /* at the host when the connection to it ended */
	unsigned n_limbo;
	uint64_t last;    /* number of the last connection */
	bool rung;        /* the host was told that requests wait */
	uint64_t ring_at; /* clock_ms(): when it is told again */
};

/* self.c */
void self_open(struct agent *a); /* the files, once at the start */
void self_close(struct agent *a);
/* A DATA frame of stream 0. */
void self_on_who(struct agent *a, const struct agent_frame *f);
/* A greeting begins: who this machine is from now on; NULL: the host did not say. */
const struct agent_who *self_greeted(struct agent *a, const struct agent_hello *h);
/* May the greeting be answered before self_apply()? Not if there is a socket, before or after it.
 */
bool self_can_wait(const struct agent *a);
/* The greeting succeeded. */
void self_apply(struct agent *a);
void self_on_event(struct agent *a, uint32_t number);
void self_take_begin(struct agent *a, uint32_t id, struct rd *c);
/* The stream lost its listener: keeps its connection until it is known why. */
void self_orphan(struct agent *a, struct stream *s);
void self_tick(struct agent *a, uint64_t now);
uint64_t self_next_timer(const struct agent *a);

/* self_say.c */
/* An object of who this machine is; more: members in front of it, or "". */
void self_describe(const struct agent_who *w, const char *more, char *ret, size_t size);
/* What a program hears whose request was at the host when the machine was frozen. */
void self_answer_limbo(const struct agent_who *w, const struct self_conn *c);
void self_refuse(int fd, const char *why);

/* self_cli.c: `pando self ...` */
int self_main(int argc, char **argv);
