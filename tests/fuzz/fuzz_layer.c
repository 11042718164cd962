/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_layer.c - memory layer files; the target itself lies with the format */
#include "layers/fuzz_format.c"
