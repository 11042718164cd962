/* SPDX-License-Identifier: Apache-2.0 */
/* site.h - the site's proxy, mirrors and certificates, from the settings to who needs them; for
 * main only */
#pragma once

struct conf;
struct err;
struct gates;
struct vmm;

/* Before VMs are handed out. */
int site_start(const struct conf *c, struct gates *g, struct vmm *m, struct err *err);
