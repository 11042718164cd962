/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vm/knock_queue.h - packets that wait for a VM of one VPC to come up; for knock.c and tests
 *
 * Bytes and counts only: no threads, no descriptors, no VMs. What is kept is bounded by VM and by
 * VPC, whoever sends however much.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KNOCK_PACKET_MAX 1500u /* bytes */
#define KNOCK_PER_VM 4u        /* packets kept for one VM */
#define KNOCK_PER_VPC 64u      /* packets kept for all VMs of a VPC */
#define KNOCK_DOORS 64u        /* VMs of a VPC that are woken, or could not be a moment ago */

enum knock_kind {
	KNOCK_OPENS,     /* something new: a SYN, a datagram, an echo request */
	KNOCK_CONTINUES, /* data of a connection: nothing to a VM that lost its memory */
};
struct knock_head {
	uint32_t src, dst; /* host byte order */
	enum knock_kind kind;
};
/*
 * False: not a whole IPv4 packet, or one that is no reason to wake anybody (the end of a
 * connection, an acknowledgement, a keepalive probe, an error message, a fragment without a head).
 */
bool knock_parse(const uint8_t *p, size_t n, struct knock_head *ret);

struct knock_packet {
	struct knock_packet *next;
	size_t len;
	uint8_t data[];
};

/* One address: somebody knocks, or was not let in and is not heard for a while. */
struct knock_door {
	uint32_t addr;
	bool waking;
	uint64_t deaf_until; /* clock_ms(); not waking */
	unsigned n;
	struct knock_packet *first, *last;
};
/* Zeroed is empty. */
struct knock_queue {
	struct knock_door doors[KNOCK_DOORS];
	unsigned n_packets;
};

enum knock_put {
	KNOCK_DROPPED, /* no room, or it could not be woken a moment ago */
	KNOCK_KEPT,    /* the VM is being woken already */
	KNOCK_WAKE,    /* wake it, then knock_take() in any case */
};
enum knock_put knock_put(struct knock_queue *q, uint32_t addr, const uint8_t *p, size_t n,
                         uint64_t now_ms);
/*
 * Nobody wakes that VM any more; its packets, oldest first, for the caller to free. deaf_until:
 * none are taken for it before then; 0: the next one is a new reason.
 */
struct knock_packet *knock_take(struct knock_queue *q, uint32_t addr, uint64_t deaf_until);
void knock_free(struct knock_packet *list);
