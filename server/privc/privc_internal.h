/* SPDX-License-Identifier: Apache-2.0 */
/* privc/privc_internal.h - between the files of privc/ only */
#pragma once

#include "privc/priv_ops.h"

/* One request, through the table. */
int privc_call(struct privc *c, struct priv_req *m, const int *fds, size_t n_fds,
               struct privc_answer **ret, struct err *err);
