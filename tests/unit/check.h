/* SPDX-License-Identifier: Apache-2.0 */
/* check.h - assertions that show the message of a failed call; for tests only, after cmocka.h */
#pragma once

#include <string.h>

#include "base/err.h"

static __thread struct err err; /* of the last call in OK() or FAILS() */

/* The call (with &err as its last argument) succeeds. */
#define OK(expr)                                                   \
	do {                                                       \
		int r_;                                            \
		memset(&err, 0, sizeof(err));                      \
		r_ = (expr);                                       \
		if (r_ < 0)                                        \
			fail_msg("%s: %d %s", #expr, r_, err.msg); \
	} while (0)
/* The call fails with that code, and says why. */
#define FAILS(want, expr)                                                            \
	do {                                                                         \
		int r_;                                                              \
		memset(&err, 0, sizeof(err));                                        \
		r_ = (expr);                                                         \
		if (r_ != (want) || !err.msg[0])                                     \
			fail_msg("%s: %d (%s), not %d", #expr, r_, err.msg, (want)); \
	} while (0)
