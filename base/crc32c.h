/* SPDX-License-Identifier: Apache-2.0 */
/* base/crc32c.h - CRC-32C (Castagnoli); start with 0, feed the result back in to continue */
#pragma once

#include <stddef.h>
#include <stdint.h>

uint32_t crc32c(uint32_t crc, const void *p, size_t n);
