/* SPDX-License-Identifier: Apache-2.0 */
/* ws_accept.c - Sec-WebSocket-Accept (RFC 6455, 4.2.2) */
#include "pty/ws.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <openssl/evp.h>

#define KEY_LEN 24 /* 16 bytes in base64 */

int ws_accept(const char *key, char ret[WS_ACCEPT_SIZE])
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
