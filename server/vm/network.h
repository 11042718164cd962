/* SPDX-License-Identifier: Apache-2.0 */
/* vm/network.h - policies, private networks and tunnels of VMs; for api/ */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vm/vm.h"

struct egress;
struct gate_blocked;

/* The caller egress_unref()s; NULL: the default. */
int vmm_egress_get(struct vmm *m, const char *account, const char *id, struct egress **ret,
                   struct err *err);
/*
 * Takes hold at once when the VM runs, also for connections that are open. Secrets that e keeps are
 * filled in from the policy that it replaces; afterwards e is shared and does not change any more.
 */
int vmm_egress_set(struct vmm *m, const char *account, const char *id, struct egress *e,
                   struct err *err);
/* Newest first. Caller frees. */
int vmm_egress_blocked(struct vmm *m, const char *account, const char *id,
                       struct gate_blocked **ret, size_t *ret_n, struct err *err);

/* ---- VPCs ---- */
struct vpc_vm {
	char vm_id[ID_SIZE];
	uint32_t addr; /* host byte order */
};
struct vpc_info {
	char id[ID_SIZE];
	char name[128];
	uint32_t net;
	uint8_t prefix;
	int64_t created_ms;
	struct vpc_vm *vms; /* of one that was asked for by its id; the caller frees */
	size_t n_vms;
};
int vmm_vpc_create(struct vmm *m, const char *account, const char *name, const char *cidr,
                   struct vpc_info *ret, struct err *err);
int vmm_vpc_get(struct vmm *m, const char *account, const char *id, struct vpc_info *ret,
                struct err *err);
/* Newest first, without their VMs. Caller frees. */
int vmm_vpc_list(struct vmm *m, const char *account, struct vpc_info **ret, size_t *ret_n,
                 struct err *err);
/* -EBUSY: it has VMs. Its tunnels end. */
int vmm_vpc_delete(struct vmm *m, const char *account, const char *id, struct err *err);
/* Private address of a VM, 0: none; its VPC. */
int vmm_vm_address(struct vmm *m, const char *account, const char *vm_id, char ret_vpc[ID_SIZE],
                   uint32_t *ret_addr, struct err *err);

/* ---- tunnels ---- */
struct tunnel {
	char id[ID_SIZE]; /* of the session */
	char vpc[ID_SIZE];
	char host[256]; /* and port: where the client sends to */
	uint16_t port;
	char server_public[48], client_public[48];
	char client_private[48];       /* "" when the client made it: shown once, kept nowhere */
	uint32_t server_ip, client_ip; /* inside the tunnel */
	uint32_t net;
	uint8_t prefix;     /* range of the VPC */
	int64_t expires_ms; /* 0: never */
};
int vmm_tunnel_open(struct vmm *m, const char *account, const char *vpc, struct tunnel *ret,
                    struct err *err);
int vmm_tunnel_close(struct vmm *m, const char *account, const char *vpc, const char *id,
                     struct err *err);
/* One that is open, without its keys but the client's public one. */
struct tunnel_info {
	char id[ID_SIZE];
	char gateway_vm[ID_SIZE]; /* of a key that the client brought, or "" */
	char client_public[48];
	uint32_t server_ip, client_ip;  /* inside the tunnel */
	uint16_t port;                  /* of this host */
	int64_t created_ms, expires_ms; /* 0: never */
	/* Since the tunnel's interface is there; handshake_s: seconds since the epoch, 0: never. */
	bool seen;
	int64_t handshake_s;
	uint64_t rx_bytes, tx_bytes; /* from and to the client */
};
/* In the order in which they were opened. Caller frees. */
int vmm_tunnel_list(struct vmm *m, const char *account, const char *vpc, struct tunnel_info **ret,
                    size_t *ret_n, struct err *err);
/* For a key the client has; ends with the VM it is asked for. */
int vmm_tunnel_peer(struct vmm *m, const char *account, const char *vpc, const char *gateway_vm,
                    const char *public_key, struct tunnel *ret, struct err *err);
