/* SPDX-License-Identifier: Apache-2.0 */
/* lock_order.c - see lock_order.h */
#include "base/lock_order.h"

#include <execinfo.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CLASSES_MAX 128
#define HELD_MAX 16
#define FRAMES 12

#ifdef LOCK_CHECK

struct held {
	unsigned class_id;
	const void *lock;
};

static _Thread_local struct held held[HELD_MAX];
static _Thread_local unsigned n_held;

/* The record's own lock is a plain pthread mutex, always taken last. */
static pthread_mutex_t record = PTHREAD_MUTEX_INITIALIZER;
static const char *classes[CLASSES_MAX]; /* from 1 */
static unsigned n_classes = 1;
static atomic_bool before[CLASSES_MAX][CLASSES_MAX];
static struct {
	int n;
	void *frame[FRAMES];
} where[CLASSES_MAX][CLASSES_MAX]; /* the first place where they were taken in this order */

static void show(void *const *frame, int n)
{
	backtrace_symbols_fd(frame, n, STDERR_FILENO);
}

__attribute__((noreturn, format(printf, 1, 2))) static void wrong(const char *fmt, ...)
{
	void *frame[FRAMES];
	va_list ap;

	fprintf(stderr, "lock order: ");
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fprintf(stderr, "\nhere:\n");
	show(frame, backtrace(frame, FRAMES));
	abort();
}

static unsigned class_of(unsigned *class_id, const char *name)
{
	unsigned id = __atomic_load_n(class_id, __ATOMIC_RELAXED);

	if (id)
		return id;
	if (!name)
		wrong("a lock is taken that was not initialised");
	pthread_mutex_lock(&record);
	for (id = 1; id < n_classes && strcmp(classes[id], name) != 0; id++)
		;
	if (id == CLASSES_MAX)
		wrong("more than %d classes of locks", CLASSES_MAX - 1);
	if (id == n_classes)
		classes[n_classes++] = name;
	pthread_mutex_unlock(&record);
	__atomic_store_n(class_id, id, __ATOMIC_RELAXED);
	return id;
}

/* With the record's lock held: the next class on a chain from a to b, or 0 if a does not come
 * before b. */
static unsigned way(unsigned a, unsigned b)
{
	unsigned queue[CLASSES_MAX], from[CLASSES_MAX] = { 0 }, n = 0, at;

	queue[n++] = b; /* backwards from b, so that the first step is known at the end */
	from[b] = b;
	for (unsigned i = 0; i < n; i++) {
		at = queue[i];
		for (unsigned c = 1; c < n_classes; c++) {
			if (!before[c][at] || from[c])
				continue;
			from[c] = at;
			if (c == a)
				return at;
			queue[n++] = c;
		}
	}
	return 0;
}

static void contradiction(unsigned have, unsigned want)
{
	fprintf(stderr, "lock order: '%s' is taken with '%s' held, but before:\n", classes[want],
	        classes[have]);
	for (unsigned a = want, next; a != have; a = next) {
		next = way(a, have);
		fprintf(stderr, "'%s' was taken with '%s' held:\n", classes[next], classes[a]);
		show(where[a][next].frame, where[a][next].n);
	}
	wrong("'%s' and '%s' contradict", classes[have], classes[want]);
}

static void learn(unsigned have, unsigned want)
{
	pthread_mutex_lock(&record);
	if (!before[have][want]) {
		if (way(want, have))
			contradiction(have, want);
		where[have][want].n = backtrace(where[have][want].frame, FRAMES);
		before[have][want] = true;
	}
	pthread_mutex_unlock(&record);
}

void lock_order_want(unsigned *class_id, const char *name)
{
	unsigned want = class_of(class_id, name);

	for (unsigned i = 0; i < n_held; i++) {
		if (held[i].class_id == want)
			wrong("a second '%s' is taken", name);
		if (!atomic_load_explicit(&before[held[i].class_id][want], memory_order_relaxed))
			learn(held[i].class_id, want);
	}
}

void lock_order_took(unsigned *class_id, const char *name, const void *lock)
{
	if (n_held == HELD_MAX)
		wrong("more than %d locks at once, the last one '%s'", HELD_MAX, name);
	held[n_held++] = (struct held){ class_of(class_id, name), lock };
}

void lock_order_gave(const char *name, const void *lock)
{
	unsigned i = n_held;

	while (i > 0 && held[i - 1].lock != lock)
		i--;
	if (i == 0)
		wrong("'%s' is released, but not held", name ? name : "(no name)");
	memmove(&held[i - 1], &held[i], (n_held - i) * sizeof(held[0]));
	n_held--;
}

/* LOCK_ORDER_DIR: each process writes the pairs it saw there, for the table in
 * docs/ARCHITECTURE.md. */
__attribute__((destructor)) static void leave_pairs(void)
{
	const char *dir = getenv("LOCK_ORDER_DIR");
	char path[256];
	FILE *f;

	if (!dir || n_classes == 1)
		return;
	snprintf(path, sizeof(path), "%s/%d", dir, getpid());
	f = fopen(path, "we");
	if (!f)
		return;
	for (unsigned a = 1; a < n_classes; a++)
		for (unsigned b = 1; b < n_classes; b++)
			if (before[a][b])
				fprintf(f, "%s\t%s\n", classes[a], classes[b]);
	fclose(f);
}

#endif
