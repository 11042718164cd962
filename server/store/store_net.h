/* SPDX-License-Identifier: Apache-2.0 */
/* store/store_net.h - policies, private networks and tunnels; for vm/ and tests */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "store/store.h"

#define VPC_NAME_MAX 128
#define WG_KEY_TEXT 45 /* base64 of 32 bytes, with the NUL */

/* ---- policies ---- */
struct store_egress {
	char *policy;           /* JSON, with its secrets; owned, all of them */
	char *ca_cert, *ca_key; /* PEM, or "" */
};
void store_egress_done(struct store_egress *e);
/* Replaces an existing one. */
int store_egress_put(struct store *s, const char *vm_id, const struct store_egress *e,
                     struct err *err);
/* -ENOENT: it has none. */
int store_egress_get(struct store *s, const char *vm_id, struct store_egress *ret, struct err *err);
/* Deletes policy and address of a VM whose creation failed. */
int store_net_drop(struct store *s, const char *vm_id, struct err *err);
/* The same for all without a VM: at start. */
int store_net_sweep(struct store *s, struct err *err);

/* ---- VPCs ---- */
struct store_vpc {
	char id[ID_SIZE];
	char account[ACCOUNT_SIZE];
	char name[VPC_NAME_MAX];
	uint32_t net, prefix;
	uint32_t idx;
	char wg_key[WG_KEY_TEXT]; /* private, base64 */
	int64_t created_ms;
};
/* A row that is no longer needed: its key is overwritten. */
static inline void store_vpc_wipe(struct store_vpc *v)
{
	explicit_bzero(v->wg_key, sizeof(v->wg_key));
}
#define autovpc __attribute__((cleanup(store_vpc_wipe))) struct store_vpc
/* Fills in idx, the lowest free one below limit; -ENOSPC: none is. */
int store_vpc_add(struct store *s, struct store_vpc *v, uint32_t limit, struct err *err);
int store_vpc_get(struct store *s, const char *id, struct store_vpc *ret, struct err *err);
/* account NULL: all. Newest first. Caller frees. */
int store_vpc_list(struct store *s, const char *account, struct store_vpc **ret, size_t *ret_n,
                   struct err *err);
/* With its tunnels; -EBUSY if it has VMs. */
int store_vpc_delete(struct store *s, const char *id, struct err *err);

struct store_nic {
	char vm_id[ID_SIZE];
	char vpc[ID_SIZE];
	uint32_t addr;
	bool is_default;
};
/* -EEXIST: another VM has the address. */
int store_nic_add(struct store *s, const struct store_nic *n, struct err *err);
int store_nic_get(struct store *s, const char *vm_id, struct store_nic *ret, struct err *err);
/* Of one VPC; by address. Caller frees. */
int store_nic_list(struct store *s, const char *vpc, struct store_nic **ret, size_t *ret_n,
                   struct err *err);

/* ---- tunnels ---- */
struct store_peer {
	char id[ID_SIZE];
	char vpc[ID_SIZE];
	char gateway_vm[ID_SIZE]; /* or "" */
	char public_key[WG_KEY_TEXT];
	uint32_t tunnel_ip;
	int64_t created_ms;
	int64_t expires_ms; /* 0: never */
};
/* -EEXIST: the address or the key is in use. */
int store_peer_add(struct store *s, const struct store_peer *p, struct err *err);
int store_peer_delete(struct store *s, const char *vpc, const char *id, struct err *err);
/* vpc NULL: all. Caller frees. */
int store_peer_list(struct store *s, const char *vpc, struct store_peer **ret, size_t *ret_n,
                    struct err *err);
