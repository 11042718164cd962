/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net/gate.h - policies of the slots that are in use; for vm/
 *
 * A slot with a policy has a gate here: it checks names for the forwarder, pins
 * their addresses, handles the connections that the rules redirect to the proxy, and
 * records what was blocked. All functions may be called from any thread.
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
};
/* Applies it to the slot, replacing the previous one; open connections are checked again. */
int gate_set(struct gates *g, uint32_t slot, const struct gate_conf *c, struct err *err);
/* Adds what the kernel blocked to the VM's log. */
void gate_collect(struct gates *g, uint32_t slot);
/* Call it before the slot is returned. Without a gate it does nothing. */
void gate_drop(struct gates *g, uint32_t slot);

/* Private names: "<name>.internal" inside the VPC; addr 0 removes it. */
int gates_name(struct gates *g, const char *vpc, const char *name, const char *owner, uint32_t addr,
               struct err *err);
