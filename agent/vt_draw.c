/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vt_draw.c - turns cells into the bytes that draw them
 *
 * A picture first brings the receiving terminal into a known state, whatever
 * sequence it was in the middle of: cancel, reset attributes and modes, clear
 * screen and history. Then the history and the primary screen line by line, the
 * alternate screen on top if it is shown, modes, pen, cursor. It contains only characters that
 * libvterm treated as glyphs, so it has no sequences but ours.
 */
#include "agent/vt_internal.h"

#include "base/auto.h"

/* Cancel; ST ends a string; attributes, charsets, modes, region, screens, history. */
#define PICTURE_BEGIN                                                                           \
	"\x18\x1b\\\x1b[?1049l\x1b[!p\x1b[0m\x0f\x1b(B\x1b)B\x1b[r\x1b[?6l\x1b[?7h\x1b[4l\x1b>" \
	"\x1b[?1l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1004l\x1b[?1005l\x1b[?1006l\x1b[?1015l" \
	"\x1b[?2004l\x1b[?25h\x1b[0 q\x1b[H\x1b[2J\x1b[3J"

bool pen_equal(const struct pen *a, const struct pen *b)
{
	return a->fg == b->fg && a->bg == b->bg && a->attrs == b->attrs;
}

static void put_text(struct buf *b, const char *s)
{
	for (; *s; s++)
		buf_put_u8(b, (uint8_t)*s);
}

static void put_colour(struct buf *b, uint32_t c, unsigned base)
{
	unsigned i = c & 0xff;

	if (!c)
		return;
	if (c & COLOUR_RGB)
		buf_printf(b, ";%u;2;%u;%u;%u", base + 8, c >> 16 & 0xff, c >> 8 & 0xff, i);
	else if (i < 8)
		buf_printf(b, ";%u", base + i);
	else if (i < 16)
		buf_printf(b, ";%u", base + 60 + i - 8);
	else
		buf_printf(b, ";%u;5;%u", base + 8, i);
}

void pen_draw(struct buf *b, const struct pen *p)
{
	static const struct {
		unsigned bit;
		const char *text;
	} plain[] = { { ATTR_BOLD, ";1" },
		      { ATTR_ITALIC, ";3" },
		      { ATTR_BLINK, ";5" },
		      { ATTR_REVERSE, ";7" },
		      { ATTR_STRIKE, ";9" } };
	unsigned under = (p->attrs / ATTR_UNDERLINE) & 3;

	put_text(b, "\x1b[0");
	for (size_t i = 0; i < ARRAY_SIZE(plain); i++)
		if (p->attrs & plain[i].bit)
			put_text(b, plain[i].text);
	if (under)
		put_text(b, under == VTERM_UNDERLINE_SINGLE   ? ";4"
		            : under == VTERM_UNDERLINE_DOUBLE ? ";21"
		                                              : ";4:3");
	put_colour(b, p->fg, 30);
	put_colour(b, p->bg, 40);
	put_text(b, "m");
}

static void put_utf8(struct buf *b, uint32_t c)
{
	uint8_t u[4];
	size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;

	if (n == 1) {
		buf_put_u8(b, (uint8_t)c);
		return;
	}
	for (size_t i = n; --i > 0; c >>= 6)
		u[i] = (uint8_t)(0x80 | (c & 0x3f));
	u[0] = (uint8_t)((0xf00 >> n & 0xff) | c);
	buf_put(b, u, n);
}

void cell_draw(struct buf *b, const struct cell *c)
{
	if (!c->ch[0]) {
		buf_put_u8(b, ' ');
		return;
	}
	for (int i = 0; i < VT_CHARS && c->ch[i]; i++)
		put_utf8(b, c->ch[i]);
}

/* Blank in the terminal's default colours: nothing to draw. */
static bool invisible(const struct cell *c)
{
	return !c->ch[0] && c->width && !c->pen.bg && !c->pen.attrs;
}

/* The leading characters of one byte and one pen, which are nearly all there are. */
static unsigned ascii_draw(const struct cell *c, unsigned n, const struct pen *pen, struct buf *b)
{
	uint8_t *p = buf_reserve(b, n);
	unsigned i = 0;

	for (; p && i < n; i++) {
		if (c[i].ch[0] >= 0x80 || c[i].ch[1] || c[i].width != 1 ||
		    !pen_equal(&c[i].pen, pen))
			break;
		p[i] = c[i].ch[0] ? (uint8_t)c[i].ch[0] : ' ';
	}
	b->len += i;
	return i;
}

void row_draw(const struct cell *row, unsigned cols, struct buf *b)
{
	struct pen now = { 0 };
	unsigned end = cols;

	while (end && invisible(&row[end - 1]))
		end--;
	for (unsigned i = 0; i < end; i++) {
		unsigned plain;

		if (row[i].width == 0)
			continue;
		if (!pen_equal(&now, &row[i].pen)) {
			now = row[i].pen;
			pen_draw(b, &now);
		}
		plain = ascii_draw(row + i, end - i, &now, b);
		if (plain)
			i += plain - 1;
		else
			cell_draw(b, &row[i]);
	}
	if (!pen_equal(&now, &(struct pen){ 0 }))
		put_text(b, "\x1b[0m");
}

static void screen_draw(const struct vt *t, unsigned which, struct buf *b)
{
	for (unsigned y = 0; y < t->rows; y++) {
		if (y)
			put_text(b, "\r\n");
		row_draw(t->screen[which][y], t->cols, b);
	}
}

static void region_draw(const struct vt *t, struct buf *b)
{
	unsigned top = t->modes.top, bottom = MIN(t->modes.bottom, t->rows);

	if (top && top <= bottom && (top > 1 || bottom < t->rows))
		buf_printf(b, "\x1b[%u;%ur", top, bottom);
}

static void cursor_draw(const struct vt *t, struct buf *b)
{
	unsigned top = t->modes.on & BIT(MODE_ORIGIN) && t->modes.top ? t->modes.top - 1 : 0;
	unsigned row = (unsigned)t->cursor.row, col = (unsigned)t->cursor.col;

	if (row < top)
		row = top;
	/* Via home: a terminal with a pending wrap ignores a move to where it already is. */
	buf_printf(b, "\x1b[H\x1b[%u;%uH", row - top + 1, col + 1);
	if (t->wrap_pending &&
	    t->modes.on & BIT(MODE_WRAP)) { /* only writing that character again restores it */
		const struct cell *c = &t->screen[t->alt][t->cursor.row][t->cursor.col];

		if (c->width) {
			pen_draw(b, &c->pen);
			cell_draw(b, c);
		}
	}
	pen_draw(b, &t->pen);
}

void vt_picture(const struct vt *t, bool with_history, struct buf *b)
{
	put_text(b, PICTURE_BEGIN);
	for (unsigned i = 0; with_history && i < t->h_n; i++) {
		const struct line *l = &t->history[(t->h_first + i) % VT_LINES_MAX];

		buf_put(b, l->p, l->len);
		put_text(b, "\r\n");
	}
	screen_draw(t, 0, b);
	if (t->was_alt) {
		/* The cursor position to be restored when the alternate screen is left. */
		buf_printf(b, "\x1b[%u;%uH", (unsigned)t->primary_cursor.row + 1,
		           (unsigned)t->primary_cursor.col + 1);
		pen_draw(b, &t->primary_pen);
		put_text(b, t->primary_hidden ? "\x1b[?25l" : "");
		put_text(b, t->alt ? "\x1b[?1049h" : "\x1b[?1049h\x1b[?1049l");
	}
	if (t->alt) {
		put_text(b, "\x1b[0m\x1b[H\x1b[2J");
		screen_draw(t, 1, b);
	}
	if (t->title[0])
		buf_printf(b, "\x1b]2;%s\x07", t->title);
	region_draw(t, b);
	modes_draw(&t->modes, b);
	cursor_draw(t, b);
	modes_draw_text(&t->modes, b);
	put_text(b, t->cursor_hidden ? "\x1b[?25l" : "\x1b[?25h");
}
