/* SPDX-License-Identifier: Apache-2.0 */
/*
 * priv/slot.h - the pool of network slots
 *
 * enum slot_state - only slot.c writes it, under the pool's lock
 * @SLOT_EMPTY: nothing exists. Next: BUILDING.
 * @SLOT_BUILDING: the builder works on it. Next: READY, or EMPTY on failure.
 * @SLOT_READY: complete, gate closed, unused. Next: TAKEN.
 * @SLOT_TAKEN: pandod has it. Only here may its gate be opened, its tap be
 *	attached or sockets be created in it. Next: DIRTY.
 * @SLOT_DIRTY: returned; the builder removes the namespace with all its
 *	flows, counters and sockets, so nothing of one VM is left for the next.
 *	Next: EMPTY.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/priv.h"

struct err;
struct instance;
struct nl_link;
struct slots;

struct slots_conf {
	const struct instance *in; /* borrowed, outlives the pool */
	uint32_t block;            /* first address, host byte order */
	uint32_t mtu;
	uint32_t max;   /* slots of this instance */
	uint32_t ready; /* to keep built ahead */
};

/*
 * keep[i]: slot i has a running VM and is adopted unchanged; everything else
 * of an earlier process is removed. Starts the builder thread.
 */
int slots_open(const struct slots_conf *conf, const bool keep[PRIV_SLOTS_LIMIT], struct slots **ret,
               struct err *err);
/* remove: all slots; else they stay for the next start. */
struct slots *slots_close(struct slots *s, bool remove);

/* All for the main thread only. -ENOENT for a slot that is not taken. */
int slots_take(struct slots *s, uint32_t *ret_idx, struct err *err);
int slots_free(struct slots *s, uint32_t idx, struct err *err);
bool slots_taken(struct slots *s, uint32_t idx);
uint32_t slots_list(struct slots *s, uint32_t ret[PRIV_SLOTS_LIMIT]);
void slots_address(struct slots *s, uint32_t idx, char ret[16]);
int slots_gate(struct slots *s, uint32_t idx, bool open, struct err *err);
int slots_stats(struct slots *s, uint32_t idx, struct nl_link *ret, struct err *err);
int slots_dns(struct slots *s, uint32_t idx, int *ret_udp, int *ret_tcp, struct err *err);
int slots_socket(struct slots *s, uint32_t idx, int type, int *ret_fd, struct err *err);
int slots_tap(struct slots *s, uint32_t idx, int *ret_fd, struct err *err);
int slots_proxy(struct slots *s, uint32_t idx, int *ret_fd, struct err *err);
int slots_policy(struct slots *s, uint32_t idx, const struct priv_egress *e, struct err *err);
int slots_pin(struct slots *s, uint32_t idx, const struct priv_pin *p, struct err *err);
int slots_blocked(struct slots *s, uint32_t idx, struct priv_blocked ret[], uint32_t *ret_n,
                  struct err *err);
/* The slot's rules, then its link into the VPC. */
int slots_vpc(struct slots *s, uint32_t idx, const struct priv_vpc *v, const struct priv_egress *e,
              struct err *err);
int slots_vpc_remove(struct slots *s, uint32_t vpc, struct err *err);
int slots_vpc_wake(struct slots *s, const struct priv_vpc *v, int *ret_fd, struct err *err);
int slots_vpc_fresh(struct slots *s, const struct priv_vpc *v, const struct priv_fresh *f,
                    struct err *err);
int slots_vpc_wg(struct slots *s, const struct priv_vpc *v, const struct priv_wg *wg,
                 struct err *err);
int slots_vpc_peers(struct slots *s, const struct priv_vpc *v,
                    struct priv_wg_seen ret[PRIV_WG_PEERS_MAX], uint32_t *ret_n, struct err *err);
