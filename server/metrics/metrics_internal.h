/* SPDX-License-Identifier: Apache-2.0 */
/* metrics/metrics_internal.h - for files of this folder only */
#pragma once

#include "metrics/metrics.h"

const struct metric_cell *metrics_cell_of(enum metric m, unsigned value);
