/* SPDX-License-Identifier: Apache-2.0 */
/* front/front.h - the edge of this server: names, certificates and VMs behind it; for main.c */
#pragma once

struct api;
struct api_deps;
struct conf;
struct err;
struct front;
struct store;
struct vmm;

/* Takes the addresses, so that one in use is found early; serves nobody yet. */
int front_new(const struct conf *conf, struct store *store, struct vmm *vmm, struct front **ret,
              struct err *err);
/* What the API needs of it. */
void front_deps(struct front *f, struct api_deps *deps);
/* A wildcard certificate for a verified domain; blocks for as long as ACME takes. */
int front_wildcard(struct front *f, const char *domain, struct err *err);
int front_start(struct front *f, struct api *api, struct err *err);
void front_say(const struct front *f);
/* Cuts all connections; VMs are woken no more. NULL is fine, twice too. */
void front_stop(struct front *f);
struct front *front_free(struct front *f);
