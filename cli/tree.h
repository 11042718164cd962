/* SPDX-License-Identifier: Apache-2.0 */
/* cli/tree.h - the drawing of `pando tree`; for cli/ and its tests */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

struct tree_style {
	bool ascii, colour, sizes;
};
/* Draws the reply of GET /v1/tree as lines. */
void tree_draw(FILE *f, const json_t *tree, const struct tree_style *style);
/* "12.3M": bytes in readable form. */
const char *tree_size(long long bytes, char dst[16]);
