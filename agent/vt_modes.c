/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vt_modes.c - parses a program's output before libvterm sees it
 *
 * There are two reasons. libvterm knows the modes a program set but has no way to query them, and a
 * picture must set them again, or keys, mouse and paste would not work after an attach. And it
 * trusts its input: a sequence with more parameters than it has room for overwrites its memory. So
 * text is passed to it unchanged, a sequence only when it is complete, rewritten from what was
 * understood of it: at most MODE_ARGS parameters, none larger than a screen where a larger one is
 * meaningless. Strings (OSC, DCS, ...) are not passed on; only the title is taken from them.
 */
#include "agent/vt_internal.h"

#include <stdio.h>
#include <string.h>

#include "base/auto.h"

static const unsigned numbers[MODE_MAX] = {
	[MODE_CURSOR_KEYS] = 1,    [MODE_ORIGIN] = 6,        [MODE_WRAP] = 7,
	[MODE_MOUSE_CLICK] = 1000, [MODE_MOUSE_DRAG] = 1002, [MODE_MOUSE_MOVE] = 1003,
	[MODE_FOCUS] = 1004,       [MODE_MOUSE_UTF8] = 1005, [MODE_MOUSE_SGR] = 1006,
	[MODE_MOUSE_RXVT] = 1015,  [MODE_PASTE] = 2004,
};
#define ARG_MAX_VALUE 65535u
#define COUNT_MAX 1000u /* rows, columns, repetitions: more than a screen has */
#define STYLE_MAX 6u    /* of DECSCUSR */

void modes_reset(struct modes *m)
{
	*m = (struct modes){ .on = MODES_DEFAULT };
}

static void set_dec(struct modes *m, unsigned number, bool on)
{
	for (unsigned i = 0; i < MODE_MAX; i++)
		if (numbers[i] == number)
			m->on = on ? m->on | BIT(i) : m->on & ~BIT(i);
}

static void region(struct modes *m)
{
	unsigned top = m->arg[0] ? m->arg[0] : 1;

	m->top = m->bottom = 0;
	if (m->n_args >= 2 && m->arg[1] >= top) {
		m->top = top;
		m->bottom = m->arg[1];
	} else if ((m->n_args < 2 || !m->arg[1]) && top > 1) {
		m->top = top;
		m->bottom = ARG_MAX_VALUE; /* to the last line */
	}
}

/* DECSTR, in sequences that libvterm supports; the cursor stays where it is. */
static void soft_reset(struct vt *t)
{
	struct modes *m = &t->modes;
	VTermPos at;
	char s[96];
	int n;

	text_settle(t);
	at = t->cursor;
	n = snprintf(s, sizeof(s),
	             "\x1b[?1l\x1b[?6l\x1b[?7h\x1b[4l\x1b[?69l\x1b>\x1b(B\x1b)B\x0f\x1b[0m\x1b[?25h"
	             "\x1b[r\x1b[%d;%dH",
	             at.row + 1, at.col + 1);
	lib_write(t, s, (size_t)n);
	m->on &= ~(BIT(MODE_CURSOR_KEYS) | BIT(MODE_ORIGIN));
	m->on |= BIT(MODE_WRAP);
	m->keypad = m->insert = m->drawing = m->drawing1 = m->shifted = m->margins = false;
	m->charset &= CHARSET_SINGLE;
	m->top = m->bottom = 0;
}

static void note_csi(struct modes *m, char final)
{
	bool on = final == 'h';

	if (m->lead == '?' && !m->middle && (final == 'h' || final == 'l')) {
		for (unsigned i = 0; i < m->n_args; i++)
			set_dec(m, m->arg[i], on);
		for (unsigned i = 0; i < m->n_args; i++)
			m->margins = m->arg[i] == 69 ? on : m->margins;
	} else if (!m->lead && !m->middle && (final == 'h' || final == 'l')) {
		for (unsigned i = 0; i < m->n_args; i++) {
			m->insert = m->arg[i] == 4 ? on : m->insert;
			m->newline = m->arg[i] == 20 ? on : m->newline;
		}
	} else if (!m->lead && !m->middle && final == 'r') {
		region(m);
	} else if (!m->lead && !m->middle && final == 'g') {
		m->tabs = true;
	} else if (!m->lead && m->middle == ' ' && final == 'q' && m->arg[0] <= STYLE_MAX) {
		m->style = m->arg[0];
	}
}

/* REP: the last character again. libvterm would loop forever without one. */
static void repeat(struct vt *t, unsigned count)
{
	unsigned y = (unsigned)t->last_glyph.row, x = (unsigned)t->last_glyph.col;
	autobuf struct buf b = { 0 };

	if (y >= t->rows || x >= t->cols || t->screen[t->alt][y][x].width == 0)
		return;
	cell_draw(&b, &t->screen[t->alt][y][x]);
	for (unsigned i = 0; i < MIN(MAX(count, 1u), t->cols) && !b.failed; i++)
		lib_write(t, (const char *)b.p, b.len);
}

/* A colour without its values ends an SGR: libvterm would use stale values for them. */
static void sgr_cut(struct modes *m)
{
	for (unsigned i = 0; i < m->n_args; i++) {
		unsigned left = m->n_args - i - 1, need;

		if (m->arg[i] != 38 && m->arg[i] != 48)
			continue;
		need = !left ? 1 : m->arg[i + 1] == 5 ? 2 : m->arg[i + 1] == 2 ? 4 : 1;
		if (left < need)
			m->n_args = i;
		else
			i += need;
	}
}

/* Complete: noted, and passed on re-encoded. */
static void end_csi(struct vt *t, char final)
{
	struct modes *m = &t->modes;
	unsigned max = strchr("hlm", final) ? ARG_MAX_VALUE : COUNT_MAX;
	char s[16 + MODE_ARGS * 8];
	size_t n = 0;

	m->seq = SEQ_NONE;
	if (m->odd)
		return;
	note_csi(m, final);
	if (final == 'm') {
		sgr_cut(m);
		if (!m->n_args || text_sgr(t))
			return;
	}
	if (final == 'p' && !m->lead && m->middle == '!') {
		soft_reset(t);
		return;
	}
	if (final == 'b') {
		if (!m->lead && !m->middle)
			repeat(t, m->arg[0]);
		return;
	}
	s[n++] = 0x1b;
	s[n++] = '[';
	if (m->lead)
		s[n++] = m->lead;
	for (unsigned i = 0; i < m->n_args; i++) {
		if (i)
			s[n++] = m->colon & BIT(i) ? ':' : ';';
		if (m->given & BIT(i))
			n += (size_t)snprintf(s + n, sizeof(s) - n, "%u", MIN(m->arg[i], max));
	}
	if (m->middle)
		s[n++] = m->middle;
	s[n++] = final;
	lib_write(t, s, n);
}

static void note_control(struct modes *m, uint8_t c)
{
	if (c != 0x0e && c != 0x0f)
		return;
	m->shifted = c == 0x0e;
	m->charset &= ~(unsigned)CHARSET_LOCKED;
}

static void csi_byte(struct vt *t, uint8_t c)
{
	struct modes *m = &t->modes;

	if (c >= '0' && c <= '9') {
		unsigned *a = &m->arg[m->n_args - 1];

		if (!m->beyond)
			*a = MIN(*a * 10 + (c - '0'), ARG_MAX_VALUE);
		m->given |= m->beyond ? 0 : BIT(m->n_args - 1);
	} else if (c == ';' || c == ':') {
		m->beyond = m->n_args == MODE_ARGS; /* further ones are left out */
		if (m->beyond)
			return;
		m->colon |= c == ':' ? BIT(m->n_args) : 0;
		m->arg[m->n_args++] = 0;
	} else if (c >= 0x3c && c <= 0x3f) {
		m->odd |= m->lead != '\0';
		m->lead = (char)c;
	} else if (c >= 0x20 && c <= 0x2f) {
		m->odd |= m->middle != '\0';
		m->middle = (char)c;
	} else if (c >= 0x40 && c <= 0x7e) {
		end_csi(t, (char)c);
	} else if (c < 0x20) {
		note_control(m, c);
		lib_write(t, (const char *)&c, 1); /* also works inside sequences */
	}
}

static void begin_csi(struct modes *m)
{
	m->seq = SEQ_CSI;
	m->lead = m->middle = '\0';
	m->odd = m->beyond = false;
	m->given = m->colon = 0;
	m->arg[0] = 0;
	m->n_args = 1;
}

static void esc_byte(struct vt *t, uint8_t c)
{
	struct modes *m = &t->modes;
	const char s[2] = { 0x1b, (char)c };

	m->seq = SEQ_NONE;
	if (c == '[') {
		begin_csi(m);
	} else if (c >= 0x20 && c <= 0x2f) {
		m->seq = SEQ_MIDDLE;
		m->middle = (char)c;
	} else if (c == ']' || c == 'P' || c == '_' || c == '^' || c == 'X') {
		m->seq = SEQ_STRING;
		m->osc = c == ']';
		m->n_text = 0;
	} else if (c == 0x1b) {
		m->seq = SEQ_ESC;
	} else if (c >= 0x30 && c <= 0x7e) {
		if (c == '=' || c == '>')
			m->keypad = c == '=';
		if (c == 'c')
			modes_reset(m);
		m->tabs |= c == 'H';
		m->charset |= c == 'n' || c == 'o' ? CHARSET_LOCKED : 0;
		m->charset |= c == 'N' || c == 'O' ? CHARSET_SINGLE : 0;
		lib_write(t, s, sizeof(s));
		if (c == 'c')
			lib_begin(t);
	}
}

/* ESC ( 0 and the like. */
static void middle_byte(struct vt *t, uint8_t c)
{
	struct modes *m = &t->modes;
	const char s[3] = { 0x1b, m->middle, (char)c };

	if (c >= 0x20 && c <= 0x2f) {
		m->middle = '\0'; /* two of them: unknown */
		return;
	}
	m->seq = SEQ_NONE;
	/* Some finals begin a string to libvterm whatever comes before them, and would swallow what
	 * follows; none of them means anything here. */
	if (c < 0x30 || c > 0x7e || !m->middle || strchr("P[\\]^_X", c))
		return;
	if (m->middle == '(') {
		m->drawing = c == '0';
		m->charset = (m->charset & ~(unsigned)CHARSET_G0) | (c == 'B' ? 0 : CHARSET_G0);
	}
	if (m->middle == ')')
		m->drawing1 = c == '0';
	lib_write(t, s, sizeof(s));
}

static void end_string(struct vt *t)
{
	struct modes *m = &t->modes;

	m->seq = SEQ_NONE;
	m->text[m->n_text] = '\0';
	if (m->osc && (m->text[0] == '0' || m->text[0] == '2') && m->text[1] == ';')
		title_keep(t, m->text + 2);
}

static void string_byte(struct vt *t, uint8_t c)
{
	struct modes *m = &t->modes;

	if (c == 0x07)
		end_string(t);
	else if (c == 0x1b)
		m->seq = SEQ_STRING_ESC;
	else if (m->n_text + 1 < sizeof(m->text) && m->osc)
		m->text[m->n_text++] = (char)c;
}

static void seq_byte(struct vt *t, uint8_t c)
{
	struct modes *m = &t->modes;

	if (c == 0x18 || c == 0x1a) { /* cancels whatever it was */
		m->seq = SEQ_NONE;
		return;
	}
	switch (m->seq) {
	case SEQ_CSI:
		if (c == 0x1b)
			m->seq = SEQ_ESC;
		else
			csi_byte(t, c);
		break;
	case SEQ_MIDDLE:
		middle_byte(t, c);
		break;
	case SEQ_STRING:
		string_byte(t, c);
		break;
	case SEQ_STRING_ESC:
		if (c == '\\')
			end_string(t);
		else
			esc_byte(t, c);
		break;
	default:
		esc_byte(t, c);
		break;
	}
}

void modes_feed(struct vt *t, const uint8_t *p, size_t n)
{
	struct modes *m = &t->modes;

	while (n) {
		size_t run = 0;

		if (m->seq != SEQ_NONE) {
			seq_byte(t, *p);
			p++;
			n--;
			continue;
		}
		while (run < n && p[run] != 0x1b && p[run] != 0x0e && p[run] != 0x0f)
			run++; /* nearly all bytes are text */
		if (run)
			text_feed(t, p, run);
		if (run < n && p[run] == 0x1b) {
			m->seq = SEQ_ESC;
			run++;
		} else if (run < n) {
			note_control(m, p[run]);
			lib_write(t, (const char *)p + run, 1);
			run++;
		}
		p += run;
		n -= run;
	}
}

void modes_draw(const struct modes *m, struct buf *b)
{
	for (unsigned i = 0; i < MODE_MAX; i++)
		if ((m->on ^ MODES_DEFAULT) & BIT(i))
			buf_printf(b, "\x1b[?%u%c", numbers[i], m->on & BIT(i) ? 'h' : 'l');
	if (m->keypad)
		buf_printf(b, "\x1b=");
	if (m->style)
		buf_printf(b, "\x1b[%u q", m->style);
}

void modes_draw_text(const struct modes *m, struct buf *b)
{
	if (m->insert)
		buf_printf(b, "\x1b[4h");
	if (m->drawing)
		buf_printf(b, "\x1b(0");
	if (m->drawing1)
		buf_printf(b, "\x1b)0");
	if (m->shifted)
		buf_put_u8(b, 0x0e);
}
