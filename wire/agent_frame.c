/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent_frame.c - frames: header, tail, and the receiver that finds them
 *
 * A frame is header (20) + payload + tail (4, only when there is a payload).
 * The tail is the inverted header checksum. A frame that was cut short by a freeze and
 * completed by other bytes has a good header and a wrong tail: the receiver
 * drops it instead of delivering a spliced payload.
 */
#include "wire/agent.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/crc32c.h"

struct frame_rule {
	const char *name;
	uint32_t min, max;
};

#define AS_RULE(num, NAME, wire, dir, least, most) [num] = { (wire), (least), (most) },
static const struct frame_rule rules[] = { AGENT_FRAMES(AS_RULE) };
#define AS_NAME(num, NAME, wire) [num] = (wire),
static const char *const op_names[] = { AGENT_OPS(AS_NAME) };
static const char *const step_names[] = { AGENT_STEPS(AS_NAME) };

#define NAME_OF(table, i) ((i) < ARRAY_SIZE(table) && (table)[i] ? (table)[i] : "?")

const char *agent_frame_name(unsigned type)
{
	return type < ARRAY_SIZE(rules) && rules[type].name ? rules[type].name : "?";
}

const char *agent_op_name(unsigned op)
{
	return NAME_OF(op_names, op);
}

const char *agent_step_name(unsigned step)
{
	return NAME_OF(step_names, step);
}

uint32_t agent_frame_head(uint8_t hdr[AGENT_HDR_LEN], uint16_t type, uint16_t flags,
                          uint32_t stream, uint32_t len)
{
	uint32_t crc;

	put_be32(hdr, AGENT_MAGIC);
	put_be32(hdr + 4, len);
	put_be32(hdr + 8, stream);
	put_be16(hdr + 12, type);
	put_be16(hdr + 14, flags);
	crc = crc32c(0, hdr, 16);
	put_be32(hdr + 16, crc);
	return ~crc;
}

int agent_frame_parse(const uint8_t hdr[AGENT_HDR_LEN], struct agent_frame *ret, uint32_t *ret_tail)
{
	uint32_t crc = get_be32(hdr + 16), len = get_be32(hdr + 4);
	uint16_t type = get_be16(hdr + 12);

	if (get_be32(hdr) != AGENT_MAGIC || crc32c(0, hdr, 16) != crc)
		return -EBADMSG;
	if (type >= ARRAY_SIZE(rules) || !rules[type].name)
		return -EBADMSG;
	if (len < rules[type].min || len > rules[type].max)
		return -EBADMSG;
	*ret = (struct agent_frame){
		.type = type,
		.flags = get_be16(hdr + 14),
		.stream = get_be32(hdr + 8),
		.len = len,
	};
	*ret_tail = ~crc;
	return 0;
}

void agent_frame_put(struct buf *b, uint16_t type, uint16_t flags, uint32_t stream, const void *p,
                     size_t n)
{
	uint8_t hdr[AGENT_HDR_LEN];
	uint32_t tail;

	assert(n <= AGENT_PAYLOAD_MAX);
	tail = agent_frame_head(hdr, type, flags, stream, (uint32_t)n);
	buf_put(b, hdr, sizeof(hdr));
	if (n) {
		buf_put(b, p, n);
		buf_put_u32(b, tail);
	}
}

int agent_rx_init(struct agent_rx *rx)
{
	*rx = (struct agent_rx){ .buf = malloc(AGENT_RX_CAP) };
	return rx->buf ? 0 : -ENOMEM;
}

void agent_rx_done(struct agent_rx *rx)
{
	free(rx->buf);
	*rx = (struct agent_rx){ 0 };
}

uint8_t *agent_rx_space(struct agent_rx *rx, size_t *ret_room)
{
	if (rx->start == rx->end)
		rx->start = rx->end = 0;
	/* A frame always fits: less than one is kept, so there is room for more than one. */
	if (AGENT_RX_CAP - rx->end < AGENT_FRAME_MAX && rx->start) {
		memmove(rx->buf, rx->buf + rx->start, rx->end - rx->start);
		rx->end -= rx->start;
		rx->start = 0;
	}
	*ret_room = AGENT_RX_CAP - rx->end;
	return rx->buf + rx->end;
}

void agent_rx_added(struct agent_rx *rx, size_t n)
{
	assert(n <= AGENT_RX_CAP - rx->end);
	rx->end += n;
}

void agent_rx_hunt(struct agent_rx *rx, uint32_t wanted)
{
	rx->wanted = wanted;
	rx->hit_end = 0;
	rx->skipped = 0;
}

void agent_rx_accept(struct agent_rx *rx)
{
	assert(rx->hit_end);
	rx->start = rx->hit_end;
	rx->hit_end = 0;
	rx->wanted = 0;
}

/* The frame at p of n bytes: its length if complete, 0 if more is needed, -EBADMSG. */
static ssize_t frame_at(const uint8_t *p, size_t n, struct agent_frame *ret)
{
	uint32_t tail;
	size_t need;

	if (n < AGENT_HDR_LEN)
		return 0;
	if (agent_frame_parse(p, ret, &tail) < 0)
		return -EBADMSG;
	if (!ret->len)
		return AGENT_HDR_LEN;
	need = AGENT_HDR_LEN + ret->len + AGENT_TAIL_LEN;
	if (n < need)
		return 0;
	if (get_be32(p + need - AGENT_TAIL_LEN) != tail)
		return -EBADMSG;
	ret->payload = p + AGENT_HDR_LEN;
	return (ssize_t)need;
}

/* Can the n bytes at p be the beginning of an incomplete wanted frame? */
static bool may_become(const struct agent_rx *rx, const uint8_t *p, size_t n)
{
	uint8_t magic[4];
	struct agent_frame f;
	uint32_t tail;

	put_be32(magic, AGENT_MAGIC);
	if (n < AGENT_HDR_LEN)
		return !memcmp(p, magic, MIN(n, sizeof(magic)));
	return agent_frame_parse(p, &f, &tail) == 0 && (rx->wanted & BIT(f.type)) &&
	       f.len <= AGENT_HELLO_MAX;
}

/*
 * Any offset may begin the frame. An incomplete candidate is kept, but
 * the search continues after it: it may be a fake in old payload bytes, with the
 * real frame inside what it claims as its payload.
 */
static int hunt_next(struct agent_rx *rx, struct agent_frame *ret)
{
	size_t keep = SIZE_MAX, o, from = rx->start;

	if (rx->hit_end) { /* the caller did not want the last one */
		rx->hit_end = 0;
		rx->start++;
		rx->skipped++;
		from = rx->start;
	}
	for (o = from; o < rx->end; o++) {
		const uint8_t *p = memchr(rx->buf + o, AGENT_MAGIC >> 24, rx->end - o);
		ssize_t n;

		if (!p)
			break;
		o = (size_t)(p - rx->buf);
		if (!may_become(rx, p, rx->end - o))
			continue;
		n = frame_at(p, rx->end - o, ret);
		if (n == 0 && keep == SIZE_MAX)
			keep = o;
		if (n <= 0)
			continue;
		rx->skipped += o - from;
		rx->start = o;
		rx->hit_end = o + (size_t)n;
		return 1;
	}
	o = MIN(keep, rx->end);
	rx->skipped += o - from;
	rx->start = o;
	return 0;
}

int agent_rx_next(struct agent_rx *rx, struct agent_frame *ret)
{
	ssize_t n;

	if (rx->wanted)
		return hunt_next(rx, ret);
	n = frame_at(rx->buf + rx->start, rx->end - rx->start, ret);
	if (n <= 0)
		return (int)n;
	rx->start += (size_t)n;
	return 1;
}
