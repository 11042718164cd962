/* SPDX-License-Identifier: Apache-2.0 */
/*
 * guest/guest_login.h - remote shells and TCP connections of a guest; for ssh/
 *
 * All of it is flows (guest/guest.h) that begin without waiting: guest_flow_opened() reports when
 * one is established, so that one thread can have many in progress. Channel 1 is output, channel 2
 * stderr. Closing the flow of a login hangs up on it; what it left in the background continues.
 */
#pragma once

#include "guest/guest.h"

#define GUEST_ADDR_SIZE 46 /* a numeric address and the NUL */
#define GUEST_LOGIN_ENV 128

struct guest_login_req {
	const char *user;       /* NULL: root */
	const char *command;    /* run by the user's shell; NULL: a login shell */
	unsigned cols, rows;    /* of its terminal; both 0: none */
	const char *const *env; /* NULL-terminated "K=V" list, at most GUEST_LOGIN_ENV */
};
/* Ends with guest_run_result(). */
int guest_login(struct guest *g, const struct guest_login_req *req, struct guest_flow **ret,
                struct err *err);
/* A size a terminal cannot have is brought into range; 0 is the usual one. */
int guest_login_resize(struct guest_flow *f, unsigned cols, unsigned rows, struct err *err);
void guest_login_fit(unsigned *cols, unsigned *rows);
int guest_flow_signal(struct guest_flow *f, unsigned sig, struct err *err);

/* From the guest to a numeric address; NULL: its own loopback. */
int guest_dial(struct guest *g, const char *addr, uint16_t port, struct guest_flow **ret,
               struct err *err);
/* A port of the guest's loopback, 0: any; user: whose right to it counts, NULL root. */
int guest_listen(struct guest *g, const char *user, uint16_t port, struct guest_flow **ret,
                 struct err *err);
/* The next connection to it; opened when there is one. */
int guest_accept(struct guest_flow *listener, struct guest_flow **ret, struct err *err);

/* Forgets what guest_flow_fd() reported: the caller looks at everything now. */
void guest_flow_seen(struct guest_flow *f);
/* 1: it is open; 0: not yet; or the guest's errno with its message. */
int guest_flow_opened(struct guest_flow *f, struct err *err);
/* Of an open listener. */
int guest_listen_port(struct guest_flow *f, uint16_t *ret, struct err *err);
/* Of an open accept: its peer. */
int guest_accept_peer(struct guest_flow *f, char ret_addr[GUEST_ADDR_SIZE], uint16_t *ret_port,
                      struct err *err);
/* The guest closed the channel, and all of it was taken. */
bool guest_flow_eof(struct guest_flow *f, int chan);
