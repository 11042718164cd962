/* SPDX-License-Identifier: Apache-2.0 */
/* privc/slot.c - network slots: each call is one request to pando-priv */
#include "privc/privc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "privc/privc_internal.h"

static int ask_slot(struct privc *c, struct priv_req *m, struct priv_slot *ret, struct err *err)
{
	autoanswer struct privc_answer *a = NULL;
	int r = privc_call(c, m, NULL, 0, &a, err);

	if (r < 0)
		return r;
	*ret = (struct priv_slot){ .idx = a->rep.slot,
		                   .dns_udp = TAKE_FD(a->fds[0]),
		                   .dns_tcp = TAKE_FD(a->fds[1]) };
	memcpy(ret->host_addr, a->rep.host_addr, sizeof(ret->host_addr));
	return 0;
}

int privc_slot_take(struct privc *c, struct priv_slot *ret, struct err *err)
{
	struct priv_req m = { .op = PRIV_SLOT_TAKE };

	return ask_slot(c, &m, ret, err);
}

int privc_slot_adopt(struct privc *c, uint32_t idx, struct priv_slot *ret, struct err *err)
{
	struct priv_req m = { .op = PRIV_SLOT_ADOPT, .slot = idx };

	return ask_slot(c, &m, ret, err);
}

int privc_slot_gate(struct privc *c, uint32_t idx, bool open, struct err *err)
{
	struct priv_req m = { .op = PRIV_SLOT_GATE, .slot = idx, .open = open };

	return privc_call(c, &m, NULL, 0, NULL, err);
}

int privc_slot_free(struct privc *c, uint32_t idx, struct err *err)
{
	struct priv_req m = { .op = PRIV_SLOT_FREE, .slot = idx };

	return privc_call(c, &m, NULL, 0, NULL, err);
}

int privc_slot_stats(struct privc *c, uint32_t idx, struct priv_slot_stats *ret, struct err *err)
{
	struct priv_req m = { .op = PRIV_SLOT_STATS, .slot = idx };
	autoanswer struct privc_answer *a = NULL;
	int r = privc_call(c, &m, NULL, 0, &a, err);

	if (r < 0)
		return r;
	*ret = (struct priv_slot_stats){ .from_guest_bytes = a->rep.stats[0],
		                         .to_guest_bytes = a->rep.stats[1],
		                         .from_guest_packets = a->rep.stats[2],
		                         .to_guest_packets = a->rep.stats[3] };
	return 0;
}

int privc_slot_socket(struct privc *c, uint32_t idx, bool udp, int *ret_fd, struct err *err)
{
	struct priv_req m = { .op = udp ? PRIV_SLOT_UDP : PRIV_SLOT_SOCKET, .slot = idx };
	autoanswer struct privc_answer *a = NULL;
	int r = privc_call(c, &m, NULL, 0, &a, err);

	if (r < 0)
		return r;
	*ret_fd = TAKE_FD(a->fds[0]);
	return 0;
}

int privc_slots_taken(struct privc *c, uint32_t **ret, size_t *ret_n, struct err *err)
{
	struct priv_req m = { .op = PRIV_SLOT_LIST };
	autoanswer struct privc_answer *a = NULL;
	autofree uint32_t *v = NULL;
	int r = privc_call(c, &m, NULL, 0, &a, err);

	if (r < 0)
		return r;
	v = calloc(a->rep.n_slots + 1, sizeof(*v));
	if (!v)
		return err_set(err, -ENOMEM, "list of slots: out of memory");
	memcpy(v, a->rep.slots, a->rep.n_slots * sizeof(*v));
	*ret_n = a->rep.n_slots;
	*ret = TAKE_PTR(v);
	return 0;
}
