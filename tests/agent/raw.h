/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/agent/raw.h - hand-made frames, and a cable between a host end and an agent
 *
 * The cable plays QEMU: it passes bytes in both directions; when it is pulled out, the
 * agent's side stays open and bytes in transit to the host stay in transit.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "wire/agent.h"

struct raw {
	int fd; /* not owned */
	struct agent_rx rx;
	struct buf in; /* copy of the payload of the last frame */
};

void raw_init(struct raw *w, int fd);
void raw_done(struct raw *w);
void raw_write(struct raw *w, const void *p, size_t n); /* all of it, within the deadline */
void raw_send(struct raw *w, uint16_t type, uint16_t flags, uint32_t stream, const void *p,
              size_t n);
/* Next frame; fails the test after the deadline. false: the other side closed. */
bool raw_recv(struct raw *w, struct agent_frame *ret);
/* Skips frames until one of the type. */
void raw_expect(struct raw *w, uint16_t type, struct agent_frame *ret);

/* As a host: HELLO and its answer. */
void raw_hello(struct raw *w, uint8_t reason, uint64_t generation, struct agent_hello_ack *ret);
void raw_hello_fill(struct agent_hello *h, uint8_t reason, uint64_t generation);
void raw_open_exec(struct raw *w, uint32_t stream, const char *command, bool with_stdin);
/* Status of the RESULT of the stream; frames in between are dropped. */
uint32_t raw_result(struct raw *w, uint32_t stream, struct agent_result *ret);

/* As a guest: waits for HELLO and answers it correctly. false: the host disconnected. */
bool raw_greet(struct raw *w);

struct cable {
	int agent_fd; /* not owned */
	int host_fd;  /* ours */
	int stop[2];
	pthread_t thread;
};
void cable_join(struct cable *c, int agent_fd, int host_fd_consume);
int cable_plug(struct cable *c, int agent_fd); /* the host's end */
void cable_pull(struct cable *c);
