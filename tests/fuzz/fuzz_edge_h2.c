/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_edge_h2.c - HTTP/2 clients, and programs in VMs, against the edge's connection code: edge.h
 */
#include "tests/fuzz/edge.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	return edge_one(data, size, /* h2= */ true);
}
