/* SPDX-License-Identifier: Apache-2.0 */
/* fake_net.c - policies and private networks of the fake VM manager: as the real ones, without a
 * network */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "net/egress.h"
#include "net/gate.h"
#include "tests/unit/fake_internal.h"
#include "vm/network.h"

int vmm_egress_get(struct vmm *m, const char *account, const char *id, struct egress **ret,
                   struct err *err)
{
	LOCK_SCOPE(&m->lock);

	*ret = NULL;
	return fake_find(m, account, id, err) ? 0 : -ENOENT;
}

int vmm_egress_set(struct vmm *m, const char *account, const char *id, struct egress *e,
                   struct err *err)
{
	LOCK_SCOPE(&m->lock);

	return fake_find(m, account, id, err) ? egress_keep_secrets(e, NULL, err) : -ENOENT;
}

int vmm_egress_blocked(struct vmm *m, const char *account, const char *id,
                       struct gate_blocked **ret, size_t *ret_n, struct err *err)
{
	LOCK_SCOPE(&m->lock);

	if (!fake_find(m, account, id, err))
		return -ENOENT;
	*ret = calloc(1, sizeof(**ret));
	**ret = (struct gate_blocked){
		.cause = GATE_ADDRESS, .addr = 0xc6336407, .proto = 6, .port = 443, .count = 1
	};
	*ret_n = 1;
	return 0;
}

static int no_vpc(const char *id, struct err *err)
{
	return err_tag(err, -ENOENT, ERR_NOT_FOUND, "no VPC '%.40s'", id);
}

int vmm_vpc_create(struct vmm *m, const char *account, const char *name, const char *cidr,
                   struct vpc_info *ret, struct err *err)
{
	(void)m;
	(void)account;
	(void)err;
	*ret = (struct vpc_info){ .id = "vpc-00000000000000000000",
		                  .net = 0x0a000000,
		                  .prefix = 16 };
	snprintf(ret->name, sizeof(ret->name), "%s", name);
	return strcmp(cidr, "10.0.0.0/16") ? err_tag(err, -EINVAL, ERR_BAD_REQUEST, "'cidr'") : 0;
}

int vmm_vpc_get(struct vmm *m, const char *account, const char *id, struct vpc_info *ret,
                struct err *err)
{
	(void)m;
	(void)account;
	(void)ret;
	return no_vpc(id, err);
}

int vmm_vpc_list(struct vmm *m, const char *account, struct vpc_info **ret, size_t *ret_n,
                 struct err *err)
{
	(void)m;
	(void)account;
	(void)err;
	*ret = calloc(1, sizeof(**ret));
	*ret_n = 0;
	return 0;
}

int vmm_vpc_delete(struct vmm *m, const char *account, const char *id, struct err *err)
{
	(void)m;
	(void)account;
	return no_vpc(id, err);
}

int vmm_tunnel_open(struct vmm *m, const char *account, const char *vpc, struct tunnel *ret,
                    struct err *err)
{
	(void)m;
	(void)account;
	(void)ret;
	return no_vpc(vpc, err);
}

int vmm_tunnel_close(struct vmm *m, const char *account, const char *vpc, const char *id,
                     struct err *err)
{
	(void)m;
	(void)account;
	(void)id;
	return no_vpc(vpc, err);
}

int vmm_tunnel_peer(struct vmm *m, const char *account, const char *vpc, const char *gateway_vm,
                    const char *public_key, struct tunnel *ret, struct err *err)
{
	(void)m;
	(void)account;
	(void)gateway_vm;
	(void)public_key;
	(void)ret;
	return no_vpc(vpc, err);
}
