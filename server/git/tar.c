/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tar.c - reads plain tar, piece by piece
 *
 * What comes in was written by bsdtar or git archive in a jail, but from what strangers sent, so
 * nothing is believed. libarchive reads it, and only as tar: no other format, no compression.
 * Files, symbolic links and hard links are reported; directories are implied by the files in them;
 * devices and the like are left out.
 *
 * Theory of operation: libarchive asks for bytes, and ours arrive when they like. So it runs on a
 * thread of its own and reads from a socket that tar_feed() writes to; tar_ops are called by that
 * thread. The first failure closes the socket, which ends tar_feed(), and tar_finish() says what it
 * was. Names are the bytes of the archive: pandod runs in the C locale, where libarchive changes
 * none.
 */
#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "git/import.h"

#define PIECE 65536u

struct tar {
	const struct tar_ops *ops;
	void *ctx;
	int in, out; /* owned; the thread's end and tar_feed()'s, -1 once closed */
	pthread_t thread;
	bool running;
	/* of the thread, until it is joined */
	struct tar_entry e;
	uint8_t from[PIECE], data[PIECE];
	int r;
	struct err err;
};

static int bad(struct err *err, const char *why)
{
	return err_tag(err, -EINVAL, ERR_GIT_INVALID_REQUEST, "the archive is damaged: %s",
	               why ? why : "it is not tar");
}

static la_ssize_t on_read(struct archive *a, void *ctx, const void **ret)
{
	struct tar *t = ctx;
	ssize_t n;

	do
		n = recv(t->in, t->from, sizeof(t->from), 0);
	while (n < 0 && errno == EINTR);
	*ret = t->from;
	if (n < 0)
		archive_set_error(a, errno, "%s", err_name(errno));
	return n < 0 ? -1 : n;
}

static int take_text(char dst[PATH_MAX], const char *s, struct err *err)
{
	if (!s)
		return bad(err, "a name cannot be read");
	if (strlen(s) >= PATH_MAX)
		return bad(err, "a name is too long");
	memcpy(dst, s, strlen(s) + 1);
	return 0;
}

/* The content of a file: as much as was announced, holes as zeros. */
static int take_data(struct tar *t, struct archive *a)
{
	uint64_t left = t->e.size;
	int r;

	while (left) {
		la_ssize_t n = archive_read_data(a, t->data, (size_t)MIN(left, (uint64_t)PIECE));

		if (n < 0)
			return bad(&t->err, archive_error_string(a));
		if (n == 0)
			return bad(&t->err, "a file is shorter than its header says");
		r = t->ops->data(t->ctx, t->data, (size_t)n, &t->err);
		if (r < 0)
			return r;
		left -= (uint64_t)n;
	}
	return t->ops->end(t->ctx, &t->err);
}

static int take_entry(struct tar *t, struct archive *a, struct archive_entry *e)
{
	const char *hard = archive_entry_hardlink(e);
	mode_t kind = archive_entry_filetype(e);
	int64_t size = archive_entry_size(e);
	int r;

	t->e = (struct tar_entry){ .type = hard ? TAR_HARDLINK : TAR_LINK };
	if (!hard && kind != AE_IFREG && kind != AE_IFLNK)
		return 0;
	if ((r = take_text(t->e.path, archive_entry_pathname(e), &t->err)) < 0)
		return r;
	if (hard || kind == AE_IFLNK) {
		r = take_text(t->e.target, hard ? hard : archive_entry_symlink(e), &t->err);
		return r < 0 ? r : t->ops->entry(t->ctx, &t->e, &t->err);
	}
	if (size < 0)
		return bad(&t->err, "a file has no size");
	t->e.type = TAR_FILE;
	t->e.size = (uint64_t)size;
	t->e.executable = (archive_entry_perm(e) & 0100) != 0;
	if ((r = t->ops->entry(t->ctx, &t->e, &t->err)) < 0)
		return r;
	return take_data(t, a);
}

static int read_all(struct tar *t, struct archive *a)
{
	struct archive_entry *e;
	int r, k;

	if (archive_read_support_format_tar(a) != ARCHIVE_OK)
		return err_set(&t->err, -ENOMEM, "out of memory");
	if (archive_read_open(a, t, NULL, on_read, NULL) != ARCHIVE_OK)
		return bad(&t->err, archive_error_string(a));
	/* A warning is a name that is not UTF-8 where it should be, or the like: the bytes do. */
	while ((k = archive_read_next_header(a, &e)) == ARCHIVE_OK || k == ARCHIVE_WARN)
		if ((r = take_entry(t, a, e)) < 0)
			return r;
	return k == ARCHIVE_EOF ? 0 : bad(&t->err, archive_error_string(a));
}

static void *tar_main(void *arg)
{
	struct tar *t = arg;
	struct archive *a = archive_read_new();

	t->r = a ? read_all(t, a) : err_set(&t->err, -ENOMEM, "out of memory");
	archive_read_free(a);
	/* Padding behind the end is not asked for by libarchive. */
	while (t->r == 0 && recv(t->in, t->from, sizeof(t->from), 0) > 0)
		;
	shutdown(t->in, SHUT_RDWR);
	return NULL;
}

struct tar *tar_new(const struct tar_ops *ops, void *ctx)
{
	struct tar *t = calloc(1, sizeof(*t));
	int s[2];

	if (!t || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, s) < 0) {
		free(t);
		return NULL;
	}
	t->ops = ops;
	t->ctx = ctx;
	t->in = s[0];
	t->out = s[1];
	t->running = pthread_create(&t->thread, NULL, tar_main, t) == 0;
	return t->running ? t : tar_free(t);
}

/* What the thread found; nothing more is fed. */
static int join(struct tar *t, struct err *err)
{
	if (t->running) {
		shutdown(t->out, SHUT_WR);
		pthread_join(t->thread, NULL);
		t->running = false;
	}
	if (t->r < 0 && err)
		*err = t->err;
	return t->r;
}

struct tar *tar_free(struct tar *t)
{
	if (!t)
		return NULL;
	join(t, NULL);
	close(t->in);
	close(t->out);
	free(t);
	return NULL;
}

int tar_feed(struct tar *t, const uint8_t *p, size_t n, struct err *err)
{
	while (n) {
		ssize_t k = send(t->out, p, n, MSG_NOSIGNAL);

		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0) {
			int e = -errno, r = join(t, err);

			return r < 0 ? r : err_sys(err, e, "read the archive");
		}
		p += k;
		n -= (size_t)k;
	}
	return 0;
}

int tar_finish(struct tar *t, struct err *err)
{
	return join(t, err);
}
