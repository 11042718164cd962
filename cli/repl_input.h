/* SPDX-License-Identifier: Apache-2.0 */
/* cli/repl_input.h - is the input a complete cell? for cli/ and its tests */
#pragma once

#include <stdbool.h>

/* text ends with a newline. A guess: the kernel decides what it really means. */
bool repl_wants_more(const char *language, const char *text);
