/* SPDX-License-Identifier: Apache-2.0 */
/*
 * caps.c - what upload-pack can do, asked once
 *
 * By protocol 2 a fetch begins with that question, and the answer depends on the program and on our
 * configuration, not on the repository: it is asked in the first one that is fetched from, and
 * again when the program has changed on the disk. One child less for every clone.
 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "git/git_internal.h"

#define CAPS_MAX (64u << 10)
#define CAPS_MS 60000u
#define VERSION_2 "version=2"

bool caps_asked(const struct svc_opts *o)
{
	return o->advertise && o->kind == REPO_UPLOAD_PACK && o->protocol &&
	       strcmp(o->protocol, VERSION_2) == 0;
}

static int ask(struct repos *g, const struct store_repo *r, struct buf *ret, struct err *err)
{
	const char *const argv[] = {
		GIT_PROGRAM, "upload-pack", "--stateless-rpc", "--advertise-refs", "--strict",
		".",         NULL
	};
	const char *const env[] = { "GIT_PROTOCOL=" VERSION_2, NULL };
	autorun struct run_result res = { 0 };
	char path[PATH_MAX];
	int rc;

	repo_path(g, r->id, path);
	rc = run_git(g,
	             &(struct run_opts){ .repo = path,
	                                 .argv = argv,
	                                 .env = env,
	                                 .out_max = CAPS_MAX,
	                                 .limit_ms = CAPS_MS },
	             &res, err);
	if (rc < 0)
		return rc;
	if (res.status != 0 || res.out.len == 0)
		return err_set(err, -EIO, "upload-pack does not list its capabilities");
	buf_put(ret, res.out.p, res.out.len);
	return 0;
}

int caps_get(struct repos *g, const struct store_repo *r, struct buf *ret, struct err *err)
{
	struct stat st = { 0 };
	bool known;
	int rc;

	if (stat(GIT_PROGRAM, &st) < 0)
		return err_sys(err, -errno, "look at '%s'", GIT_PROGRAM);
	mutex_lock(&g->lock);
	known = g->caps.len && g->caps_ino == st.st_ino && g->caps_time == st.st_ctim.tv_sec;
	if (known)
		buf_put(ret, g->caps.p, g->caps.len);
	mutex_unlock(&g->lock);
	if (!known) {
		if ((rc = ask(g, r, ret, err)) < 0)
			return rc;
		LOCK_SCOPE(&g->lock);
		g->caps.len = 0;
		buf_put(&g->caps, ret->p, ret->len);
		g->caps_ino = st.st_ino;
		g->caps_time = st.st_ctim.tv_sec;
		if (g->caps.failed)
			buf_done(&g->caps);
	}
	return ret->failed ? err_set(err, -ENOMEM, "out of memory") : 0;
}
