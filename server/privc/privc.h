/* SPDX-License-Identifier: Apache-2.0 */
/*
 * privc/privc.h - client of pando-priv; for engine/, vm/, net/
 *
 * pandod inherits one SOCK_SEQPACKET socket to pando-priv (descriptor number in
 * PANDO_PRIV_FD). Any thread may call at any time: requests carry ids, and a slow
 * one (a kill waits for the end) does not delay others. Each has a deadline. Once
 * the connection to pando-priv was lost every call fails with -EPIPE.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/id.h"
#include "base/proc.h"
#include "wire/priv_net.h"

struct err;
struct privc;

struct priv_info {
	uint32_t version;
	char tag[16];    /* instance: part of every name created on the host */
	char limits[64]; /* "cgroup v2", "cgroup v1 (memory cpu pids)", "none" */
	bool kvm;        /* /dev/kvm is there and can be opened */
	uint32_t slots_max;
};
int privc_open(int fd_consume, struct privc **ret, struct priv_info *ret_info, struct err *err);
struct privc *privc_free(struct privc *c);

/* ---- network slots ---- */
struct priv_slot {
	uint32_t idx;
	char host_addr[16];   /* unique address of this slot on the host side, "10.231.0.2" */
	int dns_udp, dns_tcp; /* owned: sockets bound to 10.0.0.1:53 inside the slot, for the name
	                         forwarder */
};
/* A clean slot from the pool (built on the spot if the pool is empty): link down, nothing passes.
 */
int privc_slot_take(struct privc *c, struct priv_slot *ret, struct err *err);
/* Opens again what privc_slot_take() returned, for a slot that is still taken (after a restart of
 * pandod).
 */
int privc_slot_adopt(struct privc *c, uint32_t idx, struct priv_slot *ret, struct err *err);
/* Opens or closes the gate: while closed no byte passes between guest and network. */
int privc_slot_gate(struct privc *c, uint32_t idx, bool open, struct err *err);
/* Returns the slot: conntrack and counters are cleared before it is reused. */
int privc_slot_free(struct privc *c, uint32_t idx, struct err *err);
struct priv_slot_stats {
	uint64_t from_guest_bytes, to_guest_bytes, from_guest_packets, to_guest_packets;
};
int privc_slot_stats(struct privc *c, uint32_t idx, struct priv_slot_stats *ret, struct err *err);
/* A TCP socket created inside the slot's namespace, not connected: connect(2) it to 10.0.0.2:port.
 */
int privc_slot_socket(struct privc *c, uint32_t idx, bool udp, int *ret_fd, struct err *err);

/* ---- jailed QEMU ---- */
#define PRIV_SPAWN_FDS_MAX 40
#define PRIV_FD_FIRST 10            /* fds[i] becomes descriptor PRIV_FD_FIRST + i in the child */
#define PRIVC_FILE_MAX (3ull << 40) /* RLIMIT_FSIZE of the child: its files end there */
struct priv_spawn {
	const char *vm_id; /* [a-z0-9-]{1,40}; unique among running ones */
	int slot; /* index of a taken slot, or -1: no network. Its tap arrives as PRIV_TAP_FD */
	const char *const *argv; /* arguments after the program name, NULL-terminated; -sandbox is
	                            added by pando-priv */
	const char *const *env;  /* NULL-terminated; only PANDO_* names are accepted */
	const int *fds;          /* borrowed */
	size_t n_fds;
	int log_fd;      /* borrowed; stdout and stderr of QEMU */
	uint32_t mem_mb; /* of the guest; the cgroup limit leaves room for QEMU itself */
	uint32_t vcpus;
	bool kvm;  /* put /dev/kvm into the jail */
	bool seed; /* may be forked: -ENOTSUP where the host cannot */
};
#define PRIV_TAP_FD 9
int privc_spawn(struct privc *c, const struct priv_spawn *s, struct proc *ret_proc,
                struct err *err);
/* A process that a seed has forked becomes a VM, and continues. */
struct priv_fork {
	const char *vm_id, *seed; /* the seed's id */
	int slot;                 /* as in priv_spawn */
	uint32_t mem_mb, vcpus;
	int gate_fd; /* borrowed: where it waits, layers/control.h */
	int pidfd;   /* borrowed: of that process */
};
int privc_fork(struct privc *c, const struct priv_fork *f, struct proc *ret_proc, struct err *err);
/* SIGKILL for all of its processes, reap, remove its cgroup and record. Succeeds if it has already
 * ended. */
int privc_kill(struct privc *c, const char *vm_id, struct err *err);
/* Until when VMs may run: pando-priv ends them at that time (clock_boot_ms()) unless it was moved
 * on; it never moves back. 0: for ever. -ESTALE: it has passed already. */
int privc_fence(struct privc *c, uint64_t deadline_ms, struct err *err);
/* How a VM's process ended: wait status as from waitpid(2), or -ENOENT / -EAGAIN (still running).
 */
int privc_exit_status(struct privc *c, const char *vm_id, int *ret_status, struct err *err);
struct priv_vm {
	char vm_id[48];
	int32_t slot;
	struct proc proc; /* owned pidfd */
};
/* All VMs still running, for recovery. Caller closes the pidfds and frees. */
int privc_list(struct privc *c, struct priv_vm **ret, size_t *ret_n, struct err *err);
/* Slots that are taken, for recovery. Caller frees. */
int privc_slots_taken(struct privc *c, uint32_t **ret, size_t *ret_n, struct err *err);
struct priv_vm_stats {
	uint64_t cpu_us, mem_bytes,
	        private_bytes; /* private: anonymous memory of QEMU (smaps_rollup) */
};
int privc_vm_stats(struct privc *c, const char *vm_id, struct priv_vm_stats *ret, struct err *err);

/* ---- policies, VPCs, tunnels ---- */
/* Rules, limits and, with a VPC, the link into it (its namespace is created if missing). */
int privc_slot_policy(struct privc *c, uint32_t idx, const struct priv_egress *e,
                      const struct priv_vpc *vpc, struct err *err);
/* Listens inside the slot for connections that the policy redirects to the proxy. */
int privc_slot_proxy(struct privc *c, uint32_t idx, int *ret_fd, struct err *err);
int privc_slot_pin(struct privc *c, uint32_t idx, const struct priv_pin *p, struct err *err);
/* Destinations the rules blocked in the last hour. Caller frees. */
int privc_slot_blocked(struct privc *c, uint32_t idx, struct priv_blocked **ret, size_t *ret_n,
                       struct err *err);
/* Succeeds if there is none. */
int privc_vpc_remove(struct privc *c, const struct priv_vpc *vpc, struct err *err);
/* Packets for VMs of the VPC that do not run can be read from the descriptor, and written back. */
int privc_vpc_wake(struct privc *c, const struct priv_vpc *vpc, int *ret_fd, struct err *err);
/* For ttl_s nobody in the VPC hears that ports of that address are closed. */
int privc_vpc_fresh(struct privc *c, const struct priv_vpc *vpc, uint32_t addr, uint32_t ttl_s,
                    struct err *err);
/* Sets all peers of the VPC's tunnel. */
int privc_vpc_wg(struct privc *c, const struct priv_vpc *vpc, const struct priv_wg *wg,
                 struct err *err);
/* What its tunnel knows of its peers. Caller frees. */
int privc_vpc_peers(struct privc *c, const struct priv_vpc *vpc, struct priv_wg_seen **ret,
                    size_t *ret_n, struct err *err);
