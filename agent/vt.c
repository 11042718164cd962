/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vt.c - cells of a terminal, driven by libvterm's state machine
 *
 * libvterm calls back with changes to the cells: put a glyph, scroll, move, erase, switch
 * screens, resize. Rows are pointers, so that scrolling the whole width moves
 * pointers and not cells. A line that leaves the top of the primary screen goes
 * into the history as the bytes that draw it.
 */
#include "agent/vt_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"

static void rows_free(struct cell **rows, unsigned n)
{
	for (unsigned i = 0; rows && i < n; i++)
		free(rows[i]);
	free(rows);
}

static void blank(struct cell *c, unsigned n, const struct pen *pen)
{
	for (unsigned i = 0; i < n; i++)
		c[i] = (struct cell){ .pen = { .fg = 0, .bg = pen->bg }, .width = 1 };
}

static struct cell **rows_new(unsigned cols, unsigned rows)
{
	struct cell **r = calloc(rows, sizeof(*r));

	for (unsigned i = 0; r && i < rows; i++) {
		r[i] = calloc(cols, sizeof(**r));
		if (!r[i]) {
			rows_free(r, rows);
			return NULL;
		}
		blank(r[i], cols, &(struct pen){ 0 });
	}
	return r;
}

void cells_mend(struct vt *t, struct cell *row, unsigned from, unsigned to)
{
	if (from > 0 && row[from].width == 0)
		blank(&row[from - 1], 1, &row[from - 1].pen);
	if (to < t->cols && row[to].width == 0)
		blank(&row[to], 1, &row[to].pen);
}

/* Characters that combine with the one before them; alone they are put on a space. */
static bool combines(uint32_t c)
{
	static const struct {
		uint32_t first, last;
	} ranges[] = { { 0x0300, 0x036f }, { 0x0483, 0x0489 }, { 0x0591, 0x05bd },
		       { 0x0610, 0x061a }, { 0x064b, 0x065f }, { 0x0900, 0x0902 },
		       { 0x0e31, 0x0e31 }, { 0x0e34, 0x0e3a }, { 0x0e47, 0x0e4e },
		       { 0x1ab0, 0x1aff }, { 0x1dc0, 0x1dff }, { 0x200b, 0x200f },
		       { 0x20d0, 0x20ff }, { 0xfe00, 0xfe0f }, { 0xfe20, 0xfe2f } };

	for (size_t i = 0; c >= ranges[0].first && i < ARRAY_SIZE(ranges); i++)
		if (c >= ranges[i].first && c <= ranges[i].last)
			return true;
	return false;
}

static int on_glyph(VTermGlyphInfo *info, VTermPos pos, void *user)
{
	struct vt *t = user;
	unsigned w = info->width == 2 ? 2 : 1, col = (unsigned)pos.col, n = 0;
	struct cell *row;

	if (t->deaf || pos.row < 0 || (unsigned)pos.row >= t->rows || pos.col < 0 ||
	    col + w > t->cols)
		return 1;
	row = t->screen[t->alt][pos.row];
	cells_mend(t, row, col, col + w);
	row[col] = (struct cell){ .pen = t->pen, .width = (uint8_t)w };
	if ((info->chars[0] == ' ' && !info->chars[1]) || (info->chars[0] & ~0x80u) < 0x20 ||
	    info->chars[0] == 0x7f)
		n = VT_CHARS; /* a space is as good as blank; a control character is not a glyph */
	else if (combines(info->chars[0]))
		row[col].ch[n++] = ' ';
	for (int i = 0; n < VT_CHARS && info->chars[i]; i++)
		row[col].ch[n++] = info->chars[i];
	if (w == 2)
		row[col + 1] = (struct cell){ .pen = t->pen };
	t->wrap_pending = col + w == t->cols;
	t->last_glyph = pos;
	return 1;
}

static void cursor_clamp(struct vt *t)
{
	t->cursor.row = MAX(0, MIN(t->cursor.row, (int)t->rows - 1));
	t->cursor.col = MAX(0, MIN(t->cursor.col, (int)t->cols - 1));
}

static int on_cursor(VTermPos pos, VTermPos oldpos, int visible, void *user)
{
	struct vt *t = user;

	if (t->deaf)
		return 1;
	t->wrap_pending = t->wrap_pending && vterm_pos_cmp(pos, t->last_glyph) == 0;
	t->cursor = pos;
	cursor_clamp(t);
	t->astray =
	        vterm_pos_cmp(t->cursor, pos) != 0; /* libvterm has been seen to leave the screen */
	return 1;
}

static int on_erase(VTermRect r, int selective, void *user)
{
	struct vt *t = user;
	unsigned to = MIN((unsigned)r.end_col, t->cols), from = (unsigned)r.start_col;

	for (int y = r.start_row; y < r.end_row && (unsigned)y < t->rows && from < to; y++) {
		struct cell *row = t->screen[t->alt][y];

		cells_mend(t, row, from, to);
		blank(row + from, to - from, &t->pen);
	}
	return 1;
}

static int on_move(VTermRect dest, VTermRect src, void *user)
{
	struct vt *t = user;
	struct cell **rows = t->screen[t->alt];
	int n = dest.end_row - dest.start_row, down = dest.start_row > src.start_row;
	size_t w = (size_t)(dest.end_col - dest.start_col);

	for (int i = 0; i < n; i++) {
		int k = down ? n - 1 - i : i;
		struct cell *d = rows[dest.start_row + k];

		memmove(d + dest.start_col, rows[src.start_row + k] + src.start_col,
		        w * sizeof(*d));
		cells_mend(t, d, (unsigned)dest.start_col, (unsigned)dest.end_col);
		/* A wide character that was cut in two by the edge of the moved area. */
		if (d[dest.start_col].width == 0)
			blank(&d[dest.start_col], 1, &d[dest.start_col].pen);
		if (d[dest.end_col - 1].width == 2)
			blank(&d[dest.end_col - 1], 1, &d[dest.end_col - 1].pen);
	}
	return 1;
}

/* Whole rows: the pointers move. n > 0: up. */
static void rotate(struct vt *t, unsigned top, unsigned bottom, int n)
{
	struct cell **r = t->screen[t->alt] + top;
	unsigned h = bottom - top, k = MIN((unsigned)abs(n), h);

	for (unsigned i = 0; i < k; i++) {
		struct cell *moved = n > 0 ? r[0] : r[h - 1];

		if (n > 0)
			memmove(r, r + 1, (h - 1) * sizeof(*r));
		else
			memmove(r + 1, r, (h - 1) * sizeof(*r));
		r[n > 0 ? h - 1 : 0] = moved;
		blank(moved, t->cols, &t->pen);
	}
}

void cells_scroll_up(struct vt *t)
{
	if (!t->alt)
		history_push(t, t->screen[0][0]);
	rotate(t, 0, t->rows, 1);
}

static int on_scroll(VTermRect rect, int downward, int rightward, void *user)
{
	struct vt *t = user;
	bool whole = rect.start_col == 0 && (unsigned)rect.end_col == t->cols;

	if (whole && !rightward) {
		if (rect.start_row == 0 && downward > 0 && !t->alt)
			for (int i = 0; i < downward && i < rect.end_row; i++)
				history_push(t, t->screen[0][i]);
		rotate(t, (unsigned)rect.start_row, (unsigned)rect.end_row, downward);
		return 1;
	}
	vterm_scroll_rect(rect, downward, rightward, on_move, on_erase, t);
	return 1;
}

static uint32_t colour_of(const VTermColor *c)
{
	if (c->type & VTERM_COLOR_DEFAULT_MASK)
		return 0;
	if (VTERM_COLOR_IS_INDEXED(c))
		return COLOUR_INDEXED | c->indexed.idx;
	return COLOUR_RGB | (uint32_t)c->rgb.red << 16 | (uint32_t)c->rgb.green << 8 | c->rgb.blue;
}

static int on_pen_init(void *user)
{
	struct vt *t = user;

	t->pen = (struct pen){ 0 };
	return 1;
}

static void attr_set(struct vt *t, unsigned bit, bool on)
{
	t->pen.attrs = (uint16_t)(on ? t->pen.attrs | bit : t->pen.attrs & ~bit);
}

static int on_pen(VTermAttr attr, VTermValue *v, void *user)
{
	struct vt *t = user;

	if (t->deaf)
		return 1;
	switch (attr) {
	case VTERM_ATTR_BOLD:
		attr_set(t, ATTR_BOLD, v->boolean);
		break;
	case VTERM_ATTR_UNDERLINE:
		attr_set(t, 3 * ATTR_UNDERLINE, false);
		attr_set(t, ATTR_UNDERLINE * ((unsigned)v->number & 3), true);
		break;
	case VTERM_ATTR_ITALIC:
		attr_set(t, ATTR_ITALIC, v->boolean);
		break;
	case VTERM_ATTR_BLINK:
		attr_set(t, ATTR_BLINK, v->boolean);
		break;
	case VTERM_ATTR_REVERSE:
		attr_set(t, ATTR_REVERSE, v->boolean);
		break;
	case VTERM_ATTR_STRIKE:
		attr_set(t, ATTR_STRIKE, v->boolean);
		break;
	case VTERM_ATTR_FOREGROUND:
		t->pen.fg = colour_of(&v->color);
		break;
	case VTERM_ATTR_BACKGROUND:
		t->pen.bg = colour_of(&v->color);
		break;
	default:
		break;
	}
	return 1;
}

void title_keep(struct vt *t, const char *s)
{
	size_t n = 0;

	for (; *s && n + 1 < sizeof(t->title); s++)
		if ((unsigned char)*s >= 0x20 && *s != 0x7f)
			t->title[n++] = *s;
	/* If it is cut in the middle of a character, drops its beginning too. */
	while (*s && n && ((unsigned char)t->title[n - 1] & 0x80)) {
		n--;
		if (((unsigned char)t->title[n] & 0xc0) == 0xc0)
			break;
	}
	t->title[n] = '\0';
}

static int on_prop(VTermProp prop, VTermValue *v, void *user)
{
	struct vt *t = user;

	switch (prop) {
	case VTERM_PROP_ALTSCREEN:
		if (v->boolean && !t->alt) {
			if (!t->screen[1] && !(t->screen[1] = rows_new(t->cols, t->rows)))
				return 0; /* it stays on the current one */
			t->was_alt = true;
			t->primary_cursor = t->cursor;
			t->primary_pen = t->pen;
			t->primary_hidden = t->cursor_hidden;
		} else if (!v->boolean && t->alt) {
			rows_free(TAKE_PTR(t->screen[1]), t->rows);
		}
		t->alt = v->boolean ? 1 : 0;
		t->wrap_pending = false;
		break;
	case VTERM_PROP_CURSORVISIBLE:
		t->cursor_hidden = !v->boolean;
		break;
	default:
		break;
	}
	return 1;
}

/* Rows of the new size with what fits of the old ones, from row `from` on. */
static struct cell **rows_resized(struct vt *t, struct cell **old, unsigned cols, unsigned rows,
                                  unsigned from)
{
	struct cell **r = rows_new(cols, rows);
	unsigned w = MIN(cols, t->cols);

	for (unsigned i = 0; r && i < rows && from + i < t->rows; i++) {
		memcpy(r[i], old[from + i], w * sizeof(**r));
		if (r[i][w - 1].width == 2)
			blank(&r[i][w - 1], 1, &r[i][w - 1].pen);
	}
	return r;
}

/* Called by vterm_set_size(); the cells are already in place. */
static int on_resize(int rows, int cols, VTermPos *delta, void *user)
{
	struct vt *t = user;

	delta->row = -(int)t->moved_up;
	return 1;
}

/* Rows that leave at the top, so that the cursor stays on the screen. */
static unsigned rows_up(const struct vt *t, unsigned which, unsigned rows)
{
	VTermPos at = which == t->alt ? t->cursor : t->primary_cursor;

	return at.row >= (int)rows ? (unsigned)at.row + 1 - rows : 0;
}

/*
 * libvterm keeps margins that no longer fit and then writes beyond its memory: they are reset
 * before a resize, as terminals do.
 */
static void margins_reset(struct vt *t)
{
	VTermPos at = t->cursor;
	char s[64];
	int n = snprintf(s, sizeof(s), "\x1b[?6l\x1b[r\x1b[?69h\x1b[s\x1b[?69l\x1b[%d;%dH",
	                 at.row + 1, at.col + 1);

	vterm_input_write(t->lib, s, (size_t)n);
	t->modes.on &= ~BIT(MODE_ORIGIN);
	t->modes.top = t->modes.bottom = 0;
	t->modes.margins = false;
}

int vt_resize(struct vt *t, unsigned cols, unsigned rows)
{
	struct cell **made[2] = { NULL, NULL };

	if (cols == t->cols && rows == t->rows)
		return 0;
	text_settle(t);
	margins_reset(t);
	for (unsigned i = 0; i < 2; i++) {
		if (!t->screen[i])
			continue;
		made[i] = rows_resized(t, t->screen[i], cols, rows, rows_up(t, i, rows));
		if (!made[i]) {
			rows_free(made[0], rows);
			return -ENOMEM;
		}
	}
	for (unsigned i = 0; t->screen[0] && i < rows_up(t, 0, rows); i++)
		history_push(t, t->screen[0][i]);
	t->moved_up = rows_up(t, t->alt, rows);
	for (unsigned i = 0; i < 2; i++) {
		rows_free(t->screen[i], t->rows);
		t->screen[i] = made[i];
	}
	t->primary_cursor.row = MIN(t->primary_cursor.row, (int)rows - 1);
	t->primary_cursor.col = MIN(t->primary_cursor.col, (int)cols - 1);
	t->cols = cols;
	t->rows = rows;
	t->wrap_pending = false;
	vterm_set_size(t->lib, (int)rows, (int)cols);
	cursor_clamp(t);
	return 0;
}

static void on_say(const char *p, size_t n, void *user)
{
	struct vt *t = user;

	if (t->say)
		t->say(t->ctx, p, n);
}

struct vt *vt_free(struct vt *t)
{
	if (!t)
		return NULL;
	if (t->lib)
		vterm_free(t->lib);
	rows_free(t->screen[0], t->rows);
	rows_free(t->screen[1], t->rows);
	history_free(t);
	free(t);
	return NULL;
}

struct vt *vt_new(unsigned cols, unsigned rows, vt_say_fn say, void *ctx)
{
	static const VTermStateCallbacks calls = {
		.putglyph = on_glyph,
		.movecursor = on_cursor,
		.scrollrect = on_scroll,
		.moverect = on_move,
		.erase = on_erase,
		.initpen = on_pen_init,
		.setpenattr = on_pen,
		.settermprop = on_prop,
		.resize = on_resize,
	};
	struct vt *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->cols = cols;
	t->rows = rows;
	t->say = say;
	t->ctx = ctx;
	modes_reset(&t->modes);
	t->screen[0] = rows_new(cols, rows);
	t->lib = t->screen[0] ? vterm_new((int)rows, (int)cols) : NULL;
	if (!t->lib)
		return vt_free(t);
	vterm_set_utf8(t->lib, 1);
	vterm_output_set_callback(t->lib, on_say, t);
	t->state = vterm_obtain_state(t->lib);
	vterm_state_set_callbacks(t->state, &calls, t);
	vterm_state_set_bold_highbright(t->state, 0);
	vterm_state_reset(t->state, /* hard= */ 1);
	lib_begin(t);
	/* Leaving an alternate screen that was never entered restores what was never saved: so save
	 * it. */
	vterm_input_write(t->lib, "\0337", 2);
	return t;
}
