/* SPDX-License-Identifier: MIT */
/*
 * qemu.h - a real QEMU under the library, with a tiny guest
 *
 * The guest is a BIOS image that counts: it adds one to each 16-bit word of [GUEST_FROM, GUEST_TO),
 * over and over. No kernel is needed, and memory changes all the time while it runs.
 */
#ifndef TESTS_LAYERS_QEMU_H
#define TESTS_LAYERS_QEMU_H

#include "rig.h"

#define GUEST_FROM 0x10000u
#define GUEST_TO 0x90000u

struct qemu {
	struct rig rig;
	int qmp_fd; /* owned */
	char buf[65536];
	size_t have;
	int bios_fd, dump_fd; /* owned */
	char dump_path[40];   /* of dump_fd, for a QEMU that may not look into /proc; "": it may */
};

struct qemu_opts {
	const char *so, *binary;
	uint64_t mem_bytes;
	bool incoming;           /* -incoming defer */
	const char *const *more; /* further arguments, NULL-terminated; or NULL */
};

/* Stopped (-S), connected to both sockets. */
void qemu_start(struct qemu *q, const struct qemu_opts *opts);
/* Reads the greeting of q->qmp_fd and answers it. */
void qemu_greet(struct qemu *q);
/* The guest as a BIOS image: a file in memory, owned by the caller. */
int qemu_bios(void);
void qemu_stop(struct qemu *q);
/* Send a command (a JSON object), give the answer; dies on an error or at the deadline. */
const char *qemu_qmp(struct qemu *q, const char *command, int fd);
/* Guest memory as QEMU itself sees it; malloc'ed. */
uint8_t *qemu_memory(struct qemu *q);

#endif
