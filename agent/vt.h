/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent/vt.h - a terminal emulator in memory; for agent/ only
 *
 * libvterm parses the bytes; the cells, the two screens and the scrollback
 * are ours, so that both screens can be read at any time and their
 * size is known. A picture is a string of bytes that makes an empty
 * terminal look like this one: colours, attributes, both screens, modes, cursor.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;

#define VT_LINES_MAX 10000u      /* lines of scrollback of one terminal */
#define VT_BYTES_MAX (4u << 20)  /* bytes of scrollback of one terminal */
#define VT_TOTAL_MAX (64u << 20) /* bytes of scrollback of all terminals together */
#define VT_CHARS 3               /* code points in a cell: one and its combining characters */
#define VT_TITLE 256             /* bytes with NUL of a title that is kept */

/* Called with the terminal's replies to the program's queries. */
typedef void (*vt_say_fn)(void *ctx, const char *p, size_t n);

struct vt;
struct vt *vt_new(unsigned cols, unsigned rows, vt_say_fn say, void *ctx); /* or NULL */
struct vt *vt_free(struct vt *t);
void vt_feed(struct vt *t, const uint8_t *p, size_t n);
/* 0 or -ENOMEM: then nothing changed. */
int vt_resize(struct vt *t, unsigned cols, unsigned rows);
/* For tests: everything goes through libvterm. */
void vt_plodding(struct vt *t);
/* Appends the picture; with_history: including the scrollback. */
void vt_picture(const struct vt *t, bool with_history, struct buf *b);
