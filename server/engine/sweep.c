/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sweep.c - memory that a guest has freed goes back to the host
 *
 * The layer library finds it (layers/guestmem.c). A first look is free for the guest; only when
 * there is something to be gained it is stopped, for as long as giving that up takes, and never
 * for more than SWEEP_STOP_PAGES at a time.
 */
#include <errno.h>

#include "base/clock.h"
#include "base/err.h"
#include "engine/argv.h"
#include "engine/engine_internal.h"

#define SWEEP_LEAST_PAGES 8192u /* 32 MB: less is not worth a stop */
#define SWEEP_STOP_PAGES 65536u /* 256 MB, some 20 ms */
#define SWEEP_STOPS 512u        /* a guest that frees for ever is left alone after so many */

struct layer_kernel qemu_kernel(struct machine *m, uint64_t note)
{
	if (note && !m->knows_free) {
		int r = layerctl_knows_free(m->layers_fd, deadline_in(QMP_STEP_MS), NULL);

		m->knows_free = r > 0 ? 1 : r == 0 ? -1 : 0;
	}
	return (struct layer_kernel){ .note = m->knows_free > 0 ? note : 0,
		                      .low_mb = argv_low_mb(m->mem_mb) };
}

/* One stop. */
static int give(struct machine *m, const struct layer_kernel *k, struct machine_swept *ret,
                uint32_t *ret_left, struct err *err)
{
	uint64_t t0 = clock_us(), pages = 0;
	int r = m->e->ops->stop(m, err), rc;

	*ret_left = 0;
	if (r < 0)
		return r;
	r = layerctl_sweep(m->layers_fd, k, SWEEP_STOP_PAGES, deadline_in(QMP_STEP_MS), &pages,
	                   ret_left, err);
	rc = m->e->ops->cont(m, r < 0 ? NULL : err);
	ret->given_pages += pages;
	ret->pause_us += clock_us() - t0;
	return r < 0 ? r : rc;
}

int qemu_sweep(struct machine *m, uint64_t note, struct machine_swept *ret, struct err *err)
{
	struct layer_kernel k = qemu_kernel(m, note);
	uint64_t t0 = clock_us();
	uint32_t left = 0;
	int r;

	if (!k.note)
		return err_set(err, -ENOTSUP, "what the guest has free is not known");
	r = layerctl_sweep(m->layers_fd, &k, 0, deadline_in(QMP_STEP_MS), &ret->found_pages, &left,
	                   err);
	ret->look_us = clock_us() - t0;
	if (r < 0 || ret->found_pages < SWEEP_LEAST_PAGES)
		return r;
	for (unsigned i = 0; r == 0 && left > 0 && i < SWEEP_STOPS; i++)
		r = give(m, &k, ret, &left, err);
	return r;
}
