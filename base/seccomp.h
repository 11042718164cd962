/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base/seccomp.h - lists of allowed system calls, compiled ahead of time
 *
 * A filter is a table of rules and an action for everything else. It is compiled with libseccomp
 * where memory may be allocated, and installed with two plain system calls, so a child between
 * clone() and execve() can do that too. Filters only ever add up: what one refuses, a later one
 * can't allow again.
 */
#pragma once

#include <linux/filter.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

/* What happens to a call that no rule mentions. */
enum sysfilter_default {
	SYSFILTER_KILL,  /* the process ends with SIGSYS and cannot prevent it */
	SYSFILTER_TRAP,  /* SIGSYS, for which sysfilter_report() has a handler */
	SYSFILTER_EPERM, /* the call fails with EPERM */
	SYSFILTER_REST,  /* it is carried out: a list of what is refused */
	SYSFILTER_LOG,   /* it is carried out; the kernel writes it to its audit log */
};

/*
 * One call, or, with a mask, the call if (arguments[arg] & mask) == value; several rules for one
 * call: it is allowed if any of them matches. A name that another architecture has but this one
 * does not is skipped; one that nobody knows is an error.
 */
struct sysfilter_rule {
	const char *name;
	int fail; /* 0: allowed; else the errno it fails with */
	unsigned arg;
	uint64_t mask, value; /* mask 0: whatever the arguments are */
};
/* clang-format off */
#define SYSFILTER_ALLOW(name_) { .name = (name_) }
#define SYSFILTER_FAIL(name_, errno_) { .name = (name_), .fail = (errno_) }
#define SYSFILTER_IF(name_, arg_, mask_, value_) \
	{ .name = (name_), .arg = (arg_), .mask = (mask_), .value = (value_) }
/* clang-format on */

struct sysfilter {
	struct sock_fprog prog; /* .filter is owned */
};
#define SYSFILTER_NONE ((struct sysfilter){ { 0, NULL } })

/*
 * Compiles the rules, for the architecture this runs on; calls of any other end the process. Calls
 * that are newer than libseccomp fail with ENOSYS, so that a newer libc falls back to older ones
 * (not with SYSFILTER_REST).
 */
int sysfilter_build(const struct sysfilter_rule *rules, size_t n, enum sysfilter_default otherwise,
                    struct sysfilter *ret, struct err *err);
void sysfilter_free(struct sysfilter *f);
/*
 * From here on, and in all children; system calls only. Sets no_new_privs. threads: for all threads
 * of the process, else for the calling one and those it starts. 0 or -errno.
 */
int sysfilter_install(const struct sysfilter *f, bool threads);
/* Whether the kernel has such filters. */
bool sysfilter_available(void);
/*
 * For SYSFILTER_TRAP: a handler of SIGSYS that writes "who: system call 'mount' (165) is not
 * allowed" to fd and ends the process by SIGSYS. who is static.
 */
int sysfilter_report(const char *who, int fd);
/* The name of a system call, or "unknown". Usable in signal handlers after sysfilter_report(). */
const char *sysfilter_call_name(int nr);
