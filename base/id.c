/* SPDX-License-Identifier: Apache-2.0 */
#include "base/id.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

static const char id_alphabet[] = "abcdefghijklmnopqrstuvwxyz0123456789";

void random_bytes(void *p, size_t n)
{
	uint8_t *d = p;

	while (n) {
		ssize_t k = getrandom(d, n, 0);

		if (k <= 0)
			abort(); /* without randomness there are no ids and no keys */
		d += k;
		n -= (size_t)k;
	}
}

void id_make(const char *prefix, char ret_id[ID_SIZE])
{
	int n = snprintf(ret_id, ID_SIZE, "%s", prefix);
	int i = 0;

	while (i < ID_LEN) {
		uint8_t r[32];

		random_bytes(r, sizeof(r));
		for (size_t k = 0; k < sizeof(r) && i < ID_LEN; k++)
			if (r[k] < 252) /* 7 * 36, so that all characters are equally likely */
				ret_id[n + i++] = id_alphabet[r[k] % 36];
	}
	ret_id[n + i] = '\0';
}

bool id_valid(const char *prefix, const char *s)
{
	size_t n = strlen(prefix);

	if (strncmp(s, prefix, n) != 0)
		return false;
	s += n;
	return strlen(s) == ID_LEN && strspn(s, id_alphabet) == ID_LEN;
}

void uuid_make(char ret[UUID_SIZE])
{
	uint8_t b[16];
	char h[33];

	random_bytes(b, sizeof(b));
	b[6] = (uint8_t)((b[6] & 0x0f) | 0x40);
	b[8] = (uint8_t)((b[8] & 0x3f) | 0x80);
	hex_encode(b, sizeof(b), h);
	snprintf(ret, UUID_SIZE, "%.8s-%.4s-%.4s-%.4s-%.12s", h, h + 8, h + 12, h + 16, h + 20);
}

bool uuid_valid(const char *s)
{
	for (size_t i = 0; i < UUID_SIZE - 1; i++) {
		bool dash = i == 8 || i == 13 || i == 18 || i == 23;

		if (dash ? s[i] != '-' : !s[i] || !strchr("0123456789abcdef", s[i]))
			return false;
	}
	return s[UUID_SIZE - 1] == '\0';
}

bool linux_user_valid(const char *name)
{
	size_t n =
	        strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-");

	return n > 0 && n <= LINUX_USER_MAX && name[n] == '\0' && name[0] != '-' && name[0] != '.';
}

void hex_encode(const void *p, size_t n, char *dst)
{
	static const char hex[] = "0123456789abcdef";
	const uint8_t *s = p;

	for (size_t i = 0; i < n; i++) {
		dst[2 * i] = hex[s[i] >> 4];
		dst[2 * i + 1] = hex[s[i] & 15];
	}
	dst[2 * n] = '\0';
}
