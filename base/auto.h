/* SPDX-License-Identifier: Apache-2.0 */
/* base/auto.h - locals that clean themselves up; giving away is explicit */
#pragma once

#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static inline void auto_free_(void *p)
{
	free(*(void **)p);
}

static inline void auto_close_(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

static inline void auto_fclose_(FILE **f)
{
	if (*f)
		fclose(*f);
}

static inline void auto_closedir_(DIR **d)
{
	if (*d)
		closedir(*d);
}

static inline pthread_mutex_t *auto_lock_(pthread_mutex_t *m)
{
	pthread_mutex_lock(m);
	return m;
}

static inline void auto_unlock_(pthread_mutex_t **m)
{
	if (*m)
		pthread_mutex_unlock(*m);
}

#define AUTO(fn) __attribute__((cleanup(fn)))
#define autofree AUTO(auto_free_)
#define autofd AUTO(auto_close_)
#define autofile AUTO(auto_fclose_)
#define autodir AUTO(auto_closedir_)
/* Holds the mutex until the end of the scope. */
#define LOCK_SCOPE_2(m, line) \
	AUTO(auto_unlock_)    \
	__attribute__((unused)) pthread_mutex_t *lock_scope_##line = auto_lock_(m)
#define LOCK_SCOPE_1(m, line) LOCK_SCOPE_2(m, line)
#define LOCK_SCOPE(m) LOCK_SCOPE_1(m, __LINE__)

#define TAKE(var, empty)                     \
	({                                   \
		__typeof__(var) took_ = var; \
		var = (empty);               \
		took_;                       \
	})
#define TAKE_PTR(p) TAKE(p, NULL)
#define TAKE_FD(fd) TAKE(fd, -1)

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define BIT(n) (1u << (n))
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))
