/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pty/ws.h - the server's end of a WebSocket; for pty/ and api/
 *
 * wslay handles the frames; this adds the socket, the limits and messages whose length
 * is not known when they begin. A connection is used by one thread. Nothing here blocks:
 * the owner polls ws_fd() for ws_events() and calls ws_move().
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WS_MESSAGE_MAX (1u << 20) /* bytes of one message of a client; more ends it with 1009 */

enum ws_code { WS_NORMAL = 1000, WS_GOING_AWAY = 1001, WS_POLICY = 1008, WS_INTERNAL = 1011 };

struct ws;
typedef void (*ws_message_fn)(void *ctx, bool text, const uint8_t *p, size_t n);

/* fd stays the caller's and becomes nonblocking; early: bytes that were already read from it. */
struct ws *ws_new(int fd, const void *early, size_t n_early, ws_message_fn on_message, void *ctx);
struct ws *ws_free(struct ws *w);

/* All return 0, or -errno when the connection can no longer be used. */
int ws_text(struct ws *w, const char *p, size_t n);
int ws_binary(struct ws *w, const uint8_t *p, size_t n);
/* Parts of one binary message; nothing else is sent between the first and the last. */
int ws_part(struct ws *w, const uint8_t *p, size_t n, bool last);
int ws_ping(struct ws *w);
/* Queued data is sent before it. reason: static storage. */
int ws_close(struct ws *w, enum ws_code code, const char *reason);

/* Bytes waiting for the client. */
size_t ws_queued(const struct ws *w);
/* For poll(2). want_read false: the owner has enough for now. */
short ws_events(const struct ws *w, bool want_read);
/* Reads and writes as much as possible without blocking. -ENOTCONN: both sides have closed. */
int ws_move(struct ws *w, bool want_read);
uint64_t ws_heard_ms(const struct ws *w); /* when anything was last received */
