/* SPDX-License-Identifier: Apache-2.0 */
/* serve.c - upload-pack and receive-pack on descriptors of the caller: for a front that has both
 * directions */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/err.h"
#include "git/git_internal.h"

#define SERVE_MS (6 * 3600 * 1000u) /* of one connection */

int repo_serve(struct repos *g, const struct store_repo *r, const struct wire_opts *o, int in_fd,
               int out_fd, int err_fd, struct err *err)
{
	bool push = o->kind == REPO_RECEIVE_PACK;
	autofd int updates = push ? memfd_create("updates", MFD_CLOEXEC) : -1;
	char path[PATH_MAX], max_input[64], protocol[96];
	const char *argv[] = { GIT_PROGRAM, "-c", max_input, push ? "receive-pack" : "upload-pack",
		               ".",         NULL };
	const char *env[] = { NULL, NULL };
	struct child c = CHILD_NONE;
	int64_t room = INT64_MAX;
	unsigned mark = 0;
	int st;

	if (push && updates < 0)
		return err_sys(err, -errno, "make a file in memory");
	if (push && (st = quota_room(g, r->account, &room, err)) < 0)
		return st;
	snprintf(max_input, sizeof(max_input), "receive.maxInputSize=%lld",
	         room == INT64_MAX ? 0 : (long long)room);
	if (o->protocol && strlen(o->protocol) < 64 &&
	    !o->protocol[strspn(o->protocol, "abcdefghijklmnopqrstuvwxyz0123456789=:.-")]) {
		snprintf(protocol, sizeof(protocol), "GIT_PROTOCOL=%s", o->protocol);
		env[0] = protocol;
	}
	repo_path(g, r->id, path);
	if (push)
		mark = busy_mark(g, r->id);
	st = child_start(g,
	                 &(struct child_opts){ .argv = argv,
	                                       .env = env,
	                                       .repo = path,
	                                       .in = in_fd,
	                                       .out = out_fd,
	                                       .err = err_fd,
	                                       .extra = updates,
	                                       .write = push,
	                                       .cpu_s = SERVICE_CPU_S },
	                 &c, NULL, err);
	if (st == 0) {
		st = child_wait(&c, deadline_in(SERVE_MS));
		if (push)
			push_tell_file(g, r, o->by, updates);
	}
	if (push)
		busy_clear(g, r->id, mark);
	return st;
}
