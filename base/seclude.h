/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base/seclude.h - what a process gives up that parses what strangers send
 *
 * pando-edge and pando-ssh are handed all they need: sockets. So they can do without making
 * sockets, opening files and starting programs, and their lists of system calls have none of the
 * calls for that. Namespaces are a second wall behind it: an empty root, a network without
 * interfaces; sockets that were made elsewhere keep theirs.
 *
 * A new call in a library or libc shows as "system call '...' is not allowed" in the log, and as a
 * process that ends with signal 31: it belongs in the list of that program, with a reason if it
 * could be used to reach something.
 */
#pragma once

#include <stddef.h>

struct err;
struct sysfilter_rule;

/*
 * seclude_begin() - before the first byte of pandod's is read; libraries have read their settings
 * Should:  become what the host kills first, take no traces, leave the host's file systems, network
 *          and other namespaces where the kernel lets it, drop capabilities
 * Mustn't: fail where a kernel or a container does not have one of these; it is logged
 */
void seclude_begin(void);
/*
 * seclude_close() - before the first byte of a stranger
 * Should:  bound the memory (0: no limit), allow the system calls of the list, and tgkill() of
 *          itself, by which abort() ends it. who is static
 * Mustn't: go on without the filter
 */
int seclude_close(const char *who, const struct sysfilter_rule *rules, size_t n, unsigned mem_mb,
                  struct err *err);
