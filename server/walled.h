/* SPDX-License-Identifier: Apache-2.0 */
/* walled.h - pandod's starter and walls, before anything else; for main only */
#pragma once

struct conf;
struct err;
struct walls_state;

/* While there is one thread: forks the starter, which knows what may be started, then puts up the
 * walls. */
int walled_start(const struct conf *c, struct walls_state *ret, struct err *err);
/*
 * Waits for a signal on `signals` (a signalfd) until the deadline: 1, or 0 if none came. Does not
 * return if the starter ends: nothing works without it, and a new one would be born behind the
 * walls. VMs go on, and pando-priv starts a new pandod that finds them.
 */
int walled_wait(int signals, unsigned timeout_ms);
