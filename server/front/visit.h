/* SPDX-License-Identifier: Apache-2.0 */
/* front/visit.h - requests as lines of the access log; for front/ only */
#pragma once

struct access_line;
struct edge_line;

/* What the edge says of a request for that VM, made harmless. */
void visit_line(const char *vm, const struct edge_line *l, struct access_line *ret);
