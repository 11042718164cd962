/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vm/vm_internal.h - for files of this folder only
 *
 * Locks, in the order in which they may be taken: vm->lock (one VM, held for
 * the whole of an operation on it), then m->quota (while something is counted and made
 * visible), then m->gc (while names are made or taken), then m->lock (tables, short). No operation
 * ever holds two VM locks.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "base/err.h"
#include "base/lock.h"
#include "base/log.h"
#include "engine/engine.h"
#include "events/events.h"
#include "guest/guest.h"
#include "guest/guest_self.h"
#include "net/dns.h"
#include "privc/privc.h"
#include "store/store.h"
#include "vm/blank.h"
#include "vm/demand.h"
#include "vm/freed.h"
#include "vm/own.h"
#include "vm/stage.h"
#include "vm/table.h"
#include "vm/vm.h"
#include "vm/vmm.h"

#define CONSOLE_TAIL 4096 /* bytes of what a guest said last: the whole of a panic */

/* What a VM may reach, and its private address: network.c. */
struct vm_net {
	struct egress *policy;  /* ref'd; NULL: the default */
	struct gate_log *log;   /* ref'd; NULL until the network was opened once */
	char *ca_cert, *ca_key; /* owned PEM; NULL: none */
	char vpc[ID_SIZE];      /* "": in none */
	struct priv_vpc vpc_net;
	uint32_t addr;
	bool is_default;
	bool waits; /* being built: the policy is for what comes out */
};

struct vm {
	struct vmm *m;         /* weak */
	unsigned refs;         /* m->lock */
	struct vm_place place; /* in m->vms; m->lock */
	struct mutex lock;
	struct store_vm row;  /* vm->lock */
	enum vm_state stored; /* the state that the store has; vm->lock */
	bool unsaved;         /* the row is newer than the store's: the keeper saves it; vm->lock */
	struct store_layer owed; /* disk layer its machine writes to, which the store does not know
	                            yet; id "": none; vm->lock */
	struct vm_info
	        shown; /* what others see of row.info, as of the last vm_publish(); m->lock */
	struct machine *machine; /* owned; vm->lock */
	struct guest *guest;     /* ref'd; vm->lock */
	struct priv_slot slot;   /* sockets are with dns; idx -1 as none */
	bool has_slot;
	bool template; /* it exists to be frozen: template.c */
	bool trusts;   /* its guest was given this server's CA since it was started or thawed */
	bool sited;    /* the same of the site's settings */
	bool untold;   /* one of them failed */
	char told[TOLD_SIZE];     /* what this server told when it came up; vm->lock */
	char told_point[ID_SIZE]; /* the point it was suspended as, and knew that; or "" */
	struct vm_net net;        /* vm->lock */
	bool gone;                /* deleted; vm->lock */
	bool buried;              /* the same, for those without the lock; m->lock */
	bool cancelled;           /* building, and not wanted any more; m->lock */
	char payer[ACCOUNT_SIZE]; /* building, and in nobody's list: whose its layers are */
	char builds[ID_SIZE];     /* the snapshot that comes out of it, or "" */
	bool stalled;             /* stopped by QEMU: the disk was full; vm->lock */
	bool lost_process;        /* QEMU ended by itself: the reaper has it in hand */
	uint64_t reaper_pid;      /* for the reaper: m->lock */
	int reaper_fd;            /* pidfd, weak; -1: none; m->lock */
	struct vm *watched_next, **watched_link; /* in m->watched, while it has one; m->lock */
	uint64_t idle_bytes;                     /* NIC bytes at the last look; vm->lock */
	uint64_t idle_since_ms;      /* clock_ms of the last activity; 0: look anew; vm->lock */
	_Atomic uint64_t touched_ms; /* clock_ms of the last vmm_touch() */
	uint64_t guest_marks;        /* guest_activity() at the last look; vm->lock */
	struct priv_vm_stats seen;   /* at the last look; m->lock */
	int64_t seen_ms;             /* wall clock of it; m->lock */
	uint64_t disk_look_ms;       /* QEMU's disk is not asked before; vm->lock */
	struct priv_slot_stats nic;  /* at the keeper's last look; vm->lock */
	struct vm_freed freed;       /* freed.c */
	uint64_t nic_ms;             /* clock_ms() of it; 0: none yet; vm->lock */
	uint64_t checkpoint_ms; /* clock_ms() of the last one; 0: none of this machine; vm->lock */
	struct vm_ring *ring;   /* owned; NULL: none; its last hour: history.c; m->lock */
	uint32_t mem_kb, private_kb; /* of QEMU, at history.c's last look; m->lock */
	unsigned forked;             /* number in the name of its last fork; vm->lock */
	bool asked;                  /* to shut down, by a call that waits for it; m->lock */
	const char *exit_why;        /* word for those who wait for its end; vm->lock */
	const char *why;             /* of the next change of state, for webhooks; vm->lock */
	char last_exit[VM_EXIT_MAX]; /* how the last machine ended; m->lock */
	struct vm_wait *waiters;     /* for its end; m->lock */
};

#define HOLDS_MAX 8192     /* names in flight at once: every layer of every thaw */
#define QUOTA_HELD_MAX 512 /* VMs and snapshots in the making */
#define DEBTS_MAX 256      /* machines and slots that could not be given back */
#define HIDDEN_MAX 4       /* machines thawed only to be looked into, at once */
#define BLANKS_MAX 64      /* blank processes kept */
#define SEEDS_MAX 4u       /* sizes that VMs are forked for; 130 MB and more each */
#define POOL_MAX 64        /* ready VMs kept */

struct stored;
struct history;
struct pool;
struct sizes;

struct vmm {
	struct vmm_conf conf;
	struct vm_times t; /* deadlines of single steps */
	struct {
		vm_changed_fn fn; /* or NULL */
		void *ctx;
	} listeners[VM_LISTENERS_MAX]; /* lock */
	guest_ring_fn on_ring;         /* or NULL; lock, both */
	void *on_ring_ctx;
	struct store *store; /* weak, all of these */
	struct engine *engine;
	struct privc *priv;
	struct dns *dns;
	struct priv_info priv_info;
	char *ca_pem; /* owned; lock, both: the CA that guests trust, or NULL */
	char ca_hash[9], ca_domain[256];
	struct site *site; /* owned; lock: its settings, or NULL */
	struct mutex lock;
	struct rwlock
	        gc; /* the collector writes; whoever makes or takes names not yet held reads */
	struct cond cond; /* template state, holds, stopping, room */
	struct vm_table vms GUARDED_BY(lock);
	struct vm *template_vm
	        GUARDED_BY(lock); /* being booted, to be ended when the server ends; m->lock */
	char template_key[32];
	char template_shared[ID_SIZE] GUARDED_BY(lock); /* the same for all servers */
	struct own own GUARDED_BY(lock);                /* made of it */
	struct rwlock seed_lock;                        /* seed.c: forks read; before m->lock */
	struct seed seeds[SEEDS_MAX];                   /* one of a size */
	unsigned seed_failures;                         /* one after the other; m->lock */
	uint64_t forked;                                /* VMs, from seeds; m->lock */
	char template_state[16] GUARDED_BY(lock), template_note[256] GUARDED_BY(lock);
	struct err template_err;
	struct mutex claim;   /* one VM of another node at a time: claim.c; before all but a VM's */
	struct mutex tunnels; /* held while store and kernel are made to agree; before no other */
	struct mutex quota;   /* see quota.c */
	struct quota_held {
		char id[ID_SIZE], account[ACCOUNT_SIZE];
		struct vm_quota q;
	} held[QUOTA_HELD_MAX]; /* counted, but not to be seen yet; m->lock */
	size_t n_held GUARDED_BY(lock);
	char holds[HOLDS_MAX][ID_SIZE] GUARDED_BY(
	        lock); /* points and layers only a thread knows yet */
	size_t n_holds GUARDED_BY(lock);
	struct blank blanks[BLANKS_MAX] GUARDED_BY(lock); /* owned; m->lock */
	size_t n_blanks GUARDED_BY(lock);
	struct demand *demand;                         /* owned: demand.c; all of it: m->lock */
	char ahead_template[ID_SIZE] GUARDED_BY(lock); /* what it knows the default template as */
	struct pool *pool;                             /* owned; what is in it: m->lock */
	struct sizes *sizes;                           /* owned; likewise */
	struct knocks *knocks;                         /* owned: knock.c */
	struct history *history;                       /* owned; likewise */
	struct kernel_notes notes GUARDED_BY(lock);    /* freed.c */
	struct greet *greet;                           /* owned; NULL: none */
	struct stored *stored;                         /* owned: stored.h; NULL: no object store */
	bool upload_wanted GUARDED_BY(lock), upload_ended GUARDED_BY(lock);
	struct debt debts[DEBTS_MAX]; /* m->lock */
	size_t n_debts;
	struct rwlock debts_lock;             /* see debt.c; before m->lock */
	unsigned n_starting GUARDED_BY(lock); /* VMs being brought up; m->lock */
	uint64_t started_ms GUARDED_BY(lock); /* clock_ms() of the last one's end; m->lock */
	struct vm *hidden[HIDDEN_MAX] GUARDED_BY(lock); /* weak: for hidden_end_all(); m->lock */
	bool no_hidden GUARDED_BY(lock);                /* m->lock */
	bool draining GUARDED_BY(lock);                 /* takes no new VMs */
	bool stopping GUARDED_BY(lock), collect_wanted GUARDED_BY(lock);
	bool some_unsaved GUARDED_BY(lock);   /* vmm_save_later() */
	unsigned n_settling GUARDED_BY(lock); /* threads that settle the end of a machine */
	bool keeping, making_ready, making_blank, making_size, making_own; /* at work; m->lock */
	pthread_t template_thread, keeper_thread, reaper_thread, blank_thread, pool_thread,
	        sizes_thread, history_thread;
	bool has_template_thread, has_keeper_thread, has_reaper_thread, has_blank_thread,
	        has_pool_thread, has_sizes_thread, has_history_thread;
	bool room_wanted
	        GUARDED_BY(lock); /* somebody waits for the keeper to make room on the disk */
	uint64_t room_seq GUARDED_BY(lock);      /* looks at the disk so far */
	uint64_t disk_look_ms;                   /* clock_ms of the last one; keeper only */
	uint64_t disk_used GUARDED_BY(lock);     /* bytes of layers and points, at the last look */
	unsigned n_layer_files GUARDED_BY(lock); /* likewise */
	uint64_t disk_over GUARDED_BY(lock);     /* bytes above what is allowed, at the last look */
	uint64_t disk_over_ms
	        GUARDED_BY(lock); /* clock_ms of the last look that found too much; 0: none did */
	struct vm *watched GUARDED_BY(lock); /* weak: VMs whose end the reaper waits for */
	size_t n_watched GUARDED_BY(lock);
	int wake_pipe[2]; /* tells the reaper that its list changed */
};

#define vm_log(vm, lv, ...) log_obj((lv), "vm", (vm)->row.info.id, __VA_ARGS__)
/* The end of a guest's console, which is cut into its lines. */
void vm_log_words(const struct vm *vm, const char *whose, char *words);

/* tell.c: one line for the VM's account (GET /observability/v1/logs), nothing of the host in it */
void vm_tell(const struct vm *vm, enum event_level lv, const char *fmt, ...)
        __attribute__((format(printf, 3, 4)));
void vmm_tell(struct vmm *m, const char *account, const char *vm_id, enum event_level lv,
              const char *fmt, ...) __attribute__((format(printf, 5, 6)));

/* vmm.c */
struct vm *vm_new(struct vmm *m, const struct store_vm *row);
int vmm_insert(struct vmm *m, struct vm *vm, struct err *err);
void vmm_forget(struct vmm *m, struct vm *vm);
struct vm *vm_ref(struct vm *vm);
void vm_unref(struct vm *vm);
/* Ref'd, not locked. */
int vmm_find(struct vmm *m, const char *account, const char *id, struct vm **ret, struct err *err);
/*
 * Ref'd and locked. -ENOENT (VM_NOT_FOUND, or VM_DELETED for one that was); -EBUSY with a code
 * that says why when another call has it for longer than the configured wait.
 */
int vmm_lock(struct vmm *m, const char *account, const char *id, struct vm **ret, struct err *err);
/* The error for a VM that is not in the table: it was deleted, or never was. */
int vmm_gone(struct vmm *m, const char *account, const char *id, struct err *err);
/* The same for those who end it: a start or a clean shutdown is cut short, not waited for. */
int vmm_lock_soon(struct vmm *m, const char *account, const char *id, struct vm **ret,
                  struct err *err);
void vm_unlock(struct vm *vm);
/*
 * A VM comes locked out of vmm_lock(), by way of a pointer, and leaves by vm_unlock(), on whichever
 * path: clang's analysis cannot follow this lock, so vm->lock is in comments and m->lock in
 * GUARDED_BY.
 */
void vm_lock(struct vm *vm);
int vmm_hold(struct vmm *m, const char *id, struct err *err);
void vmm_release(struct vmm *m, const char *id);
void vmm_collect_soon(struct vmm *m);
/* One of keeping, making_ready, making_blank, for those who wait for an idle manager; m->lock held.
 */
void vmm_at_work(struct vmm *m, bool *what, bool yes);
void vm_copy_info(struct vm *vm, struct vm_info *ret);
void vm_publish(struct vm *vm);
/* Every VM, referenced. Caller vm_unref()s each and frees. */
struct vm **vmm_all(struct vmm *m, size_t *ret_n);
int vm_cmp_newest(const void *a, const void *b); /* of struct vm_info, for qsort() */

/* state.c: the only writer of the state. Saves the row with what belongs to it in one transaction.
 */
int vm_set_state(struct vm *vm, enum vm_state next, const struct store_layer *new_layers,
                 size_t n_layers, const struct store_point *new_point, struct err *err);
/*
 * VMs that are in no store yet run from now on: their rows, and a disk layer for each, in one
 * transaction. Locks held. note: what is written on each of them; or NULL.
 */
struct store_note;
int vm_add_running(struct vm *const *vms, const struct store_layer *layers, size_t n,
                   const struct store_note *note, struct err *err);
/* The machine is gone, and the store cannot be told now: the keeper does it later. */
void vm_enter_unsaved(struct vm *vm, enum vm_state next);
/* There may be a VM at rest that the store knows something else of: the keeper looks at all. */
void vmm_save_later(struct vmm *m);
/* Tells the store what it does not know yet; fine when that is nothing. */
int vm_save(struct vm *vm, struct err *err);
/* How its machine ended, for those who wait for that. */
void vm_note_exit(struct vm *vm, const char *word);
bool vm_may_enter(enum vm_state from, enum vm_state to);

/*
 * quota.c: m->quota is taken by all but quota_check(), whose caller holds it until what it asked
 * for can be seen. -EDQUOT with a code of the contract and its numbers.
 */
int quota_check(struct vmm *m, const char *account, const struct vm_quota *more, struct err *err);
/* Counts what is in the making, under the id of its VM, until quota_insert() or quota_release(). */
int quota_hold(struct vmm *m, const char *id, const char *account, const struct vm_quota *more,
               struct err *err);
int quota_hold_vm(struct vmm *m, const struct vm_info *v, const char *account, struct err *err);
/* Each of several of one account and size, all or none. */
int quota_hold_vms(struct vmm *m, struct vm *const *vms, size_t n, struct err *err);
void quota_release(struct vmm *m, const char *id);
/* Is there room for n VMs like this one? Only an early answer: quota_insert() decides. */
int quota_check_vms(struct vmm *m, const struct vm_info *v, unsigned n, struct err *err);
/* New VMs of one account and size into the table, all or none; those held are not asked again. */
int quota_insert(struct vmm *m, struct vm *const *vms, size_t n, struct err *err);
/* VM_STARTING, if one more may run; vm->lock held. */
int quota_start(struct vm *vm, struct err *err);
/* Stores a snapshot that was held under vm_id. */
int quota_store_snapshot(struct vmm *m, const char *vm_id, const struct store_snapshot *s,
                         struct err *err);

/* chain.c */
int chain_load(struct vmm *m, const char *layer, struct engine_chain *ret, struct err *err);
/* The same, held against collection until chain_drop(). */
int chain_take(struct vmm *m, const char *layer, struct engine_chain *ret, struct err *err);
void chain_drop(struct vmm *m, const struct engine_chain *c);
/* Loads the point and holds all of its layers against collection, until point_drop(). */
int point_take(struct vmm *m, const char *id, struct engine_point *ret, struct err *err);
void point_drop(struct vmm *m, const struct engine_point *p);
/* 1: closed, nobody writes to it any more; 0: not; or -errno. */
int layer_sealed(struct vmm *m, const char *id, struct err *err);

/* The contract's code for a point that cannot be thawed: true when it is damaged for good. */
bool point_fault(struct err *err, enum err_code tag);

/* notes.c: wall clock for so many seconds from now; -1: never, 0 */
int64_t vm_delete_at(int64_t after_s);
/* After a VM was made anew: the guest gets its environment again. */
void vm_env_again(struct vm *vm);
/* wake.c: true when there is something new to save */
bool vm_apply_opts(struct vm *vm, const struct vm_start_opts *o);

/* usage.c: the part that only time decides */
void usage_until(struct vm_info *i, int64_t wall_ms);
/* What the machine took so far is nobody's. Lock held, or in no table. */
void vm_usage_ahead(struct vm *vm);
/* vm->lock held */
void vm_usage_look(struct vm *vm);
/* Of the machine since its process began; left as they are if QEMU does not answer. Lock held. */
void vm_disk_counters(struct vm *vm, struct machine_disk_stats *ret);
/* How much the VM did that is not network traffic grew since the last call? */
bool vm_guest_used(struct vm *vm);
void vmm_usage_save(struct vmm *m);

/* wait.c: the VM is about to be shown as next; NULL: it is gone. m->lock held */
void vm_wake_waiters(struct vm *vm, const struct vm_info *next);
/* Tells those who listen (vmm_on_changed()); m->lock held. */
void vmm_say_changed(struct vmm *m, const char *vm, const char *ended);

/* room.c: the disk budget */
/* 0, or NO_LOCAL_STORAGE_CAPACITY: nothing more may be evicted. Waits for the keeper if it must. */
int vmm_need_room(struct vmm *m, struct err *err);
/* -ENOMEM INSUFFICIENT_SWAP when the host clearly cannot carry so many more. */
int vmm_need_memory(struct vmm *m, unsigned count, struct err *err);
/* The same for one VM of that memory that does not fit this host at all, or cannot be booted on it
 * now. */
int vmm_need_size(struct vmm *m, uint32_t mem_mb, struct err *err);
uint64_t vmm_need_mb(const struct vmm *m, uint32_t mem_mb);
/* What the template of a VM with so much memory takes on the disk, about. */
uint32_t vmm_template_mb(uint32_t mem_mb);
/* Disk and memory for making one are there, and nobody will miss them. */
bool vmm_spare(struct vmm *m, uint32_t mem_mb);
void vmm_look_at_disk(struct vmm *m); /* keeper: measures, evicts */
bool vmm_disk_tight(struct vmm *m);   /* too much is used, or was a moment ago */
/* Bytes of a file system of that size that must stay free. */
uint64_t vmm_disk_floor(const struct vmm *m, uint64_t size);
/* stall.c; vm->lock held. Does it stand still because the disk is full? Goes on if it can. */
void vm_look_at_stall(struct vm *vm);
/* 0, or NO_LOCAL_STORAGE_CAPACITY. */
int vm_check_stall(struct vm *vm, struct err *err);
void vmm_collect(struct vmm *m); /* keeper */

/* bringup.c: a process, up to the open gate; the caller holds vm->lock and then sets the state */
struct bringup {
	const struct engine_point *point; /* NULL: cold boot */
	enum guest_reason reason;
	struct store_layer layer; /* out: disk layer that was made; layer.id "" when none was */
	char before[ID_SIZE];     /* out: disk layer before, for undo */
	unsigned agent_ms;        /* deadline for the agent */
	bool hidden;              /* nobody's (yet): network closed, not watched */
	bool ahead;               /* nobody waits for it */
	bool seed;                /* in a process that may become a seed */
	bool trial;               /* the first fork of a seed */
	bool forked;              /* out: it was forked from the seed, not thawed */
	/* What the guest is told of it (self.c). */
	uint8_t event;        /* enum agent_event; 0: it was booted or resumed */
	uint64_t call;        /* fork: the guest's request that it answers, or 0 */
	const char *snapshot; /* rewind: weak; or NULL */
};
int vm_bring_up(struct vm *vm, struct bringup *b, struct err *err);
/* Ends process, guest, slot. disk layer files stay. */
void vm_take_down(struct vm *vm);
/* As take_down, and forgets the disk layer that vm_bring_up made. */
void vm_bring_up_undo(struct vm *vm, struct bringup *b);
/* Of a machine whose guest closed its channel. */
bool vm_ended(const struct vm *vm);
/* reaper.c: the state of a VM whose process ended by itself; vm->lock held */
void vm_settle_end(struct vm *vm);
/* Running afterwards, whatever it was; vm->lock held. */
int vm_wake(struct vm *vm, struct err *err);
int vm_reconnect(struct vm *vm, struct err *err);
/* self.c; b: NULL for another connection to the same machine */
void vm_who(const struct vm *vm, const struct bringup *b, struct agent_who *ret);
/* After the greeting: reports an agent that is too old for what the VM may do. */
void vm_who_known(struct vm *vm, const struct agent_who *w);
/* The running guest, anew; event: enum agent_event. */
void vm_tell_who(struct vm *vm, uint8_t event);
bool vm_rang(void *ctx, struct guest *g);
/* network.c */
/*
 * Policy, private address, name forwarding and the open gate: only after the agent confirmed who it
 * is. as_built: the slot is new; else it is one that was taken up.
 */
int vm_open_network(struct vm *vm, bool as_built, struct err *err);
/* The slot's rules, as the VM's policy says. */
int vm_net_apply(struct vm *vm, struct err *err);
/* Policy and address of a VM that is about to be: stored before it is. vm_net_undo(): it never was.
 */
int vm_net_begin(struct vm *vm, const struct vm_create_opts *o, struct err *err);
void vm_net_undo(struct vm *vm);
/* The same for a child: the parent's policy, and an address of its own in the parent's VPC. */
int vm_net_fork(struct vm *vm, const struct vm_net *parent, struct err *err);
/* A fork has the policy of its parent; the same VM in another slot (rewind) has all of it. */
int vm_net_inherit(struct vm_net *to, const struct vm_net *from, struct err *err);
int vm_net_share(struct vm_net *to, const struct vm_net *from, struct err *err);
int vm_net_load(struct vm *vm, struct err *err);
/* Its private names are as its row says: it has a new name, or only now has one (was: ""). */
int vm_net_renamed(struct vm *vm, const char *was, struct err *err);
/* An authority for the VM, if the policy needs one and there is none. */
int vm_net_ca(struct vm *vm, const struct egress *e, struct err *err);
int vm_net_save(struct vm *vm, const struct egress *e, struct err *err);
int vm_trust_local(struct vm *vm); /* the guest trusts this server's CA; likewise */
int vm_trust_ca(struct vm *vm, const struct guest_ca *ca, struct err *err);
int vm_run_script(struct vm *vm, const char *script, const char *const *env, const char *input,
                  struct err *err);
/* site.c: the guest has what the site's settings say; says so when not */
int vm_site_apply(struct vm *vm);
void site_free(struct site *s);
const char *site_stamp(struct vmm *m) REQUIRES(&m->lock); /* "-": no settings, ever */
void vm_net_trust(struct vm *vm);  /* the guest trusts that authority; says so when not */
void vm_net_forget(struct vm *vm); /* its names */
void vm_net_done(struct vm_net *n);

/* debt.c */
void debt_add(struct vmm *m, const char *instance, int slot);
void debt_slot_taken(struct vmm *m, uint32_t slot); /* it is whoever's it was given to */
void debts_pay(struct vmm *m);                      /* keeper */

/* blank.c */
/* A blank process in a slot: one that waits, else a new one. `like` has its size and kind. */
int blank_take(struct vmm *m, const struct machine_spawn *like, bool waited_for, struct blank *ret,
               struct err *err);
bool blank_wanted(struct vmm *m) REQUIRES(&m->lock); /* one more */
void blank_end(struct vmm *m, struct blank *s);
void *blank_main(void *arg);
/* Around everything that starts a VM: what is made ahead of need waits for quiet. */
void vmm_start_begin(struct vmm *m);
void vmm_start_end(struct vmm *m);
uint64_t vmm_quiet_in(const struct vmm *m) REQUIRES(&m->lock);

/* create.c */
void vm_fill_options(const struct vm_create_opts *o, struct store_vm *row);
void vm_fill_row(const struct vm_create_opts *o, const struct engine_point *p,
                 struct store_vm *row);
/* A VM that was brought up becomes known: table, store, reaper. vm->lock held. */
int vm_settle_new(struct vm *vm, const struct vm_create_opts *o, const struct store_layer *layer,
                  struct err *err);
/* Tags and metadata of a new VM, which stay the options'; NULL: there are none. */
const struct store_note *vm_note_of(const struct vm_create_opts *o, struct store_note *mem);

/* ahead.c: what was asked for lately, and what follows from it */
int ahead_new(struct vmm *m, struct err *err);
/* Somebody waits for a VM of that point. */
void ahead_asked(struct vmm *m, const char *account, const char *point, bool eager);
/* Default VMs may be made from another point than at the last look. */
void ahead_follow(struct vmm *m) REQUIRES(&m->lock);
void ahead_status(struct vmm *m, struct vmm_status *ret) REQUIRES(&m->lock);

/* pool.c */
int pool_new(struct vmm *m, struct err *err);
/* A ready VM of that point becomes the one asked for; -EAGAIN: there is none. */
int pool_take(struct vmm *m, const struct vm_create_opts *o, const char *point, struct vm_info *ret,
              struct err *err);
void pool_forget(struct vmm *m, const char *point); /* nobody can ask for it any more */
void *pool_main(void *arg);
void pool_status(struct vmm *m, struct vmm_status *ret) REQUIRES(&m->lock); /* m->lock held */
void seed_status(struct vmm *m, struct vmm_status *ret);                    /* likewise; seed.c */
/* The point of which one more is to be made ready; false: none. */
bool pool_wanted(struct vmm *m, char ret_point[ID_SIZE]) REQUIRES(&m->lock);
/* Why the last attempt to make a VM ready failed; "": it did not. */
void pool_trouble(struct vmm *m, char *ret, size_t size) REQUIRES(&m->lock);
void pool_end(struct vmm *m);
/* sizes.c: templates of other sizes */
int sizes_new(struct vmm *m, struct err *err);
/*
 * The template of that size (0: as the default VM's), held, and its key (or NULL). The first use
 * makes it, others join. account: whose quota it must fit.
 */
int size_hold(struct vmm *m, const char *account, uint32_t vcpus, uint32_t mem_mb,
              char ret_point[ID_SIZE], char ret_key[32], struct err *err);
/* That point is no good: the next use of its size makes another. Fine for any point. */
bool size_forget(struct vmm *m, const char *point, const char *why);
/* Those that could be forgotten. */
struct size_point {
	char point[ID_SIZE];
	int64_t used_ms; /* wall clock; 0: not by this server */
};
size_t sizes_list(struct vmm *m, struct size_point ret[SIZES_MAX]);
void sizes_sweep(struct vmm *m);    /* templates of other images and QEMUs go */
void sizes_make_way(struct vmm *m); /* somebody waits for a VM: nothing is booted ahead of need */
void *sizes_main(void *arg);
void sizes_stop(struct vmm *m); /* none is made any more; fine twice */
void sizes_end(struct vmm *m);
/* It is one: its size. */
bool size_of_point(const struct vmm *m, const char *point, uint32_t *ret_vcpus,
                   uint32_t *ret_mem_mb) REQUIRES(&m->lock);
/* It is one, and what VMs of its size will be thawed from is not there yet. */
bool size_own_pending(struct vmm *m, const char *point) REQUIRES(&m->lock);
/* What VMs of that size are thawed from; "": nothing yet. */
void size_point(const struct vmm *m, uint32_t vcpus, uint32_t mem_mb, char ret_point[ID_SIZE])
        REQUIRES(&m->lock);
void sizes_status(const struct vmm *m, struct vmm_status *ret) REQUIRES(&m->lock);
/* recreate.c: nothing is left but its id, and what belongs to that */
bool vm_is_empty(const struct store_vm *row);
/* The point it will be made anew from, if it is such a VM. */
void vm_fill_origin(struct vm *vm, const char *point);
int vm_empty(struct vm *vm, const char *why, struct err *err);
int vm_make_anew(struct vm *vm, struct err *err);
/* wake.c: a starting VM runs from that point on, held by the caller */
int vm_thaw(struct vm *vm, const struct engine_point *p, struct err *err);
/* rewind.c: a VM that does not run is put to rest on the point: the next use thaws it */
int vm_rest_at(struct vm *vm, const struct engine_point *p, struct err *err);
/* grow.c: the point's disk cold booted at a size (grow only); b is filled in as by vm_bring_up() */
int vm_boot_sized(struct vm *vm, const struct engine_point *p, const struct stage_size *size,
                  struct bringup *b, struct err *err);
/* The disk of a VM that runs, and its file system; the row is the caller's. */
int vm_grow_live(struct vm *vm, uint32_t disk_mb, struct err *err);
/* The running guest's root file system takes all of its disk. */
int vm_grow_fs(struct vm *vm, struct err *err);
/* After a boot: switches on the vCPUs that it began without. */
int vm_all_vcpus(struct vm *vm, struct err *err);
/* stage.c: ends the process of a VM that is being built; its builder does the rest */
void vm_cancel_build(struct vm *vm);
void stage_cancel_snapshot(struct vmm *m, const char *snapshot); /* the same, if there is one */

/* vm_freeze.c: the only caller of machine_freeze for a VM; vm->lock held */
struct frozen {
	char point[ID_SIZE]; /* held: the caller vmm_release()s it once something names it */
};
int vm_freeze_live(struct vm *vm, bool durable, struct frozen *ret, struct err *err);
int vm_freeze_suspend(struct vm *vm, struct err *err);
/* A disk layer nobody writes to any more. */
int vm_seal_disk(struct vmm *m, const char *id, struct err *err);
/* snapshot.c: after a failed create; makes the contract's error of a point that is no good. */
void snapshot_fault(struct vmm *m, const char *id, struct err *err);
void snapshot_used(struct vmm *m, const struct store_snapshot *s);

/* snapshot.c; vm->lock held. A suspended VM's point is taken as it is, a stopped one boots. */
int vm_snapshot_locked(struct vm *vm, const char *name, const struct vm_persistence *persistence,
                       struct snapshot_info *ret, struct err *err);
/* -ENOENT SNAPSHOT_NOT_FOUND, also for one of another account; anything else: the store failed. */
int snapshot_find(struct vmm *m, const char *account, const char *id, struct store_snapshot *ret,
                  struct err *err);
/* The account's snapshot and its point; -ENOENT with the contract's code when there is none. */
int snapshot_point(struct vmm *m, const char *account, const char *id, char ret_point[ID_SIZE],
                   char ret_workdir[WORKDIR_SIZE] /* or NULL */, struct err *err);

/* hidden.c: a machine nobody sees, thawed from a point to look into it; ended by hidden_end() or
 * recovery */
struct hidden;
int hidden_thaw(struct vmm *m, const char *point, struct hidden **ret, struct err *err);
struct guest *hidden_guest(struct hidden *h); /* borrowed */
void hidden_end(struct hidden *h);
/* The server ends: no new ones, and calls into those that are there fail. */
void hidden_end_all(struct vmm *m);

/* checkpoint.c; vm->lock held */
void vm_look_at_checkpoint(struct vm *vm); /* keeper */
void vm_set_checkpoints(struct vm *vm, int64_t every_s);
/* The newest point of its past, but for the one it rests on, that can be thawed here. -ENOENT */
int vm_last_point(struct vm *vm, char ret[ID_SIZE], struct err *err);

/* flatten.c */
#define CHAIN_SHORTEN_AT 12 /* layers: a freeze makes room first */
/* One new layer in place of the chain up to top (a closed layer). own: VM whose lock the caller
 * holds, or NULL. */
int flatten_layer(struct vmm *m, const char *top, enum layer_kind kind, struct vm *own,
                  char ret_id[ID_SIZE], struct err *err);
/* Before a freeze: chains that have grown long are flattened first; vm->lock held, VM running. */
int vm_shorten(struct vm *vm, struct err *err);
/* delete.c; reason: "deleted", "ephemeral", "evicted"; NULL: nobody knew it, no tombstone */
int vm_delete_locked(struct vm *vm, const char *reason, struct err *err);
/* suspend.c / stop.c */
int vm_suspend_locked(struct vm *vm, struct err *err);
int vm_stop_locked(struct vm *vm, bool ask, struct err *err);

/* history.c */
int history_new(struct vmm *m, struct err *err);
void *history_main(void *arg);
void ring_free(struct vm *vm) REQUIRES(&vm->m->lock);

/* recover.c, template.c, keeper.c, reaper.c */
int vmm_recover(struct vmm *m, struct err *err);
/* greet.c: after vmm_recover(), before any other thread; and when m->stopping is set */
void greet_begin(struct vmm *m);
void greet_end(struct vmm *m);
void *template_main(void *arg);
void template_end(struct vmm *m); /* joins its thread, ending a boot in progress */
int template_wait(struct vmm *m, char ret_point[ID_SIZE], struct err *err);
int template_hold(struct vmm *m, char ret_point[ID_SIZE], struct err *err); /* and held */
/* The default one, shared or this server's own. */
bool template_is(const struct vmm *m, const char *point) REQUIRES(&m->lock);
/* What default VMs are thawed from. */
const char *template_now(const struct vmm *m) REQUIRES(&m->lock);
void *keeper_main(void *arg);
void *reaper_main(void *arg);
void reaper_end(struct vmm *m); /* joins it, and waits for what it handed over */
void reaper_add(struct vm *vm); /* has a machine; locked, or not in the table yet */
void reaper_remove(struct vm *vm);
void reaper_forget(struct vm *vm) REQUIRES(&vm->m->lock); /* the same, within */
void reaper_wake(struct vmm *m);                          /* looks at the table again */
