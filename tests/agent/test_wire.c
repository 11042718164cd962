/* SPDX-License-Identifier: Apache-2.0 */
/* test_wire.c - frames and messages by themselves */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/id.h"
#include "tests/agent/raw.h"
#include "tests/agent/util.h"

/* Feeds the bytes in pieces of a size and counts the frames. */
static unsigned frames_in(const struct buf *b, size_t piece, struct agent_rx *rx)
{
	unsigned n = 0;

	for (size_t off = 0; off < b->len;) {
		struct agent_frame f;
		size_t room;
		uint8_t *p = agent_rx_space(rx, &room);
		size_t k = MIN(MIN(piece, room), b->len - off);

		assert_true(room > 0);
		memcpy(p, b->p + off, k);
		agent_rx_added(rx, k);
		off += k;
		while (agent_rx_next(rx, &f) == 1)
			n++;
	}
	return n;
}

static void test_pieces(void **state)
{
	static uint8_t data[AGENT_PAYLOAD_MAX];
	autobuf struct buf b = { 0 };
	const size_t pieces[] = { 1, 7, 19, 21, 4096, 65536, 1 << 20 };

	for (unsigned i = 0; i < 20; i++) {
		agent_frame_put(&b, AGENT_F_DATA, AGENT_OUT, i, data, 1 + i * 3449);
		agent_frame_put(&b, AGENT_F_CANCEL, 0, i, NULL, 0);
	}
	agent_frame_put(&b, AGENT_F_DATA, AGENT_OUT, 1, data, sizeof(data));
	for (size_t i = 0; i < ARRAY_SIZE(pieces); i++) {
		struct agent_rx rx;

		assert_int_equal(agent_rx_init(&rx), 0);
		assert_int_equal(frames_in(&b, pieces[i], &rx), 41);
		agent_rx_done(&rx);
	}
}

static void test_header(void **state)
{
	uint8_t hdr[AGENT_HDR_LEN];
	struct agent_frame f;
	uint32_t tail;

	agent_frame_head(hdr, AGENT_F_CREDIT, 2, 77, 4);
	assert_int_equal(agent_frame_parse(hdr, &f, &tail), 0);
	assert_int_equal(f.type, AGENT_F_CREDIT);
	assert_int_equal(f.flags, 2);
	assert_int_equal(f.stream, 77);
	for (unsigned i = 0; i < AGENT_HDR_LEN * 8; i++) { /* no single bit may flip */
		hdr[i / 8] ^= (uint8_t)(1 << i % 8);
		assert_int_equal(agent_frame_parse(hdr, &f, &tail), -EBADMSG);
		hdr[i / 8] ^= (uint8_t)(1 << i % 8);
	}
	/* Lengths that do not belong to the type, with a good checksum. */
	agent_frame_head(hdr, AGENT_F_CREDIT, 2, 77, 5);
	assert_int_equal(agent_frame_parse(hdr, &f, &tail), -EBADMSG);
	agent_frame_head(hdr, AGENT_F_DATA, 1, 77, 0);
	assert_int_equal(agent_frame_parse(hdr, &f, &tail), -EBADMSG);
	agent_frame_head(hdr, 99, 1, 77, 0);
	assert_int_equal(agent_frame_parse(hdr, &f, &tail), -EBADMSG);
	agent_frame_head(hdr, 0, 1, 77, 0);
	assert_int_equal(agent_frame_parse(hdr, &f, &tail), -EBADMSG);
}

/* A HELLO is found after any part of any frame plus a flush, in pieces of any size. */
static void test_hunt(void **state)
{
	autobuf struct buf cut = { 0 }, hello = { 0 }, payload = { 0 };
	static uint8_t data[5000], zeros[AGENT_FLUSH_LEN];
	struct agent_hello h;

	random_bytes(data, sizeof(data));
	raw_hello_fill(&h, AGENT_THAW, 4);
	agent_hello_put(&payload, &h);
	agent_frame_put(&cut, AGENT_F_DATA, AGENT_IN, 3, data, sizeof(data));
	agent_frame_put(&hello, AGENT_F_HELLO, 0, 0, payload.p, payload.len);
	for (size_t at = 0; at < cut.len; at += at < 40 || at > cut.len - 40 ? 1 : 611) {
		autobuf struct buf b = { 0 };
		struct agent_frame f;
		struct agent_rx rx;
		bool found = false;

		buf_put(&b, cut.p, at);
		buf_put(&b, hello.p, hello.len); /* swallowed, or seen */
		buf_put(&b, zeros, sizeof(zeros));
		buf_put(&b, hello.p, hello.len);
		assert_int_equal(agent_rx_init(&rx), 0);
		for (size_t off = 0; off < b.len;) {
			size_t room, k;
			uint8_t *p = agent_rx_space(&rx, &room);
			int r;

			k = MIN(MIN((size_t)1500, room), b.len - off);
			memcpy(p, b.p + off, k);
			agent_rx_added(&rx, k);
			off += k;
			while ((r = agent_rx_next(&rx, &f)) != 0) {
				if (r < 0) {
					agent_rx_hunt(&rx, BIT(AGENT_F_HELLO));
					continue;
				}
				assert_int_equal(f.type, AGENT_F_HELLO);
				found = true;
				if (rx.wanted)
					agent_rx_accept(&rx);
			}
		}
		assert_true(found);
		assert_int_equal(rx.start, rx.end); /* in sync at the end of the last one */
		agent_rx_done(&rx);
	}
}

static void test_messages(void **state)
{
	static struct agent_exec_req e, e2;
	struct agent_hello h, h2;
	struct agent_fs_req q = { .user = "u",
		                  .path = "/p",
		                  .off = 5,
		                  .len = 6,
		                  .mode = 0755,
		                  .deep = true },
	                    q2;
	autobuf struct buf b = { 0 };
	struct rd c;

	raw_hello_fill(&h, AGENT_THAW, UINT64_MAX);
	agent_hello_put(&b, &h);
	assert_true(b.len <= AGENT_HELLO_MAX);
	assert_int_equal(agent_hello_get(b.p, b.len, &h2), 0);
	assert_memory_equal(h.entropy, h2.entropy, sizeof(h.entropy));
	assert_string_equal(h.hostname, h2.hostname);
	assert_true(h2.generation == UINT64_MAX && h2.wall_ns == h.wall_ns);
	for (size_t n = 0; n < b.len; n++) /* cut short anywhere */
		assert_int_equal(agent_hello_get(b.p, n, &h2), -EBADMSG);

	buf_reset(&b);
	e = (struct agent_exec_req){ .command = "c",
		                     .user = "u",
		                     .cwd = "/",
		                     .timeout_ms = 7,
		                     .with_stdin = true,
		                     .n_env = 2,
		                     .env = { "A=1", "B=" } };
	agent_exec_req_put(&b, &e);
	c = rd_of(b.p, b.len);
	assert_int_equal(agent_exec_req_get(&c, &e2), 0);
	assert_string_equal(e2.command, "c");
	assert_string_equal(e2.env[1], "B=");
	for (size_t n = 0; n < b.len; n++) {
		c = rd_of(b.p, n);
		assert_int_equal(agent_exec_req_get(&c, &e2), -EBADMSG);
	}
	buf_put_u8(&b, 0); /* leftovers */
	c = rd_of(b.p, b.len);
	assert_int_equal(agent_exec_req_get(&c, &e2), -EBADMSG);

	buf_reset(&b);
	agent_fs_req_put(&b, &q);
	c = rd_of(b.p, b.len);
	assert_int_equal(agent_fs_req_get(&c, &q2), 0);
	assert_true(q2.off == 5 && q2.len == 6 && q2.mode == 0755 && q2.deep);

	/* Text must end in its one NUL. */
	buf_reset(&b);
	buf_put_blob(&b, "a\0b", 4);
	c = rd_of(b.p, b.len);
	const char *s;
	assert_int_equal(agent_text_get(&c, 100, &s), -EBADMSG);
	buf_reset(&b);
	buf_put_blob(&b, "ab", 2);
	c = rd_of(b.p, b.len);
	assert_int_equal(agent_text_get(&c, 100, &s), -EBADMSG);
	buf_reset(&b);
	buf_put_blob(&b, "", 0);
	c = rd_of(b.p, b.len);
	assert_int_equal(agent_text_get(&c, 100, &s), -EBADMSG);
}

static void test_names(void **state)
{
	assert_string_equal(agent_frame_name(AGENT_F_HELLO_ACK), "HELLO_ACK");
	assert_string_equal(agent_frame_name(4711), "?");
	assert_string_equal(agent_op_name(AGENT_OP_FS_REMOVE), "fs.remove");
	assert_string_equal(agent_op_name(0), "?");
	assert_string_equal(agent_step_name(AGENT_STEP_MACHINE_ID), "machine-id");
	assert_string_equal(agent_step_name(AGENT_STEP_NONE), "?");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pieces), cmocka_unit_test(test_header),
		cmocka_unit_test(test_hunt),   cmocka_unit_test(test_messages),
		cmocka_unit_test(test_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
