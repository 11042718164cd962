/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ready_main.c - in a preloaded shell: waits before main() for a request
 *
 * Preloaded into /bin/sh by ready.c. The loader and the C library have done their work when
 * main() would be called; here it is called later, with the arguments, the environment, the account
 * and the descriptors of the request. /proc/PID/cmdline and environ are updated, so that
 * nothing distinguishes this shell from one that was started with them.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/ready.h"
#include "base/auto.h"

typedef int main_fn(int argc, char **argv, char **envp);
typedef int start_fn(main_fn *main, int argc, char **argv, void (*init)(void), void (*fini)(void),
                     void (*rtld_fini)(void), void *stack_end);
start_fn __libc_start_main; /* NOLINT(bugprone-reserved-identifier): the C library's name */

static main_fn *shell_main;
static struct exec_account who;
static struct timespec who_times[3];
static struct exec_image image;
static struct agent_exec_req req;
static uint8_t request[READY_REQ_MAX + 1];
/* What ps and /proc show: arguments, then environment. The kernel requires an anonymous mapping.
 */
static char *shown;
#define SHOWN_SIZE ((size_t)2 * READY_REQ_MAX)

/* The files of an account; it is looked up again if one of them has changed. */
static void account_times(struct timespec ret[3])
{
	static const char *const files[3] = { "/etc/passwd", "/etc/group",
		                              "/opt/nvm/alias/default" };

	for (size_t i = 0; i < 3; i++) {
		struct stat st;

		ret[i] = stat(files[i], &st) == 0 ? st.st_ctim : (struct timespec){ 0 };
	}
}

/* The request, and the input if there is one. */
static ssize_t receive(int *ret_in)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))];
	struct iovec iov = { request, sizeof(request) };
	struct msghdr m = { .msg_iov = &iov,
		            .msg_iovlen = 1,
		            .msg_control = control,
		            .msg_controllen = sizeof(control) };
	struct cmsghdr *c;
	ssize_t n;

	do {
		n = recvmsg(READY_FD, &m, MSG_CMSG_CLOEXEC);
	} while (n < 0 && errno == EINTR);
	if (n <= 0 || (m.msg_flags & (MSG_TRUNC | MSG_CTRUNC)))
		return -1;
	c = CMSG_FIRSTHDR(&m);
	*ret_in = -1;
	if (c && c->cmsg_type == SCM_RIGHTS)
		memcpy(ret_in, CMSG_DATA(c), sizeof(int));
	return n;
}

static char *copy_strings(char *at, char **v)
{
	for (; *v; v++) {
		size_t n = strlen(*v) + 1;

		if (n > (size_t)(shown + SHOWN_SIZE - at))
			return NULL;
		memcpy(at, *v, n);
		*v = at;
		at += n;
	}
	return at;
}

/* The stack, where the first ones are, is above: the start has to move before the end. */
static void show(void)
{
	char *args = shown, *env = copy_strings(args, image.argv);
	char *end = env ? copy_strings(env, image.env) : NULL;

	if (!end)
		return; /* too long */
	prctl(PR_SET_MM, PR_SET_MM_ARG_START, args, 0, 0);
	prctl(PR_SET_MM, PR_SET_MM_ARG_END, env, 0, 0);
	prctl(PR_SET_MM, PR_SET_MM_ENV_START, env, 0, 0);
	prctl(PR_SET_MM, PR_SET_MM_ENV_END, end, 0, 0);
}

static int wait_then_main(int argc, char **argv, char **envp)
{
	const struct job_fds at = { 0, 1, 2, READY_RESULT_FD, -1 };
	struct timespec times[3];
	struct rd c;
	ssize_t n;
	int in;

	(void)argc, (void)argv, (void)envp;
	fcntl(READY_FD, F_SETFD, FD_CLOEXEC);
	fcntl(READY_RESULT_FD, F_SETFD, FD_CLOEXEC);
	shown = mmap(NULL, SHOWN_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (shown == MAP_FAILED)
		_exit(126);
	account_times(who_times);
	exec_account(&at, "", &who);
	if (send(READY_FD, "r", 1, MSG_NOSIGNAL) != 1 || (n = receive(&in)) < 0)
		_exit(0); /* the agent has ended, or no longer needs this shell */
	if (in >= 0 && (dup2(in, 0) < 0 || close(in) < 0))
		_exit(126);
	c = rd_of(request, (size_t)n);
	if (agent_exec_req_get(&c, &req) < 0)
		child_fail(&at, EBADMSG, AGENT_TAG_BAD_REQUEST, "malformed exec request");
	account_times(times);
	if (memcmp(times, who_times, sizeof(times)) != 0)
		exec_account(&at, "", &who);
	exec_prepare(&at, &req, &who, &image);
	show();
	close(READY_FD);
	close(READY_RESULT_FD); /* it runs */
	environ = image.env;
	return shell_main(3, image.argv, image.env);
}

__attribute__((visibility("default"))) int __libc_start_main(main_fn *main, int argc, char **argv,
                                                             void (*init)(void), void (*fini)(void),
                                                             void (*rtld_fini)(void),
                                                             void *stack_end)
{
	start_fn *start = (start_fn *)(uintptr_t)dlsym(RTLD_NEXT, "__libc_start_main");

	if (!start)
		_exit(127);
	shell_main = main;
	return start(wait_then_main, argc, argv, init, fini, rtld_fini, stack_end);
}
