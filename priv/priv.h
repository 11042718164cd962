/* SPDX-License-Identifier: Apache-2.0 */
/*
 * priv/priv.h - the context of pando-priv; for the files of priv/ only
 *
 * The main thread owns it. The slot builder and the worker see only their own
 * parts.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/proc.h"
#include "base/sock.h"
#include "priv/cgroup.h"
#include "priv/hostnet.h"
#include "priv/instance.h"
#include "priv/jail.h"
#include "priv/pace.h"
#include "wire/priv.h"

struct err;
struct job;
struct slots;
struct vms;
struct worker;

struct conf {
	const char *data, *user, *qemu, *layers, *net_pool;
	uint32_t slots_max, slots_ready;
	uint32_t pandod_mb; /* 0: no limit */
	uid_t uid_base;
	bool restart, cpu_quota, clean;
	char **argv; /* pandod and its arguments */
	uid_t uid;   /* of user */
	gid_t gid;
};

/* The state of pandod: supervise.c. */
struct super {
	int exe_fd; /* owned: pandod's program */
	struct proc pandod;
	int conn;     /* owned: our end of its socket; -1: closed */
	uint32_t gen; /* increases with every connection, so that late replies are not sent to the
	                 wrong one */
	bool paused;  /* conn is not read until its pace allows the next request */
	bool hello;   /* it has sent hello */
	unsigned backoff_ms;
	uint64_t started_at, restart_at;
	unsigned signals; /* how many times we were asked to stop */
	uint64_t stop_by; /* then pandod is killed */
	bool over;
	bool clean; /* nothing of this instance is to be left */
	int exit_code;
};

struct priv {
	struct conf conf;
	struct instance in;
	struct hostnet net;
	struct cgroups cg;
	struct jail jail;
	struct slots *slots; /* owned, as are the following */
	struct worker *worker;
	struct vms *vms;
	struct super super;
	struct pace pace; /* of pandod's requests */
	struct {
		int timer;         /* owned: timerfd; -1: never needed */
		uint64_t deadline; /* clock_boot_ms(); 0: none */
	} fence;
	int epoll, signals;
};

/* epoll's event data: kind in the upper half, index in the lower. */
enum poll_kind {
	POLL_SIGNAL,
	POLL_CONN,
	POLL_PANDOD,
	POLL_WORKER,
	POLL_ROUTES,
	POLL_VM,
	POLL_FENCE
};
int poll_add(struct priv *p, int fd, enum poll_kind kind, uint32_t idx, struct err *err);
void poll_del(struct priv *p, int fd);

/* ---- requests: table.c ---- */

struct request {
	struct priv_req m;
	int in[SOCK_FDS_MAX]; /* owned; -1 when taken */
	size_t n_in;
	struct priv_rep rep;
	int out[SOCK_FDS_MAX]; /* owned: sent and closed */
	size_t n_out;
};
#define PRIV_LATER 1 /* of an operation: the reply comes from elsewhere */

/* Reads one packet from pandod and answers it. -errno: the connection is unusable. */
int table_serve(struct priv *p, struct err *err);
/* A late reply; dropped if pandod has another connection by now. */
void table_reply_later(struct priv *p, uint32_t gen, unsigned op, struct priv_rep *rep);

/* ---- operations: op_slot.c, op_vpc.c, op_vm.c, op_fork.c; 0, PRIV_LATER or -errno ---- */

int op_hello(struct priv *p, struct request *rq, struct err *err);
int op_slot_take(struct priv *p, struct request *rq, struct err *err);
int op_slot_adopt(struct priv *p, struct request *rq, struct err *err);
int op_slot_gate(struct priv *p, struct request *rq, struct err *err);
int op_slot_free(struct priv *p, struct request *rq, struct err *err);
int op_slot_stats(struct priv *p, struct request *rq, struct err *err);
int op_slot_socket(struct priv *p, struct request *rq, struct err *err);
int op_slot_list(struct priv *p, struct request *rq, struct err *err);
int op_slot_egress(struct priv *p, struct request *rq, struct err *err);
int op_slot_proxy(struct priv *p, struct request *rq, struct err *err);
int op_slot_pin(struct priv *p, struct request *rq, struct err *err);
int op_slot_blocked(struct priv *p, struct request *rq, struct err *err);
int op_slot_vpc(struct priv *p, struct request *rq, struct err *err);
int op_vpc_remove(struct priv *p, struct request *rq, struct err *err);
int op_vpc_wg(struct priv *p, struct request *rq, struct err *err);
int op_vpc_peers(struct priv *p, struct request *rq, struct err *err);
int op_vpc_wake(struct priv *p, struct request *rq, struct err *err);
int op_vpc_fresh(struct priv *p, struct request *rq, struct err *err);
/* op_vm.c: what a spawn and a fork have in common */
struct vm;
int op_check_new(struct priv *p, const char *vm_id, int32_t slot, struct err *err);
int op_record(struct priv *p, const struct vm *vm, const struct proc *proc, struct err *err);
/* Its process runs: it is watched, and its descriptor goes into the reply. */
int op_begun(struct priv *p, struct request *rq, struct vm *vm, struct err *err);
void op_undo_new(struct priv *p, struct vm *vm);
int op_spawn(struct priv *p, struct request *rq, struct err *err);
int op_fork(struct priv *p, struct request *rq, struct err *err);
/* Reaps processes of seeds that are in no table: their first process, and forks nobody took. */
void op_reap_strangers(struct priv *p);
int op_kill(struct priv *p, struct request *rq, struct err *err);
int op_exit_status(struct priv *p, struct request *rq, struct err *err);
int op_vm_list(struct priv *p, struct request *rq, struct err *err);
int op_vm_stats(struct priv *p, struct request *rq, struct err *err);
/* A job of the worker is finished. */
void op_job_done(struct priv *p, struct job *j);
/* Puts VMs that are due under their limits; returns when the next one is due, 0: none. */
void op_attach_due(struct priv *p);
uint64_t op_attach_next(const struct priv *p);
/* The process of VM number idx ended. */
void op_vm_ended(struct priv *p, uint32_t idx);

/* ---- fence.c: the VMs of a node whose lease is over ---- */

/* Takes up what an earlier pando-priv had. */
int fence_open(struct priv *p, struct err *err);
int op_fence(struct priv *p, struct request *rq, struct err *err);
/* Has the deadline passed? Nothing may be started then. */
bool fence_is_over(const struct priv *p);
/* The timer has fired. */
void fence_due(struct priv *p);

/* ---- supervise.c ---- */

int supervise(struct priv *p, struct err *err);
