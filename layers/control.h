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

#define LAYERS_ENV_FD "PANDO_LAYERS_FD"     /* number of the inherited, listening socket */
#define LAYERS_ENV_MEM "PANDO_LAYERS_MEM"   /* guest memory in bytes */
#define LAYERS_ENV_SEED "PANDO_LAYERS_SEED" /* "1": the process may become a seed */
#define LAYERS_RAM_PATH "/pando/ram"        /* the mem-path QEMU is given; no such file exists */

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
 * @LAYERS_STAT: Reply: mem_bytes, pages (private now), n_layers, n_mappings, in_flight, us, can
 *	(LAYERS_CAN_... bits: 0 from a library of before).
 * @LAYERS_DONE: status, token, pages and bytes (data in the layer), n_extents, us (from fork to
 *end), flags as requested, mem_bytes (of private memory that was left out because the guest has it
free). Kept for the next client when there is none.
 * @LAYERS_SEED: the process, stopped and just frozen, becomes a seed. Request as MAP, with the
 *layers that make up its memory now: they are laid under it again, so that no page of it is
 *private. Reply as MAP. Again and again, if need be.
 * @LAYERS_FORK: fork this process, a seed, into a VM of its own. Request: n_layers =
 *LAYERS_FORK_FDS descriptors, in the order of enum layers_fork_fd. Reply: status, us, and one
 *descriptor: the child's pidfd. The child waits for struct layers_go on the gate, then gives its
 *LAYERS_FORK reply, status 0, as the first message on its own channel. A gate that is closed ends
 *it.
 * @LAYERS_SWEEP: private memory that the guest has free goes back to the host. Request: first and
 *	n_layers as with LAYERS_FREEZE_FREE; token 0: only look, the guest may run. Reply: status,
 *pages (may be given back), us. Then, with the vCPUs stopped, again and again with token = so many
 *pages at most: what is still free of what was found. Reply: status, pages (were given back),
 *in_flight (runs of pages that are left: 0 is the end), us.
 */
enum layers_type {
	LAYERS_MAP = 1,
	LAYERS_FREEZE = 2,
	LAYERS_DISCARD = 3,
	LAYERS_STAT = 4,
	LAYERS_DONE = 5,
	LAYERS_SEED = 6,
	LAYERS_FORK = 7,
	LAYERS_SWEEP = 8,
};

/* What the child has instead of the seed's: everything that can be written to. */
enum layers_fork_fd {
	LAYERS_FORK_GATE, /* SOCK_SEQPACKET, see struct layers_go */
	LAYERS_FORK_LOG,  /* standard output and error */
	LAYERS_FORK_CONSOLE,
	LAYERS_FORK_DISK,  /* of the file of the seed's top disk layer, read-only */
	LAYERS_FORK_STATE, /* the same of its device state: QEMU closes that only when it runs */
	LAYERS_FORK_QMP,   /* a connected one, then the listening one: found by their name, which */
	LAYERS_FORK_QMP_LISTEN, /* ends in "qmp", "agent" or "layers" */
	LAYERS_FORK_AGENT,
	LAYERS_FORK_AGENT_LISTEN,
	LAYERS_FORK_LAYERS,
	LAYERS_FORK_LAYERS_LISTEN,
	LAYERS_FORK_FDS,
};

/* From the one that watches processes, once the child is in its records and its cgroup. */
struct layers_go {
	uint32_t uid;   /* also the gid; 0: the seed's own stays */
	uint32_t n_tap; /* 1: the child's tap comes along */
};
static_assert(sizeof(struct layers_go) == 8, "no holes");

/* FREEZE flags */
#define LAYERS_FREEZE_FSYNC 1u /* DONE comes after the layer is on the disk */
#define LAYERS_FREEZE_NO_SCAN                                               \
	2u /* read pagemap entries even where PAGEMAP_SCAN works; for tests \
	    */

/*
 * What the guest's kernel has free is not written, and is zeros in the layer. first: page frame of
 * the kernel's note (guestmem.h); n_layers: megabytes of memory below 4 GiB. If the note cannot be
 * read, everything is written.
 */
#define LAYERS_FREEZE_FREE 4u

/* STAT: what else the library can do */
#define LAYERS_CAN_FREE 1u /* LAYERS_FREEZE_FREE, SWEEP */

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
	uint32_t can;
	char why[80]; /* "" or what went wrong, NUL-terminated */
};
static_assert(sizeof(struct layers_reply) == 152, "no holes");

#endif
