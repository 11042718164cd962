/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_edge_h2c.c - programs in VMs that speak HTTP/2, against the edge: edge.h
 *
 * A client of HTTP/2 has two requests open; frames and heads of the input are the program's.
 */
#include "tests/fuzz/edge.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	st.h2c = true;
	return edge_one(data, size, /* h2= */ true);
}
