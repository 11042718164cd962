/* SPDX-License-Identifier: Apache-2.0 */
/* front/front.h - the edge of this server: names, certificates and VMs behind it; for main.c */
#pragma once

struct access;
struct api;
struct api_deps;
struct conf;
struct err;
struct front;
struct gates;
struct peers;
struct ports;
struct serverless;
struct store;
struct vmm;

/* Binds the addresses, so that one in use is found early; does not serve yet. */
/* Guests reach it through gates, and trust its CA. Requests are noted in the access log. */
int front_new(const struct conf *conf, struct store *store, struct vmm *vmm, struct gates *gates,
              struct access *access, struct peers *peers, struct front **ret, struct err *err);
/* Names that other nodes have mapped or released. NULL is fine. */
void front_refresh(struct front *f);
/* Says where VMs' own names lead; until ports_on_name() is told otherwise. */
void front_ports(struct front *f, struct ports *p);
/* Names of deployments lead nowhere before that. */
void front_serverless(struct front *f, struct serverless *s);
/* For the API: */
void front_deps(struct front *f, struct api_deps *deps);
/* A wildcard certificate for a verified domain; blocks for as long as ACME takes. */
int front_wildcard(struct front *f, const char *domain, struct err *err);
int front_start(struct front *f, struct api *api, struct err *err);
void front_say(const struct front *f);
/* Closes all connections; no more VMs are woken. NULL is fine, and so is calling it twice. */
void front_stop(struct front *f);
struct front *front_free(struct front *f);
