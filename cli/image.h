/* SPDX-License-Identifier: Apache-2.0 */
/* cli/image.h - images on a terminal; for cli/ and its tests */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum image_protocol { IMAGE_NONE, IMAGE_KITTY, IMAGE_ITERM, IMAGE_SIXEL };

/* What is known about the terminal; NULL: unknown. */
struct image_terminal {
	bool tty;
	const char *term, *term_program, *lc_terminal, *kitty_window, *konsole;
	bool sixel; /* from its answer to DA1 */
};
/* Pure. setting: "auto" or NULL, or the name of a protocol; false: there is no such setting. */
bool image_choose(const struct image_terminal *t, const char *setting, enum image_protocol *ret);
/* Asks environment and terminal. */
enum image_protocol image_here(const char *setting);
/* "\033[?62;4;22c": is 4, sixel, among them? */
bool image_da1_sixel(const char *reply, size_t n);
/* 0, or -errno: only PNG can be shown as sixel. */
int image_put(FILE *f, enum image_protocol p, const uint8_t *png, size_t n);
/* Sixels of rows of colour numbers; palette is RGB triples. Pure. */
void image_sixel(FILE *f, const uint8_t *rows, unsigned width, unsigned height,
                 const uint8_t *palette, unsigned colours);
