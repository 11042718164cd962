/* SPDX-License-Identifier: Apache-2.0 */
/* cli/ws_client.h - a WebSocket to the server; for cli/ */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cli;
struct wsc;

typedef void (*wsc_fn)(void *ctx, bool text, const uint8_t *p, size_t n);

/*
 * Connects and upgrades. CLI_OK and *ret, or another status; quiet: without a message. A refusal
 * before the upgrade is an ordinary error of the server: *ret_http is its status, else 0.
 */
int wsc_open(struct cli *c, const char *user, const char *path, wsc_fn fn, void *ctx, bool quiet,
             struct wsc **ret, long *ret_http);
struct wsc *wsc_free(struct wsc *w); /* without a close frame: see wsc_close() */
int wsc_fd(const struct wsc *w);
short wsc_events(const struct wsc *w); /* for poll(2) */
/* Moves what can be moved; false when the connection is over. */
bool wsc_run(struct wsc *w);
void wsc_send(struct wsc *w, bool text, const void *p, size_t n);
size_t wsc_queued(const struct wsc *w);
/* Says good-bye and gives the server a moment to answer. */
void wsc_close(struct wsc *w);
