/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base/lock_order.h - detects inconsistent lock order before it causes a deadlock
 *
 * Theory of operation: locks with the same name are one class. Each thread keeps a list of what it
 * holds. Taking b while holding a means "a before b" from then on, for the whole process; if b
 * already comes before a, through any chain, two threads can deadlock, and the process
 * aborts and prints both places. It also aborts when a second lock of a held class is taken, or a
 * lock is released that is not held. Only in builds with LOCK_CHECK (those with a sanitizer).
 */
#pragma once

#ifdef LOCK_CHECK
/* Called before waiting for a lock, after taking it, and before releasing it. A class id of 0 is
 * not known yet. */
void lock_order_want(unsigned *class_id, const char *name);
void lock_order_took(unsigned *class_id, const char *name, const void *lock);
void lock_order_gave(const char *name, const void *lock);

#define ORDER_WANT(lk) lock_order_want(&(lk)->class_id, (lk)->name)
#define ORDER_TOOK(lk) lock_order_took(&(lk)->class_id, (lk)->name, lk)
#define ORDER_GAVE(lk) lock_order_gave((lk)->name, lk)
#else
#define ORDER_WANT(lk) ((void)0)
#define ORDER_TOOK(lk) ((void)0)
#define ORDER_GAVE(lk) ((void)0)
#endif
