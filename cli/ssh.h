/* SPDX-License-Identifier: Apache-2.0 */
/* cli/ssh.h - running OpenSSH's programs with our address and key; for cli/ */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* If ssh runs this program to ask for the password, prints it. True: it did. */
bool ssh_answer(int argc);

/* "http://host:8787/x" and "0.0.0.0:2222" -> "host", 2222. false: one of them is invalid. Pure.
 */
bool ssh_where(const char *url, const char *listen, char *ret_host, size_t size,
               unsigned *ret_port);
/* The path after "VM:", or NULL: a local path. *ret_len: bytes of VM. Pure. */
const char *ssh_remote(const char *arg, size_t *ret_len);
#define SSH_HOST_MAX 256
struct cli;
/* Host and port, from the environment or the server; else an exit status after an error message. */
int ssh_front(struct cli *c, char host[SSH_HOST_MAX], unsigned *ret_port);
