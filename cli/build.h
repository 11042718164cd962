/* SPDX-License-Identifier: Apache-2.0 */
/* cli/build.h - requests that may build for minutes, with the build's log; for cli/ */
#pragma once

#include <jansson.h>
#include <stdbool.h>

struct cli;

/* The JSON object of a file ("-": stdin). CLI_OK, or CLI_USAGE after an error message. */
int build_json(const char *file, json_t **ret);
/* The same as a request body; a bare layer becomes its spec. */
int build_body(const char *file, json_t **ret);
/*
 * POST of a create: goes to the background after a second, its log on stderr until it is done.
 * CLI_OK and the reply, or another status after an error message. body is borrowed.
 */
int build_request(struct cli *c, const char *path, json_t *body, bool quiet, json_t **ret);
