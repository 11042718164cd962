/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vt_text.c - plain text and colours without libvterm
 *
 * Theory of operation: most output is ASCII, ends of lines and colours, and
 * libvterm takes a dozen calls for each character of it, which in an emulated guest determines
 * the speed of the terminal. While no mode gives such bytes another meaning,
 * they go straight into the cells, and libvterm falls behind: `ahead` says that its
 * cursor is not where ours is, `pen_ahead` the same for attributes. Before it gets
 * anything else, text_settle() brings it up to date: its cursor is moved, and it gets
 * the last character again, so that it knows about a pending wrap and what a
 * combining character belongs to. Its callbacks are ignored meanwhile.
 *
 * Whether a wrap is pending is only certain after a character or a carriage
 * return: so the first one of a run goes to libvterm, and short runs do completely. Both
 * paths have the same result, byte for byte; tests compare them (vt_plodding()).
 */
#include "agent/vt_internal.h"

#include <stdio.h>
#include <string.h>

#include "base/auto.h"

#define RUN_MIN 16u /* minimum bytes of plain text for which this path pays off */

enum { P_NO, P_GLYPH, P_CONTROL };

static int plain(uint8_t c)
{
	if (c >= 0x20 && c < 0x7f)
		return P_GLYPH;
	return c == '\r' || c == '\n' || c == '\b' || c == '\t' || c == '\a' ? P_CONTROL : P_NO;
}

/* Do characters and line feeds have their usual meaning? */
static bool ordinary(const struct vt *t)
{
	const struct modes *m = &t->modes;
	const uint32_t mask = BIT(MODE_WRAP) | BIT(MODE_ORIGIN);

	return (m->on & mask) == BIT(MODE_WRAP) && !m->insert && !m->shifted && !m->charset &&
	       !m->newline && !m->margins && t->cols >= 2 && !t->plodding &&
	       (!m->top || (m->top == 1 && m->bottom >= t->rows));
}

static void line_feed(struct vt *t)
{
	if ((unsigned)t->cursor.row + 1 < t->rows)
		t->cursor.row++;
	else
		cells_scroll_up(t);
}

/* Puts as many of the n characters as fit into this line, at least one. */
static size_t put_line(struct vt *t, const uint8_t *p, size_t n)
{
	const struct cell like = { .pen = t->pen, .width = 1 };
	struct cell *row;
	unsigned col;
	size_t k = 0;

	if (t->wrap_pending) {
		line_feed(t);
		t->cursor.col = 0;
	}
	col = (unsigned)t->cursor.col;
	row = t->screen[t->alt][t->cursor.row];
	n = MIN(n, (size_t)(t->cols - col));
	for (; k < n && plain(p[k]) == P_GLYPH; k++)
		;
	cells_mend(t, row, col, col + (unsigned)k);
	for (size_t i = 0; i < k; i++) {
		row[col + i] = like;
		row[col + i].ch[0] = p[i] == ' ' ? 0 : p[i];
	}
	t->last_glyph = (VTermPos){ .row = t->cursor.row, .col = (int)(col + k - 1) };
	t->wrap_pending = col + k == t->cols;
	t->cursor.col = (int)(col + k) - (t->wrap_pending ? 1 : 0);
	t->after_glyph = true;
	return k;
}

/* False: leave it to libvterm. */
static bool put_control(struct vt *t, uint8_t c)
{
	if (c == '\a')
		return true;
	if (c == '\r') {
		t->cursor.col = 0;
	} else if (t->wrap_pending) {
		return false;
	} else if (c == '\n') {
		line_feed(t);
	} else if (c == '\b') {
		t->cursor.col -= t->cursor.col > 0;
	} else {
		if (t->modes.tabs)
			return false;
		t->cursor.col = MIN((t->cursor.col | 7) + 1, (int)t->cols - 1);
	}
	t->wrap_pending = t->after_glyph = false;
	return true;
}

/* Returns how many of the n bytes it used. */
static size_t put_plain(struct vt *t, const uint8_t *p, size_t n)
{
	size_t i = 0;

	while (i < n) {
		int kind = plain(p[i]);

		if (kind == P_NO || (kind == P_CONTROL && !put_control(t, p[i])))
			break;
		i += kind == P_GLYPH ? put_line(t, p + i, n - i) : 1;
		t->ahead = true;
	}
	return i;
}

void text_settle(struct vt *t)
{
	VTermPos at = t->after_glyph ? t->last_glyph : t->cursor;
	char s[48];
	int n;

	t->deaf = true;
	if (t->pen_ahead) {
		autobuf struct buf b = { 0 };

		pen_draw(&b, &t->pen);
		vterm_input_write(t->lib, (const char *)b.p, b.len);
	}
	if (t->ahead) {
		uint32_t c = t->screen[t->alt][at.row][at.col].ch[0];

		/* Via home: it would ignore a move to where it already is, and keep a pending wrap.
		 */
		n = snprintf(s, sizeof(s), "\x1b[H\x1b[%d;%dH", at.row + 1, at.col + 1);
		if (t->after_glyph)
			s[n++] = (char)(c ? c : ' ');
		vterm_input_write(t->lib, s, (size_t)n);
	}
	t->deaf = t->ahead = t->pen_ahead = false;
}

void lib_write(struct vt *t, const char *p, size_t n)
{
	if (t->ahead || t->pen_ahead)
		text_settle(t);
	vterm_input_write(t->lib, p, n);
	if (t->astray) { /* back to a position outside the smaller screen */
		char s[32];
		int k = snprintf(s, sizeof(s), "\x1b[%d;%dH", t->cursor.row + 1, t->cursor.col + 1);

		t->astray = false;
		vterm_input_write(t->lib, s, (size_t)k);
		t->astray = false;
	}
}

/*
 * Initially every character set of libvterm is UTF-8, each with its own decoder, and
 * which one reads a character depends on what came before it in the same write: a character that
 * is split by a read is lost. Selecting ASCII leaves everything else to one decoder.
 */
void lib_begin(struct vt *t)
{
	static const char ascii[] = "\x1b(B\x1b)B\x1b*B\x1b+B";

	vterm_input_write(t->lib, ascii, sizeof(ascii) - 1);
}

/* How much of it is for libvterm: what is not plain, with the rest of its line. */
static size_t foreign(const uint8_t *p, size_t n)
{
	size_t i = 0;

	while (i < n && p[i] >= 0x20)
		i++;
	while (i < n && p[i] < 0x20 && plain(p[i]) == P_NO)
		i++;
	return MAX(i, (size_t)1);
}

/*
 * libvterm has the cursor. How much must go there before plain text may begin;
 * *ret_plain: it may begin then.
 */
static size_t lead_in(const uint8_t *p, size_t n, bool *ret_plain)
{
	size_t run = 0, k = 0;

	*ret_plain = false;
	while (run < n && run < RUN_MIN && plain(p[run]) != P_NO)
		run++;
	if (run < RUN_MIN)
		return run < n ? run + foreign(p + run, n - run) : run;
	while (k < run && plain(p[k]) != P_GLYPH && p[k] != '\r')
		k++;
	*ret_plain = k < run;
	return *ret_plain ? k + 1 : run;
}

void text_feed(struct vt *t, const uint8_t *p, size_t n)
{
	while (n) {
		bool may = t->ahead;
		size_t k = 0;

		if (!ordinary(t)) {
			lib_write(t, (const char *)p, n);
			return;
		}
		if (!may) {
			k = lead_in(p, n, &may);
			lib_write(t, (const char *)p, k);
			t->after_glyph = plain(p[k - 1]) == P_GLYPH;
		}
		if (may)
			k += put_plain(t, p + k, n - k);
		if (may && k < n) { /* something else came */
			size_t other = foreign(p + k, n - k);

			lib_write(t, (const char *)p + k, other);
			k += other;
		}
		p += k;
		n -= k;
	}
}

/* A colour of n parameters after 38 or 48; 0: not one we know. */
static unsigned colour_args(const unsigned *a, unsigned n, uint32_t *ret)
{
	if (n >= 2 && a[0] == 5 && a[1] < 256) {
		*ret = COLOUR_INDEXED | a[1];
		return 2;
	}
	if (n >= 4 && a[0] == 2 && (a[1] | a[2] | a[3]) < 256) {
		*ret = COLOUR_RGB | a[1] << 16 | a[2] << 8 | a[3];
		return 4;
	}
	return 0;
}

static void attr_on(struct pen *p, unsigned bits, bool on)
{
	p->attrs = (uint16_t)(on ? p->attrs | bits : p->attrs & ~bits);
}

/* An SGR parameter without arguments. */
static bool sgr_one(struct pen *p, unsigned arg)
{
	static const uint16_t bit[10] = {
		[1] = ATTR_BOLD,  [3] = ATTR_ITALIC,  [4] = ATTR_UNDERLINE,
		[5] = ATTR_BLINK, [7] = ATTR_REVERSE, [9] = ATTR_STRIKE
	};

	if (arg == 0) {
		*p = (struct pen){ 0 };
	} else if (arg < 10 || (arg >= 22 && arg < 30)) {
		unsigned which = arg == 22 ? 1 : arg % 20;

		if (!bit[which])
			return false;
		if (which == 4)
			attr_on(p, 3 * ATTR_UNDERLINE, false);
		attr_on(p, bit[which], arg < 10);
	} else if ((arg >= 30 && arg < 38) || (arg >= 40 && arg < 48)) {
		*(arg < 40 ? &p->fg : &p->bg) = COLOUR_INDEXED | arg % 10;
	} else if ((arg >= 90 && arg < 98) || (arg >= 100 && arg < 108)) {
		*(arg < 100 ? &p->fg : &p->bg) = COLOUR_INDEXED | (arg % 10 + 8);
	} else if (arg == 39 || arg == 49) {
		*(arg == 39 ? &p->fg : &p->bg) = 0;
	} else {
		return false;
	}
	return true;
}

bool text_sgr(struct vt *t)
{
	const struct modes *m = &t->modes;
	struct pen p = t->pen;

	if (m->colon || m->lead || m->middle || t->plodding)
		return false;
	for (unsigned i = 0; i < m->n_args; i++) {
		unsigned k;

		if (m->arg[i] != 38 && m->arg[i] != 48) {
			if (!sgr_one(&p, m->arg[i]))
				return false;
			continue;
		}
		k = colour_args(m->arg + i + 1, m->n_args - i - 1, m->arg[i] == 38 ? &p.fg : &p.bg);
		/* to libvterm an omitted one is not 0 */
		if (!k || ((m->given >> (i + 1)) & (BIT(k) - 1)) != BIT(k) - 1)
			return false;
		i += k;
	}
	t->pen = p;
	t->pen_ahead = true;
	return true;
}

void vt_plodding(struct vt *t)
{
	t->plodding = true;
}
