/* SPDX-License-Identifier: Apache-2.0 */
/* base/log_file.h - the log in a file of bounded size; for main programs */
#pragma once

#include <stdint.h>

struct err;

/*
 * Standard error goes to the end of this file from now on. When it has max_bytes it is renamed to
 * "<path>.1", in place of an older one, and a new one begins: both together have no more than twice
 * as much.
 */
int log_file_open(const char *path, uint64_t max_bytes, struct err *err);
