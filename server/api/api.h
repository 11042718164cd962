/* SPDX-License-Identifier: Apache-2.0 */
/*
 * api/api.h - the HTTP API; for main.c
 *
 * The routes are listed in api/<folder>/routes.h, beside their handlers; requests and replies
 * follow the Freestyle protocol.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct api;
struct auth;
struct builder;
struct certs;
struct conf;
struct domains;
struct zones;
struct err;
struct events;
struct front;
struct logs;
struct peers;
struct ports;
struct repos;
struct serverless;
struct sshd;
struct store;
struct syncs;
struct triggers;
struct webhooks;
struct vmm;
struct web;
struct mcp;
struct route;

/* Of the edge's process. */
struct api_edge_status {
	int pid; /* -1: none at the moment */
	unsigned starts;
	uint64_t connections, requests, refused, woken,
	        lines_lost; /* of all processes there were */
	unsigned open;
};

struct api_deps { /* all weak: they outlive the API */
	const struct conf *conf;
	struct store *store;
	struct node *node;   /* NULL, these two: the database is not shared */
	struct peers *peers; /* connections to the other nodes */
	struct vmm *vmm;
	struct builder *builder;
	struct auth *auth;
	struct events *events; /* NULL: background requests publish no events */
	struct logs *logs;
	struct repos *repos;           /* NULL: there are none (tests) */
	struct syncs *syncs;           /* NULL: likewise */
	struct triggers *triggers;     /* NULL: likewise */
	struct webhooks *webhooks;     /* NULL: likewise */
	struct serverless *serverless; /* NULL: likewise */
	struct sshd *sshd;             /* NULL: there is no SSH front */
	const struct web *web;         /* the dashboard; NULL: none (tests) */
	const char *walls;             /* those around this process; NULL: none (tests) */
	struct ports *ports;           /* NULL: likewise */
	struct domains *domains;       /* NULL, these six: no edge */
	struct zones *zones;
	struct certs *certs;
	struct front *front;
	/* A wildcard certificate for a verified domain. */
	int (*wildcard)(struct front *f, const char *domain, struct err *err);
	void (*edge_status)(struct front *f, struct api_edge_status *ret);
	/* What the edge sends in X-Pando-Edge with requests it passes on, and nobody else knows:
	 * then X-Forwarded-For says where they come from. NULL: none does */
	const char *public_ipv4,
	        *public_ipv6; /* where names of this server lead; "" or NULL: unknown */
	const char *edge_secret;
	/* mcp_deps() fills in these three. NULL: no MCP server */
	struct mcp *mcp;
	const struct route *more_routes;
	size_t n_more_routes;
	unsigned header_ms; /* from a connection to complete headers; 0: the default. Tests shorten
	                     * it
	                     */
	int listen_fd;      /* from api_listen(); api_start() takes it; 0: it opens one itself */
};

/* Opens the socket early, so that an address in use is found before anything else starts. */
int api_listen(const struct conf *conf, struct err *err);

/* Listens on deps->conf->listen and starts answering. */
int api_start(const struct api_deps *deps, struct api **ret, struct err *err);
/*
 * Accepts no new connections or requests and waits up to drain_ms for running ones. 0: all
 * are done, everything is freed. -EBUSY: some still run (a long command); end what they
 * wait for (close the guests) and call again, or exit the process.
 */
int api_stop(struct api *a, unsigned drain_ms, struct err *err);
/* Requests that another node passes on come from that socket. Takes it in any case. */
int api_take_node(void *api, int fd_consume, const char *node, struct err *err);
/* "http://127.0.0.1:8787", with the real port. */
const char *api_url(const struct api *a, char *buf, size_t size);
