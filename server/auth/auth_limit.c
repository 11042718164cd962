/* SPDX-License-Identifier: Apache-2.0 */
/*
 * auth_limit.c - failed attempts per remote address
 *
 * A token bucket per address (an IPv6 /64 counts as one): a burst of failures is answered,
 * logged and audited, then one more per interval. Beyond that a failure closes the
 * connection and is only counted, so that nobody can fill the log. Credentials are always checked
 * first: a valid one works from any address at any time, even from behind a shared proxy.
 * Guessing is hopeless anyway (238 bits).
 */
#include <netinet/in.h>
#include <string.h>

#include "auth/auth_internal.h"
#include "base/auto.h"
#include "base/clock.h"

#define FAIL_BURST 100      /* failures at once */
#define FAIL_REFILL_MS 1000 /* then one per */
#define FAIL_PROBES 4       /* slots an address may be in */

static void address_of(const struct sockaddr *sa, uint8_t ret[16])
{
	memset(ret, 0, 16);
	if (!sa)
		return;
	if (sa->sa_family == AF_INET)
		memcpy(ret + 12, &((const struct sockaddr_in *)(const void *)sa)->sin_addr, 4);
	if (sa->sa_family == AF_INET6) {
		const struct in6_addr *a6 =
		        &((const struct sockaddr_in6 *)(const void *)sa)->sin6_addr;

		if (IN6_IS_ADDR_V4MAPPED(a6))
			memcpy(ret + 12, &a6->s6_addr[12], 4);
		else
			memcpy(ret, a6, 8);
	}
}

/* Its slot, or else the least recently used of its candidate slots. */
static struct fail_slot *slot_of(struct auth *a, const uint8_t addr[16], uint64_t now)
{
	struct fail_slot *oldest = NULL;
	uint32_t h = 2166136261u;

	for (int i = 0; i < 16; i++)
		h = (h ^ addr[i]) * 16777619u;
	for (uint32_t i = 0; i < FAIL_PROBES; i++) {
		struct fail_slot *s = &a->fails[(h + i) % FAIL_SLOTS];

		if (s->at_ms && memcmp(s->addr, addr, 16) == 0)
			return s;
		if (!oldest || s->at_ms < oldest->at_ms)
			oldest = s;
	}
	memcpy(oldest->addr, addr, 16);
	oldest->at_ms = now;
	oldest->left = FAIL_BURST;
	return oldest;
}

bool auth_failure(struct auth *a, const struct sockaddr *from)
{
	uint64_t now = clock_ms();
	struct fail_slot *s;
	uint8_t addr[16];

	address_of(from, addr);
	LOCK_SCOPE(&a->fail_lock);
	s = slot_of(a, addr, now);
	s->left = MIN(s->left + (double)(now - s->at_ms) / FAIL_REFILL_MS, FAIL_BURST);
	s->at_ms = now;
	if (s->left < 1)
		return false;
	s->left -= 1;
	return true;
}
