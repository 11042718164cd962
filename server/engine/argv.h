/* SPDX-License-Identifier: Apache-2.0 */
/* engine/argv.h - QEMU's command line, a pure function of the spec (tested against golden files)
 */
#pragma once

#include <stddef.h>

#include "engine/engine.h"

struct argv_spec {
	enum accel accel;
	const char *machine, *cpu; /* of engine_info */
	uint32_t vcpus, mem_mb;
	bool thaw; /* -incoming defer */
	bool tap;
	bool seed;                /* it may become one */
	int fd_qmp, fd_agent;     /* listening sockets */
	int fd_console;           /* file */
	int fd_kernel, fd_initrd; /* -1 when thawing */
	uint32_t boot_vcpus;      /* that the kernel starts by itself; 0: all */
	uint32_t tsc_khz;         /* of the host; 0: the guest measures it itself */
};

#define ARGV_DISK_DEVICE "disk" /* id of the virtio disk */
#define ARGV_NO_DISK "no-disk"  /* its node until the real disk is attached */

#define ARGV_MAX 240 /* PRIV_ARGV_MAX leaves room for what pando-priv adds */
struct argv {
	char *v[ARGV_MAX + 1]; /* owned words, NULL-terminated */
	size_t n;
};
int argv_build(const struct argv_spec *s, struct argv *ret, struct err *err);
void argv_done(struct argv *a);

/* The -machine and -cpu arguments that go with an accelerator. */
const char *argv_machine(enum accel a);
/* Of so much memory that machine has so much below 4 GiB, in MB; the rest begins there. */
uint32_t argv_low_mb(uint32_t mem_mb);
const char *argv_shape(enum accel a); /* the parts that a frozen state is tied to */
const char *argv_cpu(enum accel a);
/* The kernel's command line on a cold boot. */
const char *argv_cmdline(enum accel a);
/* The first arguments of every QEMU process, including the probe's. */
extern const char *const argv_common[];
