/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spawn.c - a process for each connection: pando-ssh
 *
 * It is started with one socket and nothing else (base/helper.h) and told the host keys. Setting up
 * its libraries and walls takes longer than a login, so there is a spare one that has done that
 * and waits for a client; each connection that takes it starts the next. One that ended while it
 * waited is replaced.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/helper.h"
#include "base/io.h"
#include "base/sock.h"
#include "base/starter.h"
#include "ssh/ssh_internal.h"

#define PROGRAM "pando-ssh"
#ifdef LOCK_CHECK /* a build with a sanitizer */
#define READY_MS 60000
#else
#define READY_MS 15000 /* for the first process to start */
#endif

/* ---- for the starter, and in the child ---- */

static char program[512];

static const char *check(const struct starter_job *j, uint64_t *ret_flags)
{
	*ret_flags = 0;
	return helper_check(j, program);
}

static const char *run(struct starter_job *j)
{
	return helper_exec(j, PROGRAM);
}

const struct starter_kind sshd_kind = { "ssh", NULL, check, run };

int sshd_kind_init(const char *path, struct err *err)
{
	if (!path)
		return helper_find(PROGRAM, program, sizeof(program), err);
	snprintf(program, sizeof(program), "%s", path);
	return 0;
}

/* ---- in the parent ---- */

static int send_start(struct sshd *d, int sock, struct err *err)
{
	struct sshw_msg m = { .kind = SSHW_START,
		              .version = SSHW_VERSION,
		              .log_level = LOG_LV_INFO,
		              .n_keys = SSHD_KEYS };
	autobuf struct buf b = { 0 };
	int r;

	for (unsigned i = 0; i < SSHD_KEYS; i++)
		m.keys[i] = (struct sshw_text){ d->keys[i], strlen(d->keys[i]) };
	r = sshw_encode(&m, &b, err);
	if (r == 0 && send(sock, b.p, b.len, MSG_NOSIGNAL) < 0)
		r = err_sys(err, -errno, "SSH: send the settings");
	if (b.p)
		explicit_bzero(b.p, b.len);
	return r;
}

static int start(struct sshd *d, struct speaker *ret, struct err *err)
{
	autofd int ours = -1, theirs = -1, out = -1, in = -1;
	int pair[2], errs[2], r;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_sys(err, -errno, "SSH: make a socket");
	ours = pair[0];
	theirs = pair[1];
	if (pipe2(errs, O_CLOEXEC) < 0)
		return err_sys(err, -errno, "SSH: make a pipe");
	out = errs[0];
	in = errs[1];
	if (fcntl(ours, F_SETFL, O_NONBLOCK) < 0 || fcntl(out, F_SETFL, O_NONBLOCK) < 0)
		return err_sys(err, -errno, "SSH: prepare a socket");
	setsockopt(ours, SOL_SOCKET, SO_SNDBUF, &(int){ SSHW_UNREAD }, sizeof(int));
	setsockopt(theirs, SOL_SOCKET, SO_SNDBUF, &(int){ SSHW_SNDBUF }, sizeof(int));
	if ((r = send_start(d, ours, err)) < 0 ||
	    (r = helper_start(sshd_kind.name, program, SSHD_NOFILE, theirs, in, &ret->proc, err)) <
	            0)
		return r;
	ret->ready = false;
	ret->sock = TAKE_FD(ours);
	ret->errs = TAKE_FD(out);
	return 0;
}

void speaker_end(struct speaker *p, unsigned ms, char how[64])
{
	int st = 0;
	pid_t pid;

	how[0] = '\0';
	if (p->proc.pid > 0) {
		bool killed = proc_wait_end(&p->proc, deadline_in(ms)) <= 0;

		if (killed)
			proc_kill(&p->proc, SIGKILL);
		do
			pid = waitpid(p->proc.pid, &st, 0);
		while (pid < 0 && errno == EINTR);
		if (pid < 0)
			snprintf(how, 64, "was lost");
		else if (WIFSIGNALED(st) && !killed)
			snprintf(how, 64, "was ended by signal %d", WTERMSIG(st));
		else if (WIFEXITED(st) && WEXITSTATUS(st))
			snprintf(how, 64, "ended with %d", WEXITSTATUS(st));
	}
	proc_close(&p->proc);
	if (p->sock >= 0)
		close(p->sock);
	if (p->errs >= 0)
		close(p->errs);
	*p = SPEAKER_NONE;
}

int speaker_take(struct sshd *d, struct speaker *ret, struct err *err)
{
	char how[64];

	mutex_lock(&d->lock);
	*ret = d->spare;
	d->spare = SPEAKER_NONE;
	mutex_unlock(&d->lock);
	if (ret->proc.pid > 0 && proc_alive(&ret->proc))
		return 0;
	speaker_end(ret, 0, how);
	if (*how)
		log_warn("SSH: a process that waited for a client %s", how);
	return start(d, ret, err);
}

void speaker_prepare(struct sshd *d)
{
	struct speaker p = SPEAKER_NONE;
	struct err err = { 0 };
	char how[64];

	mutex_lock(&d->lock);
	if (d->stopping || d->preparing || d->spare.proc.pid > 0) {
		mutex_unlock(&d->lock);
		return;
	}
	d->preparing = true;
	mutex_unlock(&d->lock);
	if (start(d, &p, &err) < 0)
		log_warn("%s", err.msg);
	mutex_lock(&d->lock);
	d->preparing = false;
	if (d->spare.proc.pid <= 0) {
		d->spare = p;
		p = SPEAKER_NONE;
	}
	mutex_unlock(&d->lock);
	speaker_end(&p, 0, how);
}

/* What the first process says when it does not come up, for the log. */
static void last_words(struct speaker *p)
{
	char text[512];
	ssize_t n = io_wait(p->errs, POLLIN, deadline_in(1000)) > 0
	                    ? read(p->errs, text, sizeof(text) - 1)
	                    : 0;

	if (n <= 0)
		return;
	text[n] = '\0';
	text[strcspn(text, "\n")] = '\0';
	log_error("pando-ssh: %s", text);
}

static int hear_ready(struct speaker *p, struct err *err)
{
	uint8_t packet[64];
	struct sshw_msg m;
	ssize_t n = io_wait(p->sock, POLLIN, deadline_in(READY_MS)) > 0
	                    ? recv(p->sock, packet, sizeof(packet), MSG_DONTWAIT)
	                    : 0;

	if (n <= 0 || sshw_decode(packet, (size_t)n, SSHW_CHILD, &m, err) < 0 ||
	    m.kind != SSHW_READY)
		return err_set(err, -EIO, "SSH: pando-ssh does not start; the log says why");
	if (m.version != SSHW_VERSION)
		return err_set(err, -EPROTO,
		               "pando-ssh speaks version %u of the protocol, not %u: install Pando "
		               "again",
		               m.version, SSHW_VERSION);
	p->ready = true;
	return 0;
}

int speaker_try(struct sshd *d, struct err *err)
{
	struct speaker p = SPEAKER_NONE;
	int r = start(d, &p, err);
	char how[64];

	if (r == 0 && (r = hear_ready(&p, err)) < 0)
		last_words(&p);
	if (r < 0) {
		speaker_end(&p, 0, how);
		return r;
	}
	mutex_lock(&d->lock);
	d->spare = p;
	mutex_unlock(&d->lock);
	return 0;
}
