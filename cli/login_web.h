/* SPDX-License-Identifier: Apache-2.0 */
/* cli/login_web.h - a key that a person confirms in the dashboard; for login.c */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct cli;

/* Prints where to confirm, and waits for it. open_it: in a browser, if there is a display. */
int login_web(struct cli *c, bool open_it, char *ret_key, size_t size);
