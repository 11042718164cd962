/* SPDX-License-Identifier: Apache-2.0 */
/* cli/repl_input.h - is the input a complete cell? for cli/ and its tests */
#pragma once

#include <stdbool.h>

/* text ends with a newline. Only a guess: the kernel has the last word. */
bool repl_wants_more(const char *language, const char *text);
