/* SPDX-License-Identifier: Apache-2.0 */
/* agent/self_ask.h - one request to the agent's socket, and its answer; for `pando self` */
#pragma once

#include <stddef.h>

#include "base/buf.h"

#define REPLY_MAX (512u << 20) /* bytes of an answer, and of a file that is written */

enum { EXIT_REFUSED = 1, EXIT_USAGE = 2, EXIT_NO_ACCESS = 3 };

struct self_dial {
	const char *socket;
	const char *user; /* Linux user in a child, or NULL */
};

struct answer {
	int status;
	struct buf text; /* head and body */
	const char *body;
	size_t n;
};
void self_answer_done(struct answer *a);

/* Prints it; EXIT_REFUSED. */
int self_complain(const char *what, const char *why);
/* Below /v1/self. 0, or what the program ends with: it has said why. */
int self_ask(const struct self_dial *o, const char *method, const char *path, const char *body,
             size_t n, struct answer *ret);
