/* SPDX-License-Identifier: Apache-2.0 */
/*
 * image.c - images on a terminal
 *
 * Terminals use different protocols for images: kitty's and iTerm2's take the PNG unchanged, sixel
 * takes rows of colours. Environment variables show which one a terminal supports, for sixel its
 * answer to DA1. Under tmux or screen the variables describe the outer terminal, so only that
 * answer counts.
 */
#include "cli/image.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include <png.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/io.h"
#include "cli/stream.h"

#define KITTY_CHUNK 4096
#define ASK_MS 400
#define PIXELS_MAX (32u << 20)

static bool begins(const char *s, const char *with)
{
	return s && strncmp(s, with, strlen(with)) == 0;
}

static bool is(const char *s, const char *what)
{
	return s && strcmp(s, what) == 0;
}

bool image_choose(const struct image_terminal *t, const char *setting, enum image_protocol *ret)
{
	static const struct {
		const char *name;
		enum image_protocol p;
	} names[] = { { "none", IMAGE_NONE },
		      { "kitty", IMAGE_KITTY },
		      { "iterm", IMAGE_ITERM },
		      { "sixel", IMAGE_SIXEL } };
	bool inside = begins(t->term, "tmux") || begins(t->term, "screen");

	for (size_t i = 0; setting && i < ARRAY_SIZE(names); i++)
		if (strcmp(names[i].name, setting) == 0) {
			*ret = names[i].p;
			return true;
		}
	if (setting && strcmp(setting, "auto") != 0)
		return false;
	*ret = IMAGE_NONE;
	if (!t->tty || is(t->term, "dumb"))
		return true;
	if (!inside && (is(t->term, "xterm-kitty") || is(t->term, "xterm-ghostty") ||
	                t->kitty_window || is(t->term_program, "ghostty") || t->konsole))
		*ret = IMAGE_KITTY;
	else if (!inside && (is(t->term_program, "iTerm.app") || is(t->term_program, "WezTerm") ||
	                     is(t->term_program, "vscode") || is(t->lc_terminal, "iTerm2")))
		*ret = IMAGE_ITERM;
	else if (t->sixel)
		*ret = IMAGE_SIXEL;
	return true;
}

bool image_da1_sixel(const char *reply, size_t n)
{
	const char *end = reply + n, *p = memmem(reply, n, "\033[?", 3);

	for (p = p ? p + 3 : end; p < end && *p != 'c';) {
		int v = 0;

		while (p < end && *p >= '0' && *p <= '9' && v < 10000)
			v = v * 10 + *p++ - '0';
		if (v == 4)
			return true;
		if (p < end && *p != ';')
			return false;
		p += p < end;
	}
	return false;
}

/* Does the terminal support sixel? Asks it, and waits a moment for the answer. */
static bool ask_sixel(void)
{
	autofd int fd = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
	uint64_t deadline = deadline_in(ASK_MS);
	struct termios saved, t;
	char reply[128];
	size_t n = 0;

	if (fd < 0 || tcgetattr(fd, &saved) < 0)
		return false;
	t = saved;
	t.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	tcsetattr(fd, TCSANOW, &t);
	if (io_write_all(fd, "\033[c", 3) == 0)
		while (n < sizeof(reply) && !memchr(reply, 'c', n) &&
		       io_wait(fd, POLLIN, deadline) > 0) {
			ssize_t k = read(fd, reply + n, sizeof(reply) - n);

			if (k <= 0)
				break;
			n += (size_t)k;
		}
	tcsetattr(fd, TCSANOW, &saved);
	return image_da1_sixel(reply, n);
}

enum image_protocol image_here(const char *setting)
{
	struct image_terminal t = {
		.tty = isatty(STDOUT_FILENO),
		.term = getenv("TERM"),
		.term_program = getenv("TERM_PROGRAM"),
		.lc_terminal = getenv("LC_TERMINAL"),
		.kitty_window = getenv("KITTY_WINDOW_ID"),
		.konsole = getenv("KONSOLE_VERSION"),
	};
	enum image_protocol p = IMAGE_NONE;

	image_choose(&t, setting, &p);
	if (p == IMAGE_NONE && t.tty && !is(t.term, "dumb") && (!setting || is(setting, "auto"))) {
		t.sixel = ask_sixel();
		image_choose(&t, setting, &p);
	}
	return p;
}

static void put_kitty(FILE *f, const char *text)
{
	size_t left = strlen(text);

	for (bool first = true; left; first = false) {
		size_t n = MIN(left, (size_t)KITTY_CHUNK);

		fprintf(f, "\033_G%sm=%d;%.*s\033\\", first ? "a=T,f=100," : "", left > n, (int)n,
		        text);
		text += n;
		left -= n;
	}
	fputc('\n', f);
}

/* One colour's part of a band of six rows; repeats are counted. */
static void put_band(FILE *f, const uint8_t *rows, unsigned width, unsigned n_rows, unsigned colour)
{
	int last = -1;
	unsigned run = 0;

	for (unsigned x = 0; x <= width; x++) {
		int bits = 0;

		for (unsigned y = 0; x < width && y < n_rows; y++)
			bits |= (rows[(size_t)y * width + x] == colour) << y;
		if (x < width && bits == last) {
			run++;
			continue;
		}
		if (last >= 0 && run > 3)
			fprintf(f, "!%u%c", run, 63 + last);
		for (unsigned i = 0; last >= 0 && run <= 3 && i < run; i++)
			fputc(63 + last, f);
		last = bits;
		run = 1;
	}
}

void image_sixel(FILE *f, const uint8_t *rows, unsigned width, unsigned height,
                 const uint8_t *palette, unsigned colours)
{
	fprintf(f, "\033P0;1q\"1;1;%u;%u", width, height);
	for (unsigned i = 0; i < colours; i++)
		fprintf(f, "#%u;2;%u;%u;%u", i, palette[(size_t)3 * i] * 100u / 255,
		        palette[(size_t)3 * i + 1] * 100u / 255,
		        palette[(size_t)3 * i + 2] * 100u / 255);
	for (unsigned y = 0; y < height; y += 6) {
		const uint8_t *band = rows + (size_t)y * width;
		unsigned n = MIN(6u, height - y);
		bool used[256] = { false };

		for (size_t i = 0; i < (size_t)n * width; i++)
			used[band[i]] = true;
		for (unsigned c = 0; c < colours; c++) {
			if (!used[c])
				continue;
			fprintf(f, "#%u", c);
			put_band(f, band, width, n, c);
			fputc('$', f);
		}
		fputc('-', f);
	}
	fputs("\033\\\n", f);
}

static int put_sixel(FILE *f, const uint8_t *png, size_t n)
{
	png_image im = { .version = PNG_IMAGE_VERSION };
	png_color white = { 255, 255, 255 };
	autofree uint8_t *rows = NULL;
	uint8_t palette[256 * 3] = { 0 };

	if (!png_image_begin_read_from_memory(&im, png, n))
		return -EINVAL;
	im.format = PNG_FORMAT_RGB_COLORMAP;
	if ((uint64_t)im.width * im.height > PIXELS_MAX ||
	    !(rows = malloc((size_t)im.width * im.height))) {
		png_image_free(&im);
		return -EFBIG;
	}
	if (!png_image_finish_read(&im, &white, rows, 0, palette))
		return -EINVAL;
	image_sixel(f, rows, im.width, im.height, palette, im.colormap_entries);
	return 0;
}

int image_put(FILE *f, enum image_protocol p, const uint8_t *png, size_t n)
{
	autofree char *text = p == IMAGE_KITTY || p == IMAGE_ITERM ? base64_encode(png, n) : NULL;

	switch (p) {
	case IMAGE_KITTY:
		put_kitty(f, text);
		return 0;
	case IMAGE_ITERM:
		fprintf(f, "\033]1337;File=inline=1;size=%zu:%s\a\n", n, text);
		return 0;
	case IMAGE_SIXEL:
		return put_sixel(f, png, n);
	default:
		return -ENOTSUP;
	}
}
