/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shared_hook.c - a push by git is stored before its references move
 *
 * receive-pack runs pre-receive when all objects are in their quarantine and are known to be whole.
 * It has written to the note what is to move; then it says in which directory the objects are and
 * waits for an answer (jail.c has its text). A thread of each push stores it and answers "ok", or a
 * sentence that the client gets to read, and then nothing moves. It keeps the slot until
 * post-receive says that references have moved, or the child ends, and looks whether they did.
 *
 * What the child says is not believed more than before: it could always move the references of its
 * own repository, and does no more than that.
 */
#include "git/shared.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"

#define QUARANTINE "tmp_objdir-"
#define LINE_MAX_BYTES 128

struct push_hook {
	struct repos *g;
	struct store_repo repo;
	const struct note *note; /* weak */
	int ours, theirs;        /* owned */
	pthread_t thread;
	bool behind; /* it was stored, and references may not have moved */
};

/* One line without its end; 0: it ends before that. */
static int read_line(int fd, char ret[LINE_MAX_BYTES])
{
	size_t n = 0;

	for (;;) {
		ssize_t k = read(fd, ret + n, 1);

		if (k < 0 && errno == EINTR)
			continue;
		if (k <= 0 || n == LINE_MAX_BYTES - 1)
			return 0;
		if (ret[n] == '\n')
			break;
		n++;
	}
	ret[n] = '\0';
	return 1;
}

static void answer(int fd, const char *text)
{
	char line[sizeof(((struct err *)0)->msg) + 2];
	int n = snprintf(line, sizeof(line) - 1, "%s", text);

	n = MIN(n, (int)sizeof(line) - 2);
	for (int i = 0; i < n; i++)
		if ((unsigned char)line[i] < ' ')
			line[i] = ' ';
	line[n++] = '\n';
	(void)!send(fd, line, (size_t)n, MSG_NOSIGNAL);
}

static bool good_quarantine(const char *name)
{
	return !*name || (strncmp(name, QUARANTINE, strlen(QUARANTINE)) == 0 &&
	                  !strchr(name, '/') && strlen(name) < 64);
}

/* All of them are where they were to go. */
static bool have_moved(struct push_hook *h, const struct repo_update *u, size_t n)
{
	char path[PATH_MAX];
	autorepo *repo = NULL;
	bool all = true;

	repo_path(h->g, h->repo.id, path);
	if (git_repository_open_bare(&repo, path) < 0)
		return false;
	for (size_t i = 0; all && i < n; i++) {
		git_oid to, now;
		bool there = git_reference_name_to_id(&now, repo, u[i].ref) == 0;

		all = git_oid_fromstr(&to, u[i].new_sha) == 0 &&
		      (git_oid_is_zero(&to) ? !there : there && git_oid_equal(&now, &to));
	}
	return all;
}

/* 0: it is stored, and the child was told so. */
static int store_push(struct push_hook *h, const char *quarantine, struct repo_update **u,
                      size_t *n, struct slot **ret)
{
	struct err err = { 0 };
	int r;

	if (!good_quarantine(quarantine))
		r = err_set(&err, -EINVAL, "the push cannot be checked");
	else if ((r = note_moves(h->note, u, n, &err)) == 0 &&
	         (r = slot_take(h->g, h->repo.id, ret, &err)) == 0)
		r = slot_write(*ret, quarantine, *u, *n, &err);
	if (r < 0)
		log_info("repository %s: a push was not stored: %s", h->repo.id, err.msg);
	answer(h->ours, r < 0 ? err.msg : "ok");
	return r;
}

static void *hook_main(void *arg)
{
	struct push_hook *h = arg;
	autofree struct repo_update *u = NULL;
	char line[LINE_MAX_BYTES];
	struct slot *s = NULL;
	struct err err = { 0 };
	size_t n = 0;

	if (read_line(h->ours, line) && store_push(h, line, &u, &n, &s) == 0) {
		read_line(h->ours, line); /* they have moved, or it has ended */
		if (have_moved(h, u, n) &&
		    repo_flush(h->g, h->repo.id, h->note->since_s, u, n, &err) == 0)
			slot_moved(s);
		else
			h->behind = true;
	}
	slot_give(s);
	return NULL;
}

int hook_start(struct repos *g, const struct store_repo *r, const struct note *note,
               struct push_hook **ret, struct err *err)
{
	struct push_hook *h;
	int fds[2], rc;

	*ret = NULL;
	if (!is_shared(g))
		return 0;
	h = calloc(1, sizeof(*h));
	if (!h)
		return err_set(err, -ENOMEM, "out of memory");
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0) {
		free(h);
		return err_sys(err, -errno, "make a socket");
	}
	*h = (struct push_hook){
		.g = g, .repo = *r, .note = note, .ours = fds[0], .theirs = fds[1]
	};
	rc = pthread_create(&h->thread, NULL, hook_main, h);
	if (rc) {
		close(fds[0]);
		close(fds[1]);
		free(h);
		return err_sys(err, -rc, "start a thread");
	}
	*ret = h;
	return 0;
}

int hook_fd(const struct push_hook *h)
{
	return h ? h->theirs : -1;
}

void hook_started(struct push_hook *h)
{
	if (h && h->theirs >= 0)
		close(TAKE_FD(h->theirs));
}

struct push_hook *hook_end(struct push_hook *h)
{
	struct slot *s = NULL;
	struct err err = { 0 };

	if (!h)
		return NULL;
	hook_started(h);
	shutdown(h->ours, SHUT_RDWR); /* what was said before that is still read */
	pthread_join(h->thread, NULL);
	/* What is stored has happened: it is told like any push. */
	if (h->behind && slot_take(h->g, h->repo.id, &s, &err) < 0)
		log_warn("repository %s: %s", h->repo.id, err.msg);
	slot_give(s);
	close(h->ours);
	free(h);
	return NULL;
}
