/* SPDX-License-Identifier: Apache-2.0 */
/* base/utf8.h - checking and cleaning UTF-8 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;

/* Length of the well-formed character at p (1-4), or 0: no surrogates, nothing over U+10FFFF,
 * shortest form. */
size_t utf8_char_len(const uint8_t *p, size_t n);
bool utf8_valid(const void *p, size_t n);
/* Appends the text with every byte that is not UTF-8 replaced by U+FFFD. */
void utf8_put_clean(struct buf *b, const void *p, size_t n);
/* Appends the character in UTF-8; cp is a valid code point. */
void utf8_put_char(struct buf *b, uint32_t cp);
