/* SPDX-License-Identifier: Apache-2.0 */
/* history.c - GET /v1/vms/{id}/history: the last hour of a VM, as it was seen */
#include "vm/history.h"

#include <errno.h>

#include "api/vms/shared.h"
#include "base/auto.h"

/* Rates in whole bytes: nobody needs parts of one. */
static json_t *shape_sample(const struct history_sample *s)
{
	return json_pack(
	        "{s:o, s:f, s:I, s:I, s:I, s:I, s:I, s:I, s:s}", "at",
	        shape_time((int64_t)s->at_s * 1000), "cpuPercent",
	        (double)(int)(s->cpu * 10 + 0.5f) / 10, "memoryBytes", (json_int_t)s->mem_kb << 10,
	        "privateBytes", (json_int_t)s->private_kb << 10, "diskReadBytesPerSec",
	        (json_int_t)s->disk_read, "diskWriteBytesPerSec", (json_int_t)s->disk_write,
	        "netRxBytesPerSec", (json_int_t)s->net_rx, "netTxBytesPerSec",
	        (json_int_t)s->net_tx, "state", vm_state_name(s->state));
}

int api_vm_history(struct request *req, struct reply *res, struct err *err)
{
	autofree struct history_sample *s = NULL;
	autojson json_t *list = json_array();
	const char *id;
	size_t n;
	int r;

	if ((r = request_vm_id(req, 0, &id, err)) < 0 ||
	    (r = vmm_history(deps_of(req)->vmm, who_of(req)->account, id, &s, &n, err)) < 0)
		return r;
	for (size_t i = 0; i < n; i++)
		if (json_array_append_new(list, shape_sample(&s[i])) < 0)
			return err_set(err, -ENOMEM, "out of memory");
	return reply_json(res,
	                  json_pack("{s:s, s:i, s:O}", "vmId", id, "intervalSeconds",
	                            HISTORY_STEP_S, "samples", list),
	                  err);
}
