/* SPDX-License-Identifier: Apache-2.0 */
/*
 * service.c - upload-pack, receive-pack and archive, fed and read piece by piece
 *
 * A client sends its whole request before it reads an answer. upload-pack's request is short and
 * comes as a file; a push may have any size and goes into a pipe while it arrives, so what
 * receive-pack says meanwhile (progress) is taken out of the other pipe and kept, up to a limit:
 * neither end can wait for the other for ever. Memory is two pipes and that.
 *
 * Two questions need no child: what upload-pack can do (caps.c), and an empty push, with which a
 * client finds out whether its password is taken before it sends a large one. So receive-pack is
 * started when there is more than that.
 *
 * A push whose last byte was passed on is let come to its end even when the client leaves: what Git
 * accepted is told to everyone who wants to know.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"
#include "base/log.h"
#include "git/bounds.h"
#include "git/shared.h"
#include "metrics/metrics.h"

#define KEPT_MAX (1u << 20)  /* of what receive-pack says while it is fed: progress, a few KB */
#define FINISH_MS 600000     /* for a push whose client has left */
#define PIPE_BYTES (1 << 20) /* asked of the kernel; less will do */

#define ARCHIVE_PATHS 1000000 /* files and directories of an archive */

#define FLUSH "0000" /* all that an empty push has */
#define FLUSH_LEN 4u

struct svc {
	struct pack k;
	struct pack_cmd cmd; /* of a push that has not begun */
	bool begun;
	char first[FLUSH_LEN]; /* what came before it began */
	size_t n_first;
	int in, out;     /* owned; our ends */
	struct buf kept; /* said while it was fed */
	size_t kept_at;
	bool fed, over, bad;
	struct repo_drain drain;
};

static struct svc *svc_new(struct repos *g, const struct store_repo *r,
                           const struct repo_client *by)
{
	struct svc *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	pack_init(&s->k, g, r, by);
	s->in = s->out = -1;
	return s;
}

/* Closes what is the child's; ours are in s. */
static int spawn(struct svc *s, const char *const *argv, const char *const *env, int stdin_fd,
                 struct err *err)
{
	struct child_opts o = { .argv = argv,
		                .env = env,
		                .in = stdin_fd,
		                .err = -1,
		                .extra = s->k.note.fd,
		                .talk = hook_fd(s->k.hook),
		                .write = s->k.push,
		                .cpu_s = SERVICE_CPU_S,
		                .mem_mb = SERVICE_MB,
		                .client = s->k.client.holder ? &s->k.client : NULL };
	int in[2] = { -1, -1 }, out[2] = { -1, -1 }, r = 0;
	char path[PATH_MAX];

	repo_path(s->k.g, s->k.repo.id, path);
	o.repo = path;
	if (!s->fed && pipe2(in, O_CLOEXEC) < 0)
		r = err_sys(err, -errno, "make a pipe");
	if (r == 0 && pipe2(out, O_CLOEXEC) < 0)
		r = err_sys(err, -errno, "make a pipe");
	if (r == 0) {
		o.in = in[0] >= 0 ? in[0] : stdin_fd;
		o.out = out[1];
		fcntl(out[0], F_SETFL, O_NONBLOCK);
		fcntl(out[0], F_SETPIPE_SZ, PIPE_BYTES);
		if (in[1] >= 0) {
			fcntl(in[1], F_SETFL, O_NONBLOCK);
			fcntl(in[1], F_SETPIPE_SZ, PIPE_BYTES);
		}
		r = child_start(s->k.g, &o, &s->k.c, NULL, err);
		hook_started(s->k.hook);
	}
	if (in[0] >= 0)
		close(in[0]);
	if (out[1] >= 0)
		close(out[1]);
	s->in = in[1];
	s->out = out[0];
	return r;
}

int svc_start(struct repos *g, const struct store_repo *r, const struct svc_opts *o,
              struct svc **ret, struct err *err)
{
	struct svc *s = svc_new(g, r, o->client);
	int rc;

	if (!s)
		return err_set(err, -ENOMEM, "out of memory");
	if (caps_asked(o)) {
		s->fed = s->over = true;
		rc = shared_ready(g, r, err);
		if (rc == 0)
			rc = caps_get(g, r, &s->kept, err);
	} else {
		rc = pack_prepare(&s->k, o, /* stateless= */ true, &s->cmd, err);
		s->fed = !s->k.push || o->advertise;
		s->begun = s->fed;
		if (rc == 0 && s->begun)
			rc = spawn(s, s->cmd.argv, s->cmd.env, o->stdin_fd, err);
	}
	if (rc < 0) {
		svc_free(s);
		return rc;
	}
	*ret = s;
	return 0;
}

int svc_archive(struct repos *g, const struct store_repo *r, const struct repo_client *by,
                const char *format, const char *rev, struct svc **ret, struct err *err)
{
	const char *argv[] = { GIT_PROGRAM, "archive", NULL, NULL, NULL };
	struct svc *s = svc_new(g, r, by);
	struct bounds b = bounds_begin(by, BOUNDS_MS);
	char how[32], sha[REPO_SHA_SIZE];
	autorepo *repo = NULL;
	autocommit *c = NULL;
	int rc;

	if (!s)
		return err_set(err, -ENOMEM, "out of memory");
	snprintf(how, sizeof(how), "--format=%s", format);
	argv[2] = how;
	argv[3] = sha;
	if ((rc = repo_open(g, r, &repo, err)) == 0 && (rc = rev_commit(repo, rev, &c, err)) == 0 &&
	    (rc = tree_weigh(repo, git_commit_tree_id(c), ARCHIVE_PATHS, &b, err)) == 0) {
		git_oid_tostr(sha, sizeof(sha), git_commit_id(c));
		s->fed = s->begun = true;
		rc = spawn(s, argv, NULL, -1, err);
	}
	if (rc < 0) {
		svc_free(s);
		return rc;
	}
	*ret = s;
	return 0;
}

/* Takes what there is without waiting. */
static int keep(struct svc *s, struct err *err)
{
	uint8_t *p;
	ssize_t n;

	if (s->kept.len >= KEPT_MAX)
		return err_set(err, -EFBIG, "receive-pack printed too much");
	p = buf_reserve(&s->kept, 16384);
	if (!p)
		return err_set(err, -ENOMEM, "out of memory");
	n = read(s->out, p, 16384);
	if (n > 0)
		s->kept.len += (size_t)n;
	if (n == 0) /* it has closed its end: it will read no more */
		return err_set(err, -EPIPE, "Git stopped reading the push");
	return 0;
}

static int feed(struct svc *s, const void *p, size_t n, struct err *err)
{
	const uint8_t *at = p;
	int r = pack_takes(&s->k, n, err);

	if (r < 0)
		return r;
	while (n > 0) {
		struct pollfd f[] = { { .fd = s->in, .events = POLLOUT },
			              { .fd = s->out, .events = POLLIN } };
		ssize_t k;

		if (s->in < 0 || s->over)
			return err_set(err, -EPIPE, "Git stopped reading the push");
		k = write(s->in, at, n);
		if (k > 0) {
			metrics_add(METRIC_GIT_BYTES, LABEL_IN, (uint64_t)k);
			at += k;
			n -= (size_t)k;
			continue;
		}
		if (k < 0 && errno == EPIPE) {
			close(TAKE_FD(s->in));
			return err_set(err, -EPIPE, "Git stopped reading the push");
		}
		if (k < 0 && errno != EAGAIN && errno != EINTR)
			return err_sys(err, -errno, "feed receive-pack");
		r = poll(f, ARRAY_SIZE(f), SERVICE_STALL_MS);
		if (r == 0)
			return err_set(err, -ETIMEDOUT, "receive-pack makes no progress");
		if (r > 0 && f[1].revents && (r = keep(s, err)) < 0)
			return r;
	}
	return 0;
}

static int begin(struct svc *s, struct err *err)
{
	int r = spawn(s, s->cmd.argv, s->cmd.env, -1, err);

	if (r < 0)
		return r;
	s->begun = true;
	return feed(s, s->first, s->n_first, err);
}

int svc_write(struct svc *s, const void *p, size_t n, struct err *err)
{
	int r;

	if (!s->begun && s->n_first + n <= FLUSH_LEN) {
		memcpy(s->first + s->n_first, p, n);
		s->n_first += n;
		return 0;
	}
	if (!s->begun && (r = begin(s, err)) < 0)
		return r;
	return feed(s, p, n, err);
}

int svc_write_end(struct svc *s, struct err *err)
{
	int r = 0;

	if (!s->begun && s->n_first == FLUSH_LEN && memcmp(s->first, FLUSH, FLUSH_LEN) == 0) {
		note_close(&s->k.note);
		s->over = true;
	} else if (!s->begun) {
		r = begin(s, err);
	}
	if (s->in >= 0)
		close(TAKE_FD(s->in));
	s->fed = true;
	return r == -EPIPE ? 0 : r; /* it has its reasons, and tells the client */
}

/* Its output has ended, so it ends; a push is told about before anybody hears of the end. */
static ssize_t at_end(struct svc *s, struct err *err)
{
	int st, r;

	if (!s->over) {
		s->over = true;
		st = child_wait(&s->k.c, deadline_in(SERVICE_STALL_MS));
		s->bad = st != 0;
		r = pack_tell(&s->k, err);
		if (r < 0) /* without an end the client knows that something is wrong */
			return r == -EIO ? -EREMOTEIO : r;
	}
	return s->bad ? err_set(err, -EIO, "git failed") : -ENODATA;
}

unsigned svc_stall_ms(const struct svc *s)
{
	return repos_slow_ms(s->k.g);
}

static ssize_t read_on(struct svc *s, void *p, size_t n, struct err *err)
{
	ssize_t k;

	if (s->kept_at < s->kept.len) {
		k = (ssize_t)MIN(n, s->kept.len - s->kept_at);
		memcpy(p, s->kept.p + s->kept_at, (size_t)k);
		s->kept_at += (size_t)k;
		return k;
	}
	if (s->over)
		return at_end(s, err);
	do
		k = read(s->out, p, n);
	while (k < 0 && errno == EINTR);
	if (k > 0)
		return k;
	if (k < 0)
		return errno == EAGAIN ? 0 : err_sys(err, -errno, "read from git");
	k = at_end(s, err);
	/* receive-pack has told the client itself what it refused. */
	return s->k.push && k == -EIO ? -ENODATA : k;
}

/* Asked for more: the client has taken what there was before. */
ssize_t svc_read(struct svc *s, void *p, size_t n, struct err *err)
{
	int r = drain_look(s->k.g, &s->drain, /* waits= */ false, 0, err);
	ssize_t k = r < 0 ? r : read_on(s, p, n, err);

	if (k > 0)
		metrics_add(METRIC_GIT_BYTES, LABEL_OUT, (uint64_t)k);
	return k > 0 && (r = drain_look(s->k.g, &s->drain, true, (size_t)k, err)) < 0 ? r : k;
}

int svc_fd(struct svc *s)
{
	return s->out;
}

/* Nobody listens any more, but the push is whole. */
static void drain(struct svc *s)
{
	uint64_t deadline = deadline_in(FINISH_MS);
	struct err err = { 0 };
	char sink[16384];
	ssize_t n;

	do {
		n = read_on(s, sink, sizeof(sink), &err);
		if (n == 0 && io_wait(s->out, POLLIN, deadline) != 1)
			break;
	} while (n >= 0);
}

struct svc *svc_free(struct svc *s)
{
	if (!s)
		return NULL;
	if (s->k.c.g && s->k.push && s->fed && !s->over)
		drain(s);
	pack_end(&s->k);
	if (s->in >= 0)
		close(s->in);
	if (s->out >= 0)
		close(s->out);
	buf_done(&s->kept);
	free(s);
	return NULL;
}
