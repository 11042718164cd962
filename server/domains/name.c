/* SPDX-License-Identifier: Apache-2.0 */
/* name.c - checks of host names */
#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "domains/domains.h"

#define LABEL_MAX 63

static int invalid(const char *text, struct err *err)
{
	return err_tag(err, -EINVAL, ERR_INVALID_DOMAIN, "'%.100s' is not a domain name", text);
}

int domain_normal(const char *text, bool star, char ret[DOMAIN_SIZE], struct err *err)
{
	size_t n = strlen(text), label = 0, labels = 1, i = 0;
	bool letter = false;

	if (n && text[n - 1] == '.')
		n--;
	if (n == 0 || n >= DOMAIN_SIZE)
		return invalid(text, err);
	if (star && n > 2 && strncmp(text, "*.", 2) == 0) {
		memcpy(ret, "*.", 2);
		i = 2;
	}
	for (; i < n; i++) {
		char c = (char)tolower((unsigned char)text[i]);

		ret[i] = c;
		if (c == '.') {
			if (label == 0 || ret[i - 1] == '-')
				return invalid(text, err);
			label = 0;
			labels++;
			letter = false;
			continue;
		}
		if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || (c == '-' && label > 0)))
			return invalid(text, err);
		letter |= c >= 'a' && c <= 'z';
		if (++label > LABEL_MAX)
			return invalid(text, err);
	}
	/* Not an IPv4 address: those have no letter in the last label. */
	if (label == 0 || labels < 2 || !letter || ret[n - 1] == '-')
		return invalid(text, err);
	ret[n] = '\0';
	return 0;
}

bool domain_below(const char *name, const char *suffix)
{
	size_t n = strlen(name), s = strlen(suffix);

	return n > s + 1 && name[n - s - 1] == '.' && strcmp(name + n - s, suffix) == 0;
}
