/* SPDX-License-Identifier: Apache-2.0 */
/*
 * upgrade.c - an HTTP connection becomes a WebSocket
 *
 * The library sends 101 and hands over the socket, on the connection's own thread: what
 * runs on it blocks nobody. Everything that can be refused was refused before, as an
 * ordinary reply. Until 101 is out the request owns what is to run, so a client that
 * goes away in between costs nothing.
 */
#include "api/call.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/auto.h"
#include "pty/ws.h"

/* Is the word one of a comma-separated list? */
static bool has_token(const char *list, const char *word)
{
	size_t n = strlen(word);

	while (list && *list) {
		list += strspn(list, " \t,");
		if (strncasecmp(list, word, n) == 0 && strchr(" \t,", list[n]))
			return true;
		list += strcspn(list, ",");
	}
	return false;
}

static int accept_of(struct request *req, char ret[WS_ACCEPT_SIZE])
{
	const char *key = request_header(req, "Sec-WebSocket-Key");

	return key ? ws_accept(key, ret) : -EINVAL;
}

int upgrade_check(struct request *req, struct err *err)
{
	const char *version = request_header(req, "Sec-WebSocket-Version");
	char accept[WS_ACCEPT_SIZE];

	if (strcmp(req->method_text, "GET") != 0 ||
	    !has_token(request_header(req, MHD_HTTP_HEADER_UPGRADE), "websocket") ||
	    !has_token(request_header(req, MHD_HTTP_HEADER_CONNECTION), "upgrade"))
		return err_tag(err, -EINVAL, ERR_INVALID_REQUEST,
		               "this route speaks WebSocket only");
	if (!version || strcmp(version, "13") != 0 || accept_of(req, accept) < 0)
		return err_tag(
		        err, -EINVAL, ERR_INVALID_REQUEST,
		        "Sec-WebSocket-Version must be 13, Sec-WebSocket-Key 16 bytes in base64");
	return 0;
}

static void on_upgrade(void *cls, struct MHD_Connection *conn, void *con_cls, const char *early,
                       size_t n_early, MHD_socket fd, struct MHD_UpgradeResponseHandle *urh)
{
	struct request *req = con_cls;
	struct upgrade *u = TAKE_PTR(req->upgrade);

	watch_deadline(req->api->watch, req->watched, /* deadline_ms= */ 0);
	u->run(u, fd, early, n_early);
	u->free(u);
	MHD_upgrade_action(urh, MHD_UPGRADE_ACTION_CLOSE);
}

int reply_upgrade(struct request *req, struct reply *res, struct upgrade *u_consume,
                  struct err *err)
{
	char accept[WS_ACCEPT_SIZE];
	int r = accept_of(req, accept);

	req->upgrade = u_consume;
	if (r < 0)
		return err_set(err, r, "cannot answer a Sec-WebSocket-Key");
	res->stream = MHD_create_response_for_upgrade(on_upgrade, NULL);
	if (!res->stream)
		return err_set(err, -ENOMEM, "out of memory");
	res->status = MHD_HTTP_SWITCHING_PROTOCOLS;
	MHD_add_response_header(res->stream, MHD_HTTP_HEADER_UPGRADE, "websocket");
	MHD_add_response_header(res->stream, "Sec-WebSocket-Accept", accept);
	return 0;
}
