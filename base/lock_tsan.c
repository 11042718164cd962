/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lock_tsan.c - locks with a deadline that ThreadSanitizer understands; empty in other builds
 *
 * gcc's ThreadSanitizer does not know the calls that take a clock, so it would consider what such a
 * lock guards unguarded. It knows the older ones, which use the time of day. The functions
 * here have the C library's names and come before it in the link order.
 */
#ifdef __SANITIZE_THREAD__
#include <pthread.h>
#include <stdint.h>
#include <time.h>

#define NS_PER_S 1000000000ll

static struct timespec wall_of(clockid_t clock, const struct timespec *until)
{
	struct timespec now, wall;
	int64_t left;

	clock_gettime(clock, &now);
	clock_gettime(CLOCK_REALTIME, &wall);
	left = (until->tv_sec - now.tv_sec) * NS_PER_S + (until->tv_nsec - now.tv_nsec);
	left = (left > 0 ? left : 0) + wall.tv_nsec;
	wall.tv_sec += left / NS_PER_S;
	wall.tv_nsec = left % NS_PER_S;
	return wall;
}

int pthread_mutex_clocklock(pthread_mutex_t *m, clockid_t clock, const struct timespec *until)
{
	struct timespec wall = wall_of(clock, until);

	return pthread_mutex_timedlock(m, &wall);
}

int pthread_rwlock_clockwrlock(pthread_rwlock_t *l, clockid_t clock, const struct timespec *until)
{
	struct timespec wall = wall_of(clock, until);

	return pthread_rwlock_timedwrlock(l, &wall);
}
#endif
