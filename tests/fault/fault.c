/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fault.c - the plan and its counter
 *
 * One lock around a few words. It is never held while a hook runs. Being quiet is per thread; a
 * child process inherits the thread that forked and is quiet for good.
 */
#include "tests/fault/fault.h"

#include <errno.h>
#include <execinfo.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/lock.h"

#define TRACE_DEPTH 48

static const char *const kind_names[] = {
	[FAULT_STORE] = "store",   [FAULT_STORE_MEMORY] = "store memory",
	[FAULT_AGENT] = "agent",   [FAULT_FILE] = "file",
	[FAULT_REMOVE] = "remove", [FAULT_MEMORY] = "memory",
	[FAULT_ENGINE] = "engine", [FAULT_HELPER] = "helper",
};
_Static_assert(ARRAY_SIZE(kind_names) == FAULT_KINDS, "kind_names misses a kind");

static struct {
	struct mutex lock;
	struct fault_plan plan;
	unsigned long count;
	bool armed, fired;
	char what[160];
	fault_hook *hook;
	void *hook_arg;
} f = { .lock = MUTEX_INIT("test: fault plan") };

/* Nothing to do for most calls, most of the time: seen without the lock. */
static atomic_bool f_active;
static __thread unsigned quiet;

static void child_is_quiet(void)
{
	quiet++;
}

__attribute__((constructor)) static void at_start(void)
{
	pthread_atfork(NULL, NULL, child_is_quiet);
}

static void look_active(void)
{
	atomic_store(&f_active, f.hook || (f.armed && f.plan.kinds));
}

void fault_set(const struct fault_plan *p)
{
	LOCK_SCOPE(&f.lock);

	f.plan = p ? *p : (struct fault_plan){ 0 };
	f.count = 0;
	f.armed = f.fired = false;
	f.what[0] = '\0';
	look_active();
}

static void arm(bool on)
{
	LOCK_SCOPE(&f.lock);

	f.armed = on;
	look_active();
}

void fault_arm(void)
{
	arm(true);
}

void fault_disarm(void)
{
	arm(false);
}

bool fault_fired(void)
{
	LOCK_SCOPE(&f.lock);

	return f.fired;
}

unsigned long fault_count(void)
{
	LOCK_SCOPE(&f.lock);

	return f.count;
}

const char *fault_what(void)
{
	static __thread char copy[sizeof(f.what)];
	LOCK_SCOPE(&f.lock);

	memcpy(copy, f.what, sizeof(copy));
	return copy;
}

const char *fault_kind_name(enum fault_kind kind)
{
	return kind_names[kind];
}

void fault_on_call(fault_hook *fn, void *arg)
{
	LOCK_SCOPE(&f.lock);

	f.hook = fn;
	f.hook_arg = arg;
	look_active();
}

void fault_quiet_begin(void)
{
	quiet++;
}

void fault_quiet_end(void)
{
	quiet--;
}

bool fault_is_quiet(void)
{
	return quiet;
}

static int usual_error(enum fault_kind kind)
{
	switch (kind) {
	case FAULT_MEMORY:
	case FAULT_STORE_MEMORY:
		return ENOMEM;
	case FAULT_AGENT:
		return FAULT_HANG_UP;
	default:
		return EIO;
	}
}

static void trace(void)
{
	void *at[TRACE_DEPTH];
	int n = backtrace(at, TRACE_DEPTH);

	fprintf(stderr, "fault: %s fails\n", fault_what());
	backtrace_symbols_fd(at, n, STDERR_FILENO);
}

static int ask_plan(enum fault_kind kind, const char *what, const char *object)
{
	LOCK_SCOPE(&f.lock);

	if (!f.armed || !(f.plan.kinds & FAULT_BIT(kind)))
		return 0;
	f.count++;
	if (!f.plan.nth || f.count < f.plan.nth || (f.count > f.plan.nth && !f.plan.stays))
		return 0;
	if (!f.fired)
		snprintf(f.what, sizeof(f.what), "%s: %s%s%s", kind_names[kind], what,
		         object && *object ? " " : "", object ? object : "");
	f.fired = true;
	return f.plan.error ? f.plan.error : usual_error(kind);
}

int fault_hit(enum fault_kind kind, const char *what, const char *object)
{
	fault_hook *hook;
	void *arg;
	int e = 0;

	if (!atomic_load_explicit(&f_active, memory_order_relaxed) || quiet)
		return 0;
	FAULT_QUIET;
	mutex_lock(&f.lock);
	hook = f.hook;
	arg = f.hook_arg;
	mutex_unlock(&f.lock);
	if (hook)
		e = hook(kind, what, arg);
	if (e)
		return e;
	e = ask_plan(kind, what, object);
	if (e && getenv("PANDO_FAULT_TRACE"))
		trace();
	return e;
}
