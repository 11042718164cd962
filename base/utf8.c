/* SPDX-License-Identifier: Apache-2.0 */
#include "base/utf8.h"

#include "base/buf.h"

size_t utf8_char_len(const uint8_t *p, size_t n)
{
	uint32_t cp;
	size_t len;

	if (n == 0)
		return 0;
	if (p[0] < 0x80)
		return 1;
	if (p[0] >= 0xc2 && p[0] <= 0xdf)
		len = 2;
	else if (p[0] >= 0xe0 && p[0] <= 0xef)
		len = 3;
	else if (p[0] >= 0xf0 && p[0] <= 0xf4)
		len = 4;
	else
		return 0;
	if (n < len)
		return 0;
	cp = p[0] & (0xffu >> (len + 1));
	for (size_t i = 1; i < len; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		cp = cp << 6 | (p[i] & 0x3f);
	}
	if ((len == 3 && cp < 0x800) || (len == 4 && (cp < 0x10000 || cp > 0x10ffff)) ||
	    (cp >= 0xd800 && cp <= 0xdfff))
		return 0;
	return len;
}

bool utf8_valid(const void *p, size_t n)
{
	const uint8_t *s = p;

	while (n) {
		size_t k = utf8_char_len(s, n);

		if (!k)
			return false;
		s += k;
		n -= k;
	}
	return true;
}

void utf8_put_clean(struct buf *b, const void *p, size_t n)
{
	const uint8_t *s = p, *from = s, *end = s + n;

	while (s < end) {
		size_t k = utf8_char_len(s, (size_t)(end - s));

		if (k) {
			s += k;
			continue;
		}
		buf_put(b, from, (size_t)(s - from));
		buf_put(b, "\xef\xbf\xbd", 3);
		from = ++s;
	}
	buf_put(b, from, (size_t)(s - from));
}

void utf8_put_char(struct buf *b, uint32_t cp)
{
	if (cp < 0x80) {
		buf_put_u8(b, (uint8_t)cp);
	} else if (cp < 0x800) {
		buf_put_u8(b, (uint8_t)(0xc0 | cp >> 6));
		buf_put_u8(b, (uint8_t)(0x80 | (cp & 0x3f)));
	} else if (cp < 0x10000) {
		buf_put_u8(b, (uint8_t)(0xe0 | cp >> 12));
		buf_put_u8(b, (uint8_t)(0x80 | (cp >> 6 & 0x3f)));
		buf_put_u8(b, (uint8_t)(0x80 | (cp & 0x3f)));
	} else {
		buf_put_u8(b, (uint8_t)(0xf0 | cp >> 18));
		buf_put_u8(b, (uint8_t)(0x80 | (cp >> 12 & 0x3f)));
		buf_put_u8(b, (uint8_t)(0x80 | (cp >> 6 & 0x3f)));
		buf_put_u8(b, (uint8_t)(0x80 | (cp & 0x3f)));
	}
}
