/* SPDX-License-Identifier: Apache-2.0 */
/* cli/pty.h - independent parts of `pando vm pty`; for cli/ and its tests */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct buf;

enum pty_action { PTY_NOTHING, PTY_DETACH, PTY_KILL, PTY_HELP };

/* Finds the escape key in the input. */
struct pty_escape {
	int key; /* a byte, or -1: none */
	int armed;
};
/* "ctrl-]", "^]", "none"; -EINVAL. */
int pty_escape_parse(const char *s, int *ret_key);
/* Puts what must be sent into out; an action ends the call, *ret_used says how much was read. */
enum pty_action pty_escape_feed(struct pty_escape *e, const uint8_t *p, size_t n, struct buf *out,
                                size_t *ret_used);
