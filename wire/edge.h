/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire/edge.h - the contract between pandod (edgehost/) and pando-edge (edgemain/)
 *
 * pando-edge parses what strangers send and is taken to be theirs one day: it can ask only what any
 * visitor could find out by visiting. It never names a VM, an account or a port; it names a host,
 * and pandod finds out again where that leads.
 *
 * SOCK_SEQPACKET sockets, one message per packet, big endian: {u16 kind, u32 id} and the fields of
 * its kind in the order of enum edgew_field. On the control socket pandod begins with START; OPEN
 * and CERT are answered by OPENED and CERTED with their id, in any order. Each lane carries one
 * question at a time: WAY is answered by WAY_IS, CHALLENGE by CHALLENGE_IS, at once. Descriptors
 * travel as SCM_RIGHTS, from pandod only. GUEST brings a connection that a guest made to a name of
 * this server; its host, if there is one, is the only name it may be used for. In WAY, OPEN and
 * CERT such a connection's names begin with EDGEW_INSIDE, which no client can send: guests know
 * names that lead nowhere for others. Everything both ends must agree on is listed once, in
 * EDGEW_KINDS; numbers are never reused.
 *
 * A name may lead to one of several machines ("many"): then OPENED has a ticket, which pando-edge
 * gives back with DONE when that connection is over, so that pandod knows how many each machine
 * has. Until then the answer may be checked with the tally in it, which is that of the machine.
 *
 * A socket of its own carries the access log to pandod (LINES): what does not fit into it is
 * counted and dropped, so that it holds up neither requests nor questions.
 *
 * Beside that there is a page of counters ("tallies") that pandod writes and pando-edge can only
 * read: an answer to WAY may be used until one of the two tallies that it depends on has changed.
 */
#pragma once

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/id.h"

struct buf;
struct err;

#define EDGEW_VERSION 5u
#define EDGEW_FD 3                  /* the control socket in pando-edge */
#define EDGEW_MSG_MAX (96u << 10)   /* bytes of one packet; fits the default socket buffer */
#define EDGEW_HOST_SIZE 256         /* of a name, with the NUL */
#define EDGEW_TOKEN_SIZE 128        /* of an ACME token */
#define EDGEW_TEXT_SIZE 512         /* of the response to a challenge */
#define EDGEW_FIELD_SIZE 256        /* of the field that requests to the API carry */
#define EDGEW_CALLER_SIZE 33        /* of what the API knows a calling guest by */
#define EDGEW_KEY_MAX (8u << 10)    /* bytes of a private key, DER */
#define EDGEW_CERT_MAX (16u << 10)  /* bytes of one certificate, DER */
#define EDGEW_CHAIN_MAX 8u          /* certificates of a chain */
#define EDGEW_LANES_MAX 4u          /* as many as the edge has workers */
#define EDGEW_OPENS_MAX 64u         /* OPENs under way at one time; more are refused with -EBUSY */
#define EDGEW_CERTS_MAX 1u          /* CERTs, likewise */
#define EDGEW_LINES_MAX (16u << 10) /* bytes of lines in one packet */
#define EDGEW_LINE_MAX 1024u        /* bytes of one line */
#define EDGEW_PATH_SIZE 257         /* of a path in the access log, with the NUL */
#define EDGEW_METHOD_SIZE 33
#define EDGEW_CLIENT_SIZE 64 /* of an address */
#define EDGEW_TALLIES 4096u  /* counters; the first is for names and certificates */

#define EDGEW_INSIDE '@' /* before a name: a guest asks for it */

struct edgew_tallies {
	_Atomic uint32_t tally[EDGEW_TALLIES];
};

enum edgew_field {
	EF_START = 1 << 0,    /* version, settings, the API's field */
	EF_HOST = 1 << 1,     /* a name in lower case, or "" */
	EF_TOKEN = 1 << 2,    /* of an ACME challenge */
	EF_RESULT = 1 << 3,   /* u32 -errno, u32 code of base/codes.def */
	EF_WAY = 1 << 4,      /* where a name leads */
	EF_FRESH = 1 << 5,    /* u32 */
	EF_CERT = 1 << 6,     /* number, key, certificates */
	EF_TEXT = 1 << 7,     /* response to a challenge; "": there is none */
	EF_INSTANCE = 1 << 8, /* of a machine; "": any */
	EF_STATS = 1 << 9,    /* figures */
	EF_VERSION = 1 << 10, /* u32 */
	EF_GUEST = 1 << 11,   /* whose connection it is */
	EF_LINES = 1 << 12,   /* of the access log */
	EF_TICKET = 1 << 13,  /* u64; 0: none */
	EF_WAITING = 1 << 14, /* u32: requests that wait behind this one */
};

/* Who sends it, and on which kind of socket. */
enum edgew_from {
	EDGEW_HOST = 1,
	EDGEW_EDGE = 2,
	EDGEW_HOST_LANE = 3,
	EDGEW_EDGE_LANE = 4,
	EDGEW_EDGE_LOG = 5
};

/* number, NAME, sender, fields */
/* clang-format off */
#define EDGEW_KINDS(M)                                                              \
	M(1,  START,        EDGEW_HOST,      EF_START)                              \
	M(2,  READY,        EDGEW_EDGE,      EF_VERSION)                            \
	M(3,  OPEN,         EDGEW_EDGE,      EF_HOST | EF_WAITING)                  \
	M(4,  OPENED,       EDGEW_HOST,      EF_RESULT | EF_WAY | EF_FRESH | EF_TICKET) \
	M(5,  CERT,         EDGEW_EDGE,      EF_HOST)                               \
	M(6,  CERTED,       EDGEW_HOST,      EF_RESULT | EF_CERT)                   \
	M(7,  ENDED,        EDGEW_HOST,      EF_INSTANCE)                           \
	M(8,  STATS,        EDGEW_EDGE,      EF_STATS)                              \
	M(9,  WAY,          EDGEW_EDGE_LANE, EF_HOST)                               \
	M(10, WAY_IS,       EDGEW_HOST_LANE, EF_WAY)                                \
	M(11, CHALLENGE,    EDGEW_EDGE_LANE, EF_TOKEN)                              \
	M(12, CHALLENGE_IS, EDGEW_HOST_LANE, EF_TEXT)                               \
	M(13, GUEST,        EDGEW_HOST,      EF_HOST | EF_GUEST)                    \
	M(14, LINES,        EDGEW_EDGE_LOG,  EF_LINES)                              \
	M(15, DONE,         EDGEW_EDGE,      EF_TICKET)
/* clang-format on */

#define EDGEW_AS_ENUM(num, NAME, from, fields) EDGEW_##NAME = (num),
enum edgew_kind { EDGEW_KINDS(EDGEW_AS_ENUM) EDGEW_KIND_END };

struct edgew_way {
	uint8_t kind;        /* enum edge_kind */
	uint8_t look;        /* enum edge_look */
	uint8_t speaks;      /* enum edge_speaks */
	uint8_t many;        /* to one of several machines */
	uint16_t port;       /* in the VM; for messages to its visitors */
	uint32_t tally;      /* the tally of its VM; 0: it has none */
	uint32_t names, vm;  /* what the first tally and its VM's had counted before it was true */
	uint64_t cert;       /* number of the certificate for this name; 0: not at hand, ask CERT */
	char place[ID_SIZE]; /* tells VMs apart, but is not their id */
	char instance[ID_SIZE];
};

struct edgew_blob {
	const uint8_t *p; /* weak: into the packet, or the sender's */
	size_t n;
};

struct edgew_start {
	uint32_t version, workers, wait_ms, hsts_s, head_ms, keep_ms, stall_ms, answer_ms, idle_ms;
	uint32_t addr_conns, addr_requests, fd_reserve, mem_mb, log_level;
	uint8_t tls, http; /* is there such a listening socket? */
	char field[EDGEW_FIELD_SIZE];
};

struct edgew_stats {
	uint64_t connections, requests, refused, woken;
	uint32_t open, most, fewest;
};

/* A guest that calls. It is not told apart by its id, which is worth something. */
struct edgew_guest {
	uint8_t tls;
	uint64_t key; /* the same for all connections of a VM */
	char caller[EDGEW_CALLER_SIZE];
};

enum edgew_line_flag {
	EDGEW_LINE_TLS = 1,
	EDGEW_LINE_WOKE = 2,  /* the VM was asleep */
	EDGEW_LINE_GUEST = 4, /* it was a VM that asked */
	EDGEW_LINE_LEFT = 8,  /* the client left before the end */
	EDGEW_LINE_CUT = 16,  /* the response could not be completed */
	EDGEW_LINE_FLAGS = 31,
};

/* A request that is over. */
struct edgew_line {
	uint64_t at_ms; /* since the epoch: its end */
	uint64_t in, out;
	uint32_t ms;
	uint32_t tag; /* of base/codes.def: why the edge itself responded; 0: it did not */
	uint16_t status;
	uint8_t proto; /* 10, 11, 20; 0: TLS, passed on */
	uint8_t flags; /* enum edgew_line_flag */
	char host[EDGEW_HOST_SIZE];
	char place[ID_SIZE]; /* where the name led then */
	char method[EDGEW_METHOD_SIZE];
	char path[EDGEW_PATH_SIZE];
	char client[EDGEW_CLIENT_SIZE];
};

struct edgew_msg {
	unsigned kind; /* one of enum edgew_kind, checked by decode */
	uint32_t id;
	struct edgew_start start;
	char host[EDGEW_HOST_SIZE];
	char token[EDGEW_TOKEN_SIZE];
	int code; /* 0 or negative errno */
	unsigned tag;
	struct edgew_way way;
	uint32_t fresh_ms, waiting;
	uint64_t ticket;
	struct {
		uint64_t number;
		struct edgew_blob key, chain[EDGEW_CHAIN_MAX];
		unsigned n_chain;
	} cert;
	char text[EDGEW_TEXT_SIZE];
	char instance[ID_SIZE];
	struct edgew_stats stats;
	uint32_t version;
	struct edgew_guest guest;
	struct {
		uint32_t lost; /* lines before these that were dropped */
		struct edgew_blob v;
	} lines;
};

/* 0, -EINVAL or -E2BIG (a field out of its limits), -ENOMEM. */
int edgew_encode(const struct edgew_msg *m, struct buf *out, struct err *err);
/* Every field in its limits, no byte left over, and a kind that `from` sends; or -EBADMSG. Blobs
 * point into p. Only the fields of its kind are set. */
int edgew_decode(const void *p, size_t n, enum edgew_from from, struct edgew_msg *ret,
                 struct err *err);
/* Is it fit to be looked up: printable, lower case, without spaces and slashes? */
int edgew_host_valid(const char *s);

/* ---- edge_line.c ---- */
/* Appends a line to what will be lines.v. */
void edgew_line_put(struct buf *b, const struct edgew_line *l);
/* Takes the next line of lines.v: 1, 0 at the end, or -EBADMSG. */
int edgew_line_next(struct edgew_blob *v, struct edgew_line *ret);
