/* SPDX-License-Identifier: Apache-2.0 */
/*
 * import_write.c - one commit of many files: git fast-import reads what we write
 *
 * One pack instead of a file per object, and the bytes of a file are never in memory as a whole.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"
#include "base/utf8.h"
#include "git/import.h"

#define STALL_MS 120000
#define FINISH_MS 600000
#define BUFFERED 65536u

struct writer {
	struct child c;
	int in; /* owned */
	struct buf out;
	size_t files;
	uint64_t bytes;
	int64_t room;
};

static int flush(struct writer *w, struct err *err)
{
	size_t at = 0;

	if (w->out.failed)
		return err_set(err, -ENOMEM, "out of memory");
	while (at < w->out.len) {
		ssize_t k;

		if (io_wait(w->in, POLLOUT, deadline_in(STALL_MS)) != 1)
			return err_set(err, -ETIMEDOUT, "git fast-import makes no progress");
		k = write(w->in, w->out.p + at, w->out.len - at);
		if (k < 0 && (errno == EAGAIN || errno == EINTR))
			continue;
		if (k < 0)
			return err_tag(err, -EIO, ERR_GIT_ERROR, "git fast-import has ended early");
		at += (size_t)k;
	}
	buf_reset(&w->out);
	return 0;
}

static int put_done(struct writer *w, struct err *err)
{
	return w->out.len >= BUFFERED || w->out.failed ? flush(w, err) : 0;
}

/* As C would quote it: that is what fast-import reads. */
static void put_path(struct buf *b, const char *path)
{
	buf_put_u8(b, '"');
	for (; *path; path++) {
		if (*path == '"' || *path == '\\')
			buf_put_u8(b, '\\');
		buf_put_u8(b, (uint8_t)*path);
	}
	buf_put_u8(b, '"');
}

static void put_person(struct buf *b, const char *s, const char *def)
{
	for (const char *p = s && *s ? s : def; *p; p++)
		if (!strchr("<>\n\r", *p))
			buf_put_u8(b, (uint8_t)*p);
}

static void put_header(struct repos *g, struct writer *w, const struct import_commit *c)
{
	char mail[192];

	snprintf(mail, sizeof(mail), "noreply@%s",
	         *g->conf.domain ? g->conf.domain : "pando.localhost");
	buf_printf(&w->out, "commit refs/heads/%s\ncommitter ", c->branch);
	put_person(&w->out, c->name, "Pando");
	buf_printf(&w->out, " <");
	put_person(&w->out, c->email, mail);
	buf_printf(&w->out, "> %lld +0000\ndata %zu\n%s\n", (long long)time(NULL),
	           strlen(c->message), c->message);
}

int writer_open(struct repos *g, const char *path, const struct import_commit *c, int64_t room,
                struct writer **ret, struct err *err)
{
	static const char *const argv[] = { GIT_PROGRAM, "fast-import",       "--quiet",
		                            "--done",    "--date-format=raw", NULL };
	struct writer *w = calloc(1, sizeof(*w));
	int p[2], r;

	if (!w)
		return err_set(err, -ENOMEM, "out of memory");
	if (pipe2(p, O_CLOEXEC) < 0) {
		free(w);
		return err_sys(err, -errno, "make a pipe");
	}
	fcntl(p[1], F_SETFL, O_NONBLOCK);
	w->in = p[1];
	w->c = CHILD_NONE;
	w->room = MIN(room, IMPORT_BYTES_MAX);
	r = child_start(g,
	                &(struct child_opts){ .argv = argv,
	                                      .repo = path,
	                                      .in = p[0],
	                                      .out = -1,
	                                      .err = -1,
	                                      .extra = -1,
	                                      .write = true,
	                                      .cpu_s = SERVICE_CPU_S,
	                                      .mem_mb = SERVICE_MB },
	                &w->c, NULL, err);
	close(p[0]);
	if (r < 0) {
		writer_drop(w);
		return r;
	}
	put_header(g, w, c);
	*ret = w;
	return 0;
}

int writer_file(struct writer *w, const char *path, bool executable, bool link, uint64_t size,
                struct err *err)
{
	int r = tree_path_check(path, err);

	if (r < 0)
		return r;
	w->bytes += size;
	if (++w->files > IMPORT_FILES_MAX || w->bytes > (uint64_t)w->room || size > INT64_MAX)
		return err_tag(
		        err, -EDQUOT, ERR_LIMIT_EXCEEDED,
		        "the import has more than %d files, or exceeds the account's storage limit",
		        IMPORT_FILES_MAX);
	buf_printf(&w->out, "M %s inline ", link ? "120000" : executable ? "100755" : "100644");
	put_path(&w->out, path);
	buf_printf(&w->out, "\ndata %llu\n", (unsigned long long)size);
	return put_done(w, err);
}

int writer_data(struct writer *w, const void *p, size_t n, struct err *err)
{
	buf_put(&w->out, p, n);
	return put_done(w, err);
}

int writer_file_end(struct writer *w, struct err *err)
{
	buf_put_u8(&w->out, '\n');
	return put_done(w, err);
}

int writer_copy(struct writer *w, const char *from, const char *to, struct err *err)
{
	int r;

	if ((r = tree_path_check(from, err)) < 0 || (r = tree_path_check(to, err)) < 0)
		return r;
	w->files++;
	buf_printf(&w->out, "C ");
	put_path(&w->out, from);
	buf_put_u8(&w->out, ' ');
	put_path(&w->out, to);
	buf_put_u8(&w->out, '\n');
	return put_done(w, err);
}

size_t writer_count(const struct writer *w)
{
	return w->files;
}

void writer_drop(struct writer *w)
{
	if (!w)
		return;
	if (w->in >= 0)
		close(w->in);
	child_end(&w->c);
	buf_done(&w->out);
	free(w);
}

int writer_close(struct writer *w, struct err *err)
{
	int r, st;

	buf_printf(&w->out, "\ndone\n");
	r = flush(w, err);
	close(TAKE_FD(w->in));
	if (r == 0) {
		st = child_wait(&w->c, deadline_in(FINISH_MS));
		if (st != 0)
			r = err_tag(err, -EINVAL, ERR_GIT_INVALID_REQUEST,
			            "Git cannot commit these files");
	}
	writer_drop(w);
	return r;
}
