/* SPDX-License-Identifier: Apache-2.0 */
/*
 * screen.c - prints libvterm's own screen after some bytes; used to check pictures
 *
 * usage: screen COLS ROWS < bytes. Prints a line for each row: runs of text preceded by their
 * attributes, then the position of the cursor. It shares no code with agent/vt*.c.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <vterm.h>

#define READ_BYTES 65536

struct seen {
	bool alt, visible;
	VTermPos cursor;
};

static int on_prop(VTermProp prop, VTermValue *val, void *user)
{
	struct seen *s = user;

	if (prop == VTERM_PROP_ALTSCREEN)
		s->alt = val->boolean;
	if (prop == VTERM_PROP_CURSORVISIBLE)
		s->visible = val->boolean;
	return 1;
}

static int on_cursor(VTermPos pos, VTermPos old, int visible, void *user)
{
	struct seen *s = user;

	s->cursor = pos;
	return 1;
}

static void print_colour(char what, const VTermColor *c)
{
	if (VTERM_COLOR_IS_DEFAULT_FG(c) || VTERM_COLOR_IS_DEFAULT_BG(c))
		return;
	if (VTERM_COLOR_IS_INDEXED(c))
		printf("%c%u ", what, c->indexed.idx);
	else
		printf("%c#%02x%02x%02x ", what, c->rgb.red, c->rgb.green, c->rgb.blue);
}

static void print_look(const VTermScreenCell *c)
{
	printf("{");
	print_colour('f', &c->fg);
	print_colour('b', &c->bg);
	printf("%s%s%s%s%s%s}", c->attrs.bold ? "B" : "", c->attrs.italic ? "I" : "",
	       c->attrs.underline ? "U" : "", c->attrs.reverse ? "R" : "",
	       c->attrs.strike ? "S" : "", c->attrs.blink ? "K" : "");
}

static void print_char(uint32_t c)
{
	if (c < 0x80)
		printf("%c", c ? (char)c : ' ');
	else if (c < 0x800)
		printf("%c%c", (char)(0xc0 | c >> 6), (char)(0x80 | (c & 63)));
	else if (c < 0x10000)
		printf("%c%c%c", (char)(0xe0 | c >> 12), (char)(0x80 | (c >> 6 & 63)),
		       (char)(0x80 | (c & 63)));
	else
		printf("%c%c%c%c", (char)(0xf0 | c >> 18), (char)(0x80 | (c >> 12 & 63)),
		       (char)(0x80 | (c >> 6 & 63)), (char)(0x80 | (c & 63)));
}

static bool same_look(const VTermScreenCell *a, const VTermScreenCell *b)
{
	return vterm_color_is_equal(&a->fg, &b->fg) && vterm_color_is_equal(&a->bg, &b->bg) &&
	       a->attrs.bold == b->attrs.bold && a->attrs.italic == b->attrs.italic &&
	       a->attrs.underline == b->attrs.underline && a->attrs.reverse == b->attrs.reverse &&
	       a->attrs.strike == b->attrs.strike && a->attrs.blink == b->attrs.blink;
}

/* A blank has no colour of its own, unless something is drawn with it. */
static void forget_unseen(VTermScreenCell *c)
{
	if ((c->chars[0] && c->chars[0] != ' ') || c->attrs.underline || c->attrs.reverse ||
	    c->attrs.strike)
		return;
	c->fg = (VTermColor){ .type = VTERM_COLOR_DEFAULT_FG };
	c->attrs.bold = c->attrs.italic = c->attrs.blink = 0;
}

static void print_row(VTermScreen *s, int row, int cols)
{
	VTermScreenCell c, before;

	for (int col = 0; col<cols; col += c.width> 0 ? c.width : 1) {
		vterm_screen_get_cell(s, (VTermPos){ .row = row, .col = col }, &c);
		forget_unseen(&c);
		if (col == 0 || !same_look(&c, &before))
			print_look(&c);
		before = c;
		print_char(c.chars[0]);
		for (int i = 1; c.chars[0] && i < VTERM_MAX_CHARS_PER_CELL && c.chars[i]; i++)
			print_char(c.chars[i]);
	}
	printf("\n");
}

int main(int argc, char **argv)
{
	static const VTermScreenCallbacks calls = { .settermprop = on_prop,
		                                    .movecursor = on_cursor };
	struct seen seen = { .visible = true };
	static char bytes[READ_BYTES];
	int cols, rows;
	VTermScreen *s;
	VTerm *vt;
	ssize_t n;

	if (argc != 3 || (cols = (int)strtol(argv[1], NULL, 10)) < 1 ||
	    (rows = (int)strtol(argv[2], NULL, 10)) < 1)
		return 2;
	vt = vterm_new(rows, cols);
	if (!vt)
		return 1;
	vterm_set_utf8(vt, 1);
	s = vterm_obtain_screen(vt);
	vterm_screen_set_callbacks(s, &calls, &seen);
	vterm_screen_enable_altscreen(s, 1);
	vterm_screen_reset(s, 1);
	while ((n = read(0, bytes, sizeof(bytes))) > 0)
		vterm_input_write(vt, bytes, (size_t)n);
	vterm_screen_flush_damage(s);
	for (int row = 0; row < rows; row++)
		print_row(s, row, cols);
	printf("cursor %d %d%s%s\n", seen.cursor.row, seen.cursor.col,
	       seen.visible ? "" : " hidden", seen.alt ? " alternate" : "");
	vterm_free(vt);
	return n < 0;
}
