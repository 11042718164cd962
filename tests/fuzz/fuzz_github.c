/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_github.c - webhooks of GitHub Apps, and the addresses of repositories
 *
 * Input: a signature header, an event, and a body, each on a line of its own but the last. Nothing
 * but the right signature of the body is taken; an event that is accepted names an installation by
 * digits and a repository that is safe in an address; and such a name is found again in its
 * address.
 */
#include <openssl/hmac.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/id.h"
#include "base/json_field.h"
#include "git/ghapps_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok)
{
	if (!ok)
		abort();
}

/* The next line, without its end. */
static char *line(const uint8_t **p, const uint8_t *end)
{
	const uint8_t *nl = memchr(*p, '\n', (size_t)(end - *p));
	size_t n = (size_t)((nl ? nl : end) - *p);
	char *text = malloc(n + 1);

	must(text);
	memcpy(text, *p, n);
	text[n] = '\0';
	*p += n + (nl != NULL);
	return text;
}

static void check_signature(const char *header, const uint8_t *body, size_t n)
{
	char want[8 + 65] = "sha256=";
	unsigned char md[EVP_MAX_MD_SIZE];
	unsigned len = 0;

	must(HMAC(EVP_sha256(), "secret", 6, body, n, md, &len) && len == 32);
	hex_encode(md, 32, want + 7);
	must(ghapps_signed("secret", want, body, n));
	must(ghapps_signed("secret", header, body, n) == (strcmp(header, want) == 0));
	must(!ghapps_signed("", want, body, n) && !ghapps_signed("secret", NULL, body, n));
	must(!ghapps_signed("other", want, body, n));
}

static void check_event(const char *event, const uint8_t *body, size_t n)
{
	autojson json_t *j = NULL;
	struct ghapps_event e;
	struct err err = { 0 };
	char url[GITHUB_REPO_SIZE + 40], name[GITHUB_REPO_SIZE];

	if (json_text_parse(body, n, &j, &err) < 0)
		return;
	if (ghapps_event_read(event, j, &e, &err) < 0) {
		must(err.code < 0 && err.msg[0]);
		return;
	}
	must(e.kind == GHAPPS_OTHER || ghapps_number_ok(e.number));
	if (e.kind != GHAPPS_REFS)
		return;
	must(ghapps_repo_name_ok(e.repo) && !strstr(e.repo, "/../"));
	snprintf(url, sizeof(url), "https://h/%s.git", e.repo);
	must(ghapps_repo_of("https://h", url, name) == 0 && strcmp(name, e.repo) == 0);
}

static void check_address(const char *url)
{
	char name[GITHUB_REPO_SIZE], origin[256], api[256];
	struct err err = { 0 };

	if (ghapps_repo_of("https://h", url, name) == 0)
		must(ghapps_repo_name_ok(name) && strncasecmp(url, "https://h/", 10) == 0);
	if (github_origin(url, "url", origin, sizeof(origin), &err) == 0) {
		must(strncasecmp(url, origin, strlen(origin)) == 0 && !strchr(origin, '@'));
		must(strspn(strstr(origin, "://") + 3, "/?#") == 0);
	}
	if (github_api_url("https://h", url, api, sizeof(api), &err) == 0)
		must(!strchr(api, '?') && !strchr(api, ' '));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *p = data, *end = data + size;
	autofree char *header = line(&p, end);
	autofree char *event = line(&p, end);

	check_signature(header, p, (size_t)(end - p));
	check_event(event, p, (size_t)(end - p));
	check_address(header);
	check_address(event);
	return 0;
}
