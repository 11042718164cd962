/* SPDX-License-Identifier: Apache-2.0 */
/* api/cross.h - between cross.c, which asks another node, and cross_reply.c */
#pragma once

#include "api/call.h"
#include "base/buf.h"
#include "h1/h1.h"
#include "metrics/metrics.h"
#include "peer/peer.h"

#define CROSS_LOOK_MS 1000 /* between two looks whether the other node lives */

/* One request to another node. */
struct cross {
	struct request *req; /* weak; the client's */
	struct peer *c;      /* owned; NULL: none any more */
	char node[ID_SIZE];
	bool used;      /* the connection was there already */
	bool streaming; /* the body is passed on while it comes, */
	bool chunked;   /* in chunks, */
	bool full;      /* and the owner takes no more of it; */
	bool expects;   /* it says first whether it wants it */
	bool heard;     /* anything came back */
	bool left;      /* the client has ended its half, and the owner knows */
	uint64_t since_us;
	struct buf in; /* came and is not used yet, from `at` on */
	size_t at, scan;
	struct buf text;     /* the head's, */
	struct h1_head head; /* which points into it */
	enum h1_framing framing;
	uint64_t length; /* H1_BODY_LENGTH: what is missing */
	struct h1_chunks chunks;
	bool over;
};

struct cross *cross_free(struct cross *f);
void cross_freep(struct cross **f);
/* Waits for the head of the reply. 1: only for its 100, as it expects. */
int cross_head(struct cross *f, struct err *err);
/* An owner that does not want the body: its error. */
int cross_refusal(struct cross *f, struct err *err);
/* The reply becomes that of the client's request. Takes f in any case. */
int cross_answer(struct cross *f_consume, struct reply *res, struct err *err);
