/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ticket.c - tickets: a single use of one terminal without a key
 *
 * A ticket is a prefix and 42 random letters and digits. Only its hash is kept, in memory: a
 * restart of the server invalidates all of them, most of which would have expired within a minute
 * anyway. It is found by its hash, so nothing secret is compared byte by byte. Using it removes it
 * from the table, whether or not it then matches.
 */
#include "pty/pty_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/id.h"

#define PREFIX "pandott_"
#define FIRST_ROWS 64

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

static int hash(const char *text, uint8_t ret[TICKET_HASH], struct err *err)
{
	unsigned char md[EVP_MAX_MD_SIZE];
	unsigned n = 0;

	if (EVP_Digest(text, strlen(text), md, &n, EVP_sha256(), NULL) != 1 || n != TICKET_HASH)
		return err_set(err, -EIO, "cannot compute a hash");
	for (unsigned i = 0; i < n; i++)
		ret[i] = md[i];
	return 0;
}

static void make_text(char ret[TICKET_SIZE])
{
	size_t n = (size_t)snprintf(ret, TICKET_SIZE, "%s", PREFIX);

	while (n < TICKET_SIZE - 1) {
		uint8_t r[64];

		random_bytes(r, sizeof(r));
		for (size_t i = 0; i < sizeof(r) && n < TICKET_SIZE - 1; i++)
			if (r[i] < 248) /* 4 * 62, so that all characters are equally likely */
				ret[n++] = alphabet[r[i] % 62];
	}
	ret[n] = '\0';
}

/* An unused row; lock held. */
static struct ticket_row *free_row(struct hub *h) REQUIRES(&h->lock)
{
	uint64_t now = clock_ms();
	struct ticket_row *more;
	size_t n;

	for (size_t i = 0; i < h->n_tickets; i++)
		if (h->tickets[i].until_ms <= now)
			return &h->tickets[i];
	n = h->n_tickets ? MIN(h->n_tickets * 2, (size_t)TICKETS_MAX) : FIRST_ROWS;
	if (n == h->n_tickets || !(more = reallocarray(h->tickets, n, sizeof(*more))))
		return NULL;
	for (size_t i = h->n_tickets; i < n; i++)
		more[i].until_ms = 0;
	h->tickets = more;
	more += h->n_tickets;
	h->n_tickets = n;
	return more;
}

int ticket_make(struct hub *h, const struct ticket *t, unsigned ttl_s, char ret[TICKET_SIZE],
                struct err *err)
{
	struct ticket_row *row, made = { .t = *t };
	int r;

	make_text(ret);
	r = hash(ret, made.hash, err);
	if (r < 0)
		return r;
	made.until_ms = clock_ms() + (uint64_t)ttl_s * 1000;
	LOCK_SCOPE(&h->lock);
	row = free_row(h);
	if (!row)
		return err_tag(err, -EAGAIN, ERR_UNAVAILABLE, "too many unused tickets exist");
	*row = made;
	return 0;
}

static bool take(struct hub *h, const uint8_t want[TICKET_HASH], struct ticket *ret)
{
	uint64_t now = clock_ms();
	LOCK_SCOPE(&h->lock);

	for (size_t i = 0; i < h->n_tickets; i++) {
		struct ticket_row *row = &h->tickets[i];

		if (row->until_ms <= now || CRYPTO_memcmp(row->hash, want, TICKET_HASH) != 0)
			continue;
		*ret = row->t;
		row->until_ms = 0;
		return true;
	}
	return false;
}

int ticket_use(struct hub *h, const char *text, const char *vm_id, const char *session,
               const char *origin, struct ticket *ret, struct err *err)
{
	uint8_t want[TICKET_HASH];
	int r = hash(text, want, err);

	if (r < 0)
		return r;
	if (!take(h, want, ret))
		return err_tag(err, -EACCES, ERR_UNAUTHORIZED,
		               "this ticket is unknown, already used, or expired");
	if (strcmp(ret->vm_id, vm_id) != 0 || strcmp(ret->session, session) != 0)
		return err_tag(err, -EACCES, ERR_UNAUTHORIZED,
		               "this ticket is for another VM or session");
	if (*ret->origin && (!origin || strcmp(ret->origin, origin) != 0))
		return err_tag(err, -EACCES, ERR_UNAUTHORIZED, "this ticket is for another origin");
	return 0;
}
