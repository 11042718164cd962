/* SPDX-License-Identifier: Apache-2.0 */
/*
 * auth_limit.c - failed attempts per remote address
 *
 * So many failures of an address are answered, logged and audited at once, then one more every
 * second. Beyond that a failure closes the connection and is only counted, so that nobody can fill
 * the log. Credentials are checked first, always: a good one works from any address at any time,
 * also from behind a proxy that many share. Guessing is hopeless anyway (238 bits).
 */
#include "auth/auth_internal.h"
#include "base/rate.h"
#include "base/sock.h"

int failures_start(struct auth *a, struct err *err)
{
	return rate_new(&(struct rate_conf){ .per_s = AUTH_FAIL_PER_S,
	                                     .burst = AUTH_FAIL_BURST,
	                                     .slots = AUTH_FAIL_ADDRESSES },
	                &a->failures, err);
}

bool auth_failure(struct auth *a, const struct sockaddr *from)
{
	char net[SOCK_NET_SIZE];

	return rate_take(a->failures, sock_net_text(from, net), NULL);
}
