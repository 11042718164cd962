/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire/agent_code.h - the code interpreter's part of the agent protocol
 *
 * Contexts (a kernel each) live in the guest; cells are run in them. A cell's
 * output travels as events: the same format from a kernel to the agent and on
 * the channel of code.run to the host. docs/PROTOCOL.agent.md, section 7.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/agent.h"

#define AGENT_CODE_MAX (224u << 10)      /* bytes with NUL of a cell; a request has 256 KiB */
#define AGENT_CODE_CWD_MAX 1024u         /* bytes with NUL of a context's directory */
#define AGENT_CODE_ENV_MAX 128u          /* variables of a context */
#define AGENT_CODE_CONTEXTS_MAX 64u      /* contexts of one guest */
#define AGENT_CODE_WAITING_MAX 16u       /* cells waiting in a context's queue */
#define AGENT_CODE_OUTPUT_MAX (1u << 20) /* bytes of stdout, and of stderr, of one cell */
#define AGENT_CODE_FILES_MAX 128u        /* files listed with one cell */

/* number, NAME, name in the API */
#define AGENT_LANGUAGES(M)             \
	M(1, PYTHON, "python")         \
	M(2, JAVASCRIPT, "javascript") \
	M(3, TYPESCRIPT, "typescript") \
	M(4, BASH, "bash")             \
	M(5, RUBY, "ruby")
#define AGENT_LANGUAGE_ENUM(num, NAME, name) AGENT_LANG_##NAME = (num),
enum agent_language { AGENT_LANGUAGES(AGENT_LANGUAGE_ENUM) AGENT_LANG_END };
const char *agent_language_name(unsigned language); /* "?" if there is none */
unsigned agent_language_of(const char *name);       /* 0 if there is none; knows js, ts, ... */

/*
 * Events. K: a kernel sends it, A: the agent makes it. Numbers are in agent/kernels too.
 * RESULT and ERROR are JSON and may come in pieces; all pieces but the last have more set.
 */
#define AGENT_CODE_EVENTS(M)                                                      \
	M(1, STDOUT)  /* A: bytes */                                              \
	M(2, STDERR)  /* A: bytes */                                              \
	M(3, RESULT)  /* K: {mime: data} */                                       \
	M(4, ERROR)   /* K: {name, value, traceback} */                           \
	M(5, FILE)    /* A: u64 size, the rest is the path; one for each file */  \
	M(6, READY)   /* K: the kernel can take a cell; the host never sees it */ \
	M(7, DONE)    /* K: u32 number of the cell; the host never sees it */     \
	M(8, STARTED) /* A: u32 context; the cell's turn came, its timeout starts */
#define AGENT_CODE_EVENT_ENUM(num, NAME) AGENT_CODE_##NAME = (num),
enum agent_code_kind { AGENT_CODE_EVENTS(AGENT_CODE_EVENT_ENUM) AGENT_CODE_KIND_END };

struct agent_code_event {
	uint8_t kind; /* enum agent_code_kind */
	bool more;
	const uint8_t *p;
	size_t len;
};
#define AGENT_CODE_EVENT_HDR 6u          /* u32 length of the rest, u8 kind, flag more */
#define AGENT_CODE_EVENT_MAX (32u << 10) /* bytes of the payload */
void agent_code_event_put(struct buf *b, const struct agent_code_event *m);
/* Bytes of the event at p, 0 when it is not whole yet, -EBADMSG. */
int agent_code_event_get(const uint8_t *p, size_t n, struct agent_code_event *ret);

/* code.run; flags of a run */
enum agent_code_flags {
	AGENT_CODE_WARM = 1, /* if a kernel must be started, it imports the usual libraries first */
	AGENT_CODE_IF_IDLE = 2, /* only in an existing, idle kernel, else CONTEXT_NOT_FOUND */
	AGENT_CODE_SPARE = 4, /* in the kernel that waits for its first context, not in a context */
	AGENT_CODE_CWD = 8,   /* cwd follows */
	AGENT_CODE_FLAGS = 15,
};
struct agent_code_run {
	uint32_t context;    /* 0: the default one of language and user */
	uint8_t language;    /* enum agent_language; 0 with a context: whatever it has */
	uint8_t flags;       /* enum agent_code_flags */
	uint32_t timeout_ms; /* 0: none */
	const char *user, *code;
	const char *cwd; /* where an unused default context starts; "": the user's home */
};
void agent_code_run_put(struct buf *b, const struct agent_code_run *m);
int agent_code_run_get(struct rd *c, struct agent_code_run *ret);

/* How a cell ended: number, NAME. */
#define AGENT_CODE_ENDS(M)                                                              \
	M(0, OK)          /* the kernel says it is done, with an error or without */    \
	M(1, INTERRUPTED) /* ditto, after a requested interrupt */                      \
	M(2, TIMED_OUT)   /* ditto, after the interrupt of its timeout */               \
	M(3, KILLED)      /* it ignored the interrupt of its timeout: fresh kernel */   \
	M(4, DIED)        /* the kernel ended during the cell: fresh kernel */          \
	M(5, OOM)         /* ditto, and the guest was out of memory */                  \
	M(6, BROKEN)      /* the kernel's channel was closed or abused: fresh kernel */ \
	M(7, RESTARTED)   /* somebody restarted or deleted the context */               \
	M(8, NO_START)    /* no kernel could be started */
#define AGENT_CODE_END_ENUM(num, NAME) AGENT_CODE_END_##NAME = (num),
enum agent_code_how { AGENT_CODE_ENDS(AGENT_CODE_END_ENUM) AGENT_CODE_HOW_END };

struct agent_code_result { /* body of code.run's RESULT */
	uint32_t context;
	uint8_t language, how;
	uint32_t count;       /* number of the cell in its kernel */
	uint32_t duration_ms; /* from its turn on */
	uint32_t exit_code, signal;
	bool fresh;     /* the kernel was started for this cell; an earlier one was lost */
	bool files_cut; /* more files changed than are listed */
	uint64_t bytes[AGENT_CHANS]; /* [1], [2]: bytes it wrote, sent or not */
};
void agent_code_result_put(struct buf *b, const struct agent_code_result *m);
int agent_code_result_get(const uint8_t *p, size_t n, struct agent_code_result *ret);

struct agent_code_create {
	uint8_t language;
	const char *user, *cwd; /* cwd "": the user's home */
	uint16_t n_env;
	const char *env[AGENT_CODE_ENV_MAX];
};
void agent_code_create_put(struct buf *b, const struct agent_code_create *m);
int agent_code_create_get(struct rd *c, struct agent_code_create *ret);

/* code.list (from that context on), code.restart, code.interrupt, code.delete */
struct agent_code_ctx {
	uint32_t context;
	const char *user; /* "": root, who may use all contexts; others only their own */
};
void agent_code_ctx_put(struct buf *b, const struct agent_code_ctx *m);
int agent_code_ctx_get(struct rd *c, struct agent_code_ctx *ret);

enum agent_code_state { AGENT_CODE_NONE, AGENT_CODE_STARTING, AGENT_CODE_IDLE, AGENT_CODE_BUSY };
/* An entry of code.list's RESULT; the body of code.create's. */
struct agent_code_context {
	uint32_t context;
	uint8_t language, state; /* enum agent_code_state */
	bool is_default;
	uint32_t count, waiting, pid; /* pid 0: no kernel runs */
	int64_t created_ns;           /* wall clock */
	const char *user, *cwd;
};
void agent_code_context_put(struct buf *b, const struct agent_code_context *m);
int agent_code_context_get(struct rd *c, struct agent_code_context *ret); /* no rd_end() */
