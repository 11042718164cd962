/* SPDX-License-Identifier: Apache-2.0 */
/*
 * url.c - is it an address that events may be told to?
 *
 * Only what the text itself says: where its name leads is judged when it is called (outbound.c).
 */
#include <arpa/inet.h>
#include <curl/curl.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/err.h"
#include "base/sock.h"
#include "hook/hook.h"

int hook_url_check(const char *url, const char *name, bool allow_private, enum err_code tag,
                   struct err *err)
{
	char *scheme = NULL, *host = NULL;
	CURLU *u = curl_url();
	unsigned char raw[16];
	size_t n;
	int r = 0;

	if (!u)
		return err_set(err, -ENOMEM, "out of memory");
	if (strlen(url) >= HOOK_URL_SIZE || curl_url_set(u, CURLUPART_URL, url, 0) ||
	    curl_url_get(u, CURLUPART_SCHEME, &scheme, 0) ||
	    curl_url_get(u, CURLUPART_HOST, &host, 0) ||
	    (strcmp(scheme, "https") != 0 && strcmp(scheme, "http") != 0))
		r = err_tag(err, -EINVAL, tag, "'%s' must be an http or https URL", name);
	n = r == 0 ? strlen(host) : 0;
	if (r == 0 && !allow_private) {
		struct sockaddr_in v4 = { .sin_family = AF_INET };
		struct sockaddr_in6 v6 = { .sin6_family = AF_INET6 };
		bool bad = strcmp(host, "localhost") == 0;

		if (inet_pton(AF_INET, host, &v4.sin_addr) == 1)
			bad = sock_is_internal((struct sockaddr *)(void *)&v4);
		if (*host == '[' && host[n - 1] == ']') {
			host[n - 1] = '\0';
			if (inet_pton(AF_INET6, host + 1, raw) == 1) {
				memcpy(&v6.sin6_addr, raw, sizeof(raw));
				bad = sock_is_internal((struct sockaddr *)(void *)&v6);
			}
		}
		if (bad)
			r = err_tag(err, -EINVAL, tag,
			            "'%s' is an internal address: webhooks to those are not "
			            "allowed on this server (PANDO_WEBHOOK_ALLOW_PRIVATE)",
			            name);
	}
	curl_free(scheme);
	curl_free(host);
	curl_url_cleanup(u);
	return r;
}
