/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chain.c - disk chains created and checked with QEMU's own tools
 *
 * qemu-io writes each layer with the chain given in a json: name, exactly as
 * the engine gives it to QEMU; qemu-img compares and checks.
 */
#include "tests/engine/chain.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/crc32c.h"
#include "base/err.h"
#include "base/io.h"
#include "base/proc.h"
#include "engine/qcow2.h"
#include "layers/format.h"

/* xorshift*: the same patterns on every machine */
uint64_t rnd(uint64_t *state, uint64_t below)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return (*state * 2685821657736338717ull >> 16) % below;
}

int tool(const char *const *argv, const char *stdin_text)
{
	autofree char *out = NULL;
	autofree char *errout = NULL;
	struct err err = { 0 };
	int r = proc_run(&(struct proc_run_opts){ .argv = argv,
	                                          .stdin_text = stdin_text,
	                                          .deadline_ms = CHAIN_TOOL_MS,
	                                          .max_output = 64u << 10 },
	                 &out, &errout, &err);

	if (r != 0)
		print_message("%s %s: %d %s\n%s%s\n", argv[0], argv[1], r, err.msg, out ? out : "",
		              errout ? errout : "");
	return r;
}

void chain_path(const struct chain *c, size_t i, char *buf, size_t size)
{
	snprintf(buf, size, "%s/l%zu", c->dir->path, i);
}

int chain_open(const struct chain *c, size_t i)
{
	char path[256];
	int fd;

	chain_path(c, i, path, sizeof(path));
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	return fd;
}

void chain_add(struct chain *c, const struct chain_layer *l)
{
	char path[256], opts[128], size[32];
	struct err err = { 0 };

	assert_true(c->n < ENGINE_CHAIN_MAX);
	chain_path(c, c->n, path, sizeof(path));
	snprintf(size, sizeof(size), "%llu", (unsigned long long)l->size);
	if (c->n == 0 && c->raw_bottom) {
		assert_int_equal(TOOL("qemu-img", "create", "-q", "-f", "raw", path, size), 0);
	} else if (l->cluster) {
		snprintf(opts, sizeof(opts), "cluster_size=%u,compat=%s", l->cluster,
		         l->v2 ? "0.10" : "1.1");
		assert_int_equal(
		        TOOL("qemu-img", "create", "-q", "-f", "qcow2", "-o", opts, path, size), 0);
	} else {
		autofd int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

		assert_true(fd >= 0);
		assert_int_equal(qcow2_write_empty(fd, l->size, &err), 0);
	}
	c->size[c->n++] = l->size;
}

char *chain_json(const struct chain *c, size_t n, const char *top)
{
	struct buf b = { 0 };
	char path[256];
	size_t depth = top ? 2 : n;
	char *text;

	buf_printf(&b, "json:");
	for (size_t d = 0; d < depth; d++) {
		size_t i = depth - 1 - d;

		chain_path(c, i, path, sizeof(path));
		buf_printf(
		        &b,
		        "%s{\"driver\":\"%s\",\"discard\":\"unmap\",\"file\":{\"driver\":\"file\","
		        "\"discard\":\"unmap\",\"filename\":\"%s\"}",
		        d ? ",\"backing\":" : "", i == 0 && c->raw_bottom ? "raw" : "qcow2",
		        top && d == 0 ? top : path);
	}
	for (size_t d = 0; d < depth; d++)
		buf_printf(&b, "}");
	text = buf_take_str(&b);
	assert_non_null(text);
	return text;
}

void chain_io(const struct chain *c, const char *commands)
{
	autofree char *name = chain_json(c, c->n, NULL);
	const char *argv[] = { "qemu-io", name, NULL };

	assert_int_equal(tool(argv, commands), 0);
}

static void scribble_one(struct buf *b, uint64_t size, uint64_t *state)
{
	static const uint64_t units[] = { 512, 4096, 65536, 65536 };
	uint64_t unit = units[rnd(state, ARRAY_SIZE(units))];
	uint64_t off = rnd(state, size) / unit * unit;
	uint64_t len = unit * (1 + rnd(state, rnd(state, 4) ? 4 : 40));
	unsigned long long o = off, l = MIN(len, size - off);

	switch (rnd(state, 8)) {
	case 0:
		buf_printf(b, "write -z %llu %llu\n", o, l);
		break;
	case 1:
		buf_printf(b, "write -z -u %llu %llu\n", o, l);
		break;
	case 2:
		buf_printf(b, "discard %llu %llu\n", o, l);
		break;
	default:
		buf_printf(b, "write -P %u %llu %llu\n", 1 + (unsigned)rnd(state, 255), o, l);
	}
}

void chain_scribble(const struct chain *c, uint64_t *state, unsigned n)
{
	autobuf struct buf b = { 0 };
	autofree char *text = NULL;

	for (unsigned i = 0; i < n; i++)
		scribble_one(&b, c->size[c->n - 1], state);
	buf_printf(&b, "flush\n");
	text = buf_take_str(&b);
	assert_non_null(text);
	chain_io(c, text);
}

void chain_judge(const struct chain *c, size_t n, const char *flat)
{
	autofree char *was = chain_json(c, n, NULL);
	autofree char *is = chain_json(c, n, flat);

	assert_int_equal(TOOL("qemu-img", "check", "-q", "-f", "qcow2", flat), 0);
	assert_int_equal(TOOL("qemu-img", "compare", "-q", was, is), 0);
}

void mem_layer_write(struct tmpdir *dir, const char *id, struct layer_info *info,
                     const struct layer_extent *rows, const uint8_t *data, struct engine_layer *ret)
{
	autofree uint8_t *table = malloc(layer_table_bytes(info) + 1);
	autofd int fd = -1;
	uint8_t header[LAYER_PAGE];
	char path[256];

	assert_non_null(table);
	info->data_crc = crc32c(0, data, info->data_pages * LAYER_PAGE);
	info->table_crc = layer_table_encode(rows, info->n_extents, table);
	layer_header_encode(info, header);
	fd = open(tmpdir_file(dir, id, path, sizeof(path)), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC,
	          0600);
	assert_true(fd >= 0);
	assert_int_equal(io_write_all(fd, header, LAYER_PAGE), 0);
	assert_int_equal(io_write_all(fd, data, info->data_pages * LAYER_PAGE), 0);
	assert_int_equal(io_write_all(fd, table, layer_table_bytes(info)), 0);
	*ret = (struct engine_layer){ .format = "mem",
		                      .bytes = layer_table_off(info) + layer_table_bytes(info),
		                      .crc = info->data_crc,
		                      .has_crc = true };
	snprintf(ret->id, sizeof(ret->id), "%s", id);
}
