/* SPDX-License-Identifier: Apache-2.0 */
/*
 * privc/priv_ops.h - the interface behind privc.h; for privc/ and tests
 *
 * Every function of privc.h is one request and one reply of wire/priv.h. Behind the table is the
 * socket to pando-priv (call.c), or a fake that answers in this process (tests/vm/).
 */
#pragma once

#include <stddef.h>

#include "base/sock.h"
#include "wire/priv.h"

struct err;
struct privc;

/* Large: allocated. */
struct privc_answer {
	struct priv_rep rep;
	int fds[SOCK_FDS_MAX]; /* owned; exactly as many as priv_rep_fds() says */
	size_t n_fds;
};
/* Closes what is left in fds; NULL is fine. */
void privc_answer_freep(struct privc_answer **a);
#define autoanswer __attribute__((cleanup(privc_answer_freep)))

struct priv_ops {
	/*
	 * Sends m with fds (borrowed) and waits for the reply. 0, or the error of the transport.
	 * The reply's own code is checked by the caller, who owns *ret.
	 */
	int (*call)(struct privc *c, struct priv_req *m, const int *fds, size_t n_fds,
	            struct privc_answer **ret, struct err *err);
	void (*free)(struct privc *c);
};

/* First member of each implementation. */
struct privc {
	const struct priv_ops *ops;
};
