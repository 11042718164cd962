/* SPDX-License-Identifier: Apache-2.0 */
/* vm/freed.h - memory that guests have freed (freed.c); for vm/ only, by way of vm_internal.h */
#pragma once

#include <stdint.h>

struct err;
struct vm;

#define NOTES_MAX 64 /* kernels whose notes are remembered; others are asked again */

struct kernel_notes {
	struct {
		char boot_id[40];
		uint64_t addr; /* 0: it has none */
	} n[NOTES_MAX];
	size_t next;
};

/* Of one VM. */
struct vm_freed {
	char boot_id[40]; /* of its guest's kernel, as it says; vm->lock */
	uint64_t cpu_us;  /* of QEMU, at history.c's last look; m->lock, as what follows */
	float cpu;        /* percent of a processor, between the last two */
	uint64_t swept_cpu_us, swept_ms; /* at freed.c's last look */
};

/* All with vm->lock held. Asks the guest, if nobody has asked its kernel yet. */
void vm_learn_note(struct vm *vm);
/* What is known of it, for machine_freeze(); 0: nothing, or the agent does not answer for it. */
uint64_t vm_note(struct vm *vm);
/* It runs: what its guest has freed goes back to the host. 0, too, if that cannot be known. */
int vm_sweep(struct vm *vm, struct err *err);
void vm_look_at_freed(struct vm *vm); /* keeper */
/* After a machine was stopped, and something failed: it goes on, or it is ended. vm_freeze.c */
void vm_go_on(struct vm *vm);
