/* SPDX-License-Identifier: Apache-2.0 */
/* api/account/host.h - what is wrong with the host; shared by host.c and metrics.c */
#pragma once

#include <jansson.h>

struct api_deps;
struct vmm_host;

enum host_level { HOST_ERROR, HOST_WARNING, HOST_INFO, HOST_LEVELS };
extern const char *const host_level_names[HOST_LEVELS];

/* [{level, text, whatToDo, link}], the worst first. */
json_t *host_notes(const struct api_deps *d, const struct vmm_host *h);
