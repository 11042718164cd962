/* SPDX-License-Identifier: Apache-2.0 */
/*
 * priv/vpcnet.h - the namespaces of VPCs
 *
 * A VPC's namespace only routes between its VMs: one link per
 * slot, one route per VM, no link to the host. It is kept by a bind mount below
 * the instance's directory, so it outlives us as the slots do.
 */
#pragma once

#include <stdint.h>

#include "wire/priv_net.h"

struct err;
struct instance;
struct slotnet;
struct slotnet_env;

/* Links a slot to the VPC and routes the VM's address; the namespace is created if missing. */
int vpcnet_attach(const struct slotnet_env *env, const struct instance *in,
                  const struct priv_vpc *v, uint32_t slot, const struct slotnet *sn, uint32_t addr,
                  struct err *err);
/* Does nothing if there is none. */
int vpcnet_remove(const struct slotnet_env *env, const struct instance *in, uint32_t idx,
                  struct err *err);
/* All of the instance. */
void vpcnet_remove_all(const struct slotnet_env *env, const struct instance *in);
/* vpcwg.c: sets up the tunnel. */
int vpcnet_wg(const struct slotnet_env *env, const struct instance *in, const struct priv_vpc *v,
              const struct priv_wg *wg, struct err *err);
/* What the tunnel's interface knows of its peers; none without a tunnel. */
int vpcnet_wg_peers(const struct slotnet_env *env, const struct instance *in,
                    const struct priv_vpc *v, struct priv_wg_seen ret[PRIV_WG_PEERS_MAX],
                    uint32_t *ret_n, struct err *err);
/* vpcwake.c: a device that gets what is for addresses of the range without a VM that runs; it ends
 * with its descriptor. */
int vpcnet_wake(const struct slotnet_env *env, const struct instance *in, const struct priv_vpc *v,
                int *ret_fd, struct err *err);
int vpcnet_fresh(const struct slotnet_env *env, const struct instance *in, const struct priv_vpc *v,
                 const struct priv_fresh *f, struct err *err);
void vpcnet_wg_remove(const struct instance *in, uint32_t idx);

/* Its rules; the thread is in it. */
int vpcnet_rules(const struct priv_vpc *v, struct err *err);
/* The namespace's descriptor; created if missing. */
int vpcnet_open(const struct slotnet_env *env, const struct instance *in, const struct priv_vpc *v,
                struct err *err);
/* rtnetlink inside it. */
int vpcnet_nl(const struct slotnet_env *env, int ns, struct err *err);
