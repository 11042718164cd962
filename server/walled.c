/* SPDX-License-Identifier: Apache-2.0 */
#include "walled.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/log.h"
#include "base/starter.h"
#include "conf.h"
#include "edgehost/edgehost.h"
#include "git/jail.h"
#include "ssh/ssh.h"
#include "walls/walls.h"

/* The directory of a file that is replaced by renaming; "" without a file. */
static void dir_of(const char *file, char *ret, size_t size)
{
	const char *slash = strrchr(file, '/');

	snprintf(ret, size, "%.*s", slash ? (int)MAX(slash - file, 1) : 0, file);
}

int walled_start(const struct conf *c, struct walls_state *ret, struct err *err)
{
	static const struct starter_kind *const kinds[] = { &jail_kind, &program_kind,
		                                            &edgehost_kind, &sshd_kind };
	enum walls_mode mode = walls_parse(c->walls);
	char git[300], logs[sizeof(c->log_file)], keys[sizeof(c->secret_key)];
	struct walls_conf wc = { .mode = mode, .write = { c->data_dir, c->cache_dir } };
	struct jail_rules jr = { .root = git,
		                 .unjailed = c->git_unjailed != 0,
		                 .filter = mode != WALLS_OFF,
		                 .otherwise = mode == WALLS_LOG ? SYSFILTER_LOG : SYSFILTER_EPERM };
	struct program_rules pr = { .write = wc.write, .mode = mode, .qemu = c->qemu };
	size_t n = 2;
	int r;

	dir_of(c->log_file, logs, sizeof(logs));
	if (*logs)
		wc.write[n++] = logs;
	dir_of(c->secret_key, keys, sizeof(keys)); /* made there, and rotated */
	if (*keys)
		wc.write[n++] = keys;
	if (*c->image_dir) /* Landlock lets a file get a second name only between equal places */
		wc.write[n++] = c->image_dir;
	snprintf(git, sizeof(git), "%s/git", c->data_dir);
	if ((r = jail_kind_init(&jr, err)) < 0 || (r = program_kind_init(&pr, err)) < 0 ||
	    (r = edgehost_kind_init(NULL, err)) < 0 || (r = sshd_kind_init(NULL, err)) < 0 ||
	    (r = starter_open(kinds, ARRAY_SIZE(kinds), err)) < 0 ||
	    (r = walls_raise(&wc, ret, err)) < 0)
		return err_wrap(err, r, "walls");
	if (mode == WALLS_ON && ret->landlock)
		log_info("walls: %s", ret->text);
	else
		log_warn("walls: %s", ret->text);
	return 0;
}

int walled_wait(int signals, unsigned timeout_ms)
{
	struct pollfd p[] = { { .fd = signals, .events = POLLIN },
		              { .fd = starter_fd(), .events = POLLIN } };
	int n;

	do
		n = poll(p, ARRAY_SIZE(p), timeout_ms ? (int)timeout_ms : -1);
	while (n < 0 && errno == EINTR);
	if (n > 0 && p[1].revents) {
		log_error("the starter of programs has ended: ending, too");
		_exit(1);
	}
	return n > 0;
}
