/* SPDX-License-Identifier: Apache-2.0 */
/* agent/vt_internal.h - shared by the files vt*.c; not for other modules */
#pragma once

#include <vterm.h>

#include "agent/vt.h"
#include "base/buf.h"

/* A colour in 32 bits: 0 the default, else kind and value. */
#define COLOUR_INDEXED 0x01000000u
#define COLOUR_RGB 0x02000000u

enum attr {
	ATTR_BOLD = 1 << 0,
	ATTR_ITALIC = 1 << 1,
	ATTR_BLINK = 1 << 2,
	ATTR_REVERSE = 1 << 3,
	ATTR_STRIKE = 1 << 4,
	ATTR_UNDERLINE = 1 << 5, /* two bits: VTERM_UNDERLINE_* */
};

struct pen {
	uint32_t fg, bg;
	uint16_t attrs;
};

struct cell {
	uint32_t ch[VT_CHARS]; /* [0] 0: blank, or the right half of a wide character */
	struct pen pen;
	uint8_t width; /* 1 or 2; 0: the right half */
};

struct line { /* one line that scrolled off, drawn as bytes */
	char *p;
	uint32_t len;
};

/* Modes that libvterm knows but does not report, as parsed by vt_modes.c. */
enum dec_mode {
	MODE_CURSOR_KEYS,
	MODE_ORIGIN,
	MODE_WRAP,
	MODE_MOUSE_CLICK,
	MODE_MOUSE_DRAG,
	MODE_MOUSE_MOVE,
	MODE_FOCUS,
	MODE_MOUSE_UTF8,
	MODE_MOUSE_SGR,
	MODE_MOUSE_RXVT,
	MODE_PASTE,
	MODE_MAX,
};
#define MODES_DEFAULT (1u << MODE_WRAP)
#define MODE_ARGS 15 /* parameters of one sequence that are used; libvterm has room for 16 */

enum charset {
	CHARSET_G0 = 1 << 0,     /* G0 is not ASCII */
	CHARSET_LOCKED = 1 << 1, /* LS2, LS3: neither G0 nor G1 is in use */
	CHARSET_SINGLE = 1 << 2, /* SS2, SS3: of the next one; stays until a reset */
};

struct modes {
	uint32_t on;          /* bit per enum dec_mode */
	bool keypad;          /* application keypad, ESC = */
	bool insert;          /* IRM */
	bool drawing;         /* G0 is the line drawing set, ESC ( 0 */
	bool shifted;         /* SO: G1 is in use */
	bool drawing1;        /* G1 is the line drawing set */
	unsigned charset;     /* CHARSET_*: characters may not be plain ASCII */
	bool newline;         /* LNM: a line feed also returns to the first column */
	bool margins;         /* DECLRMM: to the left and the right */
	bool tabs;            /* stops were set or cleared */
	unsigned style;       /* of the cursor, DECSCUSR; 0: the terminal's own */
	unsigned top, bottom; /* of the scrolling region, from 1; 0: all of it */
	/* the sequence that is being read */
	enum { SEQ_NONE, SEQ_ESC, SEQ_CSI, SEQ_MIDDLE, SEQ_STRING, SEQ_STRING_ESC } seq;
	char lead, middle; /* '?' and the like; '!' and the like, '(' for a charset */
	unsigned arg[MODE_ARGS], n_args;
	uint32_t given, colon; /* bit per parameter: it has a value; a colon comes before it */
	bool odd, beyond;      /* unknown; more parameters than are parsed */
	bool osc;
	char text[VT_TITLE + 2]; /* of a string: number, semicolon, title */
	size_t n_text;
};
void modes_reset(struct modes *m);
/* The bytes that set them in a terminal that was reset; not the scrolling region, and */
void modes_draw(const struct modes *m, struct buf *b);
/* those that change what text does: after the last text. */
void modes_draw_text(const struct modes *m, struct buf *b);

struct vt {
	VTerm *lib;
	VTermState *state; /* its state machine */
	vt_say_fn say;
	void *ctx;
	unsigned cols, rows;
	struct cell **screen[2]; /* owned rows of owned cells; [1] the alternate one */
	unsigned alt;            /* which one is shown: 0 or 1 */
	struct pen pen;
	VTermPos cursor;
	VTermPos primary_cursor; /* where it stood when the alternate screen came up */
	bool was_alt;            /* the alternate screen was shown at least once */
	struct pen primary_pen;  /* ditto */
	bool primary_hidden;     /* ditto: the cursor */
	VTermPos last_glyph;
	bool wrap_pending; /* the last column is filled: the next character goes to the next line */
	bool cursor_hidden;
	bool astray; /* libvterm's cursor is outside of the screen */
	/* vt_text.c */
	bool ahead, pen_ahead; /* of libvterm: the cursor and the cells, the pen */
	bool after_glyph;      /* with ahead: nothing came after the character at last_glyph */
	bool deaf;             /* libvterm is being brought up to date */
	bool plodding;         /* everything goes through libvterm: for tests */
	unsigned moved_up;     /* rows, by the resize in progress */
	uint8_t part[4];       /* of a character whose rest has not come yet; vt_utf8.c */
	size_t n_part;
	char title[VT_TITLE];
	struct modes modes;
	struct line *history; /* owned; ring of VT_LINES_MAX */
	unsigned h_first, h_n;
	size_t h_bytes;
};

/* vt.c */
void title_keep(struct vt *t, const char *s);
/* Half a wide character cannot be shown: the part outside [from, to) becomes blank. */
void cells_mend(struct vt *t, struct cell *row, unsigned from, unsigned to);
/* Scrolls the whole screen by a line. */
void cells_scroll_up(struct vt *t);
/* vt_text.c */
/* Text without escapes. */
void text_feed(struct vt *t, const uint8_t *p, size_t n);
/* The SGR that was read, if it is an ordinary one. */
bool text_sgr(struct vt *t);
/* Brings libvterm up to date. */
void text_settle(struct vt *t);
/* Called after it was reset. */
void lib_begin(struct vt *t);
/* Writes to libvterm, after bringing it up to date. */
void lib_write(struct vt *t, const char *p, size_t n);
/* vt_modes.c: bytes of whole characters. */
void modes_feed(struct vt *t, const uint8_t *p, size_t n);
/* vt_draw.c */
void pen_draw(struct buf *b, const struct pen *p);
void cell_draw(struct buf *b, const struct cell *c);
bool pen_equal(const struct pen *a, const struct pen *b);
/* The bytes of a row, from default attributes back to default attributes. */
void row_draw(const struct cell *row, unsigned cols, struct buf *b);
/* vt_history.c */
void history_push(struct vt *t, const struct cell *row);
void history_free(struct vt *t);
