/* SPDX-License-Identifier: Apache-2.0 */
/*
 * source_plan.c - addresses of other Git servers, what such a server says it has, and which of it
 * to take
 *
 * Pure: text in, a decision out. What the server says is whatever somebody else's program prints;
 * it may be cut off anywhere. import_source.c runs git.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "git/import.h"

int source_url_check(const char *url, struct err *err)
{
	size_t n = url ? strlen(url) : 0;

	if (n == 0 || n > SOURCE_URL_MAX ||
	    (strncmp(url, "https://", 8) != 0 && strncmp(url, "http://", 7) != 0))
		return err_tag(err, -EINVAL, ERR_GIT_INVALID_REQUEST,
		               "'url' must be an address that begins with https:// or http://");
	for (const char *p = url; *p; p++)
		if ((unsigned char)*p <= ' ' || *p == 0x7f || *p == '\\')
			return err_tag(err, -EINVAL, ERR_GIT_INVALID_REQUEST,
			               "'url' has a space or a control character");
	return 0;
}

/* Without the user and the password. */
void source_hide(const char *url, char *ret, size_t size)
{
	const char *host = strstr(url, "://"), *at, *slash;

	host = host ? host + 3 : url;
	slash = host + strcspn(host, "/?#");
	at = memchr(host, '@', (size_t)(slash - host));
	for (const char *p = at; p; p = memchr(p + 1, '@', (size_t)(slash - p - 1)))
		at = p;
	snprintf(ret, size, "%.*s%s", (int)(host - url), url, at ? at + 1 : host);
}

int source_failed(const char *url, const char *says, struct repo_about *about, struct err *err)
{
	static const char *const denied[] = { "Authentication failed", "could not read Username",
		                              "could not read Password", "error: 401",
		                              "error: 403" };
	const char *proxy = strstr(says, "proxy: ");
	enum err_code tag = ERR_SOURCE_NOT_FOUND;
	const char *plain = about->url;

	source_hide(url, about->url, sizeof(about->url));
	for (size_t i = 0; i < ARRAY_SIZE(denied); i++)
		if (strstr(says, denied[i]))
			tag = ERR_SOURCE_UNAUTHORIZED;
	if (proxy)
		return err_tag(err, -EINVAL, ERR_SOURCE_NOT_FOUND,
		               "'%.100s' cannot be reached: %.150s", plain, proxy + 7);
	return err_tag(err, -EINVAL, tag, "'%.150s' %s", plain,
	               tag == ERR_SOURCE_NOT_FOUND ? "is not a Git repository, or does not exist"
	                                           : "needs a valid user name and password");
}

/* ---- what there is, and what to take ---- */

static bool line_is(const char *line, size_t n, const char *prefix, const char *name)
{
	const char *tab = memchr(line, '\t', n);
	size_t k = strlen(prefix), m = strlen(name);

	if (!tab)
		return false;
	tab++;
	return (size_t)(line + n - tab) == k + m && memcmp(tab, prefix, k) == 0 &&
	       memcmp(tab + k, name, m) == 0;
}

void source_refs_read(const struct buf *out, const char *rev, struct source_refs *ret)
{
	const char *p = (char *)out->p, *end = p + out->len;

	ret->empty = out->len == 0;
	while (p && p < end) {
		const char *nl = memchr(p, '\n', (size_t)(end - p));
		size_t n = nl ? (size_t)(nl - p) : (size_t)(end - p);

		if (n > 16 && memcmp(p, "ref: refs/heads/", 16) == 0) {
			/* The last line may be cut off anywhere. */
			const char *tab = memchr(p + 16, '\t', n - 16);
			size_t len = tab ? (size_t)(tab - p - 16) : n - 16;

			snprintf(ret->head, sizeof(ret->head), "%.*s",
			         (int)MIN(len, sizeof(ret->head) - 1), p + 16);
		}
		ret->is_branch |= rev && line_is(p, n, "refs/heads/", rev);
		ret->is_tag |= rev && line_is(p, n, "refs/tags/", rev);
		p = nl ? nl + 1 : end;
	}
	ret->is_hash =
	        rev && strlen(rev) == REPO_SHA_SIZE - 1 && !rev[strspn(rev, "0123456789abcdef")];
	if (!repo_branch_valid(ret->head))
		ret->head[0] = '\0';
}

int source_plan(const struct source_refs *has, const char *url, const char *rev, bool all,
                const char *want, struct source_plan *ret, struct repo_about *about,
                struct err *err)
{
	const char *other = want ? want : "main";

	if (rev && !has->is_branch && !has->is_tag && !has->is_hash) {
		about->revision = rev;
		return err_tag(err, -EINVAL, ERR_INVALID_REVISION,
		               "the source has no branch, tag or commit '%.100s'", rev);
	}
	if (!rev && !*has->head && !all)
		return source_failed(url, "", about, err);
	/* The branch that this becomes: the one it is there; of a tag or a commit, the one asked
	 * for. */
	if (has->is_branch)
		other = rev;
	else if (*has->head && !(rev && want))
		other = has->head;
	*ret = (struct source_plan){ .is_tag = rev && !has->is_branch && has->is_tag };
	snprintf(ret->branch, sizeof(ret->branch), "%s", other);
	if (has->is_branch || !rev)
		snprintf(ret->spec, sizeof(ret->spec), "+refs/heads/%s:refs/heads/%s", ret->branch,
		         ret->branch);
	else if (has->is_tag)
		snprintf(ret->spec, sizeof(ret->spec), "+refs/tags/%s:refs/tags/%s", rev, rev);
	else
		snprintf(ret->spec, sizeof(ret->spec), "+%s:refs/heads/%s", rev, ret->branch);
	ret->refspecs[0] = ret->spec;
	if (all) {
		if (has->is_branch || !rev)
			snprintf(ret->spec, sizeof(ret->spec), "+refs/heads/*:refs/heads/*");
		else
			ret->refspecs[2] = "+refs/heads/*:refs/heads/*";
		ret->refspecs[1] = "+refs/tags/*:refs/tags/*";
	}
	return 0;
}
