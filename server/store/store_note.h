/* SPDX-License-Identifier: Apache-2.0 */
/* store/store_note.h - what users write on their VMs: tags, metadata, environment */
#pragma once

#include <stddef.h>

#include "base/id.h"
#include "model/account.h"

struct err;
struct store;

/* JSON texts; NULL or "": none. */
struct store_note {
	char vm_id[ID_SIZE], account[ACCOUNT_SIZE];
	char *tags, *metadata, *env; /* owned; env is sealed in the database */
};
void store_note_done(struct store_note *n);
/* Replaces what there is; of a VM that exists. */
int store_note_put(struct store *s, const struct store_note *n, struct err *err);
/* 1: there is one, 0: not. Caller store_note_done()s. */
int store_note_get(struct store *s, const char *vm_id, struct store_note *ret, struct err *err);
/* All of an account, without env. */
int store_note_list(struct store *s, const char *account, struct store_note **ret, size_t *ret_n,
                    struct err *err);
void store_notes_free(struct store_note *n, size_t count);
