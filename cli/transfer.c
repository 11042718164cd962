/* SPDX-License-Identifier: Apache-2.0 */
/*
 * transfer.c - copies one file or directory between here and a VM
 *
 * Files of any size are sent unchanged with raw-files; directories as one tar archive, packed and
 * unpacked by tar(1) on our side: GNU tar rejects names that lead outside and drops owners and
 * special bits, so an archive from a hostile guest does no harm. A file is written under a
 * temporary name and renamed when it is complete.
 */
#include "cli/transfer.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"
#include "cli/exec.h"
#include "cli/stream.h"
#include "cli/tree.h"

#define SHOW_MS 200

extern char **environ;

struct move {
	const struct transfer *t;
	struct cli_stream *s;
	const char *name;
	int fd;
	long long done, total; /* total -1: not known */
	uint64_t shown_ms;
	bool failed;
};

static void show_progress(struct move *m, bool last)
{
	char done[16], total[16];

	if (!m->t->progress || (!last && clock_ms() - m->shown_ms < SHOW_MS))
		return;
	m->shown_ms = clock_ms();
	tree_size(m->done, done);
	if (m->total > 0)
		fprintf(stderr, "\r%s: %s of %s (%lld%%) ", m->name, done,
		        tree_size(m->total, total), m->done * 100 / m->total);
	else
		fprintf(stderr, "\r%s: %s ", m->name, done);
	if (last)
		fputc('\n', stderr);
}

static ssize_t on_read(void *ctx, void *dst, size_t n)
{
	struct move *m = ctx;
	ssize_t k;

	do {
		k = read(m->fd, dst, n);
	} while (k < 0 && errno == EINTR);
	if (k < 0) {
		m->failed = true;
		cli_fail(CLI_REFUSED, "%s: %s", m->name, strerror(errno));
		return -1;
	}
	m->done += k;
	show_progress(m, /* last= */ false);
	return k;
}

static int on_data(void *ctx, const void *p, size_t n)
{
	struct move *m = ctx;
	int r = io_write_all(m->fd, p, n);

	m->total = m->s->length;
	if (r < 0)
		return r == -EPIPE ? 128 + SIGPIPE
		                   : cli_fail(CLI_REFUSED, "%s: %s", m->name, strerror(-r));
	m->done += (long long)n;
	show_progress(m, /* last= */ false);
	return 0;
}

enum remote_kind transfer_look(const struct transfer *t, const char *path)
{
	autofree char *url = cli_path(t->c, "/v1/vms/%s/raw-files/%s", t->vm, path);
	struct cli_stream s = { .method = "GET",
		                .path = url,
		                .user = t->user,
		                .header = { "Range: bytes=0-0" },
		                .keep = true };
	autojson json_t *reply = NULL;

	if (cli_stream(t->c, &s) != CLI_OK)
		return REMOTE_ERROR;
	reply = s.reply;
	if (s.status == 404 && strcmp(cli_str(reply, "code"), "FILE_NOT_FOUND") == 0)
		return REMOTE_NONE;
	if (s.status < 300 || s.status == 416)
		return REMOTE_FILE;
	if (strcmp(cli_str(reply, "code"), "FILES_BAD_REQUEST") == 0 &&
	    strstr(cli_str(reply, "message"), "s a directory"))
		return REMOTE_DIR;
	cli_refused(t->c, s.status, reply);
	return REMOTE_ERROR;
}

int transfer_put(const struct transfer *t, int fd, const char *name, int mode, const char *path)
{
	autofree char *url = cli_path(t->c, "/v1/vms/%s/raw-files/%s", t->vm, path);
	struct move m = { .t = t, .name = name, .fd = fd, .total = -1 };
	struct cli_stream s = {
		.method = "PUT", .user = t->user, .read = on_read, .size = -1, .ctx = &m
	};
	struct stat st;
	char text[16];
	int r;

	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
		s.size = m.total = (long long)st.st_size;
	if (mode >= 0) {
		snprintf(text, sizeof(text), "%04o", (unsigned)mode & 0777);
		cli_query(t->c, &url, "mode", text);
	}
	s.path = url;
	m.s = &s;
	r = cli_stream(t->c, &s);
	if (r == CLI_OK)
		show_progress(&m, /* last= */ true);
	return r;
}

/* The mode of the file in the VM, without bits that only make sense there. */
static mode_t local_mode(const char *text)
{
	mode_t old = umask(0), mode = (mode_t)strtoul(*text ? text : "644", NULL, 8) & 0777;

	umask(old);
	return mode & ~old;
}

int transfer_get(const struct transfer *t, const char *path, const char *local)
{
	autofree char *url = cli_path(t->c, "/v1/vms/%s/raw-files/%s", t->vm, path), *temp = NULL;
	bool to_stdout = strcmp(local, "-") == 0;
	struct move m = { .t = t, .name = path, .total = -1, .fd = STDOUT_FILENO };
	struct cli_stream s = {
		.method = "GET", .path = url, .user = t->user, .data = on_data, .ctx = &m
	};
	autofd int fd = -1;
	int r;

	m.s = &s;
	if (to_stdout)
		return cli_stream(t->c, &s);
	if (asprintf(&temp, "%s.pando-%d", local, (int)getpid()) < 0)
		cli_oom();
	fd = open(temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return cli_fail(CLI_REFUSED, "%s: %s", local, strerror(errno));
	m.fd = fd;
	r = cli_stream(t->c, &s);
	if (r == CLI_OK &&
	    (fchmod(fd, local_mode(s.mode)) < 0 || fsync(fd) < 0 || rename(temp, local) < 0))
		r = cli_fail(CLI_REFUSED, "%s: %s", local, strerror(errno));
	if (r != CLI_OK)
		unlink(temp);
	else
		show_progress(&m, /* last= */ true);
	return r;
}

/* tar with one end of a pipe as its stdin or stdout; *ret_fd is the other end. */
static pid_t start_tar(const char *const *argv, bool packs, int *ret_fd)
{
	posix_spawn_file_actions_t fa;
	posix_spawnattr_t at;
	sigset_t none, pipe_only;
	int p[2], r;
	pid_t pid;

	if (pipe2(p, O_CLOEXEC) < 0)
		return -1;
	sigemptyset(&none);
	sigemptyset(&pipe_only);
	sigaddset(&pipe_only, SIGPIPE);
	posix_spawn_file_actions_init(&fa);
	posix_spawn_file_actions_adddup2(&fa, p[packs ? 1 : 0],
	                                 packs ? STDOUT_FILENO : STDIN_FILENO);
	posix_spawnattr_init(&at);
	posix_spawnattr_setflags(&at, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	posix_spawnattr_setsigmask(&at, &none);
	posix_spawnattr_setsigdefault(&at, &pipe_only);
	r = posix_spawnp(&pid, argv[0], &fa, &at, (char *const *)argv, environ);
	posix_spawn_file_actions_destroy(&fa);
	posix_spawnattr_destroy(&at);
	close(p[packs ? 1 : 0]);
	*ret_fd = p[packs ? 0 : 1];
	if (r == 0)
		return pid;
	close(*ret_fd);
	cli_fail(CLI_REFUSED, "cannot run tar: %s", strerror(r));
	return -1;
}

static int end_tar(pid_t pid)
{
	int status = 0;

	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

int transfer_put_dir(const struct transfer *t, const char *local, const char *path)
{
	const char *argv[] = { "tar", "-C", local, "-cf", "-", ".", NULL };
	autofree char *url = cli_path(t->c, "/v1/vms/%s/tar/%s", t->vm, path);
	struct move m = { .t = t, .name = local, .total = -1 };
	struct cli_stream s = { .method = "PUT",
		                .path = url,
		                .user = t->user,
		                .read = on_read,
		                .size = -1,
		                .ctx = &m };
	pid_t pid = start_tar(argv, /* packs= */ true, &m.fd);
	int r, status;

	if (pid < 0)
		return CLI_REFUSED;
	m.s = &s;
	r = cli_stream(t->c, &s);
	close(m.fd);
	status = end_tar(pid);
	if (r == CLI_OK && status > 1) /* 1: a file changed while it was read */
		return cli_fail(CLI_REFUSED, "tar exited with %d: the copy is incomplete", status);
	if (r == CLI_OK)
		show_progress(&m, /* last= */ true);
	return r;
}

int transfer_get_dir(const struct transfer *t, const char *path, const char *local)
{
	const char *argv[] = { "tar", "-C", local, "--no-same-owner", "--no-same-permissions",
		               "-xf", "-",  NULL };
	autofree char *url = cli_path(t->c, "/v1/vms/%s/tar/%s", t->vm, path);
	struct move m = { .t = t, .name = path, .total = -1 };
	struct cli_stream s = {
		.method = "GET", .path = url, .user = t->user, .data = on_data, .ctx = &m
	};
	struct err err = { 0 };
	pid_t pid;
	int r, status;

	if (io_mkdirs(local, 0777, &err) < 0)
		return cli_fail(CLI_REFUSED, "%s", err.msg);
	if ((pid = start_tar(argv, /* packs= */ false, &m.fd)) < 0)
		return CLI_REFUSED;
	m.s = &s;
	r = cli_stream(t->c, &s);
	close(m.fd);
	status = end_tar(pid);
	if (r == CLI_OK && status)
		return cli_fail(CLI_REFUSED, "tar exited with %d: the copy is incomplete", status);
	if (r == CLI_OK)
		show_progress(&m, /* last= */ true);
	return r;
}
