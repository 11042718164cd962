/* SPDX-License-Identifier: MIT */
/*
 * layers/control.h - the protocol between pandod and the preloaded library
 *
 * A SOCK_SEQPACKET AF_UNIX socket; both ends are on one machine, so numbers are in host order
 * (little endian everywhere this runs). One packet is one message: the client sends struct
 * layers_req, the library answers each with exactly one struct layers_reply of the same type, in
 * order. DONE is the only message the library sends unasked: once per successful FREEZE, when its
 * layer is complete or has failed. Unused fields are 0; a request that breaks the rules ends the
 * connection. See layers/README.md for details.
 */
#ifndef PANDO_LAYERS_CONTROL_H
#define PANDO_LAYERS_CONTROL_H

#include <assert.h>
#include <stdint.h>

#define LAYERS_ENV_FD "PANDO_LAYERS_FD"   /* number of the inherited, listening socket */
#define LAYERS_ENV_MEM "PANDO_LAYERS_MEM" /* guest memory in bytes */
#define LAYERS_RAM_PATH "/pando/ram"      /* the mem-path QEMU is given; no such file exists */

#define LAYERS_FREEZE_MAX 4 /* freezes in flight, told apart by token */
#define LAYERS_FDS_MAX 64   /* descriptors in one packet; the kernel's own limit is 253 */

/*
 * enum layers_type - numbers are never used again for something else
 * @LAYERS_MAP: lay a stack of layers under the guest's memory. Once, before the guest runs.
 *	Request: n_layers in all, first = index of this packet's first descriptor, descriptors
 *bottom to top. A stack may come in several packets; only the last is answered. Reply: status,
 *n_layers, n_mappings, pages (covered by data), us. After an error with LAYERS_RAM_BROKEN the
 *memory is undefined: end the process.
 * @LAYERS_FREEZE: write what became private since MAP to a new layer. The caller has stopped the
 *	vCPUs and may let them continue as soon as the reply is there.
 *	Request: token (caller's choice, not in flight), flags, one descriptor: an empty file,
 *O_RDWR. Reply: status, token, us (time of the fork). With an error no DONE follows.
 * @LAYERS_DISCARD: end the freeze of a token early. Request: token. Reply: status (-ENOENT if it is
 *	not in flight); DONE still follows, with -ECANCELED unless the layer was complete already.
 * @LAYERS_STAT: Reply: mem_bytes, pages (private now), n_layers, n_mappings, in_flight, us.
 * @LAYERS_DONE: status, token, pages and bytes (data in the layer), n_extents, us (from fork to
 *end), flags as requested. Kept for the next client when there is none.
 */
enum layers_type {
	LAYERS_MAP = 1,
	LAYERS_FREEZE = 2,
	LAYERS_DISCARD = 3,
	LAYERS_STAT = 4,
	LAYERS_DONE = 5,
};

/* FREEZE flags */
#define LAYERS_FREEZE_FSYNC 1u /* DONE comes after the layer is on the disk */
#define LAYERS_FREEZE_NO_SCAN                                               \
	2u /* read pagemap entries even where PAGEMAP_SCAN works; for tests \
	    */

/* reply flags */
#define LAYERS_RAM_BROKEN 0x10000u /* MAP failed half way */

struct layers_req {
	uint32_t type; /* enum layers_type */
	uint32_t flags;
	uint64_t token;
	uint32_t n_layers;
	uint32_t first;
};
static_assert(sizeof(struct layers_req) == 24, "no holes");

struct layers_reply {
	uint32_t type;
	int32_t status; /* 0 or -errno */
	uint64_t token;
	uint64_t mem_bytes;
	uint64_t pages;
	uint64_t bytes;
	uint64_t us;
	uint32_t flags;
	uint32_t n_layers;
	uint32_t n_mappings;
	uint32_t n_extents;
	uint32_t in_flight;
	uint32_t reserved;
	char why[80]; /* "" or what went wrong, NUL-terminated */
};
static_assert(sizeof(struct layers_reply) == 152, "no holes");

#endif
