/* SPDX-License-Identifier: Apache-2.0 */
/* chain.h - disk chains created and checked with QEMU's own tools; for tests only */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "engine/engine.h"
#include "tests/unit/tmpdir.h"

#define CHAIN_TOOL_MS 120000 /* a tool that takes longer hangs */

/* Layer i, bottom first, is file l<i> of the directory; no header names a backing file. */
struct chain {
	struct tmpdir *dir;
	size_t n;
	bool raw_bottom;
	uint64_t size[ENGINE_CHAIN_MAX]; /* virtual */
};

/* How a layer is made. cluster 0: by qcow2_write_empty(), as the engine does it. */
struct chain_layer {
	uint64_t size;
	unsigned cluster;
	bool v2;
};

uint64_t rnd(uint64_t *state, uint64_t below);
void chain_path(const struct chain *c, size_t i, char *buf, size_t size);
/* Adds a layer on top; the first one is the bottom. Fails the test if it cannot. */
void chain_add(struct chain *c, const struct chain_layer *l);
/* Runs commands, one a line, on the top layer with the chain below it. */
void chain_io(const struct chain *c, const char *commands);
/* n random writes, zero writes and discards on the top layer. */
void chain_scribble(const struct chain *c, uint64_t *state, unsigned n);
/* qemu-img's name of the first n layers. With top: that file stands on the bottom instead. Caller
 * frees. */
char *chain_json(const struct chain *c, size_t n, const char *top);
int chain_open(const struct chain *c, size_t i);
/* The first n layers read the same as the file on the bottom, and the file is consistent. */
void chain_judge(const struct chain *c, size_t n, const char *flat);
/* A memory layer's file of these rows and that data; fills in the checksums. */
struct layer_extent;
struct layer_info;
void mem_layer_write(struct tmpdir *dir, const char *id, struct layer_info *info,
                     const struct layer_extent *rows, const uint8_t *data,
                     struct engine_layer *ret);
/* Exit status of a tool; its output is printed when it is not 0. */
int tool(const char *const *argv, const char *stdin_text);
#define TOOL(...) tool((const char *const[]){ __VA_ARGS__, NULL }, NULL)
