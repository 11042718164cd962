/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fs_watch.c - reports changes below a directory
 *
 * Theory of operation: an inotify watch on every directory -> each event becomes a
 * record (kind, absolute path) in the pipe. A new directory, created or moved
 * here, is watched too, and its contents are reported as created, since they may be older than
 * the watch. A directory that is moved away or removed loses its watches. Without a path,
 * everything except the system is watched: the directories of / that are not in
 * skipped[], and /var/www. If there are more directories than AGENT_WATCH_MAX or the kernel
 * allow, a record reports it once; existing watches stay.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/auto.h"
#include "base/err.h"
#include "base/io.h"

#define MASK                                                                                \
	(IN_CREATE | IN_CLOSE_WRITE | IN_MODIFY | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | \
	 IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR | IN_EXCL_UNLINK)
#define DEPTH_MAX 64 /* directories below directories that are followed */

static const char *const skipped[] = { "bin",   "boot",  "dev",    "etc",  "lib",
	                               "lib32", "lib64", "libx32", "proc", "run",
	                               "sbin",  "sys",   "usr",    "var",  "lost+found" };

struct watch {
	const struct job_fds *fds;
	int fd;
	char **dirs; /* by watch descriptor; owned, as are the names */
	size_t n_dirs;
	unsigned count;
	bool told_limit, whole; /* whole: without a path */
	bool tell;              /* files found while a directory is added are reported */
	struct buf b;
	char last[AGENT_PATH_MAX]; /* the file last reported as modified */
};

static void put(struct watch *w, uint8_t kind, const char *path)
{
	buf_put_u8(&w->b, kind);
	agent_text_put(&w->b, path);
	if (w->b.failed)
		child_fail(w->fds, ENOMEM, AGENT_TAG_NONE, "watch: out of memory");
}

static void flush(struct watch *w)
{
	int r = w->b.len ? io_write_all(w->fds->out, w->b.p, w->b.len) : 0;

	if (r < 0)
		child_fail(w->fds, -r, AGENT_TAG_NONE, "send changes: %s", err_name(r));
	buf_reset(&w->b);
}

static bool is_skipped(const struct watch *w, const char *dir, const char *name)
{
	if (!w->whole || strcmp(dir, "/") != 0)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(skipped); i++)
		if (!strcmp(name, skipped[i]))
			return true;
	return false;
}

static void limit(struct watch *w, const char *why)
{
	if (!w->told_limit)
		put(w, AGENT_CHANGE_LIMIT, why);
	w->told_limit = true;
}

/* Stores the name of a watch. false: out of memory. */
static bool name_watch(struct watch *w, int wd, const char *path)
{
	size_t i = (size_t)wd;

	if (i >= w->n_dirs) {
		size_t n = MAX(i + 1, w->n_dirs * 2);
		char **p = reallocarray(w->dirs, n, sizeof(*p));

		if (!p)
			return false;
		memset(p + w->n_dirs, 0, (n - w->n_dirs) * sizeof(*p));
		w->dirs = p;
		w->n_dirs = n;
	}
	if (!w->dirs[i])
		w->count++;
	free(w->dirs[i]);
	w->dirs[i] = strdup(path);
	return w->dirs[i] != NULL;
}

static bool join(char ret[AGENT_PATH_MAX], const char *dir, const char *name)
{
	return (size_t)snprintf(ret, AGENT_PATH_MAX, "%s/%s", strcmp(dir, "/") ? dir : "", name) <
	       AGENT_PATH_MAX;
}

static void add(struct watch *w, const char *path, int depth);

static void add_children(struct watch *w, const char *path, int depth)
{
	autodir DIR *d = opendir(path);
	struct dirent *de;

	while (d && (de = readdir(d))) {
		char sub[AGENT_PATH_MAX];
		struct stat st;

		if (!strcmp(de->d_name, ".") || !strcmp(de->d_name, "..") ||
		    is_skipped(w, path, de->d_name) || !join(sub, path, de->d_name))
			continue;
		if (w->tell)
			put(w, AGENT_CHANGE_CREATE, sub);
		if (de->d_type == DT_UNKNOWN &&
		    fstatat(dirfd(d), de->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0)
			de->d_type = S_ISDIR(st.st_mode) ? DT_DIR : DT_REG;
		if (de->d_type == DT_DIR)
			add(w, sub, depth + 1);
	}
}

/* Adds a directory and all below it; skips those that are gone or that this user may not read. */
static void add(struct watch *w, const char *path, int depth)
{
	int wd;

	if (depth > DEPTH_MAX)
		return;
	if (w->count >= AGENT_WATCH_MAX) {
		limit(w, "too many directories: not all of them are watched");
		return;
	}
	wd = inotify_add_watch(w->fd, path, MASK | (depth ? IN_DONT_FOLLOW : 0));
	if (wd < 0 && errno == ENOSPC) {
		limit(w, "the VM's limit of inotify watches is reached");
		return;
	}
	if (wd < 0)
		return;
	if (!name_watch(w, wd, path))
		child_fail(w->fds, ENOMEM, AGENT_TAG_NONE, "watch: out of memory");
	add_children(w, path, depth);
}

/* A directory was moved away: its watches and those below it are no longer valid. */
static void drop_below(struct watch *w, const char *path)
{
	size_t n = strlen(path);

	for (size_t i = 0; i < w->n_dirs; i++) {
		const char *d = w->dirs[i];

		if (!d || strncmp(d, path, n) != 0 || (d[n] && d[n] != '/'))
			continue;
		inotify_rm_watch(w->fd, (int)i);
		free(w->dirs[i]);
		w->dirs[i] = NULL;
		w->count--;
	}
}

static void forget(struct watch *w, int wd)
{
	if ((size_t)wd >= w->n_dirs || !w->dirs[wd])
		return;
	free(w->dirs[wd]);
	w->dirs[wd] = NULL;
	w->count--;
}

/* A file that is being written is reported once, until something else happens. */
static void modified(struct watch *w, const char *path)
{
	if (!strcmp(w->last, path))
		return;
	put(w, AGENT_CHANGE_MODIFY, path);
	snprintf(w->last, sizeof(w->last), "%s", path);
}

static void on_event(struct watch *w, const struct inotify_event *e)
{
	char path[AGENT_PATH_MAX];
	const char *dir;

	if (e->mask & IN_Q_OVERFLOW) {
		put(w, AGENT_CHANGE_OVERFLOW, "");
		return;
	}
	if (e->mask & IN_IGNORED) {
		forget(w, e->wd);
		return;
	}
	dir = e->wd > 0 && (size_t)e->wd < w->n_dirs ? w->dirs[e->wd] : NULL;
	if (!dir || !e->len || is_skipped(w, dir, e->name) || !join(path, dir, e->name))
		return;
	if (e->mask & (IN_CLOSE_WRITE | IN_MODIFY | IN_ATTRIB)) {
		if (!(e->mask & IN_ISDIR))
			modified(w, path);
		if (e->mask & IN_CLOSE_WRITE)
			w->last[0] = '\0';
		return;
	}
	w->last[0] = '\0';
	put(w,
	    e->mask & IN_CREATE   ? AGENT_CHANGE_CREATE
	    : e->mask & IN_DELETE ? AGENT_CHANGE_DELETE
	                          : AGENT_CHANGE_RENAME,
	    path);
	if (!(e->mask & IN_ISDIR))
		return;
	if (e->mask & (IN_MOVED_FROM | IN_DELETE))
		drop_below(w, path);
	if (!(e->mask & (IN_CREATE | IN_MOVED_TO)))
		return;
	w->tell = true;
	add(w, path, 1);
	w->tell = false;
}

static void begin(struct watch *w, const struct agent_fs_req *r)
{
	struct stat st;

	w->whole = !r->path[0];
	w->fd = inotify_init1(IN_CLOEXEC);
	if (w->fd < 0)
		child_fail(w->fds, errno, AGENT_TAG_NONE, "watch: %s", err_name(errno));
	if (w->whole) {
		add(w, "/", 0);
		add(w, "/var/www", 0);
	} else if (stat(r->path, &st) < 0 || !S_ISDIR(st.st_mode)) {
		child_fail(w->fds, errno ? errno : ENOTDIR, AGENT_TAG_NONE,
		           "watch '%.200s': it is not a directory", r->path);
	} else {
		add(w, r->path, 0);
	}
	if (!w->count)
		child_fail(w->fds, w->told_limit ? ENOSPC : EACCES, AGENT_TAG_NONE,
		           "watch '%.200s': none of it can be watched", r->path);
}

void fs_watch(const struct job_fds *fds, const struct agent_fs_req *r)
{
	static union {
		struct inotify_event e;
		char bytes[64 << 10];
	} in;
	static struct watch w;

	w.fds = fds;
	errno = 0;
	begin(&w, r);
	put(&w, AGENT_CHANGE_READY, "");
	flush(&w);
	for (;;) {
		ssize_t n = read(w.fd, in.bytes, sizeof(in.bytes));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			child_fail(fds, errno, AGENT_TAG_NONE, "watch: %s", err_name(errno));
		for (ssize_t at = 0; at < n;) {
			const struct inotify_event *e =
			        (const struct inotify_event *)(const void *)(in.bytes + at);

			on_event(&w, e);
			at += (ssize_t)(sizeof(*e) + e->len);
		}
		flush(&w);
		if (!w.count)
			child_finish(fds, 0, AGENT_TAG_NONE, "", NULL, 0); /* it is gone */
	}
}
