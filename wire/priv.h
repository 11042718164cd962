/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire/priv.h - the contract between pandod (privc/) and pando-priv (priv/)
 *
 * One SOCK_SEQPACKET socket, one message per packet, big endian. A request is
 * {u16 operation, u16 0, u32 id} and the fields of its operation in the order
 * of enum priv_field; a reply is {u32 id, u32 -code, string message} and, if
 * the code is 0, the fields of its operation in the order of enum priv_rfield.
 * Replies carry the id of their request and may come in any order. Descriptors
 * travel as SCM_RIGHTS of the same packet. Everything both ends must agree on is
 * listed once, in PRIV_OPS; numbers are never reused.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/priv_net.h"

struct buf;
struct err;

#define PRIV_VERSION 1u
#define PRIV_MSG_MAX (96u << 10)  /* bytes of one packet; fits the default socket buffer */
#define PRIV_TEXT_MAX (64u << 10) /* bytes of all arguments and variables of one spawn */
#define PRIV_ARGV_MAX 256u        /* arguments of one spawn */
#define PRIV_ENV_MAX 32u          /* variables of one spawn */
#define PRIV_VM_ID_MAX 40u        /* characters: fits a file name, a cgroup, a DNS label */
#define PRIV_SLOTS_LIMIT 1024u    /* slots of one instance: what a /20 holds in /30s */
#define PRIV_LIST_MAX 32u         /* VMs in one reply: each brings a descriptor */
#define PRIV_LIST_END UINT32_MAX  /* next cursor after the last page */
#define PRIV_MEM_MB_MAX (1u << 20)
#define PRIV_VCPUS_MAX 256u
#define PRIV_FENCE_MAX_MS 120000u  /* a fence is at most that far ahead */
#define PRIV_FILE_MAX (3ull << 40) /* RLIMIT_FSIZE of QEMU: above every disk and memory layer */

/* Fields of requests. */
enum priv_field {
	PF_VM = 1 << 0,     /* vm_id */
	PF_SLOT = 1 << 1,   /* slot index */
	PF_OPEN = 1 << 2,   /* bool */
	PF_CURSOR = 1 << 3, /* u32 */
	PF_SPAWN = 1 << 4,  /* the rest of a spawn */
	PF_EGRESS = 1 << 5, /* policy and VPC address of a slot */
	PF_PIN = 1 << 6,    /* addresses of a name */
	PF_VPC = 1 << 7,    /* index and range */
	PF_WG = 1 << 8,     /* tunnel of a VPC */
	PF_FRESH = 1 << 9,  /* address of a VPC that is about to boot */
	PF_FORK = 1 << 10,  /* a seed's id, slot, memory, vCPUs */
	PF_FENCE = 1 << 11, /* u64: a deadline */
};

/* Fields of replies. */
enum priv_rfield {
	PR_INFO = 1 << 0,     /* version, tag, limits, kvm, slots_max */
	PR_SLOT = 1 << 1,     /* index and host address; 2 descriptors: udp, tcp */
	PR_STATS = 1 << 2,    /* u64 x 4 */
	PR_FD = 1 << 3,       /* 1 descriptor, no bytes */
	PR_PID = 1 << 4,      /* u32; 1 descriptor: pidfd */
	PR_STATUS = 1 << 5,   /* u32 wait status */
	PR_VMS = 1 << 6,      /* cursor, list; 1 pidfd each */
	PR_SLOTS = 1 << 7,    /* list of indices */
	PR_VM_STATS = 1 << 8, /* u64 x 3 */
	PR_BLOCKED = 1 << 9,  /* list of destinations */
	PR_PEERS = 1 << 10,   /* list of peers of a tunnel */
};

/* number, NAME, name in messages, request fields, reply fields, descriptors in the reply */
/* clang-format off */
#define PRIV_OPS(M)                                                         \
	M(1,  HELLO,       "hello",       0,                  PR_INFO,     0) \
	M(2,  SLOT_TAKE,   "slot.take",   0,                  PR_SLOT,     2) \
	M(3,  SLOT_ADOPT,  "slot.adopt",  PF_SLOT,            PR_SLOT,     2) \
	M(4,  SLOT_GATE,   "slot.gate",   PF_SLOT | PF_OPEN,  0,           0) \
	M(5,  SLOT_FREE,   "slot.free",   PF_SLOT,            0,           0) \
	M(6,  SLOT_STATS,  "slot.stats",  PF_SLOT,            PR_STATS,    0) \
	M(7,  SLOT_SOCKET, "slot.socket", PF_SLOT,            PR_FD,       1) \
	M(8,  SLOT_LIST,   "slot.list",   0,                  PR_SLOTS,    0) \
	M(9,  SPAWN,       "spawn",       PF_VM | PF_SPAWN,   PR_PID,      1) \
	M(10, KILL,        "kill",        PF_VM,              0,           0) \
	M(11, EXIT_STATUS, "exit.status", PF_VM,              PR_STATUS,   0) \
	M(12, VM_LIST,     "vm.list",     PF_CURSOR,          PR_VMS,      0) \
	M(13, VM_STATS,    "vm.stats",    PF_VM,              PR_VM_STATS, 0) \
	M(14, SLOT_EGRESS, "slot.egress", PF_SLOT | PF_EGRESS, 0,          0) \
	M(15, SLOT_PROXY,  "slot.proxy",  PF_SLOT,            PR_FD,       1) \
	M(16, SLOT_PIN,    "slot.pin",    PF_SLOT | PF_PIN,   0,           0) \
	M(17, SLOT_BLOCKED, "slot.blocked", PF_SLOT,          PR_BLOCKED,  0) \
	M(18, SLOT_VPC,    "slot.vpc",    PF_SLOT | PF_VPC | PF_EGRESS, 0, 0) \
	M(19, VPC_REMOVE,  "vpc.remove",  PF_VPC,             0,           0) \
	M(20, VPC_WG,      "vpc.wg",      PF_VPC | PF_WG,     0,           0) \
	M(21, VPC_WAKE,    "vpc.wake",    PF_VPC,             PR_FD,       1) \
	M(22, VPC_FRESH,   "vpc.fresh",   PF_VPC | PF_FRESH,  0,           0) \
	M(23, SLOT_UDP,    "slot.udp",    PF_SLOT,            PR_FD,       1) \
	M(24, VPC_PEERS,   "vpc.peers",   PF_VPC,             PR_PEERS,    0) \
	M(25, SEED,        "seed",        PF_VM | PF_SPAWN,   PR_PID,      1) \
	M(26, FORK,        "fork",        PF_VM | PF_FORK,    PR_PID,      1) \
	M(27, FENCE,       "fence",       PF_FENCE,           0,           0)
/* clang-format on */

#define PRIV_AS_ENUM(num, NAME, name, req, rep, fds) PRIV_##NAME = (num),
enum priv_op { PRIV_OPS(PRIV_AS_ENUM) PRIV_OP_END };

/* Name of an operation; NULL for an unknown number. */
const char *priv_op_name(unsigned op);
/* [a-z0-9-], 1 to PRIV_VM_ID_MAX, no leading '-': fits a file name, a cgroup, a log line. */
bool priv_vm_id_valid(const char *s);

struct priv_req {
	uint32_t id;
	unsigned op; /* one of enum priv_op, checked by decode */
	char vm_id[PRIV_VM_ID_MAX + 1];
	uint32_t slot;
	bool open;
	uint32_t cursor;
	uint64_t fence_ms; /* clock_boot_ms(); 0: no fence */
	struct {
		int32_t slot; /* -1: none */
		uint32_t mem_mb, vcpus;
		bool kvm;
		uint32_t n_argv, n_env;
		const char *argv[PRIV_ARGV_MAX + 1]; /* NULL-terminated */
		const char *env[PRIV_ENV_MAX + 1];   /* NULL-terminated */
		char *text; /* owned after decode: argv and env point into it */
	} spawn;
	struct {
		char seed[PRIV_VM_ID_MAX + 1];
		int32_t slot; /* -1: none */
		uint32_t mem_mb, vcpus;
	} fork;
	struct priv_egress egress;
	struct priv_pin pin;
	struct priv_vpc vpc;
	struct priv_wg wg;
	struct priv_fresh fresh;
};

struct priv_rep_vm {
	char vm_id[PRIV_VM_ID_MAX + 1];
	int32_t slot;
	uint32_t pid;
};

struct priv_rep {
	uint32_t id;
	int code; /* 0 or negative errno */
	char msg[384];
	struct {
		uint32_t version, slots_max;
		char tag[16], limits[64];
		bool kvm;
	} info;
	uint32_t slot;
	char host_addr[16];
	uint64_t stats[4]; /* from guest bytes, to guest bytes, from packets, to packets */
	uint32_t pid;
	uint32_t status;
	uint32_t cursor, n_vms;
	struct priv_rep_vm vms[PRIV_LIST_MAX];
	uint32_t n_slots;
	uint32_t slots[PRIV_SLOTS_LIMIT];
	uint64_t vm_stats[3]; /* cpu us, memory bytes, private bytes */
	uint32_t n_blocked;
	struct priv_blocked blocked[PRIV_BLOCKED_MAX];
	uint32_t n_peers;
	struct priv_wg_seen peers[PRIV_WG_PEERS_MAX];
};

void priv_req_done(struct priv_req *m);
/* 0, -EINVAL (a field out of its limits) or -ENOMEM. */
int priv_req_encode(const struct priv_req *m, struct buf *out, struct err *err);
/* Every field in its limits, no byte left over, or -EBADMSG. Call priv_req_done() after success. */
int priv_req_decode(const void *p, size_t n, struct priv_req *ret, struct err *err);

/* op determines which fields follow a code of 0. */
int priv_rep_encode(const struct priv_rep *m, unsigned op, struct buf *out, struct err *err);
/* Only the id, to find out which operation it answers. */
int priv_rep_id(const void *p, size_t n, uint32_t *ret_id);
int priv_rep_decode(const void *p, size_t n, unsigned op, struct priv_rep *ret, struct err *err);
/* Descriptors that a successful reply of op carries; PRIV_VM_LIST: n_vms of the decoded reply. */
size_t priv_rep_fds(unsigned op, const struct priv_rep *m);
