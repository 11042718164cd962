/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bare.c - libmicrohttpd answering a constant: the reference for the API's requests per second
 *
 *   bare thread PORT    a thread per connection, as pandod has it
 *   bare pool PORT      epoll and a thread per processor, the library's fastest
 *
 * The reply is as long as whoami's, with one header. Ends at end of file on stdin.
 */
#include <arpa/inet.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char reply[] =
        "{\"accountId\":\"00000000-0000-4000-8000-000000000000\",\"identityId\":null}";

static enum MHD_Result on_request(void *cls, struct MHD_Connection *conn, const char *url,
                                  const char *method, const char *version, const char *data,
                                  size_t *data_n, void **ctx)
{
	static int seen;
	struct MHD_Response *m;
	enum MHD_Result ok;

	if (!*ctx) { /* headers; the reply is due at the end of the request */
		*ctx = &seen;
		return MHD_YES;
	}
	if (*data_n) {
		*data_n = 0;
		return MHD_YES;
	}
	m = MHD_create_response_from_buffer(sizeof(reply) - 1, (void *)(uintptr_t)reply,
	                                    MHD_RESPMEM_PERSISTENT);
	if (!m)
		return MHD_NO;
	MHD_add_response_header(m, "Content-Type", "application/json");
	ok = MHD_queue_response(conn, MHD_HTTP_OK, m);
	MHD_destroy_response(m);
	return ok;
}

int main(int argc, char **argv)
{
	struct sockaddr_in sa = { .sin_family = AF_INET,
		                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int pool = argc == 3 && strcmp(argv[1], "pool") == 0;
	struct MHD_Daemon *d;
	char c;

	if (argc != 3 || (!pool && strcmp(argv[1], "thread") != 0)) {
		fprintf(stderr, "usage: bare thread|pool PORT\n");
		return 2;
	}
	sa.sin_port = htons((uint16_t)strtoul(argv[2], NULL, 10));
	if (pool)
		d = MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD, 0, NULL, NULL, on_request, NULL,
		                     MHD_OPTION_SOCK_ADDR, &sa, MHD_OPTION_THREAD_POOL_SIZE,
		                     (unsigned)sysconf(_SC_NPROCESSORS_ONLN), MHD_OPTION_END);
	else
		d = MHD_start_daemon(MHD_USE_THREAD_PER_CONNECTION |
		                             MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL,
		                     0, NULL, NULL, on_request, NULL, MHD_OPTION_SOCK_ADDR, &sa,
		                     MHD_OPTION_END);
	if (!d) {
		fprintf(stderr, "bare: cannot listen on port %s\n", argv[2]);
		return 1;
	}
	puts("ready");
	fflush(stdout);
	while (read(0, &c, 1) > 0)
		;
	MHD_stop_daemon(d);
	return 0;
}
