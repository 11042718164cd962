/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_source.c - addresses that users give us, and what the servers there answer
 *
 * The input: an address, a zero byte, a revision, a zero byte, what git ls-remote printed. Checks:
 * no user or password of an address is left in what is shown or on a command line; a webhook has a
 * scheme that is allowed.
 */
#include "tests/fuzz/fuzz.h"

#include "server/git/import_source.c"

#include "git/credential.h"
#include "git/trigger_internal.h"
#include "http/http.h"

static void try_url(const char *url)
{
	static struct source_auth a;
	struct repo_about about = { 0 };
	struct err err = { 0 };

	if (hook_url_check(url, "url", false, ERR_GIT_INVALID_REQUEST, &err) == 0)
		must(strncasecmp(url, "http", 4) == 0 || !strstr(url, "://"));
	else
		must(err.msg[0]);
	if (source_url_check(url, &err) < 0)
		return;
	source_auth(url, &a);
	must(strncmp(a.url, "http", 4) == 0 && strlen(a.url) <= strlen(url));
	must(strcspn(strstr(a.url, "://") + 3, "@") >= strcspn(strstr(a.url, "://") + 3, "/?#"));
	source_auth_done(&a);
	must(source_failed(url, "Authentication failed", &about, &err) < 0);
}

static void try_nets(const char *text)
{
	struct http_net nets[HTTP_PROXIES_MAX];
	size_t n = 0;

	if (http_nets_parse(text, nets, HTTP_PROXIES_MAX, &n) == 0) {
		must(n <= HTTP_PROXIES_MAX);
		for (size_t i = 0; i < n; i++)
			must(nets[i].bits <= 128);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct in in = { data, size };
	autofree char *url = in_text(in_until(&in, 0)), *rev = in_text(in_until(&in, 0));
	struct buf out = { .len = in.n }; /* not a text: it ends where it ends */
	struct plan plan = { 0 };
	static bool begun;

	if (!begun)
		begun = git_libgit2_init() > 0;
	try_url(url);
	try_nets(url);
	out.p = malloc(in.n ? in.n : 1);
	must(out.p != NULL);
	if (in.n)
		memcpy(out.p, in.p, in.n);
	read_refs(&out, *rev ? rev : NULL, &plan);
	must(!plan.head[0] || repo_branch_valid(plan.head));
	free(out.p);
	return 0;
}
