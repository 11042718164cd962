/* SPDX-License-Identifier: Apache-2.0 */
/* mcp/mcp.h - a Model Context Protocol server at /mcp, over the API's routes; for main.c */
#pragma once

struct api_deps;
struct err;
struct mcp; /* its sessions */

int mcp_new(struct mcp **ret, struct err *err);
/* After the API has stopped. Returns NULL. */
struct mcp *mcp_free(struct mcp *m);
/* Before api_start(): the API answers /mcp as well. */
void mcp_deps(struct mcp *m, struct api_deps *deps);
