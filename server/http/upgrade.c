/* SPDX-License-Identifier: Apache-2.0 */
/*
 * upgrade.c - an HTTP connection becomes a WebSocket
 *
 * The library sends 101 and hands over the socket on the connection's own thread, so the upgrade
 * may block. Everything that can be rejected was rejected before, with an ordinary reply.
 * Until 101 was sent the request owns the upgrade, so nothing leaks if a client disconnects in
 * between.
 */
#include "http/http_internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include <openssl/evp.h>

#include "base/auto.h"

#define KEY_LEN 24     /* Sec-WebSocket-Key: 16 bytes in base64 */
#define ACCEPT_SIZE 29 /* Sec-WebSocket-Accept with NUL */

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

/* Proof to the client that this server meant to speak WebSocket (RFC 6455, 4.2.2). */
static int ws_accept(const char *key, char ret[ACCEPT_SIZE])
{
	static const char magic[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
	static const char alphabet[] =
	        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	unsigned char md[EVP_MAX_MD_SIZE];
	char text[KEY_LEN + sizeof(magic)];
	unsigned n = 0;

	if (strlen(key) != KEY_LEN || strspn(key, alphabet) != KEY_LEN - 2 ||
	    strcmp(key + KEY_LEN - 2, "==") != 0)
		return -EINVAL;
	snprintf(text, sizeof(text), "%s%s", key, magic);
	if (EVP_Digest(text, strlen(text), md, &n, EVP_sha1(), NULL) != 1)
		return -EIO;
	EVP_EncodeBlock((unsigned char *)ret, md, (int)n);
	return 0;
}

static int accept_of(struct request *req, char ret[ACCEPT_SIZE])
{
	const char *key = request_header(req, "Sec-WebSocket-Key");

	return key ? ws_accept(key, ret) : -EINVAL;
}

int upgrade_check(struct request *req, struct err *err)
{
	const char *version = request_header(req, "Sec-WebSocket-Version");
	char accept[ACCEPT_SIZE];

	if (strcmp(req->method_text, "GET") != 0 ||
	    !has_token(request_header(req, MHD_HTTP_HEADER_UPGRADE), "websocket") ||
	    !has_token(request_header(req, MHD_HTTP_HEADER_CONNECTION), "upgrade"))
		return err_tag(err, -EINVAL, ERR_INVALID_REQUEST,
		               "this route accepts WebSocket connections only");
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

	timeout_set(req->timeout, /* deadline_ms= */ 0);
	u->run(u, fd, early, n_early);
	u->free(u);
	MHD_upgrade_action(urh, MHD_UPGRADE_ACTION_CLOSE);
}

int reply_upgrade(struct request *req, struct reply *res, struct upgrade *u_consume,
                  struct err *err)
{
	char accept[ACCEPT_SIZE];
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
