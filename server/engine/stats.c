/* SPDX-License-Identifier: Apache-2.0 */
/* stats.c - the guest's disk requests since its machine started, as counted by QEMU */
#include <errno.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "engine/engine_internal.h"

static uint64_t count_of(const json_t *stats, const char *name)
{
	json_int_t v = json_integer_value(json_object_get(stats, name));

	return v > 0 ? (uint64_t)v : 0;
}

int qemu_disk_stats(struct machine *m, uint64_t deadline_ms, struct machine_disk_stats *ret,
                    struct err *err)
{
	json_t *list = NULL, *b;
	bool found = false;
	size_t i;
	int r = qmp_cmd(m->qmp, "query-blockstats", NULL, deadline_ms, &list, err);

	if (r < 0)
		return r;
	json_array_foreach(list, i, b)
	{
		const char *qdev = json_string_value(json_object_get(b, "qdev"));
		const json_t *stats = json_object_get(b, "stats");

		if (!qdev || !strstr(qdev, "disk"))
			continue;
		*ret = (struct machine_disk_stats){ .read_bytes = count_of(stats, "rd_bytes"),
			                            .write_bytes = count_of(stats, "wr_bytes") };
		found = true;
	}
	json_decref(list);
	return found ? 0 : err_set(err, -EBADMSG, "QEMU does not report disk statistics");
}
