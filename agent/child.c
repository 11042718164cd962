/* SPDX-License-Identifier: Apache-2.0 */
/* child.c - in a child of the agent: report the result, change the user */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/err.h"
#include "base/io.h"

void child_finish(const struct job_fds *fds, int err_no, uint16_t tag, const char *msg,
                  const void *body, size_t n)
{
	struct agent_result m = {
		.status = (uint32_t)err_no, .tag = tag, .msg = msg, .body = body, .body_len = n
	};
	struct buf b = { 0 };

	agent_result_put(&b, &m);
	if (b.failed || io_write_all(fds->result, b.p, b.len) < 0)
		_exit(1);
	_exit(0);
}

void child_fail(const struct job_fds *fds, int err_no, uint16_t tag, const char *fmt, ...)
{
	char msg[AGENT_MSG_MAX];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(msg, sizeof(msg), fmt, ap);
	va_end(ap);
	child_finish(fds, err_no, tag, msg, NULL, 0);
}

void child_become(const struct job_fds *fds, const char *name, struct user *ret)
{
	int r;

	if (!*name) {
		if (user_find_uid(geteuid(), ret) < 0)
			*ret = (struct user){ .name = "root", .home = "/", .shell = "/bin/sh" };
		return;
	}
	r = user_find(name, ret);
	if (r == -ENOENT)
		child_fail(fds, ENOENT, AGENT_TAG_USER_NOT_FOUND,
		           "there is no user '%s' in this VM", name);
	if (r == 0)
		r = user_become(ret);
	if (r < 0)
		child_fail(fds, -r, AGENT_TAG_NONE, "become user '%s': %s", name, err_name(r));
}
