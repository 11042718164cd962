/* SPDX-License-Identifier: Apache-2.0 */
/*
 * priv/jail.h - the file system of a jailed QEMU
 *
 * Assembled once: a mount namespace whose root is a small read-only tmpfs with
 * read-only binds of QEMU, its libraries and firmware. A spawn enters it,
 * makes a private copy and adds proc: spawn.c.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>

struct err;
struct instance;

#define JAIL_LAYERS "/usr/lib/pando/libpando-layers.so" /* where the layer library is in a jail */

struct jail {
	int mnt;             /* owned: mount namespace without /dev/kvm */
	int mnt_kvm;         /* owned: with it; -1: this host has none that can be opened */
	char qemu[PATH_MAX]; /* path inside the jail */
	bool layers;         /* JAIL_LAYERS exists */
	int users;           /* owned: user namespace of seeds, seedns.h; -1: none */
};
#define JAIL_NONE ((struct jail){ .mnt = -1, .mnt_kvm = -1, .users = -1 })

/* qemu: absolute path; layers: path or NULL. Must be called before the first thread is started. */
int jail_open(const struct instance *in, const char *qemu, const char *layers, struct jail *ret,
              struct err *err);
void jail_close(struct jail *j);
