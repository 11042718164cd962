/* SPDX-License-Identifier: Apache-2.0 */
/* vm/knock_queue.c - which packets are a reason to wake a VM, and those that wait for it */
#include "vm/knock_queue.h"

#include <stdlib.h>
#include <string.h>

#include <netinet/in.h>

#define IP_HEAD 20u
#define TCP_HEAD 20u
#define UDP_HEAD 8u
#define ICMP_HEAD 8u
#define ICMP_ECHO_REQUEST 8u
#define IP_OFFSET 0x1fffu /* of a fragment */
#define TCP_FIN 0x01u
#define TCP_SYN 0x02u
#define TCP_RST 0x04u
#define TCP_ACK 0x10u
#define PROBE_MAX 1u /* bytes of a keepalive probe */

static unsigned be16(const uint8_t *p)
{
	return (unsigned)p[0] << 8 | p[1];
}

static uint32_t be32(const uint8_t *p)
{
	return (uint32_t)be16(p) << 16 | be16(p + 2);
}

static bool tcp_kind(const uint8_t *p, size_t n, enum knock_kind *ret)
{
	size_t head = n < TCP_HEAD ? 0 : (size_t)(p[12] >> 4) * 4;

	if (head < TCP_HEAD || head > n || (p[13] & TCP_RST))
		return false;
	*ret = (p[13] & (TCP_SYN | TCP_ACK | TCP_FIN)) == TCP_SYN ? KNOCK_OPENS : KNOCK_CONTINUES;
	return *ret == KNOCK_OPENS || n - head > PROBE_MAX;
}

bool knock_parse(const uint8_t *p, size_t n, struct knock_head *ret)
{
	size_t head, len;

	if (n < IP_HEAD || p[0] >> 4 != 4)
		return false;
	head = (size_t)(p[0] & 15) * 4;
	len = be16(p + 2);
	if (head < IP_HEAD || len < head || len > n || (be16(p + 6) & IP_OFFSET))
		return false;
	ret->src = be32(p + 12);
	ret->dst = be32(p + 16);
	ret->kind = KNOCK_OPENS;
	switch (p[9]) {
	case IPPROTO_TCP:
		return tcp_kind(p + head, len - head, &ret->kind);
	case IPPROTO_UDP:
		return len - head >= UDP_HEAD;
	case IPPROTO_ICMP:
		return len - head >= ICMP_HEAD && p[head] == ICMP_ECHO_REQUEST;
	default:
		return false;
	}
}

/* ---- the queue ---- */

static struct knock_door *find(struct knock_queue *q, uint32_t addr)
{
	for (size_t i = 0; i < KNOCK_DOORS; i++)
		if (q->doors[i].addr == addr)
			return &q->doors[i];
	return NULL;
}

/* One that nobody needs: free, or its time is over. */
static struct knock_door *spare(struct knock_queue *q, uint64_t now_ms)
{
	for (size_t i = 0; i < KNOCK_DOORS; i++)
		if (!q->doors[i].waking && q->doors[i].deaf_until <= now_ms)
			return &q->doors[i];
	return NULL;
}

static bool keep(struct knock_queue *q, struct knock_door *d, const uint8_t *p, size_t n)
{
	struct knock_packet *k;

	if (d->n >= KNOCK_PER_VM || q->n_packets >= KNOCK_PER_VPC || n > KNOCK_PACKET_MAX ||
	    !(k = malloc(sizeof(*k) + n)))
		return false;
	k->next = NULL;
	k->len = n;
	memcpy(k->data, p, n);
	if (d->last)
		d->last->next = k;
	else
		d->first = k;
	d->last = k;
	d->n++;
	q->n_packets++;
	return true;
}

enum knock_put knock_put(struct knock_queue *q, uint32_t addr, const uint8_t *p, size_t n,
                         uint64_t now_ms)
{
	struct knock_door *d = find(q, addr);

	if (d && d->waking)
		return keep(q, d, p, n) ? KNOCK_KEPT : KNOCK_DROPPED;
	if (d && d->deaf_until > now_ms)
		return KNOCK_DROPPED;
	if (!d && !(d = spare(q, now_ms)))
		return KNOCK_DROPPED;
	*d = (struct knock_door){ .addr = addr, .waking = true };
	keep(q, d, p, n); /* without room: the sender asks again, and the VM is awake by then */
	return KNOCK_WAKE;
}

struct knock_packet *knock_take(struct knock_queue *q, uint32_t addr, uint64_t deaf_until)
{
	struct knock_door *d = find(q, addr);
	struct knock_packet *list;

	if (!d || !d->waking)
		return NULL;
	list = d->first;
	q->n_packets -= d->n;
	*d = (struct knock_door){ .addr = deaf_until ? addr : 0, .deaf_until = deaf_until };
	return list;
}

void knock_free(struct knock_packet *list)
{
	while (list) {
		struct knock_packet *next = list->next;

		free(list);
		list = next;
	}
}
