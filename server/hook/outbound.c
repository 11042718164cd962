/* SPDX-License-Identifier: Apache-2.0 */
/*
 * outbound.c - requests to addresses chosen by users
 *
 * The user must not reach through us what only we can reach. A name proves nothing, so the address
 * is checked where a socket for it is created: it is what is connected to, whatever the name
 * resolved to a moment ago. Redirects are not followed, proxies of the environment not used.
 */
#include "hook/outbound.h"

#include <netinet/in.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/sock.h"

#define CONNECT_MS 8000L
#define WHOLE_MS 15000L

static curl_socket_t open_socket(void *ctx, curlsocktype purpose, struct curl_sockaddr *a)
{
	struct outbound *o = ctx;

	if (purpose != CURLSOCKTYPE_IPCXN || (!o->allow_private && sock_is_internal(&a->addr))) {
		o->refused = true;
		return CURL_SOCKET_BAD;
	}
	return socket(a->family, a->socktype | SOCK_CLOEXEC, a->protocol);
}

static int look_up(void *ctx, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
	const struct outbound *o = ctx;

	(void)a, (void)b, (void)c, (void)d;
	return o->ending && atomic_load(o->ending);
}

void outbound_set(CURL *c, const char *url, struct outbound *o)
{
	curl_easy_setopt(c, CURLOPT_URL, url);
	curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 0L);
	curl_easy_setopt(c, CURLOPT_PROXY, "");
	curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS);
	curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, WHOLE_MS);
	curl_easy_setopt(c, CURLOPT_OPENSOCKETFUNCTION, open_socket);
	curl_easy_setopt(c, CURLOPT_OPENSOCKETDATA, o);
	curl_easy_setopt(c, CURLOPT_NOPROGRESS, 0L);
	curl_easy_setopt(c, CURLOPT_XFERINFOFUNCTION, look_up);
	curl_easy_setopt(c, CURLOPT_XFERINFODATA, o);
}
