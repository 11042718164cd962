/* SPDX-License-Identifier: Apache-2.0 */
/* status.c - counts connections and channels */
#include <stdio.h>

#include "base/auto.h"
#include "ssh/ssh_internal.h"

void sshd_status(struct sshd *d, struct sshd_status *ret)
{
	LOCK_SCOPE(&d->lock);

	*ret = (struct sshd_status){ .connections = d->n_conns,
		                     .authenticated = d->n_conns - d->n_strangers,
		                     .channels = atomic_load(&d->n_channels),
		                     .ended_badly = d->ended_badly };
	snprintf(ret->address, sizeof(ret->address), "%s", d->address);
}
