/* SPDX-License-Identifier: Apache-2.0 */
/*
 * code_files.c - lists files that change while a cell runs
 *
 * The file systems of / and /tmp are watched (fanotify) while at least one cell
 * runs, and a little longer: the next cell usually comes soon, and setting up a watch
 * costs more than a cell. Nothing is read before a cell's end: the kernel merges events of one
 * file, and the descriptor that comes with an event has the file's current name, so a file that was
 * written under another name and renamed is listed by its final name. Two concurrent cells both
 * list what changed, each as far as its own user can find it. Files written by the system (logs,
 * caches, packages, hidden directories) are not listed. Without fanotify, or with a test root,
 * nothing is.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fanotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/code.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"

#define READ_BYTES 4096  /* of events at a time: 170 */
#define EVENTS_MAX 4096u /* handled for one cell; more would be too many to list anyway */
#define LINGER_MS 3000   /* the watch stays after the last cell; events then are dropped */
#define FAN_EVENTS (FAN_MODIFY | FAN_CLOSE_WRITE)

enum { FAN_UNOPENED = 0, FAN_NONE = -1 }; /* values of a->fan_fd other than a descriptor */

static bool is_running(const struct code_ctx *x)
{
	return x->state == AGENT_CODE_BUSY && !x->done;
}

static unsigned running(const struct agent *a)
{
	unsigned n = 0;

	for (const struct code_ctx *x = a->code; x; x = x->next)
		n += is_running(x);
	return n;
}

static bool is_listed(const char *path)
{
	static const char *const prefix[] = { "/proc/",    "/sys/",       "/dev/",
		                              "/run/",     "/usr/",       "/var/log/",
		                              "/var/lib/", "/var/cache/", "/boot/" };
	static const char *const part[] = { "/.", "/__pycache__/", "/node_modules/",
		                            "/site-packages/", "/dist-packages/" };

	for (size_t i = 0; i < ARRAY_SIZE(prefix); i++)
		if (!strncmp(path, prefix[i], strlen(prefix[i])))
			return false;
	for (size_t i = 0; i < ARRAY_SIZE(part); i++)
		if (strstr(path, part[i]))
			return false;
	return true;
}

static void add(struct code_ctx *x, const char *path)
{
	for (unsigned i = 0; i < x->n_files; i++)
		if (!strcmp(x->files[i].path, path))
			return;
	if (x->n_files == AGENT_CODE_FILES_MAX) {
		x->files_cut = true;
		return;
	}
	x->files[x->n_files].path = strdup(path);
	if (x->files[x->n_files].path)
		x->n_files++;
}

static void add_fd(struct agent *a, int fd)
{
	char link[64], path[PATH_MAX];
	struct stat st;
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof(path) - 1);
	if (n <= 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || !st.st_nlink)
		return;
	path[n] = '\0';
	if (path[0] != '/' || !is_listed(path))
		return;
	for (struct code_ctx *x = a->code; x; x = x->next)
		if (is_running(x))
			add(x, path);
}

static void cut(struct agent *a)
{
	for (struct code_ctx *x = a->code; x; x = x->next)
		if (is_running(x))
			x->files_cut = true;
}

/* Reads queued events; keep: they belong to the running cells. */
static void collect(struct agent *a, bool keep)
{
	_Alignas(struct fanotify_event_metadata) char text[READ_BYTES];
	unsigned seen = 0;
	ssize_t n;

	while (seen < EVENTS_MAX && (n = read(a->fan_fd, text, sizeof(text))) > 0) {
		struct fanotify_event_metadata *m = (void *)text;

		for (; FAN_EVENT_OK(m, n); m = FAN_EVENT_NEXT(m, n)) {
			seen++;
			if (m->mask & FAN_Q_OVERFLOW && keep)
				cut(a);
			if (m->fd < 0)
				continue;
			if (keep && m->pid != getpid())
				add_fd(a, m->fd);
			close(m->fd);
		}
	}
	if (seen >= EVENTS_MAX && keep)
		cut(a);
}

static void mark(struct agent *a, unsigned how)
{
	static const char *const where[] = { "/", "/tmp" };

	for (size_t i = 0; i < ARRAY_SIZE(where); i++)
		fanotify_mark(a->fan_fd, how | FAN_MARK_FILESYSTEM, FAN_EVENTS, AT_FDCWD, where[i]);
}

void code_files_begin(struct agent *a, struct code_ctx *x)
{
	if (a->fan_fd == FAN_NONE || a->test_root)
		return;
	if (a->fan_fd == FAN_UNOPENED) {
		int fd = fanotify_init(FAN_CLASS_NOTIF | FAN_CLOEXEC | FAN_NONBLOCK,
		                       O_RDONLY | O_LARGEFILE | O_CLOEXEC | O_NOATIME);

		if (fd < 0) {
			log_warn("cells will not list their files: fanotify: %s", err_name(errno));
			a->fan_fd = FAN_NONE;
			return;
		}
		a->fan_fd = fd;
	}
	if (running(a) > 1)
		return; /* another cell has already set up the watch */
	if (!a->fan_off_at)
		mark(a, FAN_MARK_ADD);
	else
		collect(a, /* keep= */ false); /* changes between the cells */
	a->fan_off_at = 0;
}

void code_files_tick(struct agent *a, uint64_t now)
{
	if (!a->fan_off_at || now < a->fan_off_at)
		return;
	a->fan_off_at = 0;
	mark(a, FAN_MARK_REMOVE);
	collect(a, /* keep= */ false);
}

/* u: whose cell it is; NULL: root's */
static void put(struct code_ctx *x, const struct user *u, const char *path)
{
	autobuf struct buf b = { 0 };
	struct agent_code_event m = { .kind = AGENT_CODE_FILE };
	struct stat st;

	if ((u ? !user_finds(u, path, &st) : lstat(path, &st) < 0) || !S_ISREG(st.st_mode))
		return;
	buf_put_u64(&b, (uint64_t)st.st_size);
	buf_put(&b, path, strlen(path));
	m.p = b.p;
	m.len = b.len;
	if (!b.failed && x->cells->s)
		agent_code_event_put(&x->outq, &m);
}

void code_files_end(struct agent *a, struct code_ctx *x)
{
	static struct user u;
	bool known;

	if (a->fan_fd > 0) {
		collect(a, /* keep= */ true);
		if (running(a) <= 1)
			a->fan_off_at = clock_ms() + LINGER_MS;
	}
	known = x->n_files && *x->user && code_user(x, &u) == 0;
	for (unsigned i = 0; i < x->n_files; i++) {
		if (known || !*x->user)
			put(x, known ? &u : NULL, x->files[i].path);
		free(x->files[i].path);
	}
	x->n_files = 0;
}

void code_files_close(struct agent *a)
{
	if (a->fan_fd > 0)
		close(a->fan_fd);
	a->fan_fd = FAN_UNOPENED;
	a->fan_off_at = 0;
}
