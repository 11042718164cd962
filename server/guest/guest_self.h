/* SPDX-License-Identifier: Apache-2.0 */
/*
 * guest/guest_self.h - telling a guest who it is, and its requests about itself; for vm/ and api/
 *
 * A guest with self access rings when requests wait. Whoever hears it takes them one by one, as
 * flows that carry HTTP both ways. docs/SELF.md.
 */
#pragma once

#include "guest/guest.h"
#include "wire/agent_self.h"

/*
 * fn is called on the connection's own thread when requests wait: it must not block. True: somebody
 * will guest_self_take(), and until then it is not called again; false: it is, when the guest rings
 * again. Before guest_hello(). g is valid during the call.
 */
typedef bool (*guest_ring_fn)(void *ctx, struct guest *g);
void guest_on_ring(struct guest *g, guest_ring_fn fn, void *ctx);

/* The oldest request that waits; -ENOENT: there is none. *ret_number is the agent's, *ret_more how
 * many wait behind it. */
int guest_self_take(struct guest *g, struct guest_flow **ret, uint64_t *ret_number,
                    uint32_t *ret_more, struct err *err);
/* Whoever was to take it does not after all. */
void guest_self_leave(struct guest *g);
/* Tells a greeted guest anew; its nonce is filled in. -EOPNOTSUPP: its agent is too old for it. */
int guest_tell_who(struct guest *g, const struct agent_who *who, struct err *err);
/* Did the agent take what the greeting said of it? */
bool guest_knows_who(struct guest *g);
/* The VM that was named when the connection was made. */
const char *guest_vm_id(const struct guest *g);
