/* SPDX-License-Identifier: Apache-2.0 */
/*
 * guest/guest_internal.h - what the files of guest/ share; not for other modules
 *
 * g->lock guards the fields below it and those of streams, and is held for moments only. Senders
 * take turns (sending), so that frames stay whole on the socket. The reader thread only receives:
 * it never sends and never waits for a consumer, since credit bounds what it must keep. Callers
 * send.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/buf.h"
#include "base/lock.h"
#include "base/log.h"
#include "guest/guest.h"
#include "wire/agent.h"

#define GUEST_SEND_MS 30000     /* a guest that reads nothing for this long has stalled */
#define GUEST_CANCEL_MS 2000    /* to begin a CANCEL; without it the guest leaks the stream */
#define GUEST_CALL_MS 60000     /* for small calls that have no deadline of their own */
#define GUEST_TREE_MS 600000    /* for removing a tree */
#define GUEST_BACKSTOP_MS 15000 /* beyond an exec's own timeout */
#define GUEST_CHUNK (32u << 10) /* bytes of one of our DATA frames */
#define GUEST_GRANT (AGENT_WINDOW / 4) /* consumed bytes worth a CREDIT frame */
#define GUEST_LIST_BYTES (64u << 20)   /* bytes of one directory's entries */
#define GUEST_NEVER UINT64_MAX         /* deadline that never comes */
#define GUEST_WHY_SIZE 320
#define GUEST_SILENCE_MS 60000 /* emulated guests on a busy host can be slow by tens of seconds */

struct rx_chan {
	struct buf b;      /* received, not yet taken */
	uint32_t window;   /* bytes the guest may still send */
	uint32_t consumed; /* taken, not yet granted again */
	bool eof;
};

/* One request. Belongs to its caller until stream_close(), then to the table until RESULT. */
struct stream {
	struct guest *g; /* weak */
	uint32_t id;
	struct cond cond;
	int event_fd; /* owned; -1, or written at every change (relay threads poll it) */
	struct rx_chan rx[AGENT_CHANS];
	uint32_t tx_credit; /* channel 0 */
	bool opened;        /* OPENED came */
	uint8_t opened_with[AGENT_OPENED_MAX];
	size_t opened_len;
	bool done;         /* RESULT came */
	bool abandoned;    /* its caller is gone: drop everything, free at RESULT */
	struct buf result; /* payload of RESULT */
};

struct guest {
	char vm_id[64];
	int fd; /* owned; stays open until the last reference is gone */
	struct agent_rx rx;
	uint8_t nonce[AGENT_NONCE_LEN];              /* of the greeting */
	bool (*on_ring)(void *ctx, struct guest *g); /* set before the greeting; NULL: nobody */
	void *ring_ctx;

	struct mutex lock;
	unsigned refs;  /* users, reader, relays */
	unsigned users; /* guest_ref(); the last one closes */
	bool hello_begun, greeted, dead;
	bool knows_who;      /* the agent took what the greeting said of it */
	bool rung;           /* it rang, and nobody has looked since */
	bool sending;        /* a thread is writing to the socket */
	struct cond turn;    /* signalled when not */
	unsigned acks_left;  /* answers to HELLOs we sent more than once */
	unsigned silence_ms; /* set before the greeting */
	uint64_t silent_at; /* without a frame until then it is given up; 0: no doubt (silence.c) */
	bool paused;        /* the machine stands still: silence means nothing */
	char why[GUEST_WHY_SIZE];                  /* what calls say that its end cuts off, or "" */
	struct stream *streams[AGENT_STREAMS_MAX]; /* owned once abandoned */
	uint32_t next_seq; /* upper part of stream ids: never the same id twice in a row */
};

#define guest_log(g, lv, ...) log_obj((lv), "vm", (g)->vm_id, __VA_ARGS__)

/* guest.c */
void guest_hold(struct guest *g); /* reference held by one of our threads */
void guest_drop(struct guest *g);
/* Ends the connection once, with a log message; wakes every waiter. */
void guest_end(struct guest *g, enum log_level lv, const char *fmt, ...)
        __attribute__((format(printf, 3, 4)));

/* -ECONNRESET for a connection that ended, with the reason if it was ended for one. */
int guest_gone(struct guest *g, struct err *err) REQUIRES(&g->lock);

/* send.c: start_deadline bounds the wait for the first byte; then the frame is finished. */
int guest_send(struct guest *g, uint16_t type, uint16_t flags, uint32_t stream, const void *p,
               size_t n, uint64_t start_deadline, struct err *err);
/* The frames of one request; in_turn: the caller holds the turn to send. */
int guest_send_open(struct guest *g, uint32_t stream, const struct buf *req, bool in_turn,
                    uint64_t start_deadline, struct err *err);
int guest_turn_take(struct guest *g, uint64_t start_deadline, struct err *err);
void guest_turn_give(struct guest *g);
/* Bytes that are not a single frame: the greeting. */
int guest_send_raw(struct guest *g, const void *p, size_t n, uint64_t start_deadline,
                   struct err *err);

/* silence.c */
/* A call got no answer in time. Not with the turn to send. */
void silence_suspect(struct guest *g);
/* Ends the connection if its guest has been silent for too long. */
void silence_check(struct guest *g);

/* reader.c */
int reader_start(struct guest *g, struct err *err);

/* stream.c */
enum stream_opts {
	STREAM_EVENTS = 1,  /* make event_fd */
	STREAM_IN_TURN = 2, /* the caller holds the turn to send */
};
/* Opens a stream with the request op + body. */
int stream_open(struct guest *g, const struct buf *req, unsigned opts, uint64_t deadline,
                struct stream **ret, struct err *err);
/* The caller is done with it: CANCEL when the guest is not. NULL is fine. */
void stream_close(struct stream *s);
/* The same without CANCEL: true if the guest still has to answer. */
bool stream_abandon(struct stream *s);
static inline void stream_closep(struct stream **s)
{
	stream_close(*s);
}
#define autostream __attribute__((cleanup(stream_closep)))

enum stream_event { STREAM_DATA = 1, STREAM_CREDIT = 2, STREAM_OPENED = 4, STREAM_DONE = 8 };
/* Waits for any of the events: a mask of those that are true now, or -errno. After the deadline
 * only STREAM_DONE is one. */
int stream_wait(struct stream *s, unsigned events, uint64_t deadline, struct err *err);
/* Moves what was received on the channel into b (emptied first). */
void stream_take(struct stream *s, int chan, struct buf *b);
/* Tells the guest that n taken bytes are dealt with. */
int stream_consumed(struct stream *s, int chan, size_t n, struct err *err);
uint32_t stream_credit(struct stream *s);
/* Bytes of max that can be sent now, at most a chunk. Reads the credit once, as it may grow. */
size_t stream_room(struct stream *s, size_t max);
/* n must not exceed the credit. */
int stream_send(struct stream *s, const void *p, size_t n, uint64_t deadline, struct err *err);
int stream_send_eof(struct stream *s, uint64_t deadline, struct err *err);
/* After STREAM_DONE: 0, or the guest's errno with its message. body points into the stream. */
int stream_result(struct stream *s, const uint8_t **ret_body, size_t *ret_len, struct err *err);
void stream_free(struct stream *s);
void stream_wake(struct stream *s) REQUIRES(&s->g->lock);

/* call.c: a request with nothing but a RESULT; the body is copied into ret_body (may be NULL). */
int guest_call(struct guest *g, const struct buf *req, uint64_t deadline, struct buf *ret_body,
               struct err *err);
/* All of channel 1 of a request, at most max bytes (-E2BIG). */
int guest_collect(struct guest *g, const struct buf *req, size_t max, uint64_t deadline,
                  struct buf *ret, struct err *err);
void guest_fs_req(struct buf *b, uint16_t op, const struct agent_fs_req *m);

/* flow.c */
struct guest_flow {
	struct guest *g; /* ref'd */
	struct stream *s;
	struct buf got[AGENT_CHANS]; /* taken from the stream, not yet by the caller */
	size_t off[AGENT_CHANS];
	int turn; /* channel to look at first */
	/* proc.output: the piece that is being read */
	uint8_t head[AGENT_PIECE_LEN];
	size_t head_n;
	struct agent_piece piece;
	uint32_t piece_left;
	bool watching; /* fs.watch: it has said that it is ready */
	/* fs.watch: records that are not yet whole */
	struct buf acc;
	size_t acc_off;
};
#define GUEST_NO_ANSWER_MS 60000 /* for the first sign of life of a flow */
int flow_open(struct guest *g, const struct buf *req, uint64_t deadline, struct guest_flow **ret,
              struct err *err);
/* Waits for the first bytes; an answer without any is the error, if it is one. 1: bytes, 0: none.
 */
int flow_first(struct guest_flow *f, uint64_t deadline, struct err *err);
static inline void flow_closep(struct guest_flow **f)
{
	guest_flow_close(*f);
}
#define autoflow __attribute__((cleanup(flow_closep)))

/* self.c: RING came; without the lock */
void guest_rang(struct guest *g);

/* exec.c: the body of exec, proc.run and proc.start */
int exec_request(const struct guest_exec_req *req, uint16_t op, bool with_stdin, struct buf *b,
                 struct err *err);
/* proc.c, file_stream.c */
void proc_of(const struct agent_proc *m, struct guest_proc *ret);
void stat_of(const struct agent_stat *m, struct guest_stat *ret);
