/* SPDX-License-Identifier: Apache-2.0 */
/* hook/outbound.h - requests to addresses chosen by users; for git/ and hook/ */
#pragma once

#include <curl/curl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct sockaddr;

struct outbound {
	bool allow_private;        /* loopback, private and link-local addresses too */
	const atomic_bool *ending; /* ends it when set; or NULL */
	bool refused;              /* set: it was such an address */
};
/* Everything but what is asked. o must outlive the request. */
void outbound_set(CURL *c, const char *url, struct outbound *o);
