/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base/lock_order.h - finds locks that are taken in two orders, without having to deadlock first
 *
 * Theory of operation: locks with the same name are one class. Each thread keeps a list of what it
 * holds. Taking b while holding a says "a before b" from then on, for the whole process; when b
 * already comes before a, by whatever chain, two threads can block each other, and the process
 * aborts with both places. So does taking a second lock of a class that is held, and giving back
 * one that is not. Only in builds with LOCK_CHECK (those with a sanitizer).
 */
#pragma once

#ifdef LOCK_CHECK
/* Before waiting for it, with it, and before giving it back. A class id of 0 is not yet known. */
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
