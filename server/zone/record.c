/* SPDX-License-Identifier: Apache-2.0 */
/* record.c - checks DNS records and brings them into canonical form */
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/auto.h"
#include "base/err.h"
#include "zone/zone.h"

#define LABEL_MAX 63u
#define BAD ERR_INVALID_PARAMETERS

/* Labels of letters, digits, '-' and '_', in lower case; star: the first one may be '*'. */
static int labels(const char *text, bool star, char *ret, size_t size)
{
	size_t n = strlen(text), label = 0;

	if (n && text[n - 1] == '.')
		n--;
	if (n == 0 || n >= size)
		return -EINVAL;
	for (size_t i = 0; i < n; i++) {
		char c = (char)tolower((unsigned char)text[i]);
		bool word = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';

		ret[i] = c;
		if (c == '.' && (label == 0 || ret[i - 1] == '-'))
			return -EINVAL;
		if (c == '.') {
			label = 0;
			continue;
		}
		if (c == '*' && !(star && i == 0 && (n == 1 || text[1] == '.')))
			return -EINVAL;
		if (!word && c != '*' && !(c == '-' && label > 0))
			return -EINVAL;
		if (++label > LABEL_MAX)
			return -EINVAL;
	}
	ret[n] = '\0';
	return label == 0 || ret[n - 1] == '-' ? -EINVAL : 0;
}

/* "www", "www.example.org" and "www.example.org." are one name of example.org; so are "@" and "".
 */
static int record_name(const char *domain, const char *text, char ret[DOMAIN_SIZE], struct err *err)
{
	char name[DOMAIN_SIZE];
	size_t d = strlen(domain), n;

	if (!*text || strcmp(text, "@") == 0) {
		memcpy(ret, "@", 2);
		return 0;
	}
	if (labels(text, /* star= */ true, name, sizeof(name)) < 0)
		return err_tag(err, -EINVAL, BAD, "'name': '%.100s' is not a valid record name",
		               text);
	n = strlen(name);
	if (strcmp(name, domain) == 0)
		memcpy(name, "@", 2);
	else if (n > d + 1 && name[n - d - 1] == '.' && strcmp(name + n - d, domain) == 0)
		name[n - d - 1] = '\0';
	else if (text[strlen(text) - 1] == '.')
		return err_tag(err, -EINVAL, BAD, "'name': '%.100s' is not below '%s'", text,
		               domain);
	if (strlen(name) + 1 + d >= DOMAIN_SIZE)
		return err_tag(err, -EINVAL, BAD, "'name': too long below '%s'", domain);
	memcpy(ret, name, sizeof(name));
	return 0;
}

static int address(int family, const char *text, char *ret, struct err *err)
{
	uint8_t a[16];

	if (inet_pton(family, text, a) != 1 || !inet_ntop(family, a, ret, RECORD_VALUE_SIZE))
		return err_tag(err, -EINVAL, BAD, "'value': '%.60s' is not an IPv%d address", text,
		               family == AF_INET ? 4 : 6);
	return 0;
}

static int host(const char *text, char *ret, struct err *err)
{
	if (labels(text, /* star= */ false, ret, DOMAIN_SIZE) < 0 || !strchr(ret, '.'))
		return err_tag(err, -EINVAL, BAD, "'value': '%.100s' is not a full host name",
		               text);
	return 0;
}

static int text_value(const char *text, char *ret, struct err *err)
{
	size_t n = strlen(text);

	if (n == 0 || n >= RECORD_VALUE_SIZE)
		return err_tag(err, -EINVAL, BAD, "'value': a text must have 1 to %d bytes",
		               RECORD_VALUE_SIZE - 1);
	for (size_t i = 0; i < n; i++)
		if (iscntrl((unsigned char)text[i]))
			return err_tag(err, -EINVAL, BAD,
			               "'value': control characters are not allowed");
	memcpy(ret, text, n + 1);
	return 0;
}

static int record_value(enum record_kind kind, const char *text, char *ret, struct err *err)
{
	switch (kind) {
	case RECORD_A:
		return address(AF_INET, text, ret, err);
	case RECORD_AAAA:
		return address(AF_INET6, text, ret, err);
	case RECORD_TXT:
		return text_value(text, ret, err);
	default:
		return host(text, ret, err);
	}
}

static int record_kind(const char *word, enum record_kind *ret, struct err *err)
{
	for (int k = 0; k < RECORD_KIND_MAX; k++)
		if (strcasecmp(word, record_kind_words[k]) == 0) {
			*ret = (enum record_kind)k;
			return 0;
		}
	return err_tag(err, -EINVAL, BAD, "'kind' must be A, AAAA, CNAME, TXT, NS or MX");
}

int record_normal(const char *domain, const struct record_wish *w, struct store_record *ret,
                  struct err *err)
{
	int r;

	if ((r = record_kind(w->kind, &ret->kind, err)) < 0 ||
	    (r = record_name(domain, w->name, ret->name, err)) < 0 ||
	    (r = record_value(ret->kind, w->value, ret->value, err)) < 0)
		return r;
	if (ret->kind == RECORD_CNAME && strcmp(ret->name, "@") == 0)
		return err_tag(err, -EINVAL, BAD,
		               "the domain itself cannot be a CNAME: use A or AAAA");
	if (ret->kind == RECORD_NS && ret->name[0] == '*')
		return err_tag(err, -EINVAL, BAD, "a wildcard cannot have NS records");
	if (w->ttl > RECORD_TTL_MAX || w->ttl == 0 || w->ttl < -1)
		return err_tag(err, -EINVAL, BAD, "'ttl' must be 1 to %u seconds", RECORD_TTL_MAX);
	if (w->priority > RECORD_PRIORITY_MAX || w->priority < -1)
		return err_tag(err, -EINVAL, BAD, "'priority' must be 0 to %u",
		               RECORD_PRIORITY_MAX);
	ret->ttl = w->ttl < 0 ? RECORD_TTL_DEFAULT : (uint32_t)w->ttl;
	ret->priority = 0;
	if (ret->kind == RECORD_MX)
		ret->priority = w->priority < 0 ? RECORD_PRIORITY_DEFAULT : (uint32_t)w->priority;
	snprintf(ret->domain, sizeof(ret->domain), "%s", domain);
	return 0;
}
