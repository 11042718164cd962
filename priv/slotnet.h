/* SPDX-License-Identifier: Apache-2.0 */
/*
 * priv/slotnet.h - one slot's namespace: build it, reach into it, remove it
 *
 * Functions that enter a namespace do so with the calling thread only and are
 * back in the host's when they return; a thread that cannot come back ends the
 * program.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "priv/netplan.h"

struct err;
struct nl_link;

struct slotnet {
	int ns;           /* owned: the namespace */
	int nl;           /* owned: rtnetlink inside it; callers serialise */
	unsigned ifindex; /* of the tap inside it */
};
#define SLOTNET_NONE ((struct slotnet){ .ns = -1, .nl = -1 })

struct slotnet_env {
	int host_ns;  /* the host's namespace */
	int host_nl;  /* rtnetlink of the host's namespace; the builder's own */
	uint32_t mtu; /* of new links */
};

/* ns_path: where the namespace is kept by a bind mount. The tap is left down: the gate is closed.
 */
int slotnet_build(const struct slotnet_env *env, const struct net_slot *plan, const char *ns_path,
                  struct slotnet *ret, struct err *err);
/* Opens what slotnet_build() of an earlier process created. */
int slotnet_open(const struct slotnet_env *env, const char *ns_path, struct slotnet *ret,
                 struct err *err);
/* Removes the slot's link, mount and namespace; a missing one is fine. */
void slotnet_destroy(const struct slotnet_env *env, const struct net_slot *plan,
                     const char *ns_path, struct slotnet *sn);
void slotnet_close(struct slotnet *sn);

/* A descriptor of the tap for QEMU. */
int slotnet_tap(const struct slotnet_env *env, const struct slotnet *sn, int *ret_fd,
                struct err *err);
/* A TCP socket inside the slot, not connected. */
int slotnet_socket(const struct slotnet_env *env, const struct slotnet *sn, int type, int *ret_fd,
                   struct err *err);
/* Sockets on the gateway's port 53 inside the slot; tcp listens. */
int slotnet_dns(const struct slotnet_env *env, const struct slotnet *sn, int *ret_udp, int *ret_tcp,
                struct err *err);
/* Listens on the gateway's port for redirected connections. */
int slotnet_proxy(const struct slotnet_env *env, const struct slotnet *sn, int *ret_fd,
                  struct err *err);
/* slotpolicy.c: rules, limits, VPC address; all of it or nothing. */
int slotnet_policy(const struct slotnet_env *env, const struct slotnet *sn,
                   const struct priv_egress *e, struct err *err);
int slotnet_pin(const struct slotnet_env *env, const struct slotnet *sn, const struct priv_pin *p,
                struct err *err);
int slotnet_blocked(const struct slotnet_env *env, const struct slotnet *sn,
                    struct priv_blocked ret[], uint32_t *ret_n, struct err *err);
int slotnet_gate(const struct slotnet *sn, bool open, struct err *err);
int slotnet_stats(const struct slotnet *sn, struct nl_link *ret, struct err *err);

/* ---- for the files of priv/ that work in namespaces ---- */
int slotnet_enter(int ns, struct err *err);
/* Returns to the host's namespace, or ends the program. */
void slotnet_leave(const struct slotnet_env *env);
/* Binds the thread's namespace to a path and opens it; slotnet_unkeep() removes the path. */
int slotnet_keep(const char *ns_path, struct err *err);
void slotnet_unkeep(const char *ns_path);
int slotnet_sysctl(const char *name, const char *value, struct err *err);
