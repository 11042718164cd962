/* SPDX-License-Identifier: Apache-2.0 */
/*
 * code_kernel.c - a context's kernel process: start, interrupt, kill, end
 *
 * It leads its own session and has three descriptors from us: pipes as 1 and
 * 2, a socket as 3. Its end is noticed by pidfd; what it wrote until then is still
 * read. The OOM killer takes it first, so that a greedy cell costs only
 * its own variables. If possible it starts warm: a Python kernel is
 * forked by the zygote, a JavaScript one may be the spare (code_zygote.c,
 * code_spare.c).
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/code.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/log.h"

#define NODE "/usr/bin/node"             /* Debian's */
#define NODE_LOCAL "/usr/local/bin/node" /* a current one, if the image has it */
#define PIPE_BYTES (256 << 10)           /* requested; less is fine */
#define VMSTAT_MAX (64u << 10)           /* bytes of /proc/vmstat */

static void env_set(struct code_env *e, const char *kv)
{
	size_t key = (size_t)(strchr(kv, '=') - kv) + 1;

	for (size_t i = 0; i < e->n; i++) {
		if (!strncmp(e->v[i], kv, key)) {
			e->v[i] = (char *)(uintptr_t)kv;
			return;
		}
	}
	e->v[e->n++] = (char *)(uintptr_t)kv;
}

int code_user(const struct code_ctx *x, struct user *ret)
{
	int r = *x->user ? user_find(x->user, ret) : user_find_uid(geteuid(), ret);

	if (r < 0 && !*x->user) {
		*ret = (struct user){ .name = "root", .home = "/", .shell = "/bin/sh" };
		r = 0;
	}
	return r;
}

void code_env_make(const struct code_ctx *x, const struct user *u, struct code_env *ret)
{
	*ret = (struct code_env){ 0 };
	snprintf(ret->home, sizeof(ret->home), "HOME=%s", u->home);
	snprintf(ret->user, sizeof(ret->user), "USER=%s", u->name);
	snprintf(ret->logname, sizeof(ret->logname), "LOGNAME=%s", u->name);
	const char *base[CODE_BASE_ENV] = {
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"LANG=C.UTF-8",
		"PYTHONUNBUFFERED=1",
		"SHELL=/bin/bash",
		ret->home,
		ret->user,
		ret->logname,
		TRUST_ENV
	};
	for (size_t i = 0; i < CODE_BASE_ENV; i++)
		env_set(ret, base[i]);
	for (size_t i = 0; i < x->n_env; i++)
		env_set(ret, x->env[i]);
}

void code_exec(const struct agent *a, uint8_t lang, struct code_env *env)
{
	static const struct {
		const char *program, *file, *option;
	} kernels[AGENT_LANG_END] = {
		[AGENT_LANG_PYTHON] = { "/usr/bin/python3", "python.py", NULL },
		[AGENT_LANG_JAVASCRIPT] = { NODE, "node.mjs", NULL },
		[AGENT_LANG_TYPESCRIPT] = { NODE, "node.mjs", "--typescript" },
		[AGENT_LANG_BASH] = { "/bin/bash", "bash.sh", NULL },
		[AGENT_LANG_RUBY] = { "/usr/bin/ruby", "ruby.rb", NULL }, /* not in the image */
	};
	const char *dir = a->kernels ? a->kernels : CODE_KERNELS;
	char file[PATH_MAX];
	char *argv[] = { (char *)(uintptr_t)kernels[lang].program, file,
		         (char *)(uintptr_t)kernels[lang].option, NULL };

	if (!argv[0])
		_exit(127); /* not a language: a bug */
	snprintf(file, sizeof(file), "%s/%s", dir, kernels[lang].file);
	if (access(file, R_OK) < 0) {
		dprintf(2, "this VM has no kernel %s: %m\n", file);
		_exit(127);
	}
	if (!strcmp(argv[0], NODE)) /* a shell finds that one first, too */
		execve(NODE_LOCAL,
		       (char *[]){ (char *)(uintptr_t)NODE_LOCAL, argv[1], argv[2], NULL }, env->v);
	if (execve(argv[0], argv, env->v) < 0)
		dprintf(2, "run %s: %m%s\n", argv[0],
		        lang == AGENT_LANG_RUBY && errno == ENOENT ? ": install the package ruby"
		                                                   : "");
	_exit(127);
}

/* In the child. */
static void child(struct agent *a, const struct code_ctx *x, struct job_fds *fds, bool warm)
{
	static struct user u;
	static struct code_env env;

	child_setup(a, fds);
	fcntl(fds->result, F_SETFD, 0); /* descriptor 3 */
	if (a->reset_oom) {
		autofd int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

		if (fd < 0 || write(fd, CODE_OOM_SCORE, sizeof(CODE_OOM_SCORE) - 1) < 0)
			dprintf(2, "oom_score_adj: %m\n");
	}
	if (code_user(x, &u) < 0 || (*x->user && user_become(&u) < 0)) {
		dprintf(2, "cannot become user '%s'\n", x->user);
		_exit(126);
	}
	if (chdir(x->cwd) < 0) {
		dprintf(2, "enter directory '%s': %m\n", x->cwd);
		_exit(126);
	}
	code_env_make(x, &u, &env);
	if (warm)
		env_set(&env, "PANDO_KERNEL_WARM=1");
	code_exec(a, x->lang, &env);
}

static int poll_fd(struct agent *a, const struct code_ctx *x, int fd, enum ref_kind kind)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLET,
		                  .data.u64 = (uint64_t)kind << 56 | x->kernel };

	if (kind != REF_CODE_PROC && fcntl(fd, F_SETFL, O_NONBLOCK) < 0)
		return -errno;
	return epoll_ctl(a->ep, EPOLL_CTL_ADD, fd, &ev) < 0 ? -errno : 0;
}

void code_await_room(struct agent *a, struct code_ctx *x, bool await)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLET | (await ? EPOLLOUT : 0),
		                  .data.u64 = (uint64_t)REF_CODE_CTL << 56 | x->kernel };

	if (x->ctl >= 0 && x->awaits_room != await &&
	    epoll_ctl(a->ep, EPOLL_CTL_MOD, x->ctl, &ev) == 0)
		x->awaits_room = await;
}

/* Our ends of its pipes and socket. */
static int adopt_fds(struct agent *a, struct code_ctx *x, int p[3][2])
{
	int r;

	x->ctl = TAKE_FD(p[0][0]);
	x->pipe[AGENT_OUT] = TAKE_FD(p[1][0]);
	x->pipe[AGENT_ERR] = TAKE_FD(p[2][0]);
	if ((r = poll_fd(a, x, x->ctl, REF_CODE_CTL)) < 0 ||
	    (r = poll_fd(a, x, x->pipe[AGENT_OUT], REF_CODE_OUT)) < 0)
		return r;
	return poll_fd(a, x, x->pipe[AGENT_ERR], REF_CODE_ERR);
}

int code_adopt_pid(struct agent *a, struct code_ctx *x, pid_t pid)
{
	x->pid = pid;
	x->pidfd = pidfd_open(pid, 0);
	return x->pidfd < 0 ? -errno : poll_fd(a, x, x->pidfd, REF_CODE_PROC);
}

/* Starts it as our child, by fork and exec. */
static int start_cold(struct agent *a, struct code_ctx *x, int p[3][2], bool warm)
{
	pid_t pid = fork();

	if (pid < 0)
		return -errno;
	if (pid == 0) {
		struct job_fds fds = { -1, p[1][1], p[2][1], p[0][1], -1 };

		child(a, x, &fds, warm);
	}
	return code_adopt_pid(a, x, pid);
}

void code_abandon(struct code_ctx *x)
{
	if (x->pid > 0) {
		code_kill(x);
		while (waitpid(x->pid, NULL, 0) < 0 && errno == EINTR)
			;
		x->pid = 0;
	}
	code_forget_kernel(x);
}

int code_start(struct agent *a, struct code_ctx *x, bool warm)
{
	int p[3][2] = { { -1, -1 }, { -1, -1 }, { -1, -1 } };
	int r = 0;

	code_forget_kernel(x);
	if (spare_take(a, x))
		return 0;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, p[0]) < 0 ||
	    pipe2(p[1], O_CLOEXEC) < 0 || pipe2(p[2], O_CLOEXEC) < 0)
		r = -errno;
	if (r == 0) {
		fcntl(p[1][1], F_SETPIPE_SZ, PIPE_BYTES);
		x->kernel = ++a->next_kernel;
		x->warm = warm;
		if (!zygote_ask(a, x, (int[]){ p[0][1], p[1][1], p[2][1] }, warm))
			r = start_cold(a, x, p, warm);
	}
	if (r == 0)
		r = adopt_fds(a, x, p);
	for (int i = 0; i < 3; i++)
		for (int k = 0; k < 2; k++)
			if (p[i][k] >= 0)
				close(p[i][k]);
	if (r < 0) {
		code_abandon(x);
		return r;
	}
	x->state = AGENT_CODE_STARTING;
	x->ready_by = clock_ms() + CODE_START_MS;
	return 0;
}

void code_kill(struct code_ctx *x)
{
	if (x->pid > 0)
		session_kill(x->pid);
}

/* What a Bash cell does at its own SIGINT trap is left alone for longer. */
static unsigned nudge_ms(const struct code_ctx *x)
{
	return x->lang == AGENT_LANG_BASH ? 1000 : 100;
}

void code_interrupt(struct code_ctx *x)
{
	if (x->pid <= 0 || x->exited || x->done)
		return;
	buf_put(&x->tx, "INT\n", 4);
	x->signal_due = true;
	x->nudges = CODE_NUDGES;
	x->nudge_at = clock_ms() + nudge_ms(x);
}

void code_interrupt_sent(struct code_ctx *x)
{
	if (TAKE(x->signal_due, false) && x->pid > 0)
		kill(-x->pid, SIGINT); /* a busy V8 handles no signals: INT is all it hears of it */
}

/*
 * A signal that comes after Python or Bash looked for one, and before it begins to wait, is seen
 * only when the wait is over. Python then runs its handler when any signal ends the wait, so it
 * gets one that means nothing to the cell; the program that Bash waits for has to be interrupted
 * itself.
 */
void code_nudge(struct code_ctx *x)
{
	x->nudge_at = --x->nudges ? clock_ms() + nudge_ms(x) : 0;
	if (x->pid <= 0 || x->exited)
		return;
	if (x->lang == AGENT_LANG_PYTHON)
		kill(x->pid, SIGURG);
	else if (x->lang == AGENT_LANG_BASH)
		kill(-x->pid, SIGINT);
}

void code_forget_kernel(struct code_ctx *x)
{
	int *fds[] = { &x->pidfd, &x->ctl, &x->pipe[AGENT_OUT], &x->pipe[AGENT_ERR] };

	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		if (*fds[i] >= 0)
			close(TAKE_FD(*fds[i]));
	buf_done(&x->rx);
	buf_done(&x->tx);
	x->tx_off = 0;
	memset(x->readable, 0, sizeof(x->readable));
	x->exited = x->broken = x->killed = x->owing = x->forking = x->awaits_room = false;
	x->state = AGENT_CODE_NONE;
	x->ready_by = x->closed_by = 0;
	x->kernel = 0;
	x->count = 0;
}

void code_on_exit(struct agent *a, struct code_ctx *x)
{
	if (x->pid <= 0 || waitpid(x->pid, &x->wstatus, WNOHANG) != x->pid)
		return;
	x->pid = 0;
	x->exited = true;
	x->closed_by = 0;
	x->owing = false; /* only what is in the pipes now counts */
	for (int i = 0; i < AGENT_CHANS; i++)
		x->readable[i] = true;
}

bool code_oom_happened(struct agent *a)
{
	autofree char *text = NULL;
	const char *p;
	uint64_t n = 0;
	bool more;

	if (io_read_file(AT_FDCWD, "/proc/vmstat", VMSTAT_MAX, &text, NULL) < 0)
		return false;
	p = strstr(text, "\noom_kill ");
	if (p)
		n = strtoull(p + sizeof("\noom_kill ") - 1, NULL, 10);
	more = n > a->oom_kills;
	a->oom_kills = n;
	return more;
}
