/* SPDX-License-Identifier: Apache-2.0 */
/* privc/privc_internal.h - between the files of privc/ only */
#pragma once

#include <stddef.h>

#include "base/sock.h"
#include "wire/priv.h"

struct err;
struct privc;

/*
 * One question: sends m with fds (borrowed), waits for its reply. The
 * descriptors of the reply are owned by the caller; there are exactly as many as
 * priv_rep_fds() says. rep is large: allocate it.
 */
struct privc_answer {
	struct priv_rep rep;
	int fds[SOCK_FDS_MAX];
	size_t n_fds;
};
int privc_call(struct privc *c, struct priv_req *m, const int *fds, size_t n_fds,
               struct privc_answer **ret, struct err *err);
/* Closes what is left in fds; NULL is fine. */
void privc_answer_freep(struct privc_answer **a);
#define autoanswer __attribute__((cleanup(privc_answer_freep)))
