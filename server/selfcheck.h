/* SPDX-License-Identifier: Apache-2.0 */
/* selfcheck.h - creates, uses and forks a VM once at start and prints the times */
#pragma once

struct err;
struct vmm;

/* Creates a VM, runs a Python line in it, forks it, deletes both. Prints figures to stdout. */
int selfcheck_run(struct vmm *m, const char *account, struct err *err);
