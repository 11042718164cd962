/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net/gate.h - policies of the slots that are in use; for vm/
 *
 * Every slot in use has a gate here: it checks names for the forwarder, pins
 * their addresses, handles the connections that the rules redirect to the proxy, and
 * records what was blocked. Names of this server lead to the proxy, too, which passes their
 * connections on to whoever serves them. All functions may be called from any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/id.h"
#include "wire/priv_net.h"

struct dns;
struct egress;
struct err;
struct gates;
struct privc;

/* ---- blocked destinations: belong to a VM, whatever slot it is in ---- */

#define GATE_LOG_MAX 256u /* destinations kept per VM; the oldest go first */
#define GATE_NAME_MAX 254u

enum gate_cause {
	GATE_DNS,     /* a query for a name */
	GATE_ADDRESS, /* a packet, by its destination */
	GATE_NAMED,   /* a connection, by the name in it */
	GATE_CAUSE_MAX
};
struct gate_blocked {
	enum gate_cause cause;
	char name[GATE_NAME_MAX]; /* or "" */
	uint32_t addr;            /* or 0 */
	uint8_t proto;            /* IPPROTO_...; 0: a question, not a packet */
	uint16_t port;
	uint64_t count;
	int64_t at_ms; /* wall clock of the last time */
};
struct gate_log;
struct gate_log *gate_log_new(void);
struct gate_log *gate_log_ref(struct gate_log *l); /* NULL is fine, all of these */
void gate_log_unref(struct gate_log *l);
/* Newest first; how many. */
size_t gate_log_list(struct gate_log *l, struct gate_blocked ret[GATE_LOG_MAX]);

/* ---- certificate authority of a VM ---- */

/* Both as PEM; the caller frees them. */
int gate_ca_make(const char *vm_id, char **ret_cert, char **ret_key, struct err *err);

/* "2e5ac55d": what OpenSSL looks for in a directory of certificates. */
int gate_ca_hash(const char *cert_pem, char ret[9], struct err *err);

/* ---- gates ---- */

/* ca_file: CA certificates to verify servers with, or NULL: the system's. */
int gates_new(struct privc *priv, struct dns *dns, const char *ca_file, struct gates **ret,
              struct err *err);
/* After dns_stop(); waits until the proxy's connections have ended. */
struct gates *gates_free(struct gates *g);

struct gate_conf {
	const char *vm_id;
	const char *holder;    /* whose VM it is: its connections through the proxy are counted */
	struct egress *policy; /* NULL: the default; a reference is taken, as of log */
	struct gate_log *log;
	const char *ca_cert, *ca_key; /* PEM; NULL: none, nothing is injected */
	const char *vpc;              /* id; NULL: in none */
	struct priv_vpc vpc_net;
	uint32_t vpc_addr;
	bool as_built; /* the slot has its rules: those for no policy and no VPC */
};
/* Applies it to the slot, replacing the previous one; open connections are checked again. */
int gate_set(struct gates *g, uint32_t slot, const struct gate_conf *c, struct err *err);
/* Adds what the kernel blocked to the VM's log. */
void gate_collect(struct gates *g, uint32_t slot);
/* Call it before the slot is returned. Without a gate it does nothing. */
void gate_drop(struct gates *g, uint32_t slot);

/* ---- names of this server ---- */

#define GATE_CALLER_SIZE 33

/* A guest's connection to one of them. */
struct gate_entry {
	const char *vm_id;
	const char *caller; /* by which gates_caller() knows it, as long as its gate is */
	const char *only;   /* the one name it may be used for; "": any */
	bool tls;
};
struct gate_here {
	void *ctx;
	/* Does the name, in lower case, lead to this server? Called with locks held: must not
	 * block. */
	bool (*ours)(void *ctx, const char *name);
	/* Serves the connection, a socket of this host; likewise. */
	int (*enter)(void *ctx, const struct gate_entry *e, int fd_consume);
};
/* h is copied; NULL: none from now on, and none is under way when it returns. */
void gates_set_here(struct gates *g, const struct gate_here *h);
/* The VM that calls itself so, or -ENOENT. */
int gates_caller(struct gates *g, const char *caller, char ret_vm[ID_SIZE]);

/* ---- the site's proxy and mirrors ---- */

#define GATE_MIRRORS_MAX 8u

struct gate_host {
	char name[GATE_NAME_MAX]; /* or an address; "": none */
	uint16_t port;
};
/*
 * Hosts of the operator's network that guests reach through port PRIV_SITE_PORT of their gateway,
 * each under its policy: a proxy for the rest of the world, and package mirrors.
 */
struct gate_site {
	struct gate_host proxy;
	char auth[512]; /* "Basic ...", which guests do not see; "": none */
	struct gate_host mirrors[GATE_MIRRORS_MAX];
	size_t n_mirrors;
};
void gates_set_site(struct gates *g, const struct gate_site *s); /* copied */

/* Private names: "<name>.internal" inside the VPC; addr 0 removes it. */
int gates_name(struct gates *g, const char *vpc, const char *name, const char *owner, uint32_t addr,
               struct err *err);
