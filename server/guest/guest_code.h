/* SPDX-License-Identifier: Apache-2.0 */
/*
 * guest/guest_code.h - the code interpreter of a guest; for vm/ and api/
 *
 * Contexts and their kernels live in the guest. A cell is a flow (guest.h) of
 * events; closing it before its end interrupts the cell.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/agent_code.h"

struct err;
struct guest;
struct guest_flow;

#define GUEST_CODE_WAIT_MS 900000 /* for a cell's turn: others before it, a kernel's start */
#define GUEST_CODE_OVER_MS 20000  /* beyond a cell's timeout: the interrupt, the kill, the way */

struct guest_code_req {
	uint32_t context;  /* 0: the default one */
	unsigned language; /* enum agent_language; 0 with a context */
	const char *user;  /* NULL: root */
	const char *code;
	const char *cwd;     /* where a default context that was not used yet begins; NULL: home */
	unsigned timeout_ms; /* 0: none */
	bool warm;           /* a kernel that must be started imports the usual libraries first */
	bool if_idle;        /* only in a kernel that is there and idle; else -ENOENT */
	bool spare;          /* in a JavaScript kernel that waits for its first context */
};
int guest_code_run(struct guest *g, const struct guest_code_req *req, struct guest_flow **ret,
                   struct err *err);
/* As guest_flow_read(): 1 with an event that is valid until the next call, 0, or -errno. */
int guest_code_next(struct guest_flow *f, struct agent_code_event *ret, struct err *err);
/* After -ENODATA. */
int guest_code_result(struct guest_flow *f, struct agent_code_result *ret, struct err *err);
/* Runs an empty cell to its end. */
int guest_code_warm(struct guest *g, const struct guest_code_req *req, unsigned timeout_ms,
                    struct err *err);

struct guest_context {
	uint32_t context;
	unsigned language;
	enum agent_code_state state;
	bool is_default;
	uint32_t count, waiting;
	int64_t created_ms; /* wall clock */
	char user[AGENT_USER_MAX], cwd[AGENT_CODE_CWD_MAX];
};
struct guest_context_req {
	unsigned language;
	const char *user, *cwd; /* NULL: root, its home */
	const char *const *env; /* NULL-terminated "K=V" list, or NULL */
};
/* Errors: -ENOENT with tag CONTEXT_NOT_FOUND or USER_NOT_FOUND, ... */
int guest_context_create(struct guest *g, const struct guest_context_req *req,
                         struct guest_context *ret, struct err *err);
/* user NULL (root) sees and touches everybody's, others their own. Oldest first. Caller frees. */
int guest_contexts(struct guest *g, const char *user, struct guest_context **ret, size_t *ret_n,
                   struct err *err);
int guest_context_restart(struct guest *g, const char *user, uint32_t context, struct err *err);
int guest_context_interrupt(struct guest *g, const char *user, uint32_t context, struct err *err);
int guest_context_delete(struct guest *g, const char *user, uint32_t context, struct err *err);
