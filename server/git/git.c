/* SPDX-License-Identifier: Apache-2.0 */
/*
 * git.c - the module as a whole: directories, libgit2, the jail, what a crash left behind
 *
 *   git/repos/<id>.git    bare repositories
 *   git/tmp/              repositories in the making, and those on their way out
 *   git/busy/<id>         being written to at this moment; what is there at start was interrupted
 *   git/lfs/<account>/    large files
 *   git/jail/             skeleton of a child's root
 */
#include "git/git.h"

#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/io.h"
#include "git/shared.h"
#include "git/texts.h"
#include "store/store.h"

#define LIBGIT_CACHE_BYTES (64 << 20)
#define LIBGIT_MAPPED_BYTES (512u << 20)

void repos_path(const struct repos *g, const char *sub, const char *name, char ret[PATH_MAX])
{
	snprintf(ret, PATH_MAX, "%s/%s/%s", g->root, sub, name);
}

void repo_path(const struct repos *g, const char *id, char ret[PATH_MAX])
{
	snprintf(ret, PATH_MAX, "%s/repos/%s.git", g->root, id);
}

/* Where we keep things is nobody's business: of an absolute path, what is behind its last slash. */
static void hide_paths(const char *text, char *ret, size_t size)
{
	char before = ' ';
	size_t n = 0;

	while (*text && n + 1 < size) {
		if (*text == '/' && strchr(" '\"(=:", before)) {
			size_t len = strcspn(text, " '\"():\n");

			for (const char *end = text + len; text < end; text++)
				if (*text == '/')
					len = (size_t)(end - text) - 1;
			text -= len;
		}
		if (*text)
			before = ret[n++] = *text++;
	}
	ret[n] = '\0';
}

int git_fail(int rc, const char *what, struct err *err)
{
	const git_error *e = git_error_last();
	char why[200];

	hide_paths(e && e->message ? e->message : "libgit2 gives no reason", why, sizeof(why));
	return err_tag(err, rc == GIT_ENOTFOUND ? -ENOENT : -EIO, ERR_GIT_ERROR, "cannot %s: %s",
	               what, why);
}

int repo_open(struct repos *g, const struct store_repo *r, git_repository **ret, struct err *err)
{
	char path[PATH_MAX];
	int rc;

	if ((rc = shared_ready(g, r, err)) < 0)
		return rc;
	repo_path(g, r->id, path);
	rc = git_repository_open_bare(ret, path);
	if (rc == GIT_ENOTFOUND) /* deleted meanwhile */
		return err_tag(err, -ENOENT, ERR_REPOSITORY_NOT_FOUND, "no repository '%s'", r->id);
	return rc < 0 ? git_fail(rc, "open the repository", err) : 0;
}

/* No configuration but ours, nothing lost in a crash, memory within bounds. */
static int libgit_start(struct err *err)
{
	static const git_config_level_t levels[] = { GIT_CONFIG_LEVEL_SYSTEM, GIT_CONFIG_LEVEL_XDG,
		                                     GIT_CONFIG_LEVEL_GLOBAL,
		                                     GIT_CONFIG_LEVEL_PROGRAMDATA };
	int rc = git_libgit2_init();

	if (rc < 0)
		return git_fail(rc, "start libgit2", err);
	for (size_t i = 0; i < ARRAY_SIZE(levels); i++)
		git_libgit2_opts(GIT_OPT_SET_SEARCH_PATH, (int)levels[i], "");
	git_libgit2_opts(GIT_OPT_SET_OWNER_VALIDATION, 0);
	git_libgit2_opts(GIT_OPT_ENABLE_FSYNC_GITDIR, 1);
	git_libgit2_opts(GIT_OPT_ENABLE_STRICT_OBJECT_CREATION, 1);
	git_libgit2_opts(GIT_OPT_SET_CACHE_MAX_SIZE, (ssize_t)LIBGIT_CACHE_BYTES);
	git_libgit2_opts(GIT_OPT_SET_MWINDOW_MAPPED_LIMIT, (size_t)LIBGIT_MAPPED_BYTES);
	git_libgit2_opts(GIT_OPT_SET_MWINDOW_FILE_LIMIT, (size_t)256);
	return 0;
}

/* Before there are threads that would do it. */
static int curl_start(struct err *err)
{
	return curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK
	               ? 0
	               : err_set(err, -EIO, "cannot start libcurl");
}

static int make_dirs(struct repos *g, struct err *err)
{
	static const char *const names[] = { "repos", "tmp", "busy", "lfs" };
	char path[PATH_MAX];
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(names) && r >= 0; i++) {
		snprintf(path, sizeof(path), "%s/%s", g->root, names[i]);
		r = io_mkdirs(path, 0700, err);
	}
	return r;
}

static void repos_closep(struct repos **g)
{
	repos_close(*g);
}

int repos_open(const struct repos_conf *c, struct store *s, struct repos **ret, struct err *err)
{
	AUTO(repos_closep) struct repos *g = calloc(1, sizeof(*g));
	int r;

	if (!g)
		return err_set(err, -ENOMEM, "out of memory");
	g->conf = *c;
	g->store = s;
	snprintf(g->root, sizeof(g->root), "%s/git", c->data_dir);
	snprintf(g->jail_dir, sizeof(g->jail_dir), "%s/jail", g->root);
	mutex_init(&g->lock, "git");
	mutex_init(&g->lfs, "git lfs");
	mutex_init(&g->quota, "git quota");
	cond_init(&g->work);
	cond_init(&g->packed);
	if ((r = budget_new(&(struct budget_conf){ CHILDREN_ACCOUNTS, CHILDREN_ACCOUNT },
	                    &g->accounts, err)) < 0 ||
	    (r = budget_new(&(struct budget_conf){ CHILDREN_STRANGERS, CHILDREN_ADDRESS },
	                    &g->strangers, err)) < 0 ||
	    (r = libgit_start(err)) < 0 || (r = curl_start(err)) < 0 ||
	    (r = make_dirs(g, err)) < 0 || (r = jail_probe(g, err)) < 0 ||
	    (r = shared_open(g, err)) < 0 || (r = repos_reconcile(g, err)) < 0 ||
	    (r = text_cache_new(g, &g->texts, err)) < 0 || (r = maint_start(g, err)) < 0 ||
	    (r = shared_begin(g, err)) < 0)
		return err_wrap(err, r, "Git");
	*ret = TAKE_PTR(g);
	return 0;
}

struct repos *repos_close(struct repos *g)
{
	if (!g)
		return NULL;
	shared_end(g);
	maint_stop(g);
	g->texts = text_cache_free(g->texts);
	shared_close(g);
	cond_destroy(&g->packed);
	jail_close(g);
	cond_destroy(&g->work);
	budget_free(g->accounts);
	budget_free(g->strangers);
	mutex_destroy(&g->lfs);
	holds_free(g);
	mutex_destroy(&g->quota);
	mutex_destroy(&g->lock);
	git_libgit2_shutdown();
	buf_done(&g->caps);
	free(g);
	return NULL;
}
