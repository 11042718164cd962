/* SPDX-License-Identifier: Apache-2.0 */
/*
 * edgemain/edgemain.h - pando-edge: the edge in a process that has nothing else
 *
 * edge/ runs here as it is; struct edge_ops is answered from a cache or by pandod.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "edge/edge.h"
#include "wire/edge.h"

struct err;
struct link;

/* ---- link.c: the sockets to pandod ---- */
struct link_start {
	struct edgew_start start;
	const struct edgew_tallies *tallies;
	int tls_fd, http_fd; /* the caller's; -1: none */
};
/* Receives START on the control socket. */
int link_open(int control_consume, struct link **ret, struct link_start *ret_start,
              struct err *err);
struct link *link_free(struct link *l);
unsigned link_lanes(const struct link *l);
/* One question and its answer on the lane, which the calling thread has to itself. A pandod that
 * does not answer ends the process. */
void link_ask(struct link *l, unsigned lane, const struct edgew_msg *question,
              struct edgew_msg *ret);
/* OPEN or CERT: waits for the answer, whose blobs are gone. *ret_fd: the descriptor it brought. */
int link_call(struct link *l, const struct edgew_msg *question, struct edgew_msg *ret, int *ret_fd);
/* Without an answer; dropped if the socket is full. */
void link_tell(struct link *l, const struct edgew_msg *m);

/* Without an answer, and never dropped. From any thread. */
void link_give(struct link *l, const struct edgew_msg *m);

/* A packet with lines of the access log; -EAGAIN: pandod is behind. From any thread. */
int link_log(struct link *l, const struct edgew_msg *m);

struct link_events {
	void (*ended)(void *ctx, const char *instance);     /* NULL: any may have */
	void (*cert)(void *ctx, const struct edgew_msg *m); /* before its call returns */
	void (*idle)(void *ctx);                            /* now and then */
	/* A guest's connection; it takes the descriptor. */
	void (*guest)(void *ctx, const struct edgew_msg *m, int fd_consume);
	void *ctx;
};
/* Takes what pandod sends, until it ends the connection; then all calls fail. */
void link_serve(struct link *l, const struct link_events *ev);

/* ---- ways.c: struct edge_ops from a cache ---- */
struct ways;
int ways_new(struct link *l, const struct link_start *s, struct ways **ret, struct err *err);
struct ways *ways_free(struct ways *w);
struct edge_ops ways_ops(struct ways *w);
/* A certificate that pandod sent. */
void ways_cert(struct ways *w, const struct edgew_msg *m);

/* ---- lines.c: the access log, on its way to pandod ---- */
struct lines;
struct lines *lines_new(struct link *l); /* NULL: out of memory */
struct lines *lines_free(struct lines *s);
/* Each lane has one thread. */
void lines_add(struct lines *s, unsigned lane, const struct edge_line *l);
void lines_flush(struct lines *s, unsigned lane);

/* ---- walls.c ---- */
/*
 * walls_close() - after seclude_begin(): sockets and settings are there, no client was accepted, no
 * thread started
 * Should:  bound the memory, allow the system calls of edge/ and no others
 * Mustn't: go on without the filter
 */
int walls_close(unsigned mem_mb, struct err *err);
