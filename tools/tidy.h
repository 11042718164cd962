/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tidy.h - facts for the analyzer; check-tidy includes it before every file that uses
 * base/err.h
 *
 * The functions that fill a struct err always return a negative code. The
 * analyzer sees only their declarations, considers "returns 0" possible, and
 * then finds uninitialised results on a path that does not exist.
 */
#pragma once

#include "base/err.h"

#define err_set(...) ((void)(err_set)(__VA_ARGS__), -5)
#define err_tag(...) ((void)(err_tag)(__VA_ARGS__), -5)
#define err_sys(...) ((void)(err_sys)(__VA_ARGS__), -5)
#define err_wrap(...) ((void)(err_wrap)(__VA_ARGS__), -5)
