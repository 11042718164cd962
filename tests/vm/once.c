/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/vm/once.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/clock.h"
#include "tests/fault/fault.h"
#include "tests/unit/check.h"
#include "vm/vm_internal.h"

#define PROXIES_MAX 256
#define FDS_MS 3000
#define FIND_OUT_MS 500
#define GIVEN_UP_MS 60000
#define CALLS_MAX 5000 /* of one verb: more is a loop without an end */

static const struct {
	enum fault_kind kind;
	unsigned step; /* every step-th call, when time is short */
	int errors[4]; /* taken in turn; 0 ends */
} kinds[] = {
	{ FAULT_ENGINE, 1, { EIO, EPIPE, ETIMEDOUT } },
	{ FAULT_HELPER, 1, { EIO, ETIMEDOUT, EPIPE } }, /* ETIMEDOUT: done, the answer is lost */
	{ FAULT_AGENT, 3, { FAULT_HANG_UP, FAULT_SWALLOW, FAULT_STALL } },
	{ FAULT_STORE, 5, { EIO, ENOSPC, ENOMEM } },
	{ FAULT_FILE, 3, { EIO, ENOSPC, EMFILE } },
	{ FAULT_REMOVE, 4, { EIO } },
	{ FAULT_MEMORY, 7, { ENOMEM } },
};

static struct {
	const char *verb, *kind;
	unsigned long nth;
} only;

void once_args(int argc, char **argv)
{
	only.verb = argc > 1 ? argv[1] : NULL;
	only.kind = argc > 2 ? argv[2] : NULL;
	only.nth = argc > 3 ? strtoul(argv[3], NULL, 10) : 0;
}

bool once_wanted(const char *verb)
{
	return !only.verb || !strcmp(only.verb, verb);
}

bool once_long(void)
{
	return getenv("PANDO_LONG") != NULL;
}

/* ---- what can fail ---- */

static int on_call(void *ctx, enum fake_face face, const char *what, const char *object)
{
	int e = fault_hit(face == FAKE_ENGINE ? FAULT_ENGINE : FAULT_HELPER, what, object);

	(void)ctx;
	return face == FAKE_HELPER && e == ETIMEDOUT ? e | FAKE_LOST : e;
}

static struct {
	struct mutex lock;
	struct fault_agent *v[PROXIES_MAX];
	size_t n;
} proxies = { .lock = MUTEX_INIT("test: agent proxies") };

static int on_agent(void *ctx, int fd_consume)
{
	struct fault_agent *a = NULL;
	struct err e = { 0 };
	int fd, r;
	FAULT_QUIET;

	(void)ctx;
	r = fault_agent_start(fd_consume, &fd, &a, &e);
	if (r < 0)
		return r;
	LOCK_SCOPE(&proxies.lock);
	if (proxies.n == PROXIES_MAX)
		abort();
	proxies.v[proxies.n++] = a;
	return fd;
}

static void proxies_end(void)
{
	LOCK_SCOPE(&proxies.lock);

	while (proxies.n)
		fault_agent_stop(proxies.v[--proxies.n]);
}

/* ---- one run ---- */

static size_t count_fds(void)
{
	autodir DIR *d = opendir("/proc/self/fd");
	size_t n = 0;

	while (d && readdir(d))
		n++;
	return n;
}

static size_t table_size(struct rig *r)
{
	LOCK_SCOPE(&r->vmm->lock);

	return r->vmm->vms.n;
}

static void check_subject(const struct once_verb *v, struct once *o, bool failed)
{
	struct vm_info i;

	if (v->from < 0 || !*o->vm.id)
		return;
	OK(vmm_get(o->r->vmm, RIG_ACCOUNT, o->vm.id, &i, &err));
	if ((int)i.state != v->to &&
	    !(failed && ((int)i.state == v->from || (int)i.state == v->also)))
		fail_msg("the VM is %s after the verb %s", vm_state_name(i.state),
		         failed ? "failed" : "passed");
}

void once_find_out(struct once *o, const char *id)
{
	AUTO(guest_unrefp) struct guest *g = NULL;

	if (!o->stalled)
		return;
	OK(vmm_guest(o->r->vmm, RIG_ACCOUNT, id, &g, &err));
	if (guest_ping(g, deadline_in(FIND_OUT_MS), NULL) == 0)
		return;
	FAILS(-ECONNRESET, guest_ping(g, deadline_in(GIVEN_UP_MS), &err));
}

/* True: the fault was reached. */
static bool run_once(const struct once_verb *v, struct once *o, const struct fault_plan *p,
                     size_t *fds)
{
	bool agent = p->kinds == FAULT_BIT(FAULT_AGENT), fired;
	struct err e = { 0 };
	uint64_t until;
	size_t now;
	int k;

	o->r->fake->on_agent = agent ? on_agent : NULL;
	if (v->prepare)
		v->prepare(o);
	rig_settle(o->r);
	o->n_vms = table_size(o->r);
	fault_set(p);
	fault_arm();
	k = v->run(o, &e);
	fault_disarm();
	fired = fault_fired();
	if (getenv("PANDO_ONCE_TRACE"))
		fprintf(stderr, "%s %lu: %s: %d %s %s\n", v->name, p->nth, fault_what(), k,
		        err_code_name(e.tag), e.msg);
	if (k < 0 && (!*e.msg || e.code != k))
		fail_msg("it failed with %d; its error says %d, '%s'", k, e.code, e.msg);
	if (k < 0 && !fired)
		fail_msg("it failed undisturbed: %s", e.msg);
	check_subject(v, o, k < 0);
	/* What could not be removed stays until the next start. */
	if (p->kinds == FAULT_BIT(FAULT_REMOVE) && fired) {
		rig_stop(o->r);
		OK(rig_start(o->r, &err));
	}
	rig_check(o->r);
	o->stalled = agent && p->error == FAULT_STALL;
	o->lossy = agent && p->error == FAULT_SWALLOW;
	if (*o->vm.id) {
		once_find_out(o, o->vm.id);
		OK(rig_usable(o->r, o->vm.id, &err));
	}
	if (v->finish)
		v->finish(o, k < 0);
	o->r->fake->on_agent = NULL;
	proxies_end();
	/* Whoever has just been hung up on may see that only when it is used. */
	if (*o->vm.id && rig_exec(o->r, o->vm.id, "true", NULL, 0, NULL) < 0)
		OK(rig_exec(o->r, o->vm.id, "true", NULL, 0, &err));
	rig_check(o->r);
	until = deadline_in(FDS_MS);
	while ((now = count_fds()) > *fds && *fds && clock_ms() < until)
		poll(NULL, 0, 10); /* a thread that ends may still have one */
	/* A ready VM whose channel was hung up has fewer until it is found out. */
	if (*fds && now > *fds && !(agent && v->rig.pool))
		fail_msg("%zu descriptors are open, %zu were", now, *fds);
	*fds = MAX(*fds, now);
	return fired;
}

/* In a failure: which one it was. */
static char doing[256];

static void say_doing(void)
{
	fprintf(stderr, "%s (%s)\n", doing, fault_what());
}

static unsigned run_kind(const struct once_verb *v, struct once *o, size_t kind, size_t *fds)
{
	unsigned step = once_long() ? 1 : kinds[kind].step * (v->coarse ? v->coarse : 1),
	         n_errors = 0, runs = 0;
	struct fault_plan p = { .kinds = FAULT_BIT(kinds[kind].kind) };

	while (n_errors < ARRAY_SIZE(kinds[kind].errors) && kinds[kind].errors[n_errors])
		n_errors++;
	for (p.nth = only.nth ? only.nth : 1; p.nth < CALLS_MAX; p.nth += step) {
		bool fired = false;
		unsigned all = once_long() ? n_errors : 1;

		for (unsigned k = 0; k < all; k++) {
			p.error =
			        kinds[kind]
			                .errors[once_long() ? k : (p.nth / step + kind) % n_errors];
			snprintf(doing, sizeof(doing), "%s %s %lu: %s", v->name,
			         fault_kind_name(kinds[kind].kind), p.nth, err_name(p.error));
			fired |= run_once(v, o, &p, fds);
			runs++;
		}
		if (!fired || only.nth)
			break;
	}
	return runs;
}

void once_run(void **state)
{
	const struct once_verb *v = *state;
	struct once o = { .n = v->n };
	uint64_t t0 = clock_ms();
	unsigned runs = 0;
	size_t fds = 0;

	o.r = rig_new(&v->rig);
	o.r->on_call = on_call;
	if (v->begin)
		v->begin(&o);
	/* Undisturbed first: what is made once is made. */
	for (int i = 0; i < 2; i++) {
		fds = 0;
		snprintf(doing, sizeof(doing), "%s undisturbed", v->name);
		run_once(v, &o, &(struct fault_plan){ 0 }, &fds);
	}
	for (size_t k = 0; k < ARRAY_SIZE(kinds); k++)
		if (!only.kind || !strcmp(only.kind, fault_kind_name(kinds[k].kind)))
			runs += run_kind(v, &o, k, &fds);
	doing[0] = '\0';
	rig_free(o.r);
	printf("%s: %u runs in %.1f s\n", v->name, runs, (double)(clock_ms() - t0) / 1e3);
}

__attribute__((destructor)) static void last_words(void)
{
	if (*doing)
		say_doing();
}
