/* SPDX-License-Identifier: Apache-2.0 */
/* priv/spawn.h - start one QEMU in its jail */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/proc.h"

struct err;
struct jail;
struct priv_req;

#define SPAWN_FDS_MAX 40  /* PRIV_SPAWN_FDS_MAX of privc.h */
#define SPAWN_FD_HOLD 8   /* of a seed: seedns.h */
#define SPAWN_FD_TAP 9    /* PRIV_TAP_FD of privc.h */
#define SPAWN_FD_FIRST 10 /* PRIV_FD_FIRST of privc.h */

struct spawn {
	const struct jail *jail;
	bool seed;                  /* may be forked: seedns.h */
	const struct priv_req *req; /* checked by spawn_check() */
	uid_t uid;                  /* also the gid; never 0 */
	int log_fd;                 /* borrowed, all descriptors */
	const int *fds;
	size_t n_fds;
	int tap_fd;    /* -1: none */
	int cgroup_fd; /* -1: none */
	/*
	 * Called while the child waits: must record the process for a later
	 * start. On failure the child ends without having run anything.
	 */
	int (*record)(const struct proc *p, void *ctx, struct err *err);
	void *ctx;
};

/* Arguments and variables that a jailed QEMU must not get: -EPERM. */
int spawn_check(const struct priv_req *req, struct err *err);
/* On success QEMU has been started (it may still fail by itself); the process is our child. */
int spawn_run(const struct spawn *s, struct proc *ret, struct err *err);
