/* SPDX-License-Identifier: Apache-2.0 */
/* cli/ssh.h - how OpenSSH's programs are told where to go and who we are; for cli/ */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* ssh asks this program for the password: then it says it and is done. True: it was that. */
bool ssh_answer(int argc);

/* "http://host:8787/x" and "0.0.0.0:2222" -> "host", 2222. false: one of them makes no sense. Pure.
 */
bool ssh_where(const char *url, const char *listen, char *ret_host, size_t size,
               unsigned *ret_port);
/* The path behind "VM:", or NULL: it is one of ours. *ret_len: bytes of VM. Pure. */
const char *ssh_remote(const char *arg, size_t *ret_len);
