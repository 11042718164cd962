/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_vmm.h - vm.h and the part of guest.h that handlers call, in memory
 *
 * VMs are rows, their guest is one table of files. Commands are scripted by name:
 *   "echo TEXT"   prints TEXT and ends with 0      "fail"    stderr and 3
 *   "binary"      prints bytes that are not UTF-8   "block"   waits until fake_release() or its
 * timeout "reset"       the connection ends (-ECONNRESET) "whoami"      prints the user of the
 * request
 *   "journalctl ..." prints what fake_journal() was given
 * Creating a VM with the name "slow" waits as "block" does.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct vmm;

struct vmm *fake_vmm_new(void);
struct vmm *fake_vmm_free(struct vmm *m);
/* Ends every "block"; waits for none. */
void fake_release(struct vmm *m);
/* How many commands block right now. */
unsigned fake_blocked(struct vmm *m);
/* The next n guest calls fail with -ECONNRESET. */
void fake_reset_next(struct vmm *m, unsigned n);
/* How often a guest was asked for. */
unsigned fake_wakes(struct vmm *m);
/* A file of n bytes, each (i * 31) & 0xff. */
void fake_file(struct vmm *m, const char *path, const void *p, size_t n);
const unsigned char *fake_file_data(struct vmm *m, const char *path, size_t *ret_n);
/* What journalctl prints in every guest, and the last command that asked: fake_journal.c. */
void fake_journal(const char *text);
const char *fake_journal_command(void);
bool fake_journal_reply(const char *command, char **ret_out, size_t *ret_n);

/* Compiled with FAKE_REAL_GUEST: whoever links it says which guest every VM has. */
struct guest;
struct err;
#ifdef FAKE_REAL_GUEST
int fake_guest(struct guest **ret, struct err *err);
#endif
