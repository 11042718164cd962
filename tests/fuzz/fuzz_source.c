/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_source.c - addresses that users give us, and what the servers there answer
 *
 * The input: an address, a zero byte, a revision, a zero byte, a branch to make of it, a zero byte,
 * what git ls-remote printed. Checks: no user or password of an address is left in what is shown or
 * on a command line; a webhook has a scheme that is allowed; what is fetched is a branch or tag of
 * a name that is valid, and lands where it came from.
 */
#include "tests/fuzz/fuzz.h"

#include "git/credential.h"
#include "git/import.h"
#include "git/trigger_internal.h"
#include "http/http_internal.h"

static void try_url(const char *url)
{
	static struct source_auth a;
	struct repo_about about = { 0 };
	struct err err = { 0 };

	hook_url_check(url, "url", true, ERR_GIT_INVALID_REQUEST, &err);
	err = (struct err){ 0 };
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
	must(source_failed(url, "Authentication failed", &about, &err) < 0 && err.msg[0]);
	must(source_failed(url, "proxy: no", &about, &err) < 0 && err.msg[0]);
}

/* Addresses and networks of proxies; and whom such a proxy speaks for. */
static void try_nets(const char *text)
{
	struct http_net nets[HTTP_PROXIES_MAX];
	struct sockaddr_storage sa;
	uint8_t addr[16];
	size_t n = 0;
	bool known = net_forwarded(text, &sa) == 0;

	must(!net_bytes(NULL, addr));
	must(!known || net_bytes((struct sockaddr *)&sa, addr));
	if (http_nets_parse(text, nets, HTTP_PROXIES_MAX, &n) < 0)
		return;
	must(n <= HTTP_PROXIES_MAX);
	for (size_t i = 0; i < n; i++) {
		must(nets[i].bits <= 128);
		must(net_has(&nets[i], nets[i].addr));
		/* the text's last word is both: an address is in the network of that address */
		if (known && i == n - 1 && !strpbrk(text, "/,"))
			must(net_has(&nets[i], addr) || strchr(text, ' '));
	}
}

static void try_plan(const struct source_refs *refs, const char *rev, const char *want, bool all)
{
	struct repo_about about = { 0 };
	struct source_plan plan = { 0 };
	struct err err = { 0 };

	if (source_plan(refs, "https://one.test/r", rev, all, want, &plan, &about, &err) < 0) {
		must(err.msg[0]);
		return;
	}
	must(plan.branch[0] && plan.refspecs[0] == plan.spec && plan.spec[0] == '+');
	must(!plan.is_tag || rev);
	must(all == (plan.refspecs[1] != NULL) && plan.refspecs[3] == NULL);
	must(strchr(plan.spec, ':') && !strpbrk(plan.spec, " \n\t"));
	if (!rev)
		must(repo_branch_valid(plan.branch));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct in in = { data, size };
	autofree char *url = in_text(in_until(&in, 0)), *rev = in_text(in_until(&in, 0));
	autofree char *want = in_text(in_until(&in, 0));
	struct buf out = { .len = in.n }; /* not a text: it ends where it ends */
	struct source_refs refs = { 0 };
	static bool begun;

	if (!begun)
		begun = git_libgit2_init() > 0;
	try_url(url);
	try_nets(url);
	out.p = malloc(in.n ? in.n : 1);
	must(out.p != NULL);
	if (in.n)
		memcpy(out.p, in.p, in.n);
	/* as callers have checked them */
	if (*rev && !repo_branch_valid(rev))
		*rev = '\0';
	if (*want && !repo_branch_valid(want))
		*want = '\0';
	source_refs_read(&out, *rev ? rev : NULL, &refs);
	must(!refs.head[0] || repo_branch_valid(refs.head));
	for (int all = 0; all < 2; all++)
		try_plan(&refs, *rev ? rev : NULL, *want ? want : NULL, all);
	free(out.p);
	return 0;
}
