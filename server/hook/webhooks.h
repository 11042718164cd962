/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hook/webhooks.h - webhooks of accounts: what happens to their VMs, snapshots and builds, sent to
 * an address of theirs; for main.c and api/
 *
 * The store writes events down with the changes they tell of (store/store_outbox.c); here they are
 * sent, in order per VM, signed like those of repositories, until they are answered with 2xx or a
 * day is over.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "store/store_hook.h"

struct signer;
struct webhooks;

struct webhooks_conf {
	struct signer *signer; /* weak */
	bool allow_private;    /* they may go to loopback, private and link-local addresses */
	uint32_t retry_s;      /* before the first repetition; later ones follow from it */
	char issuer[160];      /* "iss" of signatures */
};

int webhooks_open(const struct webhooks_conf *c, struct store *s, struct webhooks **ret,
                  struct err *err);
/* Nothing new is begun; what runs is told to end. */
void webhooks_end(struct webhooks *w);
/* What was interrupted is taken up at the next start. */
struct webhooks *webhooks_close(struct webhooks *w);

/* May it be sent there? BAD_REQUEST if not. */
int webhooks_check_url(struct webhooks *w, const char *url, struct err *err);
/* Once more from the beginning; -EBUSY while it is being tried. */
int webhooks_redeliver(struct webhooks *w, const char *hook, const char *id,
                       struct store_hook_delivery *ret, struct err *err);
