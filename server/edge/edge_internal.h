/* SPDX-License-Identifier: Apache-2.0 */
/*
 * edge/edge_internal.h - connections, exchanges, upstream connections; for edge/ only
 *
 * Everything but the opener and the statistics belongs to one worker and is touched by its thread
 * alone. A client connection (struct conn) carries one exchange at a time (HTTP/1) or many
 * (HTTP/2); an exchange (struct xchg) is one request with its response and has at most one upstream
 * connection (struct up). Events only set flags; conn_run() then moves bytes until nothing moves.
 *
 * Finished objects are taken out of epoll, marked dead and freed after the current batch of events,
 * so that a pointer from epoll is never stale.
 */
#pragma once

#include <openssl/ssl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "base/err.h"
#include "base/lock.h"
#include "edge/edge.h"
#include "h1/h1.h"

#define EDGE_CONNS_MAX 4096                         /* client connections of one worker */
#define EDGE_BUF (64u << 10)                        /* most bytes buffered in one direction */
#define EDGE_RECORD (16u << 10)                     /* plain bytes of a TLS record */
#define EDGE_CORK (4 * (size_t)(EDGE_RECORD + 256)) /* records that are sent with one call */
#define EDGE_HEAD_MS 15000    /* TLS handshake; from the first byte to a whole head */
#define EDGE_IDLE_MS 75000    /* between requests */
#define EDGE_STALL_MS 60000   /* the client reads nothing, or sends nothing of its body */
#define EDGE_SLOW_FACTOR 10   /* times EDGE_STALL_MS, while bytes are in flight on a slow line */
#define EDGE_DRAIN_MIN 1024u  /* bytes the client must read in that time, if so many wait */
#define EDGE_ANSWER_MS 600000 /* from the last byte that moved to the head of the response */
#define EDGE_OPEN_IDLE_MS 3600000 /* a response or a WebSocket on which nothing moves */
#define EDGE_TIGHT_STALL_MS 5000  /* instead of EDGE_STALL_MS, while descriptors are few */
#define EDGE_TIGHT_IDLE_MS 2000   /* without a request, likewise */
#define EDGE_UP_IDLE_MS                                                                      \
	4000                   /* a connection to a VM waits for its next request; below the \
	                          5 s of Node.js, so that it is rarely us who find it closed */
#define EDGE_UP_FRESH_MS 1000  /* for requests that must not be sent twice */
#define EDGE_UP_POOL_MAX 256   /* connections of one worker that wait */
#define EDGE_GRACE_MS 1500     /* time to retry if nothing listens in a VM that was running */
#define EDGE_RETRY_MIN_MS 20   /* before the first retry; then doubled, */
#define EDGE_RETRY_MAX_MS 500  /* up to */
#define EDGE_REDIAL_MIN_MS 100 /* a program does not accept; doubled, up to EDGE_RETRY_MAX_MS */
#define EDGE_QUEUE_MAX 1024    /* requests that wait for a name that leads to several machines */
#define EDGE_RETRY_STEP_MS 10  /* least time between two searches for exchanges to retry */
#define EDGE_LOG_MS 100        /* lines of the access log wait for so long, to go together */
#define EDGE_TICK_MS 500       /* precision of deadlines */
#define EDGE_DISCARD_MAX                                                                      \
	(256u << 10)               /* of a refused body, so that the client sees the response \
	                            */
#define EDGE_HELLO_MAX (32u << 10) /* bytes kept until the client has said which name it wants */
#define EDGE_ID_BUCKETS 4096u      /* to find an exchange by its id */
#define EDGE_HOPS_MAX 8            /* from guest to guest, then it is a loop */
#define EDGE_PATH_MAX 256u         /* bytes of a path in the access log */
#define EDGE_H2_STREAMS 100        /* at a time, of one connection */
#define EDGE_H2_RESETS_MAX \
	200 /* streams reset by the client or by its fault, beyond answered ones */
#define EDGE_H2_HELD_MAX (1u << 20)        /* response bytes held for a connection; beyond that, */
#define EDGE_H2_HELD_MIN 4096u             /* each stream may hold this much */
#define EDGE_H2_STREAM_WINDOW (128u << 10) /* of a request's body, until the VM takes it */
#define EDGE_H2_CONN_WINDOW (1u << 20)     /* of all bodies of a connection */

/* ---- buffers ---- */

struct ebuf {
	uint8_t *p; /* owned; NULL while empty */
	size_t off, len, cap;
};
static inline const uint8_t *ebuf_at(const struct ebuf *b)
{
	return b->p ? b->p + b->off : (const uint8_t *)"";
}
/* Room for n more bytes in one piece, in a buffer that may grow to max; NULL: no room or memory. */
uint8_t *ebuf_room(struct ebuf *b, size_t n, size_t max);
/* Free bytes up to max. */
static inline size_t ebuf_free_up_to(const struct ebuf *b, size_t max)
{
	return b->len < max ? max - b->len : 0;
}
int ebuf_put(struct ebuf *b, const void *p, size_t n); /* grows as needed */
int ebuf_printf(struct ebuf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void ebuf_take(struct ebuf *b, size_t n);
void ebuf_done(struct ebuf *b);

/* ---- what epoll points to ---- */

enum io_kind { IO_WAKE, IO_TLS_LISTEN, IO_HTTP_LISTEN, IO_CLIENT, IO_UP };
struct io {
	enum io_kind kind;
	int fd; /* owned, but for listeners */
	bool readable, writable, hup;
	bool ended; /* the peer has shut its end: after a short read there may be more */
};

struct worker;
struct conn;
struct up;
struct h2;
struct up2;
struct nghttp2_session;
struct client; /* guard.c: an address and what it holds */
struct line;   /* opener.c: requests of an address for a VM */

/*
 * enum xstate - where an exchange stands
 * @X_OPENING: an opener thread wakes the VM and makes a socket. Next: CONNECTING, LOCAL.
 * @X_CONNECTING: its socket is being connected. Next: ACTIVE, RETRY, OPENING, LOCAL.
 * @X_RETRY: nothing listened; another socket is asked for at retry_at. Next: OPENING, LOCAL.
 * @X_ACTIVE: request and response flow. Next: TUNNEL, OVER.
 * @X_TUNNEL: a WebSocket: bytes both ways. Next: OVER.
 * @X_LOCAL: the edge itself responds; what the client still sends is dropped. Next: OVER.
 */
enum xstate { X_OPENING, X_CONNECTING, X_RETRY, X_ACTIVE, X_TUNNEL, X_LOCAL, X_OVER };

struct xchg {
	uint64_t id; /* for the opener's answer */
	struct conn *c;
	struct xchg *next, *prev; /* of the worker: those that wait for something */
	struct xchg *id_next;     /* of the worker's bucket, meanwhile */
	bool waiting;
	bool counted; /* among the open requests of its client */
	enum xstate state;
	struct edge_target t;
	struct up *up; /* or NULL */
	/* request */
	char host[H1_HOST_MAX + 1];
	char method[H1_METHOD_MAX + 1];
	char path[EDGE_PATH_MAX + 1]; /* for the access log */
	bool is_head, upgrade, http10, expect_100, wants_html;
	bool again_ok;            /* may be sent twice */
	bool raw;                 /* no HTTP: raw.c */
	bool te_trailers;         /* the client takes trailers */
	bool grpc;                /* and wants to be told of errors as gRPC does */
	struct ebuf req_trailers; /* lines "name: value\r\n" */
	unsigned hops;            /* of a guest's request: how often it came from a guest before */
	enum h1_framing req_framing;
	uint64_t req_left;
	struct h1_chunks req_chunks;
	bool req_over;    /* all of it has come */
	bool req_begun;   /* bytes of its body were passed on */
	bool was_asleep;  /* this request woke the VM */
	bool dialled;     /* it has had a socket */
	bool refused;     /* a program did not want it, and another connection was tried */
	struct ebuf head; /* as sent to the VM; kept until the response begins */
	uint64_t since, retry_at;
	uint64_t deadline;  /* while it waits */
	uint64_t moved_ms;  /* the last byte in any direction; once it is X_ACTIVE */
	uint64_t opened_ms; /* when its socket came */
	unsigned backoff_ms;
	uint64_t bytes_in; /* of its body, passed on */
	/* response */
	unsigned status;
	enum err_code code; /* of a response of our own */
	uint64_t bytes_out; /* of its body */
	bool resp_begun, resp_over, resp_chunked, resp_broken;
	struct ebuf resp_trailers; /* likewise */
	uint32_t reset_code; /* HTTP/2: why the program in the VM reset its stream; 0: it did not */
	bool close_after;    /* HTTP/1: the connection ends with this response */
	/* HTTP/2 */
	int32_t stream;
	struct xchg *h2_next;
	struct ebuf body;     /* of the response, for DATA frames */
	bool body_deferred;   /* nghttp2 waits to be told that there is more */
	struct ebuf req_body; /* of the request: what the VM has not taken yet */
	bool req_ended;       /* nothing follows req_body */
	struct ebuf target, authority, cookie, fields; /* of the head, while it arrives */
	size_t head_bytes;
	bool head_bad, has_length, has_scheme;
	bool head_over;   /* all of it has come */
	bool cut;         /* was reset because of its client */
	uint64_t took_ms; /* when the client last read enough of what waits in body, */
	size_t took;      /* and how much since */
	bool on_its_way;  /* what it was sent then may not have arrived yet */
};

enum cert_state { CERT_UNASKED, CERT_WAITS, CERT_FAILED };

struct conn {
	struct io io;
	struct worker *w;
	struct conn *next, *prev;
	SSL *ssl;    /* owned; NULL: plain */
	bool shaken; /* the handshake is done, or none is needed */
	bool tls;
	bool hello; /* TLS: the name is known, and what came before it is kept no longer */
	bool raw;   /* passed on as it is; c->ssl is NULL then */
	bool shut;  /* raw: we send no more */
	enum cert_state cert;
	char *cert_name; /* owned; of the certificate that is waited for, else NULL */
	char peer[48];
	struct edge_guest *guest; /* owned; NULL: it came from outside */
	struct client *client;    /* entered; left in conn_close() */
	struct ebuf in, out;
	struct ebuf wire; /* TLS: records that the socket had no room for; before out */
	bool corked;      /* TLS: records are gathered in the worker's cork */
	size_t scan;      /* of in, for the head's end */
	struct xchg *x;   /* HTTP/1: the current one; HTTP/2: list of all */
	struct h2 *h2;    /* owned; HTTP/2 */
	bool eof;         /* the client sends no more */
	bool closing;     /* after what is in out */
	bool lingering;   /* our end is closed; what still comes is read and dropped */
	bool dead;
	bool queued; /* in the worker's list of those to be run again: */
	struct conn *again_next;
	bool first_byte;   /* of the head that is being read */
	uint64_t deadline; /* 0: none */
	uint64_t moved_ms; /* last progress of the client, either way */
	uint64_t sent_ms;  /* last progress of what is unsent */
	uint64_t acked;    /* bytes the client's kernel had confirmed then */
	bool acked_known;
	uint64_t busy_ms; /* when it last had a request, or began */
	uint64_t dropped; /* bytes of a refused body */
	unsigned requests;
};

enum up_state { UP_HEAD, UP_BODY, UP_OVER };
struct up {
	struct io io;
	struct worker *w;
	struct up *next, *prev; /* of the worker */
	struct up *pool_next, *pool_prev;
	struct xchg *x;    /* NULL: waits in the pool */
	struct line *line; /* owned; until it is connected */
	struct edge_target t;
	struct up2 *h2; /* owned; t.h2c */
	struct ebuf in, out;
	size_t scan;
	bool connected, reused, eof, keep, dead;
	bool shut;    /* nothing more is sent */
	bool got_any; /* a byte of the response */
	enum up_state state;
	enum h1_framing framing;
	uint64_t left;
	struct h1_chunks chunks;
	uint64_t idle_ms; /* since when it waits */
	bool stale;       /* its machine is gone, or it has waited for too long */
};

/* A client accepted by another worker. */
struct handed {
	struct handed *next;
	int fd; /* owned */
	bool tls;
	struct client *client;
	struct edge_guest *guest; /* owned, or NULL */
	struct sockaddr_storage peer;
};

/* The result of an opener thread. */
struct opened {
	struct opened *next;
	uint64_t xchg;
	int fd;            /* owned; -1: err */
	struct line *line; /* owned with fd: a place among those that are being connected */
	struct edge_target t;
	struct err err;
};

/* The result of the mint: the certificate of that name is there, or cannot be had. */
struct minted {
	struct minted *next;
	bool ok;
	char name[H1_HOST_MAX + 1];
};

/* A machine that ended. */
struct ended {
	struct ended *next;
	char instance[ID_SIZE];
};

struct worker {
	struct edge *e;
	unsigned idx;
	pthread_t thread;
	bool started;
	int epoll;
	struct io wake, tls, http; /* wake: eventfd */
	bool paused;               /* too many connections: listeners are not watched */
	struct conn *conns;
	atomic_uint n_conns; /* with those that were handed over and not taken yet */
	struct up *ups;
	struct up *pool; /* those that wait, the last one used first */
	unsigned n_pool;
	struct xchg *waiting;
	struct xchg *wait_next;              /* of the search that is under way; see xchg_wait() */
	struct xchg *by_id[EDGE_ID_BUCKETS]; /* those that wait */
	uint64_t retry_at;  /* when the first of them tries again; UINT64_MAX: none */
	struct up *up_next; /* of the search that is under way; see up_close() */
	struct conn *again; /* yielded, but have more to do */
	struct conn *dead_conns;
	struct up *dead_ups;
	uint64_t now, next_xchg, tick_at;
	uint64_t log_at;     /* when lines of the access log go out; UINT64_MAX: there are none */
	struct h1_head head; /* scratch */
	uint8_t scratch[16u << 10];
	char hello[H1_HOST_MAX + 1]; /* scratch: the name that let_go() is for */
	uint8_t cork[EDGE_CORK];     /* records of the connection that is being written */
	size_t cork_len;
	struct mutex lock;
	struct opened *opened GUARDED_BY(lock);
	struct handed *handed GUARDED_BY(lock);
	struct minted *minted GUARDED_BY(lock);
	struct ended *ended GUARDED_BY(lock);
	bool look_all GUARDED_BY(lock); /* any machine may have ended */
};

struct guard;
struct mint;
struct opener;
struct edge {
	struct edge_conf conf;
	struct edge_ops ops;
	SSL_CTX *ssl_ctx; /* owned, both */
	BIO_METHOD *bio;
	struct guard *guard;
	struct opener *opener;
	struct mint *mint;
	struct worker *workers;
	unsigned n_workers;
	atomic_bool stopping;
	atomic_uint_fast64_t connections, requests, refused, woken;
	atomic_uint open;
};

/* Gives back the ticket that a target may have. */
static inline void edge_give_back(struct edge *e, struct edge_target *t)
{
	uint64_t ticket = t->ticket;

	t->ticket = 0;
	if (ticket)
		e->ops.done(e->ops.ctx, ticket);
}

/* ---- loop.c ---- */
int worker_open(struct worker *w, struct err *err);
int worker_start(struct worker *w, struct err *err);
void worker_stop(struct worker *w);
/* Only when all have stopped, because they hand things to each other. */
void worker_close(struct worker *w);
int worker_poll(struct worker *w, struct io *io, uint32_t events);
/* From any thread: to the least busy worker. */
void worker_enter(struct edge *e, struct handed *h_consume);
/* No more events, then closed. close() by itself is not enough: until its exec a child has a copy
 * of every descriptor, and as long as one is open epoll goes on reporting. */
void worker_close_io(struct worker *w, struct io *io);
/* conn_run() once more, after others. */
void worker_again(struct worker *w, struct conn *c);
/* From any thread. */
void worker_tell(struct worker *w, struct opened *o_consume);
void worker_tell_minted(struct worker *w, struct minted *m_consume);

/* ---- tls.c ---- */
int tls_new(struct edge *e, struct err *err);
int tls_open(struct conn *c);
/* As conn_read() and conn_flush(). */
int tls_read(struct conn *c, uint8_t *p, size_t n);
int tls_flush(struct conn *c);
/* 1: done, 0: not yet, -1: broken. It may have become a connection that is passed on (raw). */
int tls_handshake(struct conn *c);
/* The certificate this connection waits for is there, or will not come: the handshake can go on. */
void tls_cert_over(struct conn *c, bool ok);

/* ---- conn.c: bytes of a client ---- */
/* Counted in w->n_conns already. What *h has is taken: socket, client, guest. */
void conn_new(struct worker *w, const struct handed *h);
/* The name as it is looked up for that connection. */
void conn_asks(const struct conn *c, const char *name, char ret[EDGE_HOST_SIZE]);
void conn_close(struct conn *c);
void conn_free(struct conn *c);
/* Moves what can be moved. The connection may be dead afterwards. */
void conn_run(struct conn *c);
void conn_tick(struct conn *c);
/* Reads into c->in: bytes, 0: none now, -1: the end. */
int conn_read(struct conn *c);
bool conn_readable(const struct conn *c);
/* Bytes that the client's socket has not taken yet. */
static inline size_t conn_unsent(const struct conn *c)
{
	return c->out.len + c->wire.len;
}
/* Has the client's kernel confirmed everything? */
bool conn_arrived(const struct conn *c);
uint64_t conn_stall_ms(const struct conn *c);
/* Writes from c->out: bytes, 0: none now, -1: broken. */
int conn_flush(struct conn *c);

/* ---- raw.c: TLS that its VM ends ---- */
/* c->in is what the client has sent so far. */
void raw_begin(struct conn *c, const char *name);
bool raw_run(struct conn *c); /* true: something moved */
void raw_connected(struct up *u);
/* Tells the client, if that is still possible, and ends. */
void raw_refuse(struct xchg *x);

/* ---- h1_conn.c, h2_conn.c: the client's side of an exchange ---- */
bool h1_run(struct conn *c); /* true: something moved */
bool h2_run(struct conn *c);
int h2_open(struct conn *c);
void h2_close(struct conn *c);
/* Deadlines of its streams, and its own. */
void h2_tick(struct conn *c);
/* h2_head.c: the request's head, field by field, and when it is whole. */
int h2_head_field(struct xchg *x, struct h1_field f);
void h2_head_over(struct xchg *x, bool ended);

/* Response bytes that the client's side takes now. */
size_t resp_room(const struct xchg *x);
/* The head: framing of the body may differ from the VM's. len: UINT64_MAX unknown. */
int resp_head(struct xchg *x, const struct h1_head *h, uint64_t len);
int resp_data(struct xchg *x, const uint8_t *p, size_t n);
/* Where bytes of the body may be put as they are, as many as there is room; NULL: resp_data(). */
struct ebuf *resp_direct(const struct xchg *x);
void resp_end(struct xchg *x);
/* It cannot be completed, and the client must notice. */
void resp_break(struct xchg *x);

size_t h2_resp_room(const struct xchg *x);
int h2_resp_head(struct xchg *x, const struct h1_head *h, uint64_t len);
int h2_resp_data(struct xchg *x, const uint8_t *p, size_t n);
void h2_resp_end(struct xchg *x);
void h2_resp_break(struct xchg *x);

/* ---- xchg.c: one request and its response ---- */
struct xchg *xchg_new(struct conn *c);
/* Method, host and the like. */
void xchg_describe(struct xchg *x, const struct h1_head *h);
/* With head and flags set: finds out where it goes, and begins. */
void xchg_begin(struct xchg *x);
void xchg_free(struct xchg *x); /* in any state */
/* Bytes of the request's body that may be given now. */
size_t xchg_room(const struct xchg *x);
int xchg_data(struct xchg *x, const uint8_t *p, size_t n);
void xchg_data_end(struct xchg *x);
/* A response of our own. */
void xchg_refuse(struct xchg *x, unsigned status, enum err_code code, const char *title,
                 const char *text);
void xchg_opened(struct worker *w, struct opened *o);
void xchg_tick(struct xchg *x); /* of those that wait */
void xchg_wait(struct xchg *x, bool waiting);
/* The deadlines of one that has its VM; true: something was done. */
bool xchg_late(struct xchg *x);
void xchg_connect(struct xchg *x, struct opened *o); /* takes fd and line */
/* Once more, on another connection. */
void xchg_again(struct xchg *x);
/* The upstream connection broke, or was refused. */
void xchg_up_failed(struct xchg *x, int error);

/* ---- line.c: the access log ---- */
/* Remembers the path; with head set. */
void line_begin(struct xchg *x);
void line_end(const struct xchg *x);
/* Sends what is due; all: in any case. */
void line_flush(struct worker *w, bool all);

/* ---- head.c: heads as they are forwarded ---- */
/* The request for the VM, into x->head. */
int head_request(struct xchg *x, const struct h1_head *h);
/* Begins the same for HTTP/2, which adds fields and ends it itself. */
int head_begin(struct xchg *x, const char *method, const char *target, size_t n);
int head_forward(struct xchg *x);                         /* X-Forwarded-..., X-Pando-Hops */
void head_hops(struct xchg *x, const struct h1_field *f); /* reads X-Pando-Hops */
int head_sign(struct xchg *x, const char *field);         /* one more field for a whole head */
bool head_dropped(
        const struct h1_field *f); /* set only by the edge, or not to be told from such a field */
/* The response, for an HTTP/1 client. */
int head_response(struct xchg *x, const struct h1_head *h, uint64_t len, struct ebuf *out);
const char *head_reason(unsigned status);

/* ---- page.c ---- */
/* HTML or JSON, as the client wants it. */
int page_make(const struct xchg *x, unsigned status, enum err_code code, const char *title,
              const char *text, struct ebuf *out, const char **ret_type);

/* ---- up.c: connections to VMs ---- */
struct up *up_new(struct worker *w, const struct edge_target *t, int fd_consume);
/* It has no place among those that are being connected any more. */
void up_give_place(struct up *u);
/* One that waits for this target; NULL: none. max_idle_ms: not older than that. */
struct up *up_take(struct worker *w, const struct edge_target *t, unsigned max_idle_ms);
void up_assign(struct up *u, struct xchg *x);
/* The exchange is over: into the pool if it can be used again, else closed. */
void up_release(struct up *u);
void up_close(struct up *u);
void up_free(struct up *u);
bool up_run(struct up *u); /* true: something moved */
void up_idle_event(struct up *u);
/* Has the machine ended, as far as can be told now? */
bool up_gone(const struct worker *w, const struct edge_target *t);

/* ---- up_h2.c: those that speak HTTP/2 to their VM ---- */
void up2_assign(struct up *u, struct xchg *x);
bool up2_run(struct up *u); /* true: something moved */
/* The request's body; end: its trailers are the exchange's. */
size_t up2_room(const struct up *u);
int up2_data(struct up *u, const uint8_t *p, size_t n);
void up2_data_end(struct up *u);
/* Its exchange is over, or given up: can it carry another? */
bool up2_rest(struct up *u);
/* Something came while it waits for the next; false: it has to be closed. */
bool up2_idle(struct up *u);
void up2_free(struct up2 *h);
/* Trailers of either side, as lines. */
int h2_trailer_add(struct ebuf *lines, struct h1_field f);
int h2_trailers_submit(struct nghttp2_session *s, int32_t stream, const struct ebuf *lines);

/* ---- guard.c: shares of clients and of the process ---- */
int guard_new(const struct edge_conf *conf, struct guard **ret, struct err *err);
struct guard *guard_free(struct guard *g); /* when nobody is left */
/* Counts a connection from that address. NULL: it has too many, or no memory. */
struct client *guard_enter(struct guard *g, const struct sockaddr_storage *peer);
void guard_leave(struct guard *g, struct client *c);
/* The same for all connections of one address. */
uint64_t guard_name(const struct client *c);
/* Counts a request; false: too many are open. */
bool guard_begin(const struct guard *g, struct client *c);
void guard_end(struct client *c);
/* May the edge keep this new descriptor? */
bool guard_fd(struct guard *g, int fd);
/* Is the process near its limit of descriptors? guard_look() finds out when it no longer is. */
bool guard_tight(const struct guard *g);
void guard_look(struct guard *g, int any_fd);

/* ---- opener.c ---- */
int opener_new(struct edge *e, struct opener **ret, struct err *err);
void opener_stop(struct opener *o); /* drops what was asked, answers no more */
struct opener *opener_free(struct opener *o);
/* Answers with worker_tell(). */
int opener_ask(struct opener *o, struct worker *w, uint64_t xchg, uint64_t client,
               const struct edge_target *t);
/* Nobody wants its answer any more; one that is on its way comes all the same. */
void opener_forget(struct opener *o, const struct worker *w, uint64_t xchg, uint64_t client,
                   const char *vm);
/* The socket that came with this place is connected, or was given up: the next one may be opened.
 */
void opener_connected(struct opener *o, struct line *l_consume);

/* ---- mint.c ---- */
int mint_new(struct edge *e, struct mint **ret, struct err *err);
void mint_stop(struct mint *m); /* drops what was asked, answers no more */
struct mint *mint_free(struct mint *m);
/* Answers with worker_tell_minted(). */
int mint_ask(struct mint *m, const struct worker *w, const char *name);
