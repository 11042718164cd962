/* SPDX-License-Identifier: Apache-2.0 */
/* api/vms/cell.h - a cell of the code interpreter as JSON; for api/ only */
#pragma once

#include "api/vms/shared.h"
#include "guest/guest.h"
#include "guest/guest_code.h"

#define CONTEXT_ID_SIZE 16 /* "ctx-4294967295" and the NUL */

struct cell {
	struct guest_flow *f; /* owned */
	bool streamed, started, ended;
	unsigned timeout_ms;
	uint64_t deadline; /* clock_ms(): in case the guest does not keep its own */
	struct buf out[3]; /* [1], [2]; collected */
	size_t taken[3];   /* bytes of them, collected or not */
	struct buf piece;  /* of an incomplete result or error */
	uint8_t piece_kind;
	bool piece_lost; /* it grew too large */
	size_t results_bytes;
	unsigned n_results;
	json_t *results, *files, *error; /* owned */
	struct sse sse;                  /* streamed */
	struct sse_text text[3];
	void (*on_free)(void *arg); /* after the flow was closed */
	void *on_free_arg;
};

struct cell *cell_new(bool streamed, unsigned timeout_ms);
void cell_free(void *ctx); /* closes the flow: a running cell is interrupted */
/* 1: something was taken; 0: nothing now; -ENODATA: over, *ret is how it ended; or an error. */
int cell_step(struct cell *x, json_t **ret, struct err *err);
/* The whole reply of a cell that was not streamed. */
json_t *cell_collected(struct cell *x, json_t *end_consume);
const char *mime_of_path(const char *path); /* by its ending */
void cell_context_id(uint32_t context, char ret[CONTEXT_ID_SIZE]);
int code_language(const char *name, unsigned *ret, struct err *err);
int code_context(const char *id, uint32_t *ret, struct err *err);
/* Translates the guest's error to the protocol's code. */
int cell_error(int r, struct err *err);
